//! The truth about one program: short runs of the original and with the line really shortened, in turn.

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::{LEVELS, noise, stats};
use crate::programs::Program;
use crate::truth::Spread;

/// How long and how often.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Runs of each level.
    pub repeats: usize,
    /// As many more, at most, while an interval is wider than one percentage point to each side.
    pub extra: usize,
    /// Length of each of them, seconds.
    pub run_seconds: f64,
    /// Length of each profile, seconds.
    pub profile_seconds: f64,
    /// How often a disturbed run or profile is made before it is taken as it is.
    pub tries: usize,
}

/// A truth whose interval is wider than so many percentage points to each side is noisy, and repeated.
pub const PRECISE: f64 = 1.0;

impl Plan {
    /// For a figure that is to be published.
    pub const FULL: Self = Self { repeats: 8, extra: 8, run_seconds: 0.8, profile_seconds: 45.0, tries: 4 };
    /// For all programs in a quarter of an hour.
    pub const QUICK: Self = Self { repeats: 6, extra: 2, run_seconds: 0.25, profile_seconds: 14.0, tries: 2 };

    /// How long one program takes without repetitions, seconds, with so many profilers.
    #[must_use]
    pub fn seconds(&self, profilers: usize) -> f64 {
        let runs = self.repeats * (LEVELS.len() + 1) + 1;
        profilers as f64 * self.profile_seconds + runs as f64 * self.run_seconds
    }
}

/// What shortening the line really gives.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Truth {
    /// For each level, the logarithms of time a round over that of the runs of the original before and after.
    pub ratios: Vec<Vec<f64>>,
    /// What was disturbed and repeated.
    pub notes: Vec<String>,
}

impl Truth {
    /// Measures it at every level.
    ///
    /// # Errors
    /// When the program fails.
    pub fn measure(program: &Program, plan: &Plan) -> Result<Self> {
        let mut truth = Self { ratios: vec![Vec::new(); LEVELS.len()], notes: Vec::new() };
        let mut before = truth.run(program, 0, plan)?;
        for repeat in 0..plan.repeats + plan.extra {
            if repeat >= plan.repeats && truth.widest() <= PRECISE {
                break;
            }
            let mut runs = Vec::new();
            for &level in LEVELS {
                runs.push(truth.run(program, level, plan)?);
            }
            let after = truth.run(program, 0, plan)?;
            // Each level is compared with what was measured on both sides of it.
            let original = f64::midpoint(before.ln(), after.ln());
            for (ratios, run) in truth.ratios.iter_mut().zip(runs) {
                ratios.push(run.ln() - original);
            }
            before = after;
        }
        Ok(truth)
    }

    /// By how much a round gets shorter at this level, percent, with its 95 % interval.
    #[must_use]
    pub fn at(&self, level: usize) -> Option<Spread> {
        let centre = stats::centre(self.ratios.get(level)?)?;
        let gain = |ratio: f64| 100.0 * (1.0 - ratio.exp());
        Some(Spread { median: gain(centre.median), low: gain(centre.high), high: gain(centre.low) })
    }

    fn widest(&self) -> f64 {
        (0..self.ratios.len()).filter_map(|level| Some(self.at(level)?.half())).fold(0.0, f64::max)
    }

    /// Nanoseconds a round.
    fn run(&mut self, program: &Program, level: u32, plan: &Plan) -> Result<f64> {
        let what = format!("{} shortened by {level} %", program.name);
        noise::undisturbed(&what, plan.tries, &mut self.notes, || {
            Ok(program.run(level, plan.run_seconds)?.round_ns())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_the_time_is_a_gain_of_half() {
        let truth = Truth { ratios: vec![vec![0.5f64.ln(); 6]], notes: Vec::new() };
        let gain = truth.at(0).expect("it was measured");
        assert!((gain.median - 50.0).abs() < 1e-9 && gain.half() < 1e-9, "{gain:?}");
        assert_eq!(truth.at(1), None);
    }

    #[test]
    fn a_quick_run_of_the_suite_takes_at_most_a_quarter_of_an_hour() {
        let programs = super::super::names(true).len() as f64;
        assert!(programs * Plan::QUICK.seconds(1) < 13.0 * 60.0, "and something is left for compiling");
    }
}
