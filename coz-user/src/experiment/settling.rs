//! How long a program takes to get used to a delay, or to none: before that, what is counted belongs to neither.
//!
//! A bounded queue that an experiment has filled feeds its consumer for a while after it, and one that the baseline had filled
//! feeds it at the beginning of the next. Pipelines with a queue of 16 items of 1 ms were predicted 2 to 3 points too low
//! (of 38) where nothing was waited for, because each baseline began with what the experiment before it had left (docs/truth.md).
//! So the first part of an experiment is not counted. How long that must be is looked at while the program
//! runs: once it has settled, an experiment's two halves agree.

use coz_common::units::{Nanos, Speedup};

use super::data::Experiment;

/// At first a program gets this part of an experiment's length to settle: a fifth. Where experiments get longer for want of visits it stays:
/// that says nothing against those that were made.
const FIRST: u64 = 5;
/// As often as long, where that was too short. In that time too little is learnt to go slowly.
const STEP: u64 = 8;
/// Never more than that: a deadline lies two seconds ahead ([`super::protocol::LEASE`]).
const LONGEST: Nanos = Nanos(1_000_000_000);

/// How long programs get to settle: to get used to delays, and to their absence, which need not take as long. An unbounded queue
/// that grows under delays by 4 items in the time of 10 is empty again after the time of 6.
#[derive(Clone, Debug)]
pub struct Settling {
    delayed: Kind,
    undelayed: Kind,
}

#[derive(Clone, Debug)]
struct Kind {
    time: Nanos,
    drift: Drift,
    history: History,
}

impl Kind {
    const fn new(time: Nanos) -> Self {
        Self { time, drift: Drift::NONE, history: History { seen: Vec::new() } }
    }
}

impl Settling {
    /// For experiments of this length.
    #[must_use]
    pub fn new(length: Nanos) -> Self {
        let kind = Kind::new(Nanos(length.0 / FIRST).min(LONGEST));
        Self { delayed: kind.clone(), undelayed: kind }
    }

    /// The part of an experiment at this speedup that is not counted.
    #[must_use]
    pub fn time(&self, speedup: Speedup) -> Nanos {
        if speedup.is_baseline() { self.undelayed.time } else { self.delayed.time }
    }

    /// An experiment has ended, after one that delayed everyone by this part of its time.
    pub fn ended(&mut self, experiment: &Experiment, before: f64) {
        let Some([first, second]) = experiment.halves() else { return };
        let kind = if experiment.speedup.is_baseline() { &mut self.undelayed } else { &mut self.delayed };
        kind.drift.add(first - second);
        if experiment.speedup.is_baseline() {
            kind.history.add(before, first);
        }
        let sure = Sure::WATCHED;
        if (kind.drift.is_there(sure) || kind.history.matters(sure)) && kind.time < LONGEST {
            *kind = Kind::new(Nanos(kind.time.0 * STEP).min(LONGEST));
        }
    }
}

/// What does not matter, as a part of the program's speed: half of it is how wrong an effect gets, and on a virtual machine halves
/// of programs that have settled differ by 2 to 4 % on the mean of a dozen.
const SMALL: f64 = 0.05;

/// How sure is sure enough that more than chance is seen, in standard errors.
#[derive(Clone, Copy, Debug)]
pub struct Sure {
    /// Of the mean of all halves, where there are [`Drift::FEWEST`]; of a few, it would be known too badly.
    mean: f64,
    /// Of a sign test on what is notable.
    signs: f64,
    /// Of Spearman's rank correlation, as a t.
    history: f64,
}

impl Sure {
    /// While the program runs: it is looked at after each experiment, of dozens, and to be wrong costs all that was measured.
    pub const WATCHED: Self = Self { mean: 4.0, signs: 3.0, history: 3.0 };
    /// Once, when all is over; to be wrong costs a needless warning.
    pub const ONCE: Self = Self { mean: 3.0, signs: 2.6, history: 2.6 };
}

/// How fast the program was without delays (as a logarithm), by what part of the time before were delays. Where a queue takes longer
/// to drain than an experiment, the experiment itself shows nothing. By ranks, since a machine that stalls now and then makes
/// single ones slow.
#[derive(Clone, Debug, Default)]
pub struct History {
    seen: Vec<(f64, f64)>,
}

impl History {
    /// Fewer say nothing.
    const FEWEST: usize = 6;
    /// More need not be known.
    const MOST: usize = 64;

    /// A baseline, after an experiment that delayed everyone by this part of its time.
    pub fn add(&mut self, before: f64, speed: f64) {
        if self.seen.len() == Self::MOST {
            self.seen.remove(0);
        }
        self.seen.push((before, speed));
    }

    /// By how much the baselines are faster, on average, than they would be with nothing before them: by the median of the
    /// slopes between any two (Theil 1950, Sen 1968).
    #[must_use]
    pub fn mean(&self) -> f64 {
        let pairs =
            self.seen.iter().enumerate().flat_map(|(i, a)| self.seen.iter().skip(i + 1).map(move |b| (a, b)));
        let mut slopes: Vec<f64> =
            pairs.filter(|(a, b)| a.0 != b.0).map(|(a, b)| (b.1 - a.1) / (b.0 - a.0)).collect();
        slopes.sort_by(f64::total_cmp);
        let before = self.seen.iter().map(|(before, _)| before).sum::<f64>() / self.seen.len() as f64;
        slopes.get(slopes.len() / 2).map_or(0.0, |slope| slope * before)
    }

    /// Whether they depend on what was before them by more than chance, and by so much that it matters.
    #[must_use]
    pub fn matters(&self, sure: Sure) -> bool {
        let n = self.seen.len();
        if n < Self::FEWEST {
            return false;
        }
        let before = ranks(self.seen.iter().map(|(before, _)| *before));
        let speed = ranks(self.seen.iter().map(|(_, speed)| *speed));
        let mean = (n as f64 - 1.0) / 2.0;
        let product =
            |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>();
        let square = product(&before, &speed).powi(2) / product(&before, &before) / product(&speed, &speed);
        let enough = square * (n as f64 - 2.0) > sure.history.powi(2) * (1.0 - square);
        enough && self.mean().abs() > SMALL
    }
}

/// Rank of each value, from 0 on; equal ones share theirs.
fn ranks(values: impl Iterator<Item = f64> + Clone) -> Vec<f64> {
    let rank = |value: f64| {
        let (below, equal) = values.clone().fold((0, 0), |(below, equal), other| {
            (below + usize::from(other < value), equal + usize::from(other == value))
        });
        below as f64 + (equal as f64 - 1.0) / 2.0
    };
    values.clone().map(rank).collect()
}

/// A running mean.
#[derive(Clone, Copy, Debug)]
struct Mean {
    n: u32,
    mean: f64,
    /// Sum of the squared distances from it (Welford 1962).
    squares: f64,
}

impl Mean {
    const NONE: Self = Self { n: 0, mean: 0.0, squares: 0.0 };

    fn add(&mut self, value: f64) {
        self.n += 1;
        let away = value - self.mean;
        self.mean += away / f64::from(self.n);
        self.squares += away * (value - self.mean);
    }

    fn error(&self) -> f64 {
        let n = f64::from(self.n);
        (self.squares / (n - 1.0) / n).sqrt()
    }
}

/// How much faster first halves were than second ones, as logarithms of ratios.
#[derive(Clone, Copy, Debug)]
pub struct Drift {
    all: Mean,
    /// How many were notably faster, and slower.
    notable: [u32; 2],
}

impl Drift {
    /// Nothing seen.
    pub const NONE: Self = Self { all: Mean::NONE, notable: [0, 0] };
    /// Fewer say nothing.
    const FEWEST: u32 = 8;
    /// A single experiment's drift that is rarely chance.
    const NOTABLE: f64 = 0.05;
    /// What is more is taken for a machine that stalls.
    const STALL: f64 = 0.6;
    /// One more.
    pub fn add(&mut self, drift: f64) {
        if drift.abs() > Self::STALL {
            return;
        }
        self.all.add(drift);
        if drift.abs() > Self::NOTABLE {
            self.notable[usize::from(drift < 0.0)] += 1;
        }
    }

    /// The mean.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.all.mean
    }

    /// Whether halves may differ by what is notable, for all that is known: of a program that needed more time before, it is to be shown
    /// that it got enough.
    #[must_use]
    pub fn may_be_there(&self) -> bool {
        self.all.n < 3 || self.all.mean.abs() + 2.0 * self.all.error() > Self::NOTABLE
    }

    /// Whether halves differ by more than chance, and by so much that it matters.
    ///
    /// The mean alone would not tell: where a queue takes longer to drain than an experiment, some have two fast halves, some
    /// two slow ones, and a few one of each, which are all of one kind.
    #[must_use]
    pub fn is_there(&self, sure: Sure) -> bool {
        let [more, less] =
            [self.notable.into_iter().max(), self.notable.into_iter().min()].map(Option::unwrap_or_default);
        let one_sided = f64::from(more - less) > sure.signs * f64::from(more + less).sqrt();
        let mean = self.all.n >= Self::FEWEST && self.all.mean.abs() > sure.mean * self.all.error();
        self.all.mean.abs() > SMALL && (mean || one_sided)
    }
}

#[cfg(test)]
mod tests {
    use coz_common::units::LineId;

    use super::super::data::{Half, PointId, PointVisits};
    use super::*;

    /// Of 100 ms, 1,000 visits, of which so many in the first half.
    fn experiment(speedup: Speedup, first: u64) -> Experiment {
        let visits = |visits| vec![PointVisits::of(PointId(0), visits)];
        Experiment {
            line: LineId(1),
            speedup,
            begin: Nanos(0),
            end: Nanos(100_000_000),
            points: visits(1000),
            half: Some(Half { effective: 50_000_000, points: visits(first) }),
            ..Experiment::default()
        }
    }

    #[test]
    fn a_program_that_has_settled_gets_no_more_time() {
        let mut settling = Settling::new(Nanos(300));
        for i in 0..200 {
            settling.ended(&experiment(Speedup::BASELINE, 450 + 70 * i % 110), 0.5);
            settling.ended(&experiment(Speedup::FULL, 550 - 70 * i % 110), 0.0);
        }
        let times = [Speedup::BASELINE, Speedup::FULL].map(|speedup| settling.time(speedup));
        assert_eq!(times, [Nanos(60); 2], "halves differ by chance only");
    }

    #[test]
    fn one_whose_halves_differ_gets_more_time_and_a_new_chance() {
        let mut settling = Settling::new(Nanos(300));
        for i in 0..8 {
            assert_eq!(settling.time(Speedup::BASELINE), Nanos(60), "{i} say nothing yet");
            settling.ended(&experiment(Speedup::BASELINE, 518 + i % 5), 0.5);
        }
        assert_eq!(settling.time(Speedup::BASELINE), Nanos(480));
        for _ in 0..100 {
            settling.ended(&experiment(Speedup::BASELINE, 500), 0.5);
        }
        assert_eq!(settling.time(Speedup::BASELINE), Nanos(480));
        assert_eq!(settling.time(Speedup::FULL), Nanos(60), "of delays nothing was seen");
    }

    #[test]
    fn delays_and_their_absence_are_looked_at_apart() {
        let mut settling = Settling::new(Nanos(300));
        for i in 0..8 {
            settling.ended(&experiment(Speedup::BASELINE, 518 + i % 5), 0.5);
            settling.ended(&experiment(Speedup::FULL, 482 - i % 5), 0.5);
        }
        let times = [Speedup::BASELINE, Speedup::FULL].map(|speedup| settling.time(speedup));
        assert_eq!(times, [Nanos(480); 2], "the mean of both is nothing");
    }

    #[test]
    fn a_machine_that_wanders_is_not_taken_for_a_program_that_has_not_settled() {
        // First halves slower by 2 % on the mean, single ones by up to 13: as seen of programs that wait for nothing.
        let seen = [-5, 3, -8, -4, 1, 3, -13, 0, 1, -3, -4, 2, -1, -4, 0, -2, 4];
        let mut settling = Settling::new(Nanos(300));
        for i in 0..100 {
            let first = (500 + 5 * seen[i % seen.len()] / 2) as u64;
            settling.ended(&experiment(Speedup::BASELINE, first), 0.5);
        }
        assert_eq!(settling.time(Speedup::BASELINE), Nanos(60));
    }

    #[test]
    fn a_queue_that_takes_longer_to_drain_than_an_experiment_is_seen_by_the_few_that_see_its_end() {
        let visits = |drains: usize| {
            (0..36).map(move |i| if i % 3 < drains { 610 } else { 490 + 10 * (i as u64 / 3 % 3) })
        };
        let after = |visits: &mut dyn Iterator<Item = u64>| {
            let mut settling = Settling::new(Nanos(300));
            visits.for_each(|first| settling.ended(&experiment(Speedup::BASELINE, first), 0.5));
            settling.time(Speedup::BASELINE)
        };
        assert_eq!(after(&mut visits(0)), Nanos(60));
        assert_eq!(after(&mut visits(1)), Nanos(480));
        // Phases make halves differ too, but not always to one side.
        assert_eq!(
            after(&mut visits(1).enumerate().map(|(i, n)| if i % 2 == 0 { n } else { 1000 - n })),
            Nanos(60)
        );
    }

    #[test]
    fn a_queue_that_none_of_them_sees_the_end_of_is_seen_by_what_was_before_them() {
        let points = |visits| vec![PointVisits::of(PointId(0), visits)];
        let steady = |visits: u64| Experiment {
            points: points(visits),
            half: Some(Half { effective: 50_000_000, points: points(visits / 2) }),
            ..experiment(Speedup::BASELINE, 0)
        };
        // 1.6 times as fast after delays, all along; but after short ones.
        let all = [(0.5, 1600), (0.0, 1010), (0.9, 1590), (0.9, 1620), (0.2, 1020), (0.0, 990), (0.5, 1550)];
        let mut settling = Settling::new(Nanos(300));
        for (i, (before, visits)) in all.into_iter().enumerate() {
            assert_eq!(settling.time(Speedup::BASELINE), Nanos(60), "{i} say nothing");
            settling.ended(&steady(visits), before);
            if settling.time(Speedup::BASELINE) > Nanos(60) {
                return assert_eq!(settling.time(Speedup::BASELINE), Nanos(480));
            }
        }
        panic!("it was not seen");
    }

    #[test]
    fn what_was_before_a_baseline_does_not_matter_to_a_program_that_settles_at_once() {
        let mut history = History::default();
        for i in 0..500_u32 {
            history.add(f64::from(i * 7 % 20) / 20.0, f64::from(i * 13 % 31) / 100.0);
            assert!(!history.matters(Sure::WATCHED), "{i}: {history:?}");
        }
    }

    #[test]
    fn there_is_a_limit() {
        let mut settling = Settling::new(Nanos(300_000_000));
        for i in 0..1000 {
            settling.ended(&experiment(Speedup::BASELINE, 600 + i % 2), 0.5);
        }
        assert_eq!(settling.time(Speedup::BASELINE), LONGEST);
        assert_eq!(settling.time(Speedup::FULL), Nanos(60_000_000));
    }
}
