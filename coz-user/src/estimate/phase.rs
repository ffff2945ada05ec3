//! From the time in which a line runs to the whole run.
//!
//! A line is measured while it runs; if it runs only in a part of the program, its effect on the whole run is
//! smaller. Curtsinger and Berger (section 2.5 there, "phase correction") multiply the effect by `(t_obs /
//! s_obs) * (s / T)`: `s_obs` of the line's samples fell into `t_obs` of experiments on it, `s` into the
//! whole run of length `T`. Both ratios are taken from time without delays, and as CPU time instead of
//! numbers of samples: under delay effective time shrinks while samples do not, which would pass for a phase.
//!
//! **Per experiment.** Where there are phases, the experiments of a line fall into them by chance, some into one
//! in which it does not run at all, and one factor for all would leave that chance in the curve. So each
//! experiment is corrected by itself: its *dose* is the line's CPU time in it, over what the line uses in as
//! much of the whole run, and the curve is that of the time saved per dose (a ratio estimator with an auxiliary
//! variable: Cochran, "Sampling techniques", 3rd ed. 1977, chapter 6). Experiments without a dose say nothing.
//!
//! **Only where there are phases.** A factor that is not clearly different from 1 is taken for 1, and doses are
//! not used unless the line's share of the time differs between its own baselines: chance must not bend a curve.
//! Nor is it a phase of the line where the whole program runs more or less, because other programs take its CPUs or
//! it has no work: the line's share of the program's samples must differ too. And where threads waited for CPUs, some get more of
//! them than others while they are scarce, so that this share moves by itself: then what the line takes of a visit must differ as well.

use super::series::Trial;
use crate::experiment::record::PointKind;

/// Factors outside are not believed: the line was all but absent from one side of the comparison.
pub const SANE: (f64, f64) = (0.01, 2.0);
/// Fewer baselines cannot tell a phase from chance.
const MIN_BASELINES: usize = 3;
/// Fewer samples in them neither.
const MIN_SAMPLES: u64 = 20;
/// A factor within so many standard errors of 1 is taken for 1: by chance once in 400 lines.
const ERRORS: f64 = 3.0;
/// And so is one that is nearer to 1 than this (its logarithm): it would change an effect by less than its interval.
const MATERIAL: f64 = 0.14;
/// Where the line's share of the time differs by more than this between its baselines (standard deviation over
/// mean, chance of sampling apart), it has phases.
const UNEVEN: f64 = 0.35;
/// An experiment with less than this dose says nothing about the line.
pub const LEAST_DOSE: f64 = 0.1;

/// The line in all undelayed time of the run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Run {
    /// Its CPU time, nanoseconds.
    pub weight: f64,
    /// The undelayed time, nanoseconds.
    pub time: f64,
    /// Samples of all threads in it; 0: not known.
    pub samples_of_all: u64,
    /// Visits of the point in it, if threads waited for CPUs to a degree that matters; else 0, or not known.
    pub crowded_visits: f64,
}

/// How measured effects become those on the whole run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Correction {
    /// The ratio of the line's share in the whole run to that in its baselines, in [`SANE`]; 1 where they do not
    /// clearly differ.
    pub factor: f64,
    /// Whether the ratio was outside [`SANE`].
    pub capped: bool,
    /// The line's CPU time per time of the whole run, where each experiment is to be corrected by its dose.
    pub dose: Option<f64>,
    /// What effects are multiplied with, where there are no doses.
    pub multiply: f64,
    /// Standard error of the line's share in the whole run, as a part of it.
    pub error: f64,
}

impl Correction {
    /// No phase.
    pub const NONE: Self = Self { factor: 1.0, capped: false, dose: None, multiply: 1.0, error: 0.0 };
}

/// The correction for a line with these trials, of which those kept count; [`Correction::NONE`] when the data do
/// not tell.
#[must_use]
pub fn correction(trials: &[Trial], keep: &[bool], run: Option<Run>, kind: PointKind) -> Correction {
    let baselines: Vec<&Trial> =
        trials.iter().zip(keep).filter(|(t, keep)| **keep && t.is_baseline()).map(|(t, _)| t).collect();
    let samples: u64 = baselines.iter().fold(0, |sum, t| sum.saturating_add(t.samples.0));
    let weight: f64 = baselines.iter().map(|t| t.weight).sum();
    let time: f64 = baselines.iter().map(|t| t.exposure).sum();
    let Some(run) = run.filter(|run| run.time > 0.0 && run.weight > 0.0) else { return Correction::NONE };
    if baselines.len() < MIN_BASELINES || samples < MIN_SAMPLES || weight <= 0.0 || time <= 0.0 {
        return Correction::NONE;
    }
    let density = weight / time;
    let ratio = run.weight / run.time / density;
    let n = baselines.len() as f64;
    let deviation = error_of_ratio(&baselines, |t| t.exposure);
    let by_chance = 1.0 / samples as f64;
    let uneven = (deviation.powi(2) - by_chance).max(0.0) * n > UNEVEN * UNEVEN;
    let clear = differs(ratio, deviation)
        && share_differs(&baselines, weight, run)
        && visits_differ(&baselines, weight, run);
    if !clear && !uneven {
        return Correction::NONE;
    }
    let sane = ratio.clamp(SANE.0, SANE.1);
    let factor = if clear { sane } else { 1.0 };
    // Undelayed time covers each phase as the baselines do, to within about half a baseline.
    let error = 0.5 / n / ratio.clamp(0.2, 1.0);
    let dose = (kind == PointKind::Throughput).then_some(density * if clear { sane } else { ratio });
    let multiply = if dose.is_some() { 1.0 } else { factor };
    Correction { factor, capped: sane != ratio && clear, dose, multiply, error }
}

/// Whether a ratio whose logarithm has this standard error is not 1.
fn differs(ratio: f64, error: f64) -> bool {
    ratio.ln().abs() > MATERIAL.max(ERRORS * error)
}

/// Whether the line's part in the program's own samples differs between its baselines, which sum up to this weight, and the
/// whole run. Where that is not known, it does.
fn share_differs(baselines: &[&Trial], weight: f64, run: Run) -> bool {
    let all: f64 = baselines.iter().map(|t| t.samples.1 as f64).sum();
    if all <= 0.0 || run.samples_of_all == 0 {
        return true;
    }
    let error = error_of_ratio(baselines, |t| t.samples.1 as f64);
    differs(run.weight / run.samples_of_all as f64 / (weight / all), error)
}

/// Whether the line's CPU time for a visit differs between its baselines, which sum up to this weight, and the whole run, where that
/// is asked.
fn visits_differ(baselines: &[&Trial], weight: f64, run: Run) -> bool {
    let visits: f64 = baselines.iter().map(|t| t.visits).sum();
    if visits <= 0.0 || run.crowded_visits <= 0.0 {
        return true;
    }
    let error = error_of_ratio(baselines, |t| t.visits);
    differs(run.weight / run.crowded_visits / (weight / visits), error)
}

/// Standard error of the ratio of the line's CPU time to what `of` says, each summed over at least two baselines, as a share of the
/// ratio (Cochran 1977, 6.4).
fn error_of_ratio(baselines: &[&Trial], of: impl Fn(&Trial) -> f64) -> f64 {
    let n = baselines.len() as f64;
    let weight: f64 = baselines.iter().map(|t| t.weight).sum();
    let ratio = weight / baselines.iter().map(|t| of(t)).sum::<f64>();
    let square: f64 = baselines.iter().map(|t| (t.weight - ratio * of(t)).powi(2)).sum();
    (square * n / (n - 1.0)).sqrt() / weight
}

/// The doses of these trials, whose visits cost `p0` each at speedup 0: 1 where the line runs as much as in the
/// whole run.
#[must_use]
pub fn doses(trials: &[Trial], p0: f64, share: f64) -> Vec<f64> {
    trials.iter().map(|t| t.weight / (t.visits * p0).max(1.0) / share).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn baselines(densities: &[f64]) -> Vec<Trial> {
        let trial = |d: &f64| Trial { exposure: 1e9, weight: d * 1e9, samples: (30, 90), ..Trial::default() };
        densities.iter().map(trial).collect()
    }

    fn found(densities: &[f64], run: Option<Run>) -> Correction {
        let trials = baselines(densities);
        correction(&trials, &vec![true; trials.len()], run, PointKind::Throughput)
    }

    #[test]
    fn a_line_that_is_hot_in_the_first_half_counts_half() {
        let found = found(
            &[0.41, 0.39, 0.4, 0.4],
            Some(Run { weight: 20e9, time: 100e9, samples_of_all: 0, crowded_visits: 0.0 }),
        );
        assert!((found.factor - 0.5).abs() < 1e-9 && !found.capped, "{found:?}");
        assert!((found.dose.unwrap() - 0.2).abs() < 1e-9);
    }

    #[test]
    fn a_line_that_runs_throughout_is_left_alone() {
        let run = Some(Run { weight: 39e9, time: 100e9, samples_of_all: 0, crowded_visits: 0.0 });
        assert_eq!(found(&[0.43, 0.37, 0.42, 0.38], run), Correction::NONE);
    }

    #[test]
    fn a_program_that_runs_less_than_it_did_in_the_baselines_has_no_phase() {
        // 90 samples a second in the baselines, 40 % of the time in the line.
        let crowded = Run { weight: 20e9, time: 100e9, samples_of_all: 4_500, crowded_visits: 0.0 };
        assert_eq!(
            found(&[0.41, 0.39, 0.4, 0.4], Some(crowded)),
            Correction::NONE,
            "all of it runs half as much"
        );
        let other_work = Run { samples_of_all: 9_000, ..crowded };
        assert_eq!(found(&[0.41, 0.39, 0.4, 0.4], Some(other_work)).factor, 0.5, "only the line does");
    }

    #[test]
    fn where_cpus_are_scarce_a_line_that_takes_as_much_of_each_visit_has_no_phase() {
        let trial = |d: f64| Trial {
            exposure: 1e9,
            weight: d * 1e9,
            visits: 100.0,
            samples: (30, 90),
            ..Trial::default()
        };
        let trials = [0.41, 0.39, 0.4, 0.4].map(trial);
        let found = |run| correction(&trials, &[true; 4], Some(run), PointKind::Throughput);
        // 4 ms a visit in the baselines; others take the CPUs of the program, and more of them from its other threads.
        let crowded = Run { weight: 20e9, time: 100e9, samples_of_all: 9_000, crowded_visits: 5_000.0 };
        assert_eq!(found(crowded), Correction::NONE, "4 ms in the whole run as well");
        assert_eq!(
            found(Run { crowded_visits: 10_000.0, ..crowded }).factor,
            0.5,
            "2 ms: half of the visits run it"
        );
        assert_eq!(found(Run { crowded_visits: 0.0, ..crowded }).factor, 0.5, "not asked");
    }

    #[test]
    fn a_tenth_is_no_phase_however_sure() {
        let run = Some(Run { weight: 36e9, time: 100e9, samples_of_all: 0, crowded_visits: 0.0 });
        assert_eq!(found(&[0.4; 40], run), Correction::NONE);
    }

    #[test]
    fn baselines_in_both_phases_call_for_doses_and_have_no_factor() {
        let both = [0.8, 0.8, 0.0, 0.8, 0.0, 0.0, 0.0, 0.8];
        let found =
            found(&both, Some(Run { weight: 42e9, time: 100e9, samples_of_all: 0, crowded_visits: 0.0 }));
        assert_eq!((found.factor, found.multiply), (1.0, 1.0));
        assert!((found.dose.unwrap() - 0.42).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn too_few_data_correct_nothing() {
        let run = Some(Run { weight: 10e9, time: 100e9, samples_of_all: 0, crowded_visits: 0.0 });
        assert_eq!(found(&[0.4, 0.4], run), Correction::NONE);
        assert_eq!(found(&[0.4; 9], None), Correction::NONE);
    }

    #[test]
    fn an_absurd_factor_is_capped() {
        let found = found(
            &[0.011, 0.009, 0.01],
            Some(Run { weight: 99e9, time: 100e9, samples_of_all: 0, crowded_visits: 0.0 }),
        );
        assert!(found.capped && found.factor == SANE.1, "{found:?}");
    }
}
