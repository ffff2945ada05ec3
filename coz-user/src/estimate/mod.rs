//! From records to curves and verdicts: pure functions.
//!
//! For one line and one progress point, every experiment is a [`series::Trial`]: it cost so much effective time
//! and saw so many visits. `p = cost / visits` is the effective time per visit, `p0` that of the line's own
//! baselines (speedup 0), and `effect(s) = (p0 - p(s)) / p0`, as in Curtsinger and Berger, "Coz: finding code
//! that counts with causal profiling", SOSP 2015.
//!
//! * [`series`] sorts experiments into trials, [`outliers`] finds those that went wrong, [`baseline`] says what each
//!   is compared with, [`phase`] what it means for the whole run; [`prepare`] does all of this.
//! * [`regression`] fits the curve, [`curve`] says what shape it may have; [`residuals`], [`bootstrap`],
//!   [`interval`] and [`unpaid`] how sure it is.
//! * [`standing`](mod@standing) is what the planner of the experiments wants to know.
//! * [`mod@latency`] tells of latency points as such, [`quantiles`] of what a line does to median and tail ([`histogram`]).
//! * [`verdict`] says what follows when many lines are looked at, [`rank`] which comes first; [`line`](mod@line) puts
//!   everything together.

pub mod baseline;
pub mod bootstrap;
pub mod curve;
pub mod histogram;
pub mod interval;
pub mod latency;
pub mod line;
pub mod model;
pub mod more;
pub mod noise;
pub mod outliers;
pub mod own_time;
pub mod phase;
pub mod prepare;
pub mod quantiles;
pub mod rank;
pub mod regression;
pub mod residuals;
pub mod series;
#[cfg(test)]
pub(crate) mod simulate;
pub mod standing;
pub mod student;
pub mod unpaid;
pub mod verdict;

use crate::experiment::record::{PointDelta, PointKind, Profile, Samples, Why};
pub use line::{Dot, Estimated, Hidden, Level, Line};
use noise::Noise;
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;
pub use rank::Sort;
use std::collections::{BTreeMap, HashMap};
pub use verdict::Verdict;

/// Lines measured at fewer different speedups are hidden by default (the paper's threshold).
pub const MIN_SPEEDUPS: u32 = 5;

/// How to estimate.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Lines with fewer different speedups are marked as hidden.
    pub min_speedups: u32,
    /// How many bootstrap replicates.
    pub replicates: u32,
    /// Seed of the bootstrap.
    pub seed: u64,
    /// What the method itself is off by, as a part of the effect: see [`model`].
    pub model_error: f64,
    /// Order of the lines.
    pub sort: Sort,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            min_speedups: MIN_SPEEDUPS,
            replicates: 999,
            seed: 0,
            model_error: model::ERROR,
            sort: Sort::Slope,
        }
    }
}

/// Everything that follows from a profile.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Estimate {
    /// All points with their visits: [`PointTotal::visits`].
    pub points: Vec<PointTotal>,
    /// The latency points.
    pub latencies: Vec<latency::LatencyFacts>,
    /// One entry for each line and point, in order.
    pub lines: Vec<Line>,
    /// Where all samples fall, most first.
    pub samples: Vec<Sampled>,
    /// How many experiments count.
    pub counted: usize,
    /// How many do not, by reason.
    pub discarded: BTreeMap<Why, usize>,
}

/// A point, and how often it was visited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PointTotal {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: PointKind,
    /// How often it was visited in the experiments that count; where none does, in the whole run.
    pub visits: u64,
}

/// The samples of a line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sampled {
    /// What was recorded.
    pub samples: Samples,
    /// Its share of all samples, 0.0 to 1.0.
    pub share: f64,
}

/// Estimates every line of the profile against every point.
#[must_use]
pub fn estimate(profile: &Profile, settings: &Settings) -> Estimate {
    let samples = sampled(profile);
    let shares: HashMap<&str, &Sampled> = samples.iter().map(|s| (s.samples.location.as_str(), s)).collect();
    let (time, samples_of_all) = profile
        .runtime
        .as_ref()
        .map_or((0, 0), |runtime| (runtime.health.undelayed_ns, runtime.health.undelayed_samples));
    let latencies = latency::facts(profile);
    let is_unknown = |point: &str| latencies.iter().any(|facts| facts.name == point && facts.is_too_short());
    let mut all = series::all(profile);
    all.retain(|series| !is_unknown(&series.point));
    let begun: Vec<_> = all
        .iter()
        .map(|series| {
            let sampled = shares.get(series.location.as_str());
            let run = sampled.and_then(|s| s.samples.undelayed_weight_ns).map(|weight| phase::Run {
                weight: weight as f64,
                time: time as f64,
                samples_of_all,
                crowded_visits: match series.kind {
                    PointKind::Throughput => crowded_visits(profile, &series.point),
                    PointKind::Latency => 0.0,
                },
            });
            line::begin(series, run, settings)
        })
        .collect();
    let mut noises: BTreeMap<&str, Vec<Noise>> = BTreeMap::new();
    for (series, begun) in all.iter().zip(&begun) {
        noises.entry(&series.point).or_default().extend(begun.noise());
    }
    let common: BTreeMap<&str, Noise> =
        noises.iter().filter_map(|(point, noises)| Some((*point, Noise::common(noises)?))).collect();
    let mut lines: Vec<Line> = all
        .iter()
        .zip(begun)
        .map(|(series, begun)| {
            let sampled = shares.get(series.location.as_str()).copied();
            let mut line = begun.finish(common.get(series.point.as_str()).copied(), settings);
            if series.kind == PointKind::Latency {
                let mut rng = ChaCha8Rng::seed_from_u64(line::seed(settings, series));
                line.quantiles = latency::quantiles(
                    profile,
                    &series.location,
                    &series.point,
                    settings.replicates,
                    &mut rng,
                );
            }
            match sampled {
                Some(sampled) => {
                    line.samples = sampled.samples.count;
                    line.share = sampled.share;
                    line.function = sampled.samples.function.clone();
                    line.source = sampled.samples.file.clone().zip(sampled.samples.line);
                    line.text = sampled.samples.text.clone();
                }
                None => {
                    (line.samples, line.share) = series.samples();
                    line.function = series.function.clone();
                }
            }
            line
        })
        .collect();
    verdict::decide(&mut lines);
    rank::sort(&mut lines, settings.sort);
    let points = series::totals(profile);
    let mut estimate = Estimate { points, latencies, lines, samples, ..Estimate::default() };
    for recorded in &profile.experiments {
        match (recorded.experiment.valid, recorded.experiment.why) {
            (true, _) => estimate.counted += 1,
            (false, why) => *estimate.discarded.entry(why.unwrap_or(Why::Other)).or_default() += 1,
        }
    }
    estimate
}

/// From this share of its runnable time that a program waited for CPUs on, who of its threads gets one moves shares of samples.
const CROWDED: f64 = 0.05;

/// Visits of a throughput point in undelayed time, if the program was crowded: those of the whole run, less those in experiments with
/// delays. 0 where it was not, or where the profile does not tell.
fn crowded_visits(profile: &Profile, point: &str) -> f64 {
    let Some(health) = profile.runtime.as_ref().map(|runtime| &runtime.health) else { return 0.0 };
    let of_run = health.points.iter().filter(|of_run| of_run.name == point).map(|of_run| of_run.visits);
    let all: u64 = of_run.sum();
    let delayed = profile.experiments.iter().filter(|recorded| recorded.experiment.permille() > 0);
    let counted = delayed.flat_map(|recorded| &recorded.points).filter(|delta| delta.name() == point);
    let known: u64 = counted.map(PointDelta::visits).sum();
    if health.runqueue_share > CROWDED { all.saturating_sub(known) as f64 } else { 0.0 }
}

/// The lines with samples, most first, and their shares of all samples of the profiled set.
fn sampled(profile: &Profile) -> Vec<Sampled> {
    let all = profile.samples_in_all();
    let mut sampled: Vec<Sampled> = profile
        .samples
        .iter()
        .map(|s| Sampled { samples: s.clone(), share: s.count as f64 / all.max(1) as f64 })
        .collect();
    sampled.sort_by(|a, b| {
        b.samples.count.cmp(&a.samples.count).then_with(|| a.samples.location.cmp(&b.samples.location))
    });
    sampled
}

#[cfg(test)]
mod tests;
