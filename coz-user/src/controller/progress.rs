//! What the status line shows, from what is known so far.

use std::time::Instant;

use coz_common::units::Nanos;

use crate::{
    estimate::{Line, more},
    experiment::{data::Experiment, record},
    report,
    status::{Best, Status},
};

/// The best line is looked for this often.
const OFTEN: Nanos = Nanos(5_000_000_000);
/// But it must not take more than one part in so many of the time.
const CHEAP: u64 = 200;
/// Rates are over this time.
const WINDOW: Nanos = Nanos(1_000_000_000);

/// How the run has got on.
#[derive(Debug, Default)]
pub struct Progress {
    experiments: u64,
    counted_at: Nanos,
    counted: u64,
    rate: Option<f64>,
    best: Option<Best>,
    next_look: Nanos,
}

impl Progress {
    /// An experiment has ended.
    pub fn ended(&mut self, experiment: &Experiment) {
        self.experiments += u64::from(experiment.invalid.is_none());
    }

    /// What to show. `visits`: of the busiest point so far; `waiting`: no line is known yet; `profile`: what was
    /// recorded.
    pub fn status(&mut self, elapsed: Nanos, visits: Option<u64>, waiting: bool, profile: &[u8]) -> Status {
        let since = elapsed.since(self.counted_at);
        if let Some(visits) = visits
            && since >= WINDOW
        {
            self.rate = Some(visits.saturating_sub(self.counted) as f64 * 1e9 / since.0 as f64);
            (self.counted_at, self.counted) = (elapsed, visits);
        }
        if self.experiments > 0 && elapsed >= self.next_look {
            let begin = Instant::now();
            self.best = best(profile);
            let took = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
            self.next_look = Nanos(elapsed.0.saturating_add(OFTEN.0.max(took.saturating_mul(CHEAP))));
        }
        Status {
            elapsed,
            attached: None,
            experiments: self.experiments,
            visits_per_second: self.rate,
            best: self.best.clone(),
            note: match (waiting, visits) {
                (true, _) => Some("reading debug information".into()),
                (false, None) => Some("no progress point so far".into()),
                _ => None,
            },
        }
    }
}

/// The line with the largest effect so far, with the quick intervals: those of the report take time.
fn best(profile: &[u8]) -> Option<Best> {
    let profile = record::parse(profile).ok()?;
    let options = report::Options { replicates: 0, sources: false, ..report::Options::default() };
    let estimate = report::estimate_profile(&profile, &options);
    let largest = estimate.lines.iter().filter(|line| line.hidden.is_none()).filter_map(|line| {
        let most = line.summary.iter().max_by(|a, b| a.effect.total_cmp(&b.effect))?;
        (most.effect > 0.0).then_some((line, most))
    });
    let (line, most) = largest.max_by(|(_, a), (_, b)| a.effect.total_cmp(&b.effect))?;
    let seconds_more = match profile.startup.until {
        Some(points) => until(line, points / 100.0, profile.seconds()),
        None => more::more(line, profile.seconds(), estimate.counted).map(|more| more.seconds),
    };
    Some(Best {
        location: line.location.clone(),
        effect: most.effect,
        half_width: most.low.zip(most.high).map(|(low, high)| (high - low) / 2.0),
        seconds_more,
    })
}

/// How long until half the width of the first line's interval is below what `--until` asks for: it goes with the root of the
/// time.
fn until(line: &Line, wanted: f64, seconds: f64) -> Option<f64> {
    let half = line.half_width.filter(|half| half.is_finite())?;
    (half > wanted && wanted > 0.0).then(|| seconds * ((half / wanted).powi(2) - 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_rate_is_of_the_last_second() {
        let mut progress = Progress::default();
        assert_eq!(progress.status(Nanos(SECOND / 2), Some(10), false, b"").visits_per_second, None);
        assert_eq!(progress.status(Nanos(SECOND), Some(100), false, b"").visits_per_second, Some(100.0));
        assert_eq!(progress.status(Nanos(3 * SECOND), Some(500), false, b"").visits_per_second, Some(200.0));
    }

    #[test]
    fn what_until_asks_for_takes_the_square_of_the_width() {
        let line = Line { half_width: Some(0.1), ..Line::default() };
        assert_eq!(until(&line, 0.05, 20.0).map(f64::round), Some(60.0));
        assert_eq!(until(&line, 0.2, 20.0), None, "it is there");
    }

    #[test]
    fn what_is_waited_for_is_said() {
        let mut progress = Progress::default();
        assert_eq!(
            progress.status(Nanos(1), None, true, b"").note.as_deref(),
            Some("reading debug information")
        );
        assert!(progress.status(Nanos(1), None, false, b"").note.is_some());
        assert_eq!(progress.status(Nanos(1), Some(0), false, b"").note, None);
    }
}
