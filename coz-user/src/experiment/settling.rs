//! How long a program takes to get used to a delay, or to none: before that, what is counted belongs to neither.
//!
//! A bounded queue that an experiment has filled feeds its consumer for a while after it, and one that the baseline had filled
//! feeds it at the beginning of the next. Pipelines with a queue of 16 items of 1 ms were predicted 2 to 3 points too low
//! (of 38) where nothing was waited for, because each baseline began with what the experiment before it had left (docs/truth.md).
//! So the first part of an experiment is not counted. How long that must be is looked at while the program
//! runs: once it has settled, an experiment's two halves agree.

use coz_common::units::Nanos;

use super::data::Experiment;

/// At first a program gets this part of an experiment's length to settle: a fifth.
const FIRST: u64 = 5;
/// Never more than that: a deadline lies two seconds ahead ([`super::protocol::LEASE`]).
const LONGEST: Nanos = Nanos(1_000_000_000);

/// How long programs get to settle.
#[derive(Clone, Copy, Debug)]
pub struct Settling {
    time: Nanos,
    delayed: Drift,
    undelayed: Drift,
}

impl Settling {
    /// For experiments of this length.
    #[must_use]
    pub fn new(length: Nanos) -> Self {
        let time = Nanos(length.0 / FIRST).min(LONGEST);
        Self { time, delayed: Drift::default(), undelayed: Drift::default() }
    }

    /// The part of an experiment that is not counted.
    #[must_use]
    pub fn time(&self) -> Nanos {
        self.time
    }

    /// Experiments last so long from now on.
    pub fn lengthen(&mut self, length: Nanos) {
        if Self::new(length).time > self.time {
            *self = Self::new(length);
        }
    }

    /// An experiment has ended that had a change before it: from delays to none, or to others.
    pub fn ended(&mut self, experiment: &Experiment) {
        let Some(drift) = experiment.drift() else { return };
        let kind = if experiment.speedup.is_baseline() { &mut self.undelayed } else { &mut self.delayed };
        kind.add(drift);
        if kind.is_there() && self.time < LONGEST {
            *self = Self { time: Nanos(self.time.0 * 2).min(LONGEST), ..Self::new(Nanos(0)) };
        }
    }
}

/// Mean of how much faster first halves were than second ones, as logarithms of ratios.
#[derive(Clone, Copy, Debug, Default)]
pub struct Drift {
    n: u32,
    mean: f64,
    /// Sum of the squared distances from the mean (Welford 1962).
    squares: f64,
}

impl Drift {
    /// Fewer say nothing.
    const FEWEST: u32 = 8;
    /// What does not matter: half of it is how wrong an effect gets.
    const SMALL: f64 = 0.02;
    /// It is looked at after each experiment, of hundreds: four standard errors.
    const SURE: f64 = 4.0;

    /// One more.
    pub fn add(&mut self, drift: f64) {
        self.n += 1;
        let away = drift - self.mean;
        self.mean += away / f64::from(self.n);
        self.squares += away * (drift - self.mean);
    }

    /// The mean.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// Whether halves differ by more than chance, and by so much that it matters.
    #[must_use]
    pub fn is_there(&self) -> bool {
        let n = f64::from(self.n);
        let error = (self.squares / (n - 1.0) / n).sqrt();
        self.n >= Self::FEWEST && self.mean.abs() > Self::SMALL.max(Self::SURE * error)
    }
}

#[cfg(test)]
mod tests {
    use coz_common::units::{LineId, Speedup};

    use super::super::data::{Half, PointId, PointVisits};
    use super::*;

    /// Of 100 ms, 100 visits, of which so many in the first half.
    fn experiment(speedup: Speedup, first: u64) -> Experiment {
        let visits = |visits| vec![PointVisits { point: PointId(0), visits }];
        Experiment {
            line: LineId(1),
            speedup,
            begin: Nanos(0),
            end: Nanos(100_000_000),
            points: visits(100),
            half: Some(Half { effective: 50_000_000, points: visits(first) }),
            ..Experiment::default()
        }
    }

    #[test]
    fn a_program_that_has_settled_gets_no_more_time() {
        let mut settling = Settling::new(Nanos(300));
        for i in 0..200 {
            settling.ended(&experiment(Speedup::BASELINE, 45 + i % 11));
            settling.ended(&experiment(Speedup::FULL, 55 - i % 11));
        }
        assert_eq!(settling.time(), Nanos(60), "halves differ by chance only");
    }

    #[test]
    fn one_whose_halves_differ_gets_twice_the_time_and_a_new_chance() {
        let mut settling = Settling::new(Nanos(300));
        for i in 0..8 {
            assert_eq!(settling.time(), Nanos(60), "{i} say nothing yet");
            settling.ended(&experiment(Speedup::BASELINE, 53 + i % 2));
        }
        assert_eq!(settling.time(), Nanos(120));
        for _ in 0..100 {
            settling.ended(&experiment(Speedup::BASELINE, 50));
        }
        assert_eq!(settling.time(), Nanos(120));
    }

    #[test]
    fn delays_and_their_absence_are_looked_at_apart() {
        let mut settling = Settling::new(Nanos(300));
        for i in 0..8 {
            settling.ended(&experiment(Speedup::BASELINE, 53 + i % 2));
            settling.ended(&experiment(Speedup::FULL, 46 + i % 2));
        }
        assert!(settling.time() > Nanos(60), "the mean of both is nothing");
    }

    #[test]
    fn there_is_a_limit_and_longer_experiments_have_their_part() {
        let mut settling = Settling::new(Nanos(300_000_000));
        for i in 0..1000 {
            settling.ended(&experiment(Speedup::BASELINE, 70 + i % 2));
        }
        assert_eq!(settling.time(), LONGEST);
        let mut short = Settling::new(Nanos(300));
        short.lengthen(Nanos(600));
        assert_eq!(short.time(), Nanos(120));
        short.lengthen(Nanos(300));
        assert_eq!(short.time(), Nanos(120));
    }
}
