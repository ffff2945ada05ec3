//! The curve through a line's trials.
//!
//! **Ratio of sums.** `p0 = sum(cost) / sum(visits)` over the baselines; the curve `f` solves
//! `sum_i w_i b_k(s_i) (p0 (1 - f(s_i)) visits_i - cost_i) = 0` for each element `b_k` of its basis. At one
//! speedup alone that is the ratio of sums again; `E[cost - p visits] = 0` however few visits there are,
//! while the mean of single ratios is biased by `1/visits` (Cochran, "Sampling techniques", 3rd ed. 1977,
//! chapter 6). The weight `w = 1 - f` makes a trial count by its effective time, `visits * p0 * (1 - f)`:
//! near 100 % speedup little of it is left and the variance grows accordingly.

use super::{
    curve::{Basis, Coefficients, MAX_KNOTS},
    series::Trial,
};
use crate::experiment::record::PointKind;

/// Least weight of a trial at a speedup that leaves no effective time, so that it still has a say.
const LEAST_WEIGHT: f64 = 0.05;

/// A fitted curve.
#[derive(Clone, Debug)]
pub struct Fit {
    /// Shape of the curve.
    pub basis: Basis,
    /// Effective time per visit at speedup 0.
    pub p0: f64,
    /// The coefficients.
    pub beta: Coefficients,
    /// `beta` as it would be if nothing cost anything: the fit of a constant 1.
    ones: Coefficients,
    inverse: [Coefficients; MAX_KNOTS],
    baseline_visits: f64,
    kind: PointKind,
    /// Coefficients of the fit whose effects give the weights.
    weighing: Coefficients,
}

fn dot(a: &Coefficients, b: &Coefficients) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

impl Fit {
    /// Fits the trials for which `keep` says so; `None` when there is no baseline with visits, or no visit at
    /// any other speedup, or when `basis` asks for more than the speedups tell.
    #[must_use]
    pub fn new(trials: &[Trial], keep: &[bool], basis: &Basis, kind: PointKind) -> Option<Self> {
        let kept = || trials.iter().zip(keep).filter(|(_, keep)| **keep).map(|(trial, _)| trial);
        let (cost, visits) = kept()
            .filter(|t| t.is_baseline())
            .fold((0.0, 0.0), |(cost, visits), t| (cost + t.cost, visits + t.visits));
        if visits <= 0.0 || cost <= 0.0 {
            return None;
        }
        let mut fit = Self {
            basis: basis.clone(),
            p0: cost / visits,
            beta: [0.0; MAX_KNOTS],
            ones: [0.0; MAX_KNOTS],
            inverse: [[0.0; MAX_KNOTS]; MAX_KNOTS],
            baseline_visits: visits,
            kind,
            weighing: [0.0; MAX_KNOTS],
        };
        // The weights need the effects: start from none, twice.
        for _ in 0..3 {
            fit.weighing = fit.beta;
            let mut matrix = [[0.0; MAX_KNOTS]; MAX_KNOTS];
            let mut visits = [0.0; MAX_KNOTS];
            let mut costs = [0.0; MAX_KNOTS];
            for trial in kept().filter(|t| !t.is_baseline()) {
                let row = basis.at(trial.speedup());
                let weight = fit.weight(trial);
                for (k, part) in row.iter().enumerate().filter(|(_, part)| **part != 0.0) {
                    visits[k] += weight * part * trial.visits;
                    costs[k] += weight * part * trial.cost;
                    for (sum, other) in matrix[k].iter_mut().zip(row) {
                        *sum += weight * part * other * trial.visits;
                    }
                }
            }
            fit.inverse = inverse(&matrix, basis.size())?;
            fit.ones = apply(&fit.inverse, &visits);
            let costs = apply(&fit.inverse, &costs);
            for ((beta, one), cost) in fit.beta.iter_mut().zip(fit.ones).zip(costs) {
                *beta = one - cost / fit.p0;
            }
        }
        Some(fit)
    }

    /// The effect at a speedup.
    #[must_use]
    pub fn effect(&self, speedup: f64) -> f64 {
        dot(&self.basis.at(speedup), &self.beta)
    }

    /// What the fit expects a trial to cost, from its visits.
    #[must_use]
    pub fn expected(&self, trial: &Trial) -> f64 {
        self.p0 * (1.0 - self.effect(trial.speedup())) * trial.visits
    }

    /// By how many points of effect the trial is off (above 0: faster than fitted). Compares visits with those
    /// expected for its cost, so that it is finite also without a visit.
    #[must_use]
    pub fn deviation(&self, trial: &Trial) -> f64 {
        let left = (1.0 - self.effect(trial.speedup())).max(LEAST_WEIGHT);
        let whole = trial.visits * self.p0;
        (whole * left - trial.cost) / trial.cost.max(LEAST_WEIGHT * whole).max(1.0) * left
    }

    fn weight(&self, trial: &Trial) -> f64 {
        match self.kind {
            // visits * (1 - f) is what the effective time amounts to.
            PointKind::Throughput => {
                let effect = dot(&self.basis.at(trial.speedup()), &self.weighing).min(trial.speedup());
                (1.0 - effect).clamp(LEAST_WEIGHT, 2.0)
            }
            // Arrivals go with effective time by themselves.
            PointKind::Latency => 1.0,
        }
    }

    /// How much of its own residual a trial explains away, 0.0 to 1.0.
    #[must_use]
    pub fn leverage(&self, trial: &Trial) -> f64 {
        if trial.is_baseline() {
            return trial.visits / self.baseline_visits;
        }
        let row = self.basis.at(trial.speedup());
        (self.weight(trial) * trial.visits * dot(&row, &apply(&self.inverse, &row))).clamp(0.0, 1.0)
    }

    /// How the effect at `speedup` answers to a change of the trial's cost, per nanosecond.
    #[must_use]
    pub fn influence(&self, speedup: f64, trial: &Trial) -> f64 {
        let at = self.basis.at(speedup);
        if trial.is_baseline() {
            return (dot(&at, &self.ones) - dot(&at, &self.beta)) / self.p0 / self.baseline_visits;
        }
        let row = self.basis.at(trial.speedup());
        -self.weight(trial) * dot(&at, &apply(&self.inverse, &row)) / self.p0
    }

    /// `p0` and the coefficients if every kept trial had cost `change` more (0 for those left out).
    #[must_use]
    pub fn refit(&self, trials: &[Trial], change: &[f64]) -> (f64, Coefficients) {
        let mut baseline = 0.0;
        let mut costs = [0.0; MAX_KNOTS];
        for (trial, &change) in trials.iter().zip(change).filter(|(_, change)| **change != 0.0) {
            if trial.is_baseline() {
                baseline += change;
            } else {
                let row = self.basis.at(trial.speedup());
                let weight = self.weight(trial) * change;
                for (cost, row) in costs.iter_mut().zip(row) {
                    *cost += weight * row;
                }
            }
        }
        let p0 = (self.p0 + baseline / self.baseline_visits).max(self.p0 * LEAST_WEIGHT);
        let costs = apply(&self.inverse, &costs);
        let mut beta = [0.0; MAX_KNOTS];
        for k in 0..self.basis.size() {
            beta[k] = self.ones[k] - ((self.ones[k] - self.beta[k]) * self.p0 + costs[k]) / p0;
        }
        (p0, beta)
    }
}

fn apply(matrix: &[Coefficients; MAX_KNOTS], vector: &Coefficients) -> Coefficients {
    std::array::from_fn(|k| dot(&matrix[k], vector))
}

/// Inverse of the leading `n` by `n` block, by elimination with pivots; `None` when (nearly) singular.
fn inverse(matrix: &[Coefficients; MAX_KNOTS], n: usize) -> Option<[Coefficients; MAX_KNOTS]> {
    let mut left = *matrix;
    let mut right = [[0.0; MAX_KNOTS]; MAX_KNOTS];
    let scale = (0..n).map(|k| matrix[k][k].abs()).fold(0.0, f64::max);
    for (k, row) in right.iter_mut().enumerate().take(n) {
        row[k] = 1.0;
    }
    for column in 0..n {
        let pivot = (column..n).max_by(|&a, &b| left[a][column].abs().total_cmp(&left[b][column].abs()))?;
        if left[pivot][column].abs() <= scale * 1e-10 {
            return None;
        }
        left.swap(column, pivot);
        right.swap(column, pivot);
        let by = left[column][column];
        for j in 0..n {
            left[column][j] /= by;
            right[column][j] /= by;
        }
        for other in (0..n).filter(|&other| other != column) {
            let by = left[other][column];
            for j in 0..n {
                left[other][j] -= by * left[column][j];
                right[other][j] -= by * right[column][j];
            }
        }
    }
    Some(right)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    fn trial(permille: u32, p: f64, visits: f64) -> Trial {
        Trial { permille, cost: p * visits, visits, exposure: p * visits, ..Trial::default() }
    }

    /// A curve with a kink at 50 %, two trials a speedup.
    pub(in super::super) fn kinked() -> Vec<Trial> {
        (0..=20_u32)
            .flat_map(|i| {
                let s = f64::from(i) / 20.0;
                let p = 1e6 * (1.0 - 0.8 * s.min(0.5));
                [trial(i * 50, p, 90.0), trial(0, 1e6, 100.0), trial(i * 50, p, 110.0)]
            })
            .collect()
    }

    fn fitted(trials: &[Trial]) -> Fit {
        let basis = Basis::for_speedups(&trials.iter().map(Trial::speedup).collect::<Vec<_>>());
        Fit::new(trials, &vec![true; trials.len()], &basis, PointKind::Throughput).unwrap()
    }

    #[test]
    fn exact_data_are_fitted_exactly() {
        let fit = fitted(&kinked());
        for (s, effect) in [(0.25, 0.2), (0.5, 0.4), (0.75, 0.4), (1.0, 0.4)] {
            assert!((fit.effect(s) - effect).abs() < 1e-9, "at {s}: {}", fit.effect(s));
        }
    }

    #[test]
    fn influence_is_the_derivative_of_the_refit() {
        let trials = kinked();
        let fit = fitted(&trials);
        for i in [0, 1, 30, 60] {
            let mut change = vec![0.0; trials.len()];
            change[i] = 1e3;
            let (_, beta) = fit.refit(&trials, &change);
            let moved = dot(&fit.basis.at(0.6), &beta) - fit.effect(0.6);
            let predicted = 1e3 * fit.influence(0.6, &trials[i]);
            assert!(
                (moved - predicted).abs() < 1e-6 * predicted.abs().max(1e-9) + 1e-9,
                "{moved} {predicted}"
            );
        }
    }
}
