//! Whether the programs that are profiled still do what they did before: if not, the experiments stop. Only undelayed time
//! counts: what an experiment does to them while it lasts, it is meant to do.

use std::fmt;

use coz_common::units::Nanos;

use super::data::{Experiment, PointId, PointVisits};

/// Something is wrong when so many baselines in a row say so,
const IN_A_ROW: u32 = 5;
/// over so long.
const SUSTAINED: Nanos = Nanos(10_000_000_000);
/// So many baselines, besides the time before the first experiment, say what is usual.
const USUAL: usize = 3;
/// Fewer visits say nothing of a rate.
const MIN_VISITS: u64 = 5;
/// A queue of threads that wait for a CPU has exploded when it is so many times as long as usual,
const TIMES: f64 = 4.0;
/// and longer by so many threads a CPU.
const LONGER: f64 = 2.0;

/// What is wrong.
#[derive(Clone, Debug, PartialEq)]
pub enum Alarm {
    /// A point is visited less than half as often as before.
    Throughput {
        /// Which.
        point: PointId,
        /// Visits a second before, and now.
        rates: (f64, f64),
    },
    /// Threads wait for CPUs as they did not before.
    RunQueue {
        /// How many did on average before, and do now.
        threads: (f64, f64),
    },
}

impl fmt::Display for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Throughput { rates: (before, now), .. } => write!(
                f,
                "without any delay there are {now:.0} visits a second now, and there were {before:.0} before"
            ),
            Self::RunQueue { threads: (before, now) } => write!(
                f,
                "without any delay {now:.0} threads wait for a CPU on average, and {before:.0} did before"
            ),
        }
    }
}

/// What was usual, and since when it is not so.
#[derive(Clone, Debug)]
pub struct Guard {
    cpus: f64,
    point: Option<PointId>,
    rates: Vec<f64>,
    queues: Vec<f64>,
    wrong: u32,
    wrong_since: Nanos,
}

impl Guard {
    /// Nothing is known yet. `cpus`: how many this machine has.
    #[must_use]
    pub fn new(cpus: usize) -> Self {
        Self {
            cpus: cpus as f64,
            point: None,
            rates: Vec::new(),
            queues: Vec::new(),
            wrong: 0,
            wrong_since: Nanos(0),
        }
    }

    /// Before the first experiment there were these visits in so long, and so long threads waited for CPUs, all in all.
    pub fn before(&mut self, points: &[PointVisits], wall: Nanos, runqueue: Nanos) {
        let busiest = points.iter().max_by_key(|point| point.visits);
        if let Some(busiest) = busiest.filter(|busiest| busiest.visits >= MIN_VISITS && wall.0 > 0) {
            self.point = Some(busiest.point);
            self.rates.push(busiest.visits as f64 / wall.as_secs_f64());
            self.queues.push(runqueue.as_secs_f64() / wall.as_secs_f64());
        }
    }

    /// An experiment has ended: what is wrong by now, if anything is.
    pub fn ended(&mut self, experiment: &Experiment) -> Option<Alarm> {
        let wall = experiment.wall().as_secs_f64();
        if !experiment.speedup.is_baseline() || experiment.epoch == 0 || wall <= 0.0 {
            return None;
        }
        let point = *self.point.get_or_insert_with(|| {
            experiment.points.iter().max_by_key(|p| p.visits).map_or(PointId::WHOLE_RUN, |p| p.point)
        });
        let visits = experiment.points.iter().find(|p| p.point == point).map_or(0, |p| p.visits);
        let (rate, queue) = (visits as f64 / wall, experiment.set.runqueue.as_secs_f64() / wall);
        if self.rates.len() <= USUAL {
            if visits >= MIN_VISITS {
                self.rates.push(rate);
                self.queues.push(queue);
            }
            return None;
        }
        let (usual, usual_queue) = (median(&self.rates), median(&self.queues));
        let alarm = if rate < usual / 2.0 {
            Alarm::Throughput { point, rates: (usual, rate) }
        } else if queue > TIMES * usual_queue && queue > usual_queue + LONGER * self.cpus {
            Alarm::RunQueue { threads: (usual_queue, queue) }
        } else {
            self.wrong = 0;
            return None;
        };
        if self.wrong == 0 {
            self.wrong_since = experiment.begin;
        }
        self.wrong += 1;
        (self.wrong >= IN_A_ROW && experiment.end.since(self.wrong_since) >= SUSTAINED).then_some(alarm)
    }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use coz_common::units::{LineId, Speedup};

    use super::*;
    use crate::experiment::data::SetTotals;

    const POINT: PointId = PointId(0);

    /// An experiment of a second that ended at this second.
    fn experiment(second: u64, visits: u64, waiting: u64, speedup: Speedup) -> Experiment {
        let seconds = |n: u64| Nanos(n * 1_000_000_000);
        Experiment {
            epoch: 1,
            line: LineId(1),
            speedup,
            begin: seconds(second - 1),
            end: seconds(second),
            points: vec![PointVisits::of(POINT, visits)],
            set: SetTotals { runqueue: seconds(waiting), ..SetTotals::default() },
            ..Experiment::default()
        }
    }

    /// When the alarm comes, of a run that does this in each of its seconds.
    fn alarm(each: impl Fn(u64) -> (u64, u64, Speedup)) -> Option<(u64, Alarm)> {
        let mut guard = Guard::new(2);
        guard.before(&[PointVisits::of(POINT, 1000)], Nanos(1_000_000_000), Nanos(0));
        (1..60).find_map(|second| {
            let (visits, waiting, speedup) = each(second);
            Some((second, guard.ended(&experiment(second, visits, waiting, speedup))?))
        })
    }

    #[test]
    fn a_server_that_goes_on_as_before_is_left_alone() {
        assert_eq!(alarm(|second| (700 + 100 * (second % 7), 1, Speedup::BASELINE)), None);
        assert_eq!(alarm(|_| (10, 9, Speedup::FULL)), None, "delayed time says nothing");
    }

    #[test]
    fn a_throughput_that_stays_below_half_is_an_alarm() {
        let (second, alarm) =
            alarm(|second| (if second > 20 { 400 } else { 1000 }, 0, Speedup::BASELINE)).unwrap();
        assert_eq!((second, alarm), (30, Alarm::Throughput { point: POINT, rates: (1000.0, 400.0) }));
    }

    #[test]
    fn a_short_dip_is_none() {
        assert_eq!(
            alarm(|second| (if second % 12 < 8 { 10 } else { 1000 }, 0, Speedup::BASELINE)),
            None,
            "eight seconds of twelve"
        );
    }

    #[test]
    fn a_queue_that_explodes_is_an_alarm() {
        let alarm = alarm(|second| (1000, if second > 20 { 12 } else { 1 }, Speedup::BASELINE));
        assert!(matches!(alarm, Some((30, Alarm::RunQueue { .. }))), "{alarm:?}");
    }
}
