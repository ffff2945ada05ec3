//! `report --json`: everything, for programs.

use super::health;
use crate::{
    estimate::{Estimate, Hidden, Level, Line, Sampled, Verdict, latency::LatencyFacts, more},
    experiment::record::{Health, PointKind, Profile, ThreadDelay, Why},
};
use serde::Serialize;
use std::collections::BTreeMap;

/// All of it.
#[derive(Serialize)]
pub(super) struct Report<'a> {
    program: &'a [String],
    points: Vec<Point<'a>>,
    lines: Vec<JsonLine<'a>>,
    health: JsonHealth<'a>,
    overhead: Overhead,
    experiments: usize,
    samples: Vec<JsonSamples<'a>>,
}

#[derive(Serialize)]
struct Point<'a> {
    name: &'a str,
    kind: PointKind,
    visits: u64,
    /// Of a latency point: what it is without any delay.
    #[serde(skip_serializing_if = "Option::is_none")]
    latency: Option<Latency>,
}

/// Times in nanoseconds.
#[derive(Serialize)]
struct Latency {
    per_second: f64,
    in_system: Option<f64>,
    little_ns: Option<f64>,
    mean_ns: Option<f64>,
    p50_ns: Option<f64>,
    p99_ns: Option<f64>,
    measured_share: f64,
    /// Share of what began and did not end, where that is no chance; and whether delays make it so.
    growing: Option<f64>,
    growing_with_delays_only: bool,
}

impl From<&LatencyFacts> for Latency {
    fn from(facts: &LatencyFacts) -> Self {
        let [p50_ns, p99_ns] = facts.quantiles_ns;
        let known = |_: &f64| !facts.is_too_short();
        Self {
            per_second: facts.rate,
            in_system: facts.in_system,
            little_ns: facts.steady_mean(),
            mean_ns: facts.mean_ns.filter(known),
            p50_ns: p50_ns.filter(known),
            p99_ns: p99_ns.filter(known),
            measured_share: facts.measured,
            growing: facts.growing.map(|growing| growing.share),
            growing_with_delays_only: facts.growing.is_some_and(|growing| growing.only_delayed),
        }
    }
}

/// What a line does to a quantile of a latency.
#[derive(Serialize)]
struct JsonQuantile {
    q: f64,
    baseline_ns: f64,
    summary: Vec<JsonLevel>,
}

#[derive(Serialize)]
struct JsonLine<'a> {
    location: &'a str,
    function: Option<&'a str>,
    samples: u64,
    share: f64,
    point: &'a str,
    curve: Vec<JsonLevel>,
    max_effect: Option<f64>,
    slope: Option<f64>,
    slope_low: Option<f64>,
    slope_high: Option<f64>,
    verdict: Verdict,
    phase_factor: f64,
    /// The fitted effect at the quarters.
    summary: Vec<JsonLevel>,
    experiments: usize,
    outliers: usize,
    /// Probability of such a slope if the truth were zero.
    chance: Option<f64>,
    /// Why the terminal report leaves it out.
    hidden: Option<&'static str>,
    /// Of a latency point: the fitted effects on its median and its 99th percentile.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    quantiles: Vec<JsonQuantile>,
    /// Half the width of the fitted effect's interval at 50 %, without the bootstrap: what `--until` looks at.
    half_width: Option<f64>,
    /// How much longer the same run would probably take until the line has an answer, seconds; and if all experiments were on it.
    seconds_more: Option<f64>,
    seconds_more_alone: Option<f64>,
}

#[derive(Serialize)]
struct JsonLevel {
    speedup: f64,
    effect: f64,
    low: Option<f64>,
    high: Option<f64>,
    experiments: usize,
    visits: u64,
}

#[derive(Serialize)]
struct JsonHealth<'a> {
    samples: u64,
    lost_samples: u64,
    signals_sent: u64,
    signals_failed: u64,
    owed_ns: u64,
    paid_ns: u64,
    unpaid_ns: u64,
    runqueue_share: f64,
    steal_share: f64,
    discarded_experiments: usize,
    warnings: Vec<String>,
    discarded_by: &'a BTreeMap<Why, usize>,
    notices: &'a [String],
    truncated: bool,
    quota_periods: u64,
    quota_throttled: u64,
    throttled_ns: u64,
    out_of_scope_samples: u64,
    threads: &'a [ThreadDelay],
    /// When `--until` was reached, and what it asked for.
    enough_ns: Option<u64>,
    until: Option<f64>,
}

#[derive(Serialize)]
struct Overhead {
    startup_ns: u64,
    sampling_ns: u64,
    delay_ns: u64,
    probe_ns: u64,
}

#[derive(Serialize)]
struct JsonSamples<'a> {
    location: &'a str,
    function: Option<&'a str>,
    samples: u64,
    share: f64,
}

impl From<&Level> for JsonLevel {
    fn from(level: &Level) -> Self {
        Self {
            speedup: f64::from(level.permille) / 1000.0,
            effect: level.effect,
            low: level.low,
            high: level.high,
            experiments: level.experiments,
            visits: level.visits,
        }
    }
}

impl<'a> From<&'a Line> for JsonLine<'a> {
    fn from(line: &'a Line) -> Self {
        Self {
            location: &line.location,
            function: line.function.as_deref(),
            samples: line.samples,
            share: line.share,
            point: &line.point,
            curve: line.curve.iter().map(JsonLevel::from).collect(),
            max_effect: line.max_effect,
            slope: line.slope.map(|s| s.value),
            slope_low: line.slope.and_then(|s| s.low),
            slope_high: line.slope.and_then(|s| s.high),
            verdict: line.verdict,
            phase_factor: line.phase_factor,
            summary: line.summary.iter().map(JsonLevel::from).collect(),
            experiments: line.experiments,
            outliers: line.outliers,
            chance: line.chance,
            hidden: line.hidden.map(|hidden| match hidden {
                Hidden::NoBaseline => "no-baseline",
                Hidden::FewSpeedups => "few-speedups",
            }),
            quantiles: line
                .quantiles
                .iter()
                .map(|found| JsonQuantile {
                    q: found.q,
                    baseline_ns: found.baseline_ns,
                    summary: found.summary.iter().map(JsonLevel::from).collect(),
                })
                .collect(),
            half_width: line.half_width.filter(|width| width.is_finite()),
            seconds_more: None,
            seconds_more_alone: None,
        }
    }
}

impl<'a> From<&'a Sampled> for JsonSamples<'a> {
    fn from(sampled: &'a Sampled) -> Self {
        Self {
            location: &sampled.samples.location,
            function: sampled.samples.function.as_deref(),
            samples: sampled.samples.count,
            share: sampled.share,
        }
    }
}

/// The report as one JSON object, indented, with a new line at its end. Nothing is hidden; numbers that are not
/// known are `null`.
#[must_use]
pub fn text(profile: &Profile, estimate: &Estimate) -> String {
    let none = Health::default();
    // Only maps with keys that are no strings, or a failing writer, could make this fail: there are none.
    let mut text = serde_json::to_string_pretty(&report(profile, estimate, &none)).unwrap_or_default();
    text.push('\n');
    text
}

/// What stands in it. `none` is the health of a profile without an end.
pub(super) fn report<'a>(profile: &'a Profile, estimate: &'a Estimate, none: &'a Health) -> Report<'a> {
    let recorded = profile.runtime.as_ref().map_or(none, |runtime| &runtime.health);
    Report {
        program: &profile.startup.program,
        points: estimate
            .points
            .iter()
            .map(|p| {
                let facts = estimate.latencies.iter().find(|facts| facts.name == p.name);
                Point { name: &p.name, kind: p.kind, visits: p.visits, latency: facts.map(Latency::from) }
            })
            .collect(),
        lines: estimate
            .lines
            .iter()
            .map(|line| {
                let more = more::more(line, profile.seconds(), estimate.counted);
                JsonLine {
                    seconds_more: more.map(|more| more.seconds),
                    seconds_more_alone: more.map(|more| more.alone),
                    ..JsonLine::from(line)
                }
            })
            .collect(),
        health: JsonHealth {
            samples: recorded.samples,
            lost_samples: recorded.lost_samples,
            signals_sent: recorded.signals_sent,
            signals_failed: recorded.signals_failed,
            owed_ns: recorded.owed_ns,
            paid_ns: recorded.paid_ns,
            unpaid_ns: recorded.unpaid_ns,
            runqueue_share: recorded.runqueue_share,
            steal_share: recorded.steal_share,
            discarded_experiments: estimate.discarded.values().sum(),
            warnings: health::warnings(profile, estimate).iter().map(ToString::to_string).collect(),
            discarded_by: &estimate.discarded,
            notices: &recorded.notices,
            truncated: profile.truncated,
            quota_periods: recorded.quota_periods.0,
            quota_throttled: recorded.quota_periods.1,
            throttled_ns: recorded.throttled_ns,
            out_of_scope_samples: recorded.out_of_scope,
            threads: &recorded.threads,
            enough_ns: recorded.enough_ns,
            until: profile.startup.until,
        },
        overhead: Overhead {
            startup_ns: recorded.startup_ns,
            sampling_ns: recorded.sampling_ns,
            delay_ns: recorded.delay_ns,
            probe_ns: recorded.probe_ns,
        },
        experiments: estimate.counted,
        samples: estimate.samples.iter().map(JsonSamples::from).collect(),
    }
}
