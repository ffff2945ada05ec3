//! Several runs in one file, as one.

use super::{Health, Runtime};

impl Runtime {
    /// Adds a later run to this one: counts and times add up, shares are means over time, words stand once.
    pub fn join(&mut self, later: Self) {
        let (before, after) = (self.time as f64, later.time as f64);
        self.time = self.time.saturating_add(later.time);
        let Self { health: ours, .. } = self;
        let Health {
            samples,
            lost_samples,
            signals_sent,
            signals_failed,
            owed_ns,
            paid_ns,
            unpaid_ns,
            runqueue_share,
            steal_share,
            undelayed_ns,
            undelayed_samples,
            clock_samples,
            startup_ns,
            sampling_ns,
            delay_ns,
            probe_ns,
            cpu_ns,
            out_of_scope,
            spinning,
            throttled_ns,
            quota_periods,
            outside_ns,
            held_back_ns,
            enough_ns,
            threads,
            points,
            warnings,
            notices,
        } = later.health;
        for (sum, more) in [
            (&mut ours.samples, samples),
            (&mut ours.lost_samples, lost_samples),
            (&mut ours.signals_sent, signals_sent),
            (&mut ours.signals_failed, signals_failed),
            (&mut ours.owed_ns, owed_ns),
            (&mut ours.paid_ns, paid_ns),
            (&mut ours.unpaid_ns, unpaid_ns),
            (&mut ours.undelayed_ns, undelayed_ns),
            (&mut ours.startup_ns, startup_ns),
            (&mut ours.sampling_ns, sampling_ns),
            (&mut ours.delay_ns, delay_ns),
            (&mut ours.probe_ns, probe_ns),
            (&mut ours.cpu_ns, cpu_ns),
            (&mut ours.out_of_scope, out_of_scope),
            (&mut ours.spinning, spinning),
            (&mut ours.throttled_ns, throttled_ns),
            (&mut ours.outside_ns, outside_ns),
            (&mut ours.held_back_ns, held_back_ns),
            (&mut ours.clock_samples.0, clock_samples.0),
            (&mut ours.clock_samples.1, clock_samples.1),
            (&mut ours.quota_periods.0, quota_periods.0),
            (&mut ours.quota_periods.1, quota_periods.1),
        ] {
            *sum = sum.saturating_add(more);
        }
        // One that does not tell leaves all of them unknown: a part of them would look like less than there was.
        let both_tell = ours.undelayed_samples > 0 && undelayed_samples > 0;
        ours.undelayed_samples =
            if both_tell { ours.undelayed_samples.saturating_add(undelayed_samples) } else { 0 };
        let whole = before + after;
        if whole > 0.0 {
            let mean = |a: f64, b: f64| (a * before + b * after) / whole;
            ours.runqueue_share = mean(ours.runqueue_share, runqueue_share);
            ours.steal_share = mean(ours.steal_share, steal_share);
        }
        ours.enough_ns = enough_ns;
        ours.threads.extend(threads);
        for point in points {
            match ours.points.iter_mut().find(|ours| ours.name == point.name) {
                Some(sum) => {
                    sum.visits = sum.visits.saturating_add(point.visits);
                    sum.probe_ns = sum.probe_ns.saturating_add(point.probe_ns);
                }
                None => ours.points.push(point),
            }
        }
        for (words, more) in [(&mut ours.warnings, warnings), (&mut ours.notices, notices)] {
            for word in more {
                if !words.contains(&word) {
                    words.push(word);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn undelayed_samples_add_up_only_where_every_run_tells() {
        let run = |undelayed_samples| Runtime {
            time: 1,
            health: Health { samples: 9, undelayed_samples, ..Health::default() },
        };
        for (first, second, sum) in [(3, 4, 7), (3, 0, 0), (0, 4, 0)] {
            let mut all = run(first);
            all.join(run(second));
            assert_eq!((all.health.undelayed_samples, all.health.samples), (sum, 18));
        }
    }

    #[test]
    fn counts_add_up_and_shares_are_means_over_time() {
        let run = |time, samples, steal_share, warning: &str| Runtime {
            time,
            health: Health { samples, steal_share, warnings: vec![warning.into()], ..Health::default() },
        };
        let mut both = run(100, 10, 0.0, "a");
        both.join(run(300, 20, 0.4, "a"));
        both.join(run(0, 0, 0.9, "b"));
        assert_eq!((both.time, both.health.samples), (400, 30));
        assert!((both.health.steal_share - 0.3).abs() < 1e-12);
        assert_eq!(both.health.warnings, ["a", "b"]);
    }
}
