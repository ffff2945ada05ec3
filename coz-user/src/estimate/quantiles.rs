//! What a line does to the median and the tail of a latency.
//!
//! The histograms of all experiments at one speedup are one: of a single experiment's few hundred intervals a 99th
//! percentile would be little more than the longest, and the mean of such numbers is not that of the whole. The quantile at
//! each speedup, against that of the line's own baselines, gives an effect; the curve through these is the same
//! spline as for the mean, and weighs each speedup by its intervals. Intervals come from the pairs bootstrap over
//! experiments: baselines and others are each drawn with replacement, histograms joined and the curve fitted anew (Davison and
//! Hinkley, "Bootstrap methods and their application", 1997, section 6.2.4).

use super::{
    curve::{Basis, SUMMARY},
    histogram::quantile_of,
    interval,
    line::Level,
    regression::Fit,
    series::Trial,
};
use crate::experiment::record::{LatencyPoint, PointKind};
use coz_common::latency::BUCKETS;
use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;

/// The quantiles that are looked at.
pub const QUANTILES: [f64; 2] = [0.5, 0.99];
/// So many intervals must lie beyond a quantile, in the baselines, for it to be known.
const BEYOND: f64 = 5.0;

/// A quantile of a latency, and what a line does to it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Quantile {
    /// Which: 0.5 is the median.
    pub q: f64,
    /// In the line's baselines, nanoseconds.
    pub baseline_ns: f64,
    /// The fitted effects at the quarters.
    pub summary: Vec<Level>,
}

/// One experiment.
#[derive(Clone, Copy, Debug)]
pub struct Measured<'a> {
    /// The virtual speedup, thousandths.
    pub permille: u32,
    /// What the point counted.
    pub point: &'a LatencyPoint,
}

/// The quantiles of a point against one line; empty where too little was measured.
#[must_use]
pub fn estimate(experiments: &[Measured<'_>], replicates: u32, rng: &mut ChaCha8Rng) -> Vec<Quantile> {
    let measured: Vec<Measured<'_>> =
        experiments.iter().copied().filter(|m| !m.point.histogram.is_empty()).collect();
    let (base, rest): (Vec<_>, Vec<_>) = measured.into_iter().partition(|m| m.permille == 0);
    let speedups: Vec<f64> = rest.iter().map(|m| f64::from(m.permille) / 1000.0).collect();
    let basis = Basis::for_speedups(&speedups);
    let Some(whole) = effects(&base, &rest, &basis) else { return Vec::new() };
    let mut drawn: Vec<Effects> = Vec::new();
    for _ in 0..replicates {
        // A draw that has lost what the curve stands on says nothing.
        drawn.extend(effects(&redrawn(&base, rng), &redrawn(&rest, rng), &basis));
    }
    let intervals: u64 = base.iter().map(|m| m.point.measured).sum();
    let freedom = (rest.len() as f64 - basis.size() as f64).min(base.len() as f64 - 1.0).max(1.0);
    let each = QUANTILES.iter().enumerate().filter(|(_, q)| intervals as f64 * (1.0 - **q) >= BEYOND);
    each.map(|(i, &q)| {
        let level = |(k, &speedup): (usize, &f64)| {
            let effect = whole.levels[i][k];
            let replicates = drawn.iter().map(|d| d.levels[i][k]).collect();
            let interval = interval::interval(effect, replicates, freedom);
            basis.reaches(speedup).then(|| Level {
                permille: (speedup * 1000.0).round() as u32,
                effect,
                low: interval.map(|interval| interval.low),
                high: interval.map(|interval| interval.high),
                experiments: base.len() + rest.len(),
                visits: intervals + rest.iter().map(|m| m.point.measured).sum::<u64>(),
            })
        };
        let summary = SUMMARY.iter().enumerate().filter_map(level).collect();
        Quantile { q, baseline_ns: whole.baseline[i], summary }
    })
    .collect()
}

/// As many, each drawn from all.
fn redrawn<'a>(of: &[Measured<'a>], rng: &mut ChaCha8Rng) -> Vec<Measured<'a>> {
    of.iter().map(|_| of[rng.random_range(0..of.len())]).collect()
}

/// The fitted effects at [`SUMMARY`] of each of [`QUANTILES`], and these in the baselines.
struct Effects {
    baseline: [f64; QUANTILES.len()],
    levels: [[f64; SUMMARY.len()]; QUANTILES.len()],
}

fn effects(base: &[Measured<'_>], rest: &[Measured<'_>], basis: &Basis) -> Option<Effects> {
    let baseline = joined(base.iter());
    let mut levels: Vec<u32> = rest.iter().map(|m| m.permille).collect();
    levels.sort_unstable();
    levels.dedup();
    let at_each: Vec<(u32, [f64; QUANTILES.len()], f64)> = levels
        .into_iter()
        .filter_map(|permille| {
            let (quantiles, total) = joined(rest.iter().filter(|m| m.permille == permille))?;
            Some((permille, quantiles, total))
        })
        .collect();
    let (baseline, total) = baseline?;
    let mut found = Effects { baseline, levels: [[0.0; SUMMARY.len()]; QUANTILES.len()] };
    for (i, &of_baseline) in baseline.iter().enumerate() {
        let trial = |permille, value: f64, visits| Trial {
            permille,
            cost: value * visits,
            visits,
            ..Trial::default()
        };
        let mut trials = vec![trial(0, of_baseline, total)];
        trials.extend(at_each.iter().map(|(permille, values, total)| trial(*permille, values[i], *total)));
        let fit = Fit::new(&trials, &vec![true; trials.len()], basis, PointKind::Latency)?;
        found.levels[i] = SUMMARY.map(|speedup| fit.effect(speedup));
    }
    Some(found)
}

/// The quantiles of several experiments together, and how many intervals these have; `None` of none.
fn joined<'a>(experiments: impl Iterator<Item = &'a Measured<'a>>) -> Option<([f64; QUANTILES.len()], f64)> {
    let mut sum = vec![0_u64; BUCKETS];
    let mut total = 0;
    for &(bucket, n) in experiments.flat_map(|m| &m.point.histogram) {
        if let Some(sum) = sum.get_mut(bucket as usize) {
            *sum = sum.saturating_add(n);
            total += n;
        }
    }
    let counted = || (0..).zip(sum.iter().map(|&n| n as f64));
    let at = |q| quantile_of(counted(), total as f64, q);
    let [median, tail] = QUANTILES.map(at);
    Some(([median?, tail?], total as f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use coz_common::latency::bucket;
    use rand::SeedableRng as _;
    use std::collections::BTreeMap;

    /// A hundred intervals from `begin` nanoseconds on, evenly over twice that; one in ten is ten times as long, which a speedup does not change.
    fn point(begin: f64, tail: f64, n: usize) -> LatencyPoint {
        let mut all: BTreeMap<u32, u64> = BTreeMap::new();
        for i in 0..100 {
            let part = (i as f64 * 0.618_034 + n as f64 * 0.37).fract();
            let value = if i % 10 == 0 { tail * (1.0 + part) } else { begin * (1.0 + part) };
            *all.entry(bucket(value as u64)).or_default() += 1;
        }
        LatencyPoint {
            measured: 100,
            departures: 100,
            histogram: all.into_iter().collect(),
            ..LatencyPoint::default()
        }
    }

    #[test]
    fn a_line_that_only_shortens_the_usual_case_leaves_the_tail_alone() {
        let of = |n: usize| {
            let permille = [0, 250, 0, 500, 0, 750, 0, 1000][n % 8];
            let speedup = f64::from(permille) / 1000.0;
            (permille, point(1e6 * (1.0 - 0.6 * speedup), 1e7, n))
        };
        let points: Vec<(u32, LatencyPoint)> = (0..96).map(of).collect();
        let experiments: Vec<Measured<'_>> =
            points.iter().map(|(permille, point)| Measured { permille: *permille, point }).collect();
        let found = estimate(&experiments, 200, &mut ChaCha8Rng::seed_from_u64(1));
        let [median, tail] = &found[..] else { panic!("{found:?}") };
        assert!((median.baseline_ns / 1.55e6 - 1.0).abs() < 0.05, "{median:?}");
        for (level, truth) in median.summary.iter().zip([0.15, 0.3, 0.45, 0.6]) {
            assert!((level.effect - truth).abs() < 0.03, "{level:?}: {truth}");
            // Buckets are 3 % wide, which is more than these made-up experiments differ by.
            assert!(
                level.low.unwrap() < truth + 0.01 && truth - 0.01 < level.high.unwrap(),
                "{level:?}: {truth}"
            );
        }
        assert!(tail.summary.iter().all(|level| level.effect.abs() < 0.03), "{tail:?}");
    }

    #[test]
    fn of_few_intervals_the_tail_is_not_known() {
        let points: Vec<LatencyPoint> = (0..8).map(|n| point(1e6, 1e7, n)).collect();
        let experiments: Vec<Measured<'_>> =
            points.iter().zip([0, 500]).map(|(point, permille)| Measured { permille, point }).collect();
        let found = estimate(&experiments, 0, &mut ChaCha8Rng::seed_from_u64(1));
        assert_eq!(found.iter().map(|f| f.q).collect::<Vec<_>>(), [0.5]);
        assert!(estimate(&[], 9, &mut ChaCha8Rng::seed_from_u64(1)).is_empty());
    }
}
