//! Trials that went wrong.
//!
//! Now and then an experiment goes wrong by tens of points (a CPU stolen, a bad placement), always towards
//! slowness. Such a trial is rare, lies alone in time and far out; a phase of the program is also far out,
//! but it is neither rare nor scattered. So only slow, scattered trials are left out, judged by the median
//! absolute deviation (Hampel, "The influence curve and its role in robust estimation", JASA 69, 1974), and
//! only if they are few; else all are kept and the interval says how unsure that is.

use super::{curve::Basis, regression::Fit, series::Trial};
use crate::experiment::record::PointKind;

/// How many deviations away a slow trial must be to be taken for a mishap: of normal ones, two in ten
/// thousand are.
const FAR: f64 = 3.5;
/// By how many points of effect it must be off at least: what is nearer does no harm.
const HARMFUL: f64 = 0.1;
/// More than this share of all trials are not mishaps.
const RARE: f64 = 0.15;
/// Makes the median absolute deviation of normal data their standard deviation.
const MAD_TO_SIGMA: f64 = 1.4826;

/// Which trials to keep: all but the mishaps (see above).
#[must_use]
pub fn keep(trials: &[Trial], basis: &Basis, kind: PointKind) -> Vec<bool> {
    keep_by(trials, |keep| {
        let fit = Fit::new(trials, keep, basis, kind)?;
        Some(trials.iter().map(|t| fit.deviation(t)).collect())
    })
}

/// The same of trials that all have the same speedup: those that are far slower than their mean.
#[must_use]
pub fn keep_alike(trials: &[Trial]) -> Vec<bool> {
    keep_by(trials, |keep| {
        let kept = trials.iter().zip(keep).filter(|(_, keep)| **keep).map(|(trial, _)| trial);
        let (cost, visits) = kept.fold((0.0, 0.0), |(cost, visits), t| (cost + t.cost, visits + t.visits));
        let off = |t: &Trial| t.visits * (cost / visits) / t.cost.max(1.0) - 1.0;
        (cost > 0.0 && visits > 0.0).then(|| trials.iter().map(off).collect())
    })
}

/// `deviations`: how much faster each trial was than those kept say, as a share; `None` where they say nothing.
fn keep_by(trials: &[Trial], deviations: impl Fn(&[bool]) -> Option<Vec<f64>>) -> Vec<bool> {
    let all = vec![true; trials.len()];
    let mut keep = all.clone();
    for _ in 0..5 {
        let Some(deviation) = deviations(&keep) else { return all };
        let scaled: Vec<f64> = trials.iter().zip(&deviation).map(|(t, d)| d * t.exposure.sqrt()).collect();
        let centre = median(scaled.clone());
        let sigma = MAD_TO_SIGMA * median(scaled.iter().map(|z| (z - centre).abs()).collect());
        let next: Vec<bool> = scaled
            .iter()
            .zip(&deviation)
            .map(|(z, d)| *d > -HARMFUL || (z - centre) > -FAR * sigma)
            .collect();
        if !are_mishaps(&next) {
            return all;
        }
        if next == keep {
            break;
        }
        keep = next;
    }
    // Each group must keep enough to stand on.
    match deviations(&keep) {
        Some(_) => keep,
        None => all,
    }
}

/// Whether the trials not kept are few, and scattered in time rather than side by side.
fn are_mishaps(keep: &[bool]) -> bool {
    let n = keep.len() as f64;
    let out = keep.iter().filter(|k| !**k).count() as f64;
    let side_by_side = keep.windows(2).filter(|w| !w[0] && !w[1]).count() as f64;
    // Scattered at random, out^2 / n pairs are expected.
    n >= 5.0 && out <= (RARE * n).floor().max(1.0) && side_by_side <= (2.0 * out * out / n).max(1.0)
}

/// The middle value; 0 when there is none.
#[must_use]
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        n if n % 2 == 1 => values[n / 2],
        n => f64::midpoint(values[n / 2 - 1], values[n / 2]),
    }
}

#[cfg(test)]
mod tests {
    use super::super::regression::tests::kinked;
    use super::*;

    fn fitted(trials: &[Trial]) -> (Fit, Vec<bool>) {
        let basis = Basis::for_speedups(&trials.iter().map(Trial::speedup).collect::<Vec<_>>());
        let keep = keep(trials, &basis, PointKind::Throughput);
        (Fit::new(trials, &keep, &basis, PointKind::Throughput).unwrap(), keep)
    }

    #[test]
    fn a_mishap_is_left_out() {
        let mut trials = kinked();
        for i in [7, 40] {
            trials[i].visits *= 0.5;
        }
        let (fit, keep) = fitted(&trials);
        assert!(!keep[7] && !keep[40] && keep.iter().filter(|k| !**k).count() == 2);
        assert!((fit.effect(1.0) - 0.4).abs() < 1e-9, "{}", fit.effect(1.0));
    }

    #[test]
    fn a_phase_is_not_thrown_away() {
        // The last sixth of the run is twice as slow: far out, but side by side.
        let mut trials = kinked();
        let n = trials.len();
        for t in &mut trials[n - n / 6..] {
            t.visits *= 0.5;
        }
        let (_, keep) = fitted(&trials);
        assert!(keep.iter().all(|k| *k));
    }
}
