//! One line against one point: its curve, with intervals, corrected for phases.

use super::{
    Settings,
    curve::{Basis, SUMMARY},
    interval, outliers,
    phase::{self, Correction},
    regression::Fit,
    residuals::Residuals,
    series::{Series, Trial},
    verdict::Verdict,
};
use crate::experiment::record::PointKind;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;

/// A number with its 95 % interval; no interval where the data are too few for one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimated {
    /// The number.
    pub value: f64,
    /// Lower end.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
}

/// The effect at one speedup.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Level {
    /// The virtual speedup, thousandths.
    pub permille: u32,
    /// The effect on the whole run: by which part of its time a visit of the point becomes faster.
    pub effect: f64,
    /// Lower end of its interval.
    pub low: Option<f64>,
    /// Upper end of its interval.
    pub high: Option<f64>,
    /// How many experiments it rests on.
    pub experiments: usize,
    /// How many visits it rests on.
    pub visits: u64,
}

/// Why a line is not shown by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hidden {
    /// It has no baseline of its own in which the point was visited.
    NoBaseline,
    /// It was measured at too few different speedups.
    FewSpeedups,
}

/// A line against a point.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Line {
    /// The line, `FILE:LINE`, or the function's name.
    pub location: String,
    /// The function around it.
    pub function: Option<String>,
    /// Path and number, where they are known apart.
    pub source: Option<(String, u32)>,
    /// Its samples.
    pub samples: u64,
    /// Their share of all samples, 0.0 to 1.0.
    pub share: f64,
    /// Name of the point.
    pub point: String,
    /// Kind of the point.
    pub kind: PointKind,
    /// Experiments that count, baselines included.
    pub experiments: usize,
    /// Of these, mishaps that were left out of the curve.
    pub outliers: usize,
    /// The effect at each measured speedup.
    pub curve: Vec<Level>,
    /// The effect at the quarters, from the curve fitted through all experiments.
    pub summary: Vec<Level>,
    /// The largest effect of the fitted curve.
    pub max_effect: Option<f64>,
    /// Slope of the effect over the speedup.
    pub slope: Option<Estimated>,
    /// Probability of such a slope if the truth were zero.
    pub chance: Option<f64>,
    /// The verdict.
    pub verdict: Verdict,
    /// What the measured effects were multiplied with.
    pub phase_factor: f64,
    /// Whether that factor was outside what can be believed.
    pub phase_capped: bool,
    /// Why it is not shown by default.
    pub hidden: Option<Hidden>,
}

/// A seed for this line alone, so that its interval does not depend on which other lines are in the profile
/// (FNV-1a).
fn seed(settings: &Settings, series: &Series) -> u64 {
    series
        .location
        .bytes()
        .chain([0])
        .chain(series.point.bytes())
        .fold(0xcbf2_9ce4_8422_2325 ^ settings.seed, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
}

/// Estimates one line against one point. `run` says how much it runs in the whole run, if that is known.
#[must_use]
pub fn estimate(series: &Series, run: Option<phase::Run>, settings: &Settings) -> Line {
    let trials = &series.trials[..];
    let speedups: Vec<f64> = trials.iter().map(Trial::speedup).collect();
    let mut different: Vec<u32> = trials.iter().map(|t| t.permille).collect();
    different.sort_unstable();
    different.dedup();
    let basis = Basis::for_speedups(&speedups);
    let keep = outliers::keep(trials, &basis, series.kind);
    let fit = Fit::new(trials, &keep, &basis, series.kind);
    let straight = Fit::new(trials, &keep, &Basis::straight(), series.kind);
    let baseline = trials.iter().any(|t| t.is_baseline() && t.visits > 0.0);
    let mut line = Line {
        location: series.location.clone(),
        point: series.point.clone(),
        kind: series.kind,
        experiments: trials.len(),
        phase_factor: 1.0,
        hidden: match baseline {
            false => Some(Hidden::NoBaseline),
            true if different.len() < settings.min_speedups as usize => Some(Hidden::FewSpeedups),
            true => None,
        },
        ..Line::default()
    };
    let Some((fit, straight)) = fit.zip(straight) else { return line };
    let correction = phase::correction(trials, run);
    line.outliers = keep.iter().filter(|k| !**k).count();
    line.phase_factor = correction.factor;
    line.phase_capped = correction.capped;
    let knots = basis.knots().iter().map(|&s| correction.factor * fit.effect(s));
    line.max_effect = knots.reduce(f64::max);
    let bootstrap =
        Bootstrap::run(trials, &keep, [&fit, &straight], correction, settings, seed(settings, series));
    line.curve = bootstrap.levels();
    line.summary = bootstrap.summary();
    let (slope, chance) = bootstrap.slope();
    line.slope = Some(slope);
    line.chance = chance;
    line
}

/// The replicates of everything that is reported about one line.
struct Bootstrap<'a> {
    trials: &'a [Trial],
    keep: &'a [bool],
    fit: &'a Fit,
    straight: &'a Fit,
    correction: Correction,
    residuals: Option<Residuals>,
    levels: BTreeMap<u32, (Vec<&'a Trial>, Vec<f64>)>,
    summary: Vec<(f64, Vec<f64>)>,
    slopes: Vec<f64>,
}

impl<'a> Bootstrap<'a> {
    fn run(
        trials: &'a [Trial],
        keep: &'a [bool],
        [fit, straight]: [&'a Fit; 2],
        correction: Correction,
        settings: &Settings,
        seed: u64,
    ) -> Self {
        let mut levels: BTreeMap<u32, (Vec<&Trial>, Vec<f64>)> = BTreeMap::new();
        for (trial, _) in trials.iter().zip(keep).filter(|(t, k)| **k && !t.is_baseline()) {
            levels.entry(trial.permille).or_default().0.push(trial);
        }
        levels.retain(|_, (trials, _)| trials.iter().any(|t| t.visits > 0.0));
        let summary: Vec<(f64, Vec<f64>)> =
            SUMMARY.into_iter().filter(|&s| fit.basis.reaches(s)).map(|s| (s, Vec::new())).collect();
        let residuals = Residuals::new(trials, keep, fit);
        let mut this =
            Self { trials, keep, fit, straight, correction, residuals, levels, summary, slopes: Vec::new() };
        this.draw(settings.replicates, &mut ChaCha8Rng::seed_from_u64(seed));
        this
    }

    fn draw(&mut self, replicates: u32, rng: &mut ChaCha8Rng) {
        let Some(residuals) = &self.residuals else { return };
        let fitted: Vec<f64> = (self.trials.iter().zip(self.keep))
            .map(|(t, keep)| if *keep { self.fit.expected(t) - t.cost } else { 0.0 })
            .collect();
        let (_, centre) = self.straight.refit(self.trials, &fitted);
        for _ in 0..replicates {
            let (change, density) = residuals.replicate(self.trials, self.fit, rng);
            let factor = self.correction.with(density);
            let (p0, beta) = self.fit.refit(self.trials, &change);
            for (speedup, values) in &mut self.summary {
                values.push(factor * interval::value(&self.fit.basis.at(*speedup), &beta));
            }
            let (_, slope) = self.straight.refit(self.trials, &change);
            self.slopes.push(factor * (self.straight.beta[0] + slope[0] - centre[0]));
            for (trials, values) in self.levels.values_mut() {
                let left =
                    1.0 - level_effect(trials, self.fit.p0) + residuals.error_at(trials, self.fit, rng);
                values.push(factor * (1.0 - left * self.fit.p0 / p0));
            }
        }
    }

    fn levels(&self) -> Vec<Level> {
        let baselines: Vec<&Trial> = (self.trials.iter().zip(self.keep))
            .filter(|(t, keep)| **keep && t.is_baseline())
            .map(|(t, _)| t)
            .collect();
        let baseline = Level {
            experiments: baselines.len(),
            visits: baselines.iter().map(|t| t.visits as u64).sum(),
            low: Some(0.0),
            high: Some(0.0),
            ..Level::default()
        };
        let measured = self.levels.iter().map(|(&permille, (trials, values))| {
            let effect = self.correction.factor * level_effect(trials, self.fit.p0);
            let freedom = (self.residuals.as_ref())
                .map_or(1.0, |r| r.freedom_at(f64::from(permille) / 1000.0, baselines.len()));
            let interval = interval::interval(effect, values.clone(), freedom);
            Level {
                permille,
                effect,
                low: interval.map(|i| i.low),
                high: interval.map(|i| i.high),
                experiments: trials.len(),
                visits: trials.iter().map(|t| t.visits as u64).sum(),
            }
        });
        std::iter::once(baseline).chain(measured).collect()
    }

    fn summary(&self) -> Vec<Level> {
        let level = |(speedup, values): &(f64, Vec<f64>)| {
            let effect = self.correction.factor * self.fit.effect(*speedup);
            let interval = interval::interval(effect, values.clone(), self.freedom(self.fit, *speedup));
            Level {
                permille: (speedup * 1000.0).round() as u32,
                effect,
                low: interval.map(|i| i.low),
                high: interval.map(|i| i.high),
                experiments: self.keep.iter().filter(|k| **k).count(),
                visits: (self.trials.iter().zip(self.keep))
                    .filter(|(_, keep)| **keep)
                    .map(|(t, _)| t.visits as u64)
                    .sum(),
            }
        };
        self.summary.iter().map(level).collect()
    }

    fn slope(&self) -> (Estimated, Option<f64>) {
        let value = self.correction.factor * self.straight.beta[0];
        let freedom = self.freedom(self.straight, 1.0);
        let interval = interval::interval(value, self.slopes.clone(), freedom);
        let chance = interval.map(|_| interval::chance(value, &self.slopes, freedom));
        (Estimated { value, low: interval.map(|i| i.low), high: interval.map(|i| i.high) }, chance)
    }

    fn freedom(&self, fit: &Fit, speedup: f64) -> f64 {
        self.residuals.as_ref().map_or(1.0, |r| r.freedom(self.trials, self.keep, fit, speedup))
    }
}

/// The effect at one measured speedup, as a ratio of sums.
fn level_effect(trials: &[&Trial], p0: f64) -> f64 {
    let (cost, visits) = trials.iter().fold((0.0, 0.0), |(c, v), t| (c + t.cost, v + t.visits));
    1.0 - cost / visits / p0
}
