//! The replicates of everything that is reported about one line against one point.

use super::{
    curve::SUMMARY,
    interval::{self, Interval},
    line::{Estimated, Level},
    prepare::Prepared,
    regression::Fit,
    residuals::Residuals,
    series::Trial,
    student,
    unpaid::Unpaid,
};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;

/// The replicates, and what they were drawn from.
#[derive(Debug)]
pub struct Bootstrap<'a> {
    raw: &'a [Trial],
    prepared: &'a Prepared,
    fit: &'a Fit,
    straight: &'a Fit,
    residuals: Option<Residuals>,
    unpaid: Unpaid,
    levels: BTreeMap<u32, AtLevel>,
    summary: Vec<(f64, Vec<f64>)>,
    slopes: Vec<f64>,
}

struct Quick {
    interval: Interval,
    error: f64,
    freedom: f64,
}

/// The trials of one speedup, and the replicates of their mean effect.
#[derive(Debug, Default)]
struct AtLevel {
    trials: Vec<usize>,
    replicates: Vec<f64>,
}

impl<'a> Bootstrap<'a> {
    /// Nothing is drawn yet. `fits`: the curve, and the straight line; `residuals` those around the curve.
    #[must_use]
    pub fn new(
        raw: &'a [Trial],
        prepared: &'a Prepared,
        fits: [&'a Fit; 2],
        residuals: Option<Residuals>,
    ) -> Self {
        let [fit, straight] = fits;
        let Prepared { trials, keep, .. } = prepared;
        let mut levels: BTreeMap<u32, AtLevel> = BTreeMap::new();
        for (i, trial) in trials.iter().enumerate().filter(|(i, t)| keep[*i] && !t.is_baseline()) {
            levels.entry(trial.permille).or_default().trials.push(i);
        }
        levels.retain(|_, level| level.trials.iter().any(|&i| trials[i].visits > 0.0));
        let summary =
            SUMMARY.into_iter().filter(|&s| fit.basis.reaches(s)).map(|s| (s, Vec::new())).collect();
        let unpaid = Unpaid::new(trials, keep, fit.p0);
        Self { raw, prepared, fit, straight, residuals, unpaid, levels, summary, slopes: Vec::new() }
    }

    /// The interval of a fit's effect at `speedup` from the residuals alone, without what was not paid, its standard
    /// error and degrees of freedom: close to that of the replicates, and quickly had.
    fn quick(&self, fit: &Fit, speedup: f64) -> Option<Quick> {
        if !fit.basis.reaches(speedup) {
            return None;
        }
        let correction = &self.prepared.correction;
        let (error, freedom) = self.residuals.as_ref()?.error(self.prepared, fit, speedup);
        let effect = fit.effect(speedup);
        let error = error.hypot(effect * correction.error) * correction.multiply;
        let (value, half) = (effect * correction.multiply, student::half_width(error, freedom));
        let interval = Interval { low: value - half, high: value + half };
        Some(Quick { interval, error, freedom })
    }

    /// Half the width of the interval of the fitted effect at `speedup`; `None` where there is none.
    #[must_use]
    pub fn half_width(&self, speedup: f64) -> Option<f64> {
        let Interval { low, high } = self.quick(self.fit, speedup)?.interval;
        Some((high - low + self.unpaid.at(speedup) * self.prepared.correction.multiply) / 2.0)
    }

    /// Draws so many replicates.
    pub fn draw(&mut self, replicates: u32, rng: &mut ChaCha8Rng) {
        let Some(residuals) = &self.residuals else { return };
        let Prepared { trials, keep, correction, .. } = self.prepared;
        let expected = |(t, keep): (&Trial, &bool)| match *keep && !t.is_baseline() {
            true => self.fit.expected(t) - t.cost,
            false => 0.0,
        };
        let fitted: Vec<f64> = trials.iter().zip(keep).map(expected).collect();
        let (_, centre) = self.straight.refit(trials, &fitted);
        for _ in 0..replicates {
            let replicate = residuals.replicate(self.prepared, self.fit, rng);
            let factor = correction.multiply * (1.0 + correction.error * student::normal(rng));
            let (_, beta) = self.fit.refit(trials, &replicate.change);
            for (speedup, values) in &mut self.summary {
                values.push(factor * interval::value(&self.fit.basis.at(*speedup), &beta));
            }
            let (_, slope) = self.straight.refit(trials, &replicate.change);
            self.slopes.push(factor * (self.straight.beta[0] + slope[0] - centre[0]));
            for level in self.levels.values_mut() {
                let of_level: Vec<&Trial> = level.trials.iter().map(|&i| &trials[i]).collect();
                let effect = level_effect(&of_level, self.fit.p0);
                let error = residuals.error_at(&of_level, self.fit, rng);
                let moved = residuals.level_moved(self.prepared, self.fit, &level.trials, &replicate.level);
                level.replicates.push(factor * (effect + moved - error));
            }
        }
    }

    /// The measured speedups, the baseline first.
    #[must_use]
    pub fn levels(&self) -> Vec<Level> {
        let Prepared { trials, local, correction, .. } = self.prepared;
        let visits = |of: &[usize]| of.iter().map(|&i| self.raw[i].visits as u64).sum();
        let baseline = Level {
            experiments: local.baselines.len(),
            visits: visits(&local.baselines),
            low: Some(0.0),
            high: Some(0.0),
            ..Level::default()
        };
        let measured = self.levels.iter().map(|(&permille, level)| {
            let of_level: Vec<&Trial> = level.trials.iter().map(|&i| &trials[i]).collect();
            let effect = correction.multiply * level_effect(&of_level, self.fit.p0);
            let freedom = (self.residuals.as_ref())
                .map_or(1.0, |r| r.freedom_at(f64::from(permille) / 1000.0, local.support(&level.trials)));
            let interval = interval::interval(effect, level.replicates.clone(), freedom);
            let unpaid = correction.multiply * self.unpaid.of(&of_level, self.fit.p0);
            let interval = interval.map(|i| i.reaching_down(unpaid));
            Level {
                permille,
                effect,
                low: interval.map(|i| i.low),
                high: interval.map(|i| i.high),
                experiments: level.trials.len(),
                visits: visits(&level.trials),
            }
        });
        std::iter::once(baseline).chain(measured).collect()
    }

    /// The fitted effects at the quarters.
    #[must_use]
    pub fn summary(&self) -> Vec<Level> {
        let kept: Vec<usize> = (0..self.raw.len()).filter(|&i| self.prepared.keep[i]).collect();
        let multiply = self.prepared.correction.multiply;
        let level = |(speedup, values): &(f64, Vec<f64>)| {
            let effect = multiply * self.fit.effect(*speedup);
            let interval = interval::interval(effect, values.clone(), self.freedom(self.fit, *speedup))
                .or_else(|| Some(self.quick(self.fit, *speedup)?.interval))
                .map(|i| i.reaching_down(multiply * self.unpaid.at(*speedup)));
            Level {
                permille: (speedup * 1000.0).round() as u32,
                effect,
                low: interval.map(|i| i.low),
                high: interval.map(|i| i.high),
                experiments: kept.len(),
                visits: kept.iter().map(|&i| self.raw[i].visits as u64).sum(),
            }
        };
        self.summary.iter().map(level).collect()
    }

    /// The slope of the straight line, and the probability of such a slope if the truth were zero.
    #[must_use]
    pub fn slope(&self) -> (Estimated, Option<f64>) {
        let multiply = self.prepared.correction.multiply;
        let value = multiply * self.straight.beta[0];
        let freedom = self.freedom(self.straight, 1.0);
        let unpaid = multiply * self.unpaid.at(1.0);
        // What was not paid may be all that there is of a gain.
        let sure = if value > 0.0 { (value - unpaid).max(0.0) } else { value };
        let (interval, chance) = match interval::interval(value, self.slopes.clone(), freedom) {
            Some(interval) => (Some(interval), Some(interval::chance(sure, &self.slopes, freedom))),
            None => self.quick(self.straight, 1.0).map_or((None, None), |quick| {
                (Some(quick.interval), Some(student::chance(sure, quick.error, quick.freedom)))
            }),
        };
        let interval = interval.map(|i| i.reaching_down(unpaid));
        (Estimated { value, low: interval.map(|i| i.low), high: interval.map(|i| i.high) }, chance)
    }

    fn freedom(&self, fit: &Fit, speedup: f64) -> f64 {
        self.residuals.as_ref().map_or(1.0, |r| r.freedom(self.prepared, fit, speedup))
    }
}

/// The effect at one measured speedup, as a ratio of sums.
fn level_effect(trials: &[&Trial], p0: f64) -> f64 {
    let (cost, visits) = trials.iter().fold((0.0, 0.0), |(c, v), t| (c + t.cost, v + t.visits));
    1.0 - cost / visits / p0
}
