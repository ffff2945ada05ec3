//! `profile.jsonl`: one JSON object a line. The types that stand in it; [`read`] and [`Writer`].
//!
//! A superset of the format of coz: the same record types and keys, and extra keys only, so that its viewer
//! reads our files and we read its files (every key that coz does not write has a default here).

mod health;
mod join;
mod output;
mod reader;
mod writer;

pub use health::{Health, PointRun, ThreadDelay};
pub use output::{Opened, open_output, rename_unless_there};
pub use reader::{Follower, Profile, ReadError, Recorded, parse, read};
pub use writer::{WriteError, Writer};

use serde::{Deserialize, Serialize};
use std::fmt;

/// Version of the format, as the startup record states it.
pub const VERSION: u32 = 1;

/// Name of the progress point that an `--end-to-end` run visits once: its own end.
pub const END_TO_END: &str = "end-to-end";

/// Any record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Record {
    /// The profiler has started.
    Startup(Startup),
    /// An experiment has ended; its points follow.
    Experiment(Experiment),
    /// A throughput point of the experiment above.
    #[serde(alias = "throughput_point", alias = "progress-point")]
    ThroughputPoint(ThroughputPoint),
    /// A latency point of the experiment above.
    #[serde(alias = "latency_point")]
    LatencyPoint(LatencyPoint),
    /// The profiler has ended.
    Runtime(Runtime),
    /// The samples of one line over the whole run.
    Samples(Samples),
    /// The last record of very old coz files; says nothing.
    Shutdown {},
}

/// The first record: what was run, and how.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Startup {
    /// Time of the start, nanoseconds (`CLOCK_REALTIME`: the only time that is not monotonic).
    pub time: u64,
    /// [`VERSION`]; 0 in files of coz.
    pub version: u32,
    /// The program and its arguments; where running programs were attached to, one text that says which.
    pub program: Vec<String>,
    /// Running programs were attached to.
    #[serde(skip_serializing_if = "is_false")]
    pub attached: bool,
    /// Part of the time that delays and our own load may take (`--max-overhead`), from 0.0 to 1.0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_overhead: Option<f64>,
    /// Seed of the choice of lines and speedups.
    pub seed: u64,
    /// Release of the kernel.
    pub kernel: String,
    /// Samples per CPU-second.
    pub rate: u32,
    /// Length of the first experiments, nanoseconds of wall time.
    pub experiment_ns: u64,
    /// An experiment with fewer visits makes the following ones longer.
    pub min_visits: u64,
    /// What is selected.
    pub granularity: Granularity,
    /// For which lines a sample counts.
    pub attribution: Attribution,
    /// The progress points that were asked for or found; more can appear later in the run (coz.h).
    pub points: Vec<PointSpec>,
    /// Lines with fewer different speedups are hidden in the terminal report; 0: the default.
    pub min_speedups: u32,
    /// Lines or levels were given by the user (`--fixed-*`, `--speedups`): nothing is hidden.
    #[serde(skip_serializing_if = "is_false")]
    pub fixed: bool,
    /// Every experiment is a run of the whole program.
    #[serde(skip_serializing_if = "is_false")]
    pub end_to_end: bool,
    /// Half width, in percentage points, of the first line's interval at 50 % that ends the experiments (`--until`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<f64>,
}

fn is_false(value: &bool) -> bool {
    !*value
}

/// What is selected and delayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Granularity {
    /// Source lines.
    #[default]
    Line,
    /// Functions, from the symbol table.
    Function,
}

/// Which lines of its call chain a sample counts for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Attribution {
    /// The innermost one in scope.
    #[default]
    #[serde(rename = "self")]
    Innermost,
    /// Every one in scope.
    Inclusive,
}

/// A progress point, as the startup record names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PointSpec {
    /// Its name in all other records.
    pub name: String,
    /// Throughput or latency.
    pub kind: PointKind,
}

/// Kind of a progress point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PointKind {
    /// Visits are counted.
    #[default]
    Throughput,
    /// The time from a begin to an end is measured.
    Latency,
}

/// An experiment: one line, virtually sped up by one amount for a while.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Experiment {
    /// The selected line, `FILE:LINE`, or the function's name.
    pub selected: String,
    /// The virtual speedup, 0.0 to 1.0; 0.0 is a baseline.
    pub speedup: f64,
    /// Effective time: wall time minus the delay that was required, nanoseconds.
    #[serde(deserialize_with = "count")]
    pub duration: u64,
    /// Samples of the selected line.
    #[serde(default, alias = "selected-samples")]
    pub selected_samples: u64,
    /// Wall time, nanoseconds; 0 in files of coz.
    #[serde(default)]
    pub wall: u64,
    /// Delay that was required of every thread, nanoseconds.
    #[serde(default)]
    pub delay: u64,
    /// Mean of what the threads that visited points still owed at the end, nanoseconds.
    #[serde(default)]
    pub unpaid: u64,
    /// Whether the experiment counts.
    #[serde(default = "yes")]
    pub valid: bool,
    /// Why it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<Why>,
    /// When it began, nanoseconds of wall time since the startup record.
    #[serde(default)]
    pub begin: u64,
    /// CPU time that the samples of the selected line stand for, nanoseconds.
    #[serde(default)]
    pub selected_weight: u64,
    /// Samples of all threads of the profiled set: as many as there would have been at the first rate, where it was lowered since.
    /// So with `selected_samples`.
    #[serde(default)]
    pub samples: u64,
    /// Time that the program got to settle before it, nanoseconds. It grows when it was too short: what was made with less
    /// does not count then.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub settle: u64,
    /// Logarithm of the ratio of its first half's visits, in effective time, to its second's: 0 where the program had settled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<f64>,
    /// The function around the line; only in the first experiment on it, for those who look while the run goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// What an invalid experiment's points counted: not records of their own, which coz's viewer would add up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub points: Option<Vec<PointDelta>>,
}

impl Experiment {
    /// The speedup in thousandths: what tells levels apart.
    #[must_use]
    pub fn permille(&self) -> u32 {
        (self.speedup * 1000.0).round().clamp(0.0, 1000.0) as u32
    }
}

const fn yes() -> bool {
    true
}

/// Why an experiment must not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    /// The program ended within it.
    Truncated,
    /// The threads that made progress had not paid what they owed.
    Unpaid,
    /// Too many samples were dropped.
    LostSamples,
    /// No point was visited often enough.
    NoVisits,
    /// The profiler was stopped within it.
    Interrupted,
    /// The delays left no effective time.
    NoTime,
    /// The program had not had the time to settle that it turned out to need.
    Unsettled,
    /// The program started another program or lost its handler within it.
    Disturbed,
    /// A reason that this version does not know.
    #[serde(other)]
    Other,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Truncated => "cut short by the end of the program",
            Self::Unpaid => "delays not paid in time",
            Self::LostSamples => "samples lost",
            Self::NoVisits => "too few visits of any progress point",
            Self::Interrupted => "cut short by the end of the profile",
            Self::NoTime => "no effective time left",
            Self::Unsettled => "counted before the program had settled",
            Self::Disturbed => "disturbed by the program itself",
            Self::Other => "unknown reason",
        })
    }
}

/// Visits of a throughput point within an experiment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ThroughputPoint {
    /// Name of the point.
    pub name: String,
    /// How many visits.
    #[serde(deserialize_with = "count")]
    pub delta: u64,
    /// Effective time by the clocks of those who made them, nanoseconds, where that differs from [`Experiment::duration`], which goes by
    /// the clocks of those who visited any point.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<u64>,
}

impl ThroughputPoint {
    /// Effective time behind the visits, of this experiment, nanoseconds.
    #[must_use]
    pub fn exposure(&self, experiment: &Experiment) -> u64 {
        self.duration.unwrap_or(experiment.duration)
    }
}

/// What a latency point saw within an experiment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencyPoint {
    /// Name of the point.
    pub name: String,
    /// How many began.
    #[serde(deserialize_with = "count")]
    pub arrivals: u64,
    /// How many ended.
    #[serde(deserialize_with = "count")]
    pub departures: u64,
    /// How many were under way at the end.
    pub difference: i64,
    /// Mean latency in effective time, nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_ns: Option<f64>,
    /// Median latency, nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50_ns: Option<f64>,
    /// 99th percentile of the latency, nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_ns: Option<f64>,
    /// How many were under way on average over effective time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_system: Option<f64>,
    /// How many of those that ended were measured: they began in the same thread.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub measured: u64,
    /// Of these, bucket and number, ascending: up to 31 a bucket is a nanosecond wide, from there on each power of two has 32.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub histogram: Vec<(u32, u64)>,
}

fn is_zero(value: &u64) -> bool {
    *value == 0
}

/// What one point counted in one experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum PointDelta {
    /// Of a throughput point.
    ThroughputPoint(ThroughputPoint),
    /// Of a latency point.
    LatencyPoint(LatencyPoint),
}

impl PointDelta {
    /// Name of the point.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::ThroughputPoint(p) => &p.name,
            Self::LatencyPoint(p) => &p.name,
        }
    }

    /// How often it was visited: a latency point's visits are its ends.
    #[must_use]
    pub fn visits(&self) -> u64 {
        match self {
            Self::ThroughputPoint(p) => p.delta,
            Self::LatencyPoint(p) => p.departures,
        }
    }

    /// Effective time behind its visits in this experiment, nanoseconds.
    #[must_use]
    pub fn exposure(&self, experiment: &Experiment) -> u64 {
        match self {
            Self::ThroughputPoint(p) => p.exposure(experiment),
            Self::LatencyPoint(_) => experiment.duration,
        }
    }

    /// Kind of the point.
    #[must_use]
    pub fn kind(&self) -> PointKind {
        match self {
            Self::ThroughputPoint(_) => PointKind::Throughput,
            Self::LatencyPoint(_) => PointKind::Latency,
        }
    }
}

/// The last record but the samples: how long it took, and how far the numbers can be trusted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Runtime {
    /// From the first sample to the end, nanoseconds of wall time.
    #[serde(deserialize_with = "count")]
    pub time: u64,
    /// What happened on the way.
    #[serde(flatten)]
    pub health: Health,
}

/// The samples of a line over the whole run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Samples {
    /// The line, as in [`Experiment::selected`].
    pub location: String,
    /// How many samples.
    #[serde(deserialize_with = "count")]
    pub count: u64,
    /// CPU time that they stand for, nanoseconds.
    #[serde(default)]
    pub weight_ns: u64,
    /// Of this, what fell into undelayed time ([`Health::undelayed_ns`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undelayed_weight_ns: Option<u64>,
    /// The function around the line, demangled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// Path of its source file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Its number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// What stood there when it was profiled: tells the line from others when the file has been edited since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The lines around it, as they stood there, but for those that another record has: to show the source where its files are
    /// not at hand, or have been edited since.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub around: Vec<Excerpt>,
}

/// Lines of a source file that stand together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Excerpt {
    /// The number of the first, from 1 on.
    pub first: u32,
    /// Their text, without what is beyond the end of a sensible line.
    pub lines: Vec<String>,
}

/// A count as coz writes it: some of its versions let unsigned numbers wrap below zero, others print floats.
/// What cannot be a count becomes `u64::MAX`, which [`Profile`] sorts out.
fn count<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let number = serde_json::Number::deserialize(deserializer)?;
    Ok(number.as_u64().unwrap_or_else(|| match number.as_f64() {
        Some(value) if (0.0..9e18).contains(&value) => value as u64,
        _ => u64::MAX,
    }))
}
