//! The baseline of each moment.
//!
//! The speed of a machine wanders, and a program has phases: an experiment is to be compared with the baselines
//! near to it in time. How near is near enough is left to the data: the effective time per visit at speedup 0 is
//! smoothed over time with weights `visits * exp(-|distance| / reach)` (a kernel smoother: Nadaraya, Theory of
//! Probability and its Applications 9, 1964; Watson, Sankhya A 26, 1964), whose reach is the one that predicts
//! each baseline best from the others (cross-validation: Stone, Journal of the Royal Statistical Society B 36,
//! 1974). On a steady machine that is all of them, on one that wanders fast the pair beside each experiment.

use super::series::Trial;

/// The reaches to choose from, nanoseconds. The longest but one joins the baselines of one run, and keeps runs apart.
const REACHES: [f64; 6] = [f64::INFINITY, 1e15, 30e9, 10e9, 3e9, 1e9];
/// A shorter reach must predict better by this share, and by more where there are few baselines.
const BETTER: f64 = 0.08;
/// The same, times the number of baselines.
const BETTER_FEW: f64 = 2.0;
/// Fewer baselines are pooled.
const ENOUGH: usize = 6;
/// A baseline far away in time keeps this weight, for experiments that have none near.
const FAR: f64 = 1e-9;

/// For every trial: which part each baseline has in what it is compared with.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Local {
    /// The baselines that are kept, by their index among the trials.
    pub baselines: Vec<usize>,
    /// A row for each trial; each sums up to 1.
    weights: Vec<Vec<f64>>,
    /// Effective time per visit at speedup 0, at each trial.
    level: Vec<f64>,
    /// Whether the level is the same everywhere.
    pub is_pooled: bool,
}

impl Local {
    /// The baseline at each of these trials; `None` where no baseline that is kept has a visit.
    #[must_use]
    pub fn new(trials: &[Trial], keep: &[bool]) -> Option<Self> {
        let kept = |i: &usize| keep[*i] && trials[*i].is_baseline();
        let baselines: Vec<usize> = (0..trials.len()).filter(kept).collect();
        if baselines.iter().all(|&b| trials[b].visits <= 0.0 || trials[b].cost <= 0.0) {
            return None;
        }
        let reach = reach(trials, &baselines);
        let weights: Vec<Vec<f64>> = trials.iter().map(|t| row(trials, &baselines, t.at, reach)).collect();
        let level = weights.iter().map(|weights| level(trials, &baselines, weights)).collect();
        Some(Self { baselines, weights, level, is_pooled: reach.is_infinite() })
    }

    /// The trials as they would have been had the machine always been as fast as on average: their visits are
    /// multiplied with what a visit costs at the time, over what it costs on average.
    #[must_use]
    pub fn levelled(&self, trials: &[Trial]) -> Vec<Trial> {
        let sum = |f: fn(&Trial) -> f64| self.baselines.iter().map(|&b| f(&trials[b])).sum::<f64>();
        let pooled = sum(|t| t.cost) / sum(|t| t.visits);
        let level = |(trial, level): (&Trial, &f64)| {
            let visits = if self.is_pooled { trial.visits } else { trial.visits * level / pooled };
            Trial { visits, ..*trial }
        };
        trials.iter().zip(&self.level).map(level).collect()
    }

    /// By which share a trial's level answers to that of each baseline: in the order of [`Self::baselines`].
    #[must_use]
    pub fn weights(&self, trial: usize) -> &[f64] {
        &self.weights[trial]
    }

    /// By which share each trial's level changes when each baseline's does, in the order of the trials.
    #[must_use]
    pub fn changes(&self, of_baselines: &[f64]) -> Vec<f64> {
        let dot = |row: &[f64]| row.iter().zip(of_baselines).map(|(w, c)| w * c).sum::<f64>();
        if self.is_pooled
            && let Some(row) = self.weights.first()
        {
            return vec![dot(row); self.weights.len()];
        }
        self.weights.iter().map(|row| dot(row)).collect()
    }

    /// By how many baselines, all in all, these trials are compared with (Kish, "Survey sampling", 1965).
    #[must_use]
    pub fn support(&self, trials: &[usize]) -> f64 {
        let mut sum = vec![0.0; self.baselines.len()];
        for &trial in trials {
            sum.iter_mut().zip(&self.weights[trial]).for_each(|(sum, weight)| *sum += weight);
        }
        let squares: f64 = sum.iter().map(|w| w * w).sum();
        if squares > 0.0 { (trials.len() as f64).powi(2) / squares } else { 0.0 }
    }

    /// Share of a baseline's variance that is left when it is compared with the level at its own time.
    #[must_use]
    pub fn left_over(&self, trial: usize) -> f64 {
        let row = &self.weights[trial];
        let own = self.baselines.iter().position(|&b| b == trial).map_or(0.0, |at| row[at]);
        1.0 - 2.0 * own + row.iter().map(|w| w * w).sum::<f64>()
    }
}

/// The parts of the baselines in what is compared with at this time; they sum up to 1.
fn row(trials: &[Trial], baselines: &[usize], at: f64, reach: f64) -> Vec<f64> {
    let near = |&b: &usize| {
        let distance = (trials[b].at - at).abs();
        trials[b].visits.max(1e-9) * if reach.is_infinite() { 1.0 } else { (-distance / reach).exp() + FAR }
    };
    let mut row: Vec<f64> = baselines.iter().map(near).collect();
    let sum: f64 = row.iter().sum();
    row.iter_mut().for_each(|weight| *weight /= sum);
    row
}

/// Weights are by visits, so that the mean of the costs per visit is the ratio of the sums.
fn level(trials: &[Trial], baselines: &[usize], weights: &[f64]) -> f64 {
    let cost: f64 =
        baselines.iter().zip(weights).map(|(&b, w)| w * trials[b].cost / trials[b].visits.max(1e-9)).sum();
    if cost.is_finite() && cost > 0.0 { cost } else { f64::MIN_POSITIVE }
}

/// The reach that predicts best.
fn reach(trials: &[Trial], baselines: &[usize]) -> f64 {
    let n = baselines.len();
    if n < ENOUGH || baselines.iter().any(|&b| trials[b].visits <= 0.0) {
        return REACHES[0];
    }
    let better = 1.0 - BETTER - BETTER_FEW / n as f64;
    let mut best = (REACHES[0], mistake(trials, baselines, REACHES[0]));
    for reach in REACHES.into_iter().skip(1) {
        let off = mistake(trials, baselines, reach);
        if off < best.1 * if best.0.is_infinite() { better } else { 1.0 } {
            best = (reach, off);
        }
    }
    best.0
}

/// Mean square of the error with which the others predict a baseline.
fn mistake(trials: &[Trial], baselines: &[usize], reach: f64) -> f64 {
    let error = |(k, &b): (usize, &usize)| {
        let mut weights = row(trials, baselines, trials[b].at, reach);
        weights[k] = 0.0;
        let rest: f64 = weights.iter().sum();
        if rest <= 0.0 {
            return 1.0;
        }
        weights.iter_mut().for_each(|weight| *weight /= rest);
        let own = trials[b].cost / trials[b].visits;
        (level(trials, baselines, &weights) / own - 1.0).powi(2)
    };
    baselines.iter().enumerate().map(error).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A baseline and a treatment each 300 ms, whose costs per visit are as `speed` says.
    fn pairs(n: usize, speed: impl Fn(usize) -> f64) -> Vec<Trial> {
        let trial = |i: usize| Trial {
            permille: if i.is_multiple_of(2) { 0 } else { 500 },
            cost: 3e8,
            exposure: 3e8,
            visits: 3e8 / (1e6 * speed(i)) / if i.is_multiple_of(2) { 1.0 } else { 0.75 },
            at: i as f64 * 3e8,
            ..Trial::default()
        };
        (0..2 * n).map(trial).collect()
    }

    fn noise(i: usize) -> f64 {
        1.0 + 0.01 * ((i * 7919 % 13) as f64 / 6.0 - 1.0)
    }

    fn local(trials: &[Trial]) -> Local {
        Local::new(trials, &vec![true; trials.len()]).unwrap()
    }

    #[test]
    fn a_steady_machine_pools_all_its_baselines() {
        let trials = pairs(40, noise);
        let local = local(&trials);
        assert!(local.is_pooled);
        assert_eq!(local.levelled(&trials), trials, "nothing is changed");
    }

    #[test]
    fn on_a_machine_that_wanders_each_trial_has_its_own_baseline() {
        let drift = |i: usize| noise(i) * (1.0 + 0.3 * (i as f64 / 15.0).sin());
        let trials = pairs(40, drift);
        let local = local(&trials);
        assert!(!local.is_pooled);
        for (i, trial) in local.levelled(&trials).iter().enumerate().filter(|(_, t)| !t.is_baseline()) {
            let effect = 1.0 - trial.cost / trial.visits / 1e6;
            let before = 1.0 - trials[i].cost / trials[i].visits / 1e6;
            assert!((effect - 0.25).abs() < 0.1, "trial {i}: {effect}, without the levelling {before}");
        }
    }

    #[test]
    fn runs_of_different_speed_are_compared_each_with_itself() {
        let mut trials = pairs(10, noise);
        let second: Vec<Trial> = pairs(10, |i| 2.0 * noise(i))
            .into_iter()
            .map(|t| Trial { at: t.at + crate::estimate::series::RUN, ..t })
            .collect();
        trials.extend(second);
        let local = local(&trials);
        let row = local.weights(0);
        assert!(
            row.iter().take(10).sum::<f64>() > 0.999,
            "the first run's trials by the first run's baselines"
        );
        assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn without_a_visit_there_is_no_baseline() {
        let mut trials = pairs(3, noise);
        trials.iter_mut().for_each(|t| t.visits = 0.0);
        assert_eq!(Local::new(&trials, &[true; 6]), None);
    }
}
