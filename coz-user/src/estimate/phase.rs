//! From the time in which a line runs to the whole run.
//!
//! A line is measured while it runs; if it runs only in a part of the program, its effect on the whole run is
//! smaller. Curtsinger and Berger (section 2.5 there, "phase correction") multiply the effect by `(t_obs /
//! s_obs) * (s / T)`: `s_obs` of the line's samples fell into `t_obs` of experiments on it, `s` into the
//! whole run of length `T`. Both ratios are taken from time without delays, and as CPU time instead of
//! numbers of samples: under delay effective time shrinks while samples do not, which would pass for a phase.

use super::series::Trial;

/// Factors outside are not believed: the line was all but absent from one side of the comparison.
pub const SANE: (f64, f64) = (0.01, 2.0);
/// Fewer baselines cannot tell a phase from chance.
const MIN_BASELINES: usize = 3;
/// Fewer samples in them neither.
const MIN_SAMPLES: u64 = 20;
/// A factor within so many standard errors of 1 is taken for 1: no phase is seen, and none is corrected.
const ERRORS: f64 = 2.0;

/// The line in all undelayed time of the run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Run {
    /// Its CPU time, nanoseconds.
    pub weight: f64,
    /// The undelayed time, nanoseconds.
    pub time: f64,
}

/// What to multiply a measured effect with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Correction {
    /// The factor, in [`SANE`].
    pub factor: f64,
    /// The line's CPU time per effective time in its own baselines; 0 where the factor is 1 for want of more.
    pub density: f64,
    /// Whether the factor was outside [`SANE`].
    pub capped: bool,
}

impl Correction {
    /// No phase.
    pub const NONE: Self = Self { factor: 1.0, density: 0.0, capped: false };

    /// The factor if the baselines had shown `excess` more CPU time of the line per effective time.
    #[must_use]
    pub fn with(&self, excess: f64) -> f64 {
        if self.density == 0.0 {
            return self.factor;
        }
        let density = (self.density + excess).max(self.density * 0.1);
        (self.factor * self.density / density).clamp(SANE.0, SANE.1)
    }
}

/// The correction for a line with these trials; [`Correction::NONE`] when the data do not tell.
#[must_use]
pub fn correction(trials: &[Trial], run: Option<Run>) -> Correction {
    let baselines: Vec<&Trial> = trials.iter().filter(|t| t.is_baseline()).collect();
    let samples: u64 = baselines.iter().fold(0, |sum, t| sum.saturating_add(t.samples.0));
    let weight: f64 = baselines.iter().map(|t| t.weight).sum();
    let time: f64 = baselines.iter().map(|t| t.exposure).sum();
    let Some(run) = run.filter(|run| run.time > 0.0 && run.weight > 0.0) else { return Correction::NONE };
    if baselines.len() < MIN_BASELINES || samples < MIN_SAMPLES || weight <= 0.0 || time <= 0.0 {
        return Correction::NONE;
    }
    let density = weight / time;
    let factor = run.weight / run.time / density;
    // Standard error of a ratio of sums (Cochran 1977, 6.4), as a share of the ratio.
    let n = baselines.len() as f64;
    let square: f64 = baselines.iter().map(|t| (t.weight - density * t.exposure).powi(2)).sum();
    let error = (square * n / (n - 1.0)).sqrt() / weight;
    if factor.ln().abs() <= ERRORS * error {
        return Correction::NONE;
    }
    let sane = factor.clamp(SANE.0, SANE.1);
    Correction { factor: sane, density, capped: sane != factor }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn baselines(densities: &[f64]) -> Vec<Trial> {
        let trial = |d: &f64| Trial { exposure: 1e9, weight: d * 1e9, samples: (30, 90), ..Trial::default() };
        densities.iter().map(trial).collect()
    }

    #[test]
    fn a_line_that_is_hot_in_the_first_half_counts_half() {
        let run = Some(Run { weight: 20e9, time: 100e9 });
        let found = correction(&baselines(&[0.41, 0.39, 0.4, 0.4]), run);
        assert!((found.factor - 0.5).abs() < 1e-9 && !found.capped, "{found:?}");
    }

    #[test]
    fn a_line_that_runs_throughout_is_left_alone() {
        let run = Some(Run { weight: 39e9, time: 100e9 });
        assert_eq!(correction(&baselines(&[0.43, 0.37, 0.42, 0.38]), run), Correction::NONE);
    }

    #[test]
    fn too_few_data_correct_nothing() {
        let run = Some(Run { weight: 10e9, time: 100e9 });
        assert_eq!(correction(&baselines(&[0.4, 0.4]), run), Correction::NONE);
        assert_eq!(correction(&baselines(&[0.4; 9]), None), Correction::NONE);
    }

    #[test]
    fn an_absurd_factor_is_capped() {
        let run = Some(Run { weight: 99e9, time: 100e9 });
        let found = correction(&baselines(&[0.011, 0.009, 0.01]), run);
        assert!(found.capped && found.factor == SANE.1, "{found:?}");
    }
}
