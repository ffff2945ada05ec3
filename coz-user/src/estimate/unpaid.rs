//! What unpaid delays may have done to an effect.
//!
//! Where it is not known who visited a point (the counters of coz.h, threads that have ended), an experiment's effective
//! time is its wall time minus the delay that everyone must have absorbed. Where the threads
//! that visited the point still owed `u` of it at the end, their own effective time was longer by up to `u`, unless
//! they would have been excused from it by what they were waiting for. So the effect may be smaller than it looks,
//! by up to `u` over the time that the visits would have cost at speedup 0: its interval reaches further down by that.

use super::series::Trial;

/// What stayed unpaid in a line's experiments.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Unpaid {
    /// Share of the time, per speedup: debts grow with the delays.
    slope: f64,
}

impl Unpaid {
    /// Of the trials that are kept; `p0` is what a visit costs at speedup 0.
    #[must_use]
    pub fn new(trials: &[Trial], keep: &[bool], p0: f64) -> Self {
        let kept = trials.iter().zip(keep).filter(|(t, keep)| **keep && !t.is_baseline());
        let (owed, time) = kept
            .fold((0.0, 0.0), |(owed, time), (t, _)| (owed + t.unpaid, time + t.speedup() * t.visits * p0));
        Self { slope: if time > 0.0 { owed / time } else { 0.0 } }
    }

    /// By how much the fitted effect at this speedup may be too large.
    #[must_use]
    pub fn at(&self, speedup: f64) -> f64 {
        self.slope * speedup
    }

    /// By how much the mean effect of these trials of one speedup may be.
    #[must_use]
    pub fn of(&self, trials: &[&Trial], p0: f64) -> f64 {
        let (owed, visits) = trials.iter().fold((0.0, 0.0), |(u, v), t| (u + t.unpaid, v + t.visits));
        if visits > 0.0 { owed / (visits * p0) } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_debt_is_a_share_of_the_time_at_speedup_0() {
        let trial = Trial { permille: 500, visits: 100.0, cost: 6e8, unpaid: 5e7, ..Trial::default() };
        let baseline = Trial { permille: 0, unpaid: 9e9, ..trial };
        let unpaid = Unpaid::new(&[trial, baseline], &[true, true], 1e7);
        assert!((unpaid.at(0.5) - 0.05).abs() < 1e-12 && (unpaid.at(1.0) - 0.1).abs() < 1e-12);
        assert!((unpaid.of(&[&trial], 1e7) - 0.05).abs() < 1e-12);
        assert_eq!(Unpaid::new(&[baseline], &[true], 1e7).at(1.0), 0.0);
    }
}
