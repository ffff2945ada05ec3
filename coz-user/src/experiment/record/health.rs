//! How the run went: what the `runtime` record says besides its length.

use super::is_zero;
use serde::{Deserialize, Serialize};

/// A point over the whole run, time outside of experiments included.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PointRun {
    /// Its name.
    pub name: String,
    /// Visits; of a latency point, its ends.
    pub visits: u64,
    /// CPU time that its probes took, nanoseconds; 0 where it has none.
    pub probe_ns: u64,
}

/// Everything that was counted, dropped or refused; times in nanoseconds, shares from 0.0 to 1.0.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Health {
    /// Samples of the profiled set.
    pub samples: u64,
    /// Samples that could not be attributed because something was full.
    pub lost_samples: u64,
    /// Signals sent: requests to pay.
    pub signals_sent: u64,
    /// Signals that the kernel refused.
    pub signals_failed: u64,
    /// Delay required, over all threads.
    pub owed_ns: u64,
    /// Delay paid.
    pub paid_ns: u64,
    /// Delay never paid.
    pub unpaid_ns: u64,
    /// Share of its runnable time that the program waited for a CPU.
    pub runqueue_share: f64,
    /// Share of the CPUs' time that the hypervisor took.
    pub steal_share: f64,
    /// Wall time in which nobody owed anything: cool-offs and baselines.
    pub undelayed_ns: u64,
    /// Samples of the profiled set in that time, as if all had been taken at the first rate; 0 in files that do not tell.
    #[serde(skip_serializing_if = "is_zero")]
    pub undelayed_samples: u64,
    /// Samples of the profiled set, as if all had been taken at the first rate, and how many its CPU time should have; zeros in files
    /// that do not tell.
    pub clock_samples: (u64, u64),
    /// From the start of the profiler to the release of the program.
    pub startup_ns: u64,
    /// CPU time that taking samples cost.
    pub sampling_ns: u64,
    /// Wall time added by delays.
    pub delay_ns: u64,
    /// CPU time that visits of points cost.
    pub probe_ns: u64,
    /// CPU time of the profiled set; 0 in files that do not tell.
    pub cpu_ns: u64,
    /// Samples that met a thread waiting by spinning.
    #[serde(skip_serializing_if = "is_zero")]
    pub spinning: u64,
    /// Samples with no line in scope in their call chain.
    pub out_of_scope: u64,
    /// Time for which a CPU quota stopped the program's control group or one above it.
    pub throttled_ns: u64,
    /// Periods of that quota, and those of them in which it was stopped.
    pub quota_periods: (u64, u64),
    /// CPU time of everything else on the machine meanwhile, ourselves included; 0 in files that do not tell.
    #[serde(skip_serializing_if = "is_zero")]
    pub outside_ns: u64,
    /// For how long experiments were put off to stay within `--max-overhead`.
    #[serde(skip_serializing_if = "is_zero")]
    pub held_back_ns: u64,
    /// When `--until` was reached, from the release of the program on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enough_ns: Option<u64>,
    /// The threads that owed most: see [`ThreadDelay`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub threads: Vec<ThreadDelay>,
    /// The points over the whole run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub points: Vec<PointRun>,
    /// What makes the numbers doubtful, in plain words.
    pub warnings: Vec<String>,
    /// What could not be done, and the way out.
    pub notices: Vec<String>,
}

/// The delays of one thread, over all experiments that ended while it lived.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ThreadDelay {
    /// Its name.
    pub name: String,
    /// Its number, as the initial pid namespace has it.
    pub tid: u32,
    /// Delay that it had to absorb, nanoseconds.
    pub owed_ns: u64,
    /// Of this, what it slept for: its own payments.
    pub paid_ns: u64,
    /// Of this, what it had not absorbed when the experiments ended. What is neither was absorbed by its own hits, or
    /// by waiting for threads that had absorbed it.
    pub unpaid_ns: u64,
    /// Visits of points in them.
    pub visits: u64,
}
