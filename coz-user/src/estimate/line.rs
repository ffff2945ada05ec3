//! One line against one point: its curve, with intervals, corrected for phases.

use super::{
    Settings,
    bootstrap::Bootstrap,
    curve::Basis,
    model,
    noise::Noise,
    own_time, phase,
    prepare::{Prepared, prepare},
    quantiles::Quantile,
    regression::Fit,
    residuals::Residuals,
    series::{Series, Trial},
    verdict::Verdict,
};
use crate::experiment::record::PointKind;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

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

/// One experiment as a dot beside the curve.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Dot {
    /// The virtual speedup, thousandths; 0 is a baseline, which scatters about an effect of 0.
    pub permille: u32,
    /// The effect that it shows by itself, corrected for phases and for the machine's speed at its time.
    pub effect: f64,
    /// Whether the curve rests on it; else it was a mishap, or the line hardly ran in it.
    pub kept: bool,
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
    /// What stood there when it was profiled, where the profile tells.
    pub text: Option<String>,
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
    /// The most that its slope can be: see [`own_time::most`].
    pub own_time: Option<f64>,
    /// Whether its slope was more than its own time allows, so that it is not to be believed.
    pub is_beyond_own_time: bool,
    /// Why it is not shown by default.
    pub hidden: Option<Hidden>,
    /// Of a latency point: what the line does to its median and its tail. Not corrected for phases.
    pub quantiles: Vec<Quantile>,
    /// Half the width of the interval of the fitted effect at 50 %, without the bootstrap: what the planner looks at.
    pub half_width: Option<f64>,
    /// The experiments that the curve is drawn through, and those that were left out.
    pub dots: Vec<Dot>,
}

/// A seed for this line alone, so that its interval does not depend on which other lines are in the profile
/// (FNV-1a).
pub(super) fn seed(settings: &Settings, series: &Series) -> u64 {
    series
        .location
        .bytes()
        .chain([0])
        .chain(series.point.bytes())
        .fold(0xcbf2_9ce4_8422_2325 ^ settings.seed, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
}

/// One line against one point, as far as it can be told without the others.
#[derive(Debug)]
pub struct Begun<'a> {
    series: &'a Series,
    line: Line,
    fitted: Option<Fitted>,
}

#[derive(Debug)]
struct Fitted {
    prepared: Prepared,
    /// The curve.
    fit: Fit,
    straight: Fit,
    residuals: Option<Residuals>,
}

/// Fits one line against one point. `run` says how much it runs in the whole run, if that is known.
#[must_use]
pub fn begin<'a>(series: &'a Series, run: Option<phase::Run>, settings: &Settings) -> Begun<'a> {
    let raw = &series.trials[..];
    let speedups: Vec<f64> = raw.iter().map(Trial::speedup).collect();
    let mut different: Vec<u32> = raw.iter().map(|t| t.permille).collect();
    different.sort_unstable();
    different.dedup();
    let baseline = raw.iter().any(|t| t.is_baseline() && t.visits > 0.0);
    let line = Line {
        location: series.location.clone(),
        point: series.point.clone(),
        kind: series.kind,
        experiments: raw.len(),
        phase_factor: 1.0,
        hidden: match baseline {
            false => Some(Hidden::NoBaseline),
            true if different.len() < settings.min_speedups as usize => Some(Hidden::FewSpeedups),
            true => None,
        },
        ..Line::default()
    };
    let fitted = || {
        let prepared = prepare(raw, &Basis::for_speedups(&speedups), series.kind, run)?;
        // Doses can leave fewer speedups than there were.
        let left = prepared.trials.iter().zip(&prepared.keep).filter(|(_, keep)| **keep);
        let basis = Basis::for_speedups(&left.map(|(t, _)| t.speedup()).collect::<Vec<_>>());
        let fitted = |basis: &Basis| Fit::new(&prepared.trials, &prepared.keep, basis, series.kind);
        let (fit, straight) = fitted(&basis).zip(fitted(&Basis::straight()))?;
        let residuals = Residuals::new(&prepared, &fit);
        Some(Fitted { prepared, fit, straight, residuals })
    };
    Begun { series, line, fitted: fitted() }
}

impl Begun<'_> {
    /// What its experiments say about noise; `None` where they are too few.
    #[must_use]
    pub fn noise(&self) -> Option<Noise> {
        Some(self.fitted.as_ref()?.residuals.as_ref()?.noise())
    }

    /// The line with its intervals; `common` is the noise that all lines of its point have in common.
    #[must_use]
    pub fn finish(self, common: Option<Noise>, settings: &Settings) -> Line {
        let Self { series, mut line, fitted } = self;
        let Some(Fitted { prepared, fit, straight, mut residuals }) = fitted else { return line };
        line.outliers = prepared.outliers;
        line.dots = dots(&prepared, fit.p0);
        line.phase_factor = prepared.correction.factor;
        line.phase_capped = prepared.correction.capped;
        let knots = fit.basis.knots().iter().map(|&s| prepared.correction.multiply * fit.effect(s));
        line.max_effect = knots.reduce(f64::max);
        if let Some((residuals, common)) = residuals.as_mut().zip(common) {
            residuals.moderate(common);
        }
        let mut bootstrap = Bootstrap::new(&series.trials, &prepared, [&fit, &straight], residuals);
        line.half_width = bootstrap.half_width(0.5);
        bootstrap.draw(settings.replicates, &mut ChaCha8Rng::seed_from_u64(seed(settings, series)));
        line.curve = bootstrap.levels();
        line.summary = bootstrap.summary();
        let (slope, chance) = bootstrap.slope();
        line.slope = Some(slope);
        line.chance = chance;
        line.own_time = own_time::most(&series.trials, &prepared.keep, series.kind);
        own_time::check(&mut line);
        model::widen(&mut line, settings.model_error);
        own_time::bound(&mut line);
        line
    }
}

/// Each experiment by itself; those without a visit have no effect that could be drawn.
fn dots(prepared: &Prepared, p0: f64) -> Vec<Dot> {
    let dot = |(trial, &kept): (&Trial, &bool)| Dot {
        permille: trial.permille,
        effect: prepared.correction.multiply * (1.0 - trial.cost / trial.visits / p0),
        kept,
    };
    prepared.trials.iter().zip(&prepared.keep).map(dot).filter(|dot| dot.effect.is_finite()).collect()
}
