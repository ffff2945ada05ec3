//! The first record of a profile: what is run, and how.

use std::time::SystemTime;

use super::setup::Ready;
use crate::{
    cli::{RunConfig, Subject},
    experiment::{
        machine::MachineConfig,
        record::{self, Startup},
    },
};

/// Of this run, with this seed and these settings of the experiments.
pub(super) fn startup(config: &RunConfig, ready: &Ready, seed: u64, machine: &MachineConfig) -> Startup {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Startup {
        time: since_epoch.as_nanos() as u64,
        version: record::VERSION,
        program: ready.program.clone(),
        attached: matches!(config.subject, Subject::Running(_)),
        max_overhead: config.max_overhead,
        seed,
        kernel: nix::sys::utsname::uname()
            .map(|name| name.release().to_string_lossy().into_owned())
            .unwrap_or_default(),
        rate: ready.rate,
        experiment_ns: machine.length.0,
        min_visits: machine.min_visits,
        granularity: match config.granularity {
            crate::cli::Granularity::Line => record::Granularity::Line,
            crate::cli::Granularity::Function => record::Granularity::Function,
        },
        attribution: match config.inclusive {
            true => record::Attribution::Inclusive,
            false => record::Attribution::Innermost,
        },
        points: ready.points.specs().collect(),
        min_speedups: config.view.min_speedups as u32,
        fixed: config.view.all || config.fixed.is_some(),
        end_to_end: config.end_to_end.is_some(),
        until: config.until,
    }
}
