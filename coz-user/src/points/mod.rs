//! Progress points: what the user writes, and where in which file it is.

mod binaries;
mod by_line;
mod by_symbol;
mod candidates;
mod code;
mod cozh;
mod latency;
mod listing;
mod pace;
mod resolve;
mod returns;
mod spec;
mod suggest;
mod syscalls;
mod usdt;

pub use binaries::Binaries;
pub use candidates::{Candidate, candidates};
pub use cozh::{Instrumented, instrumented};
pub use latency::{Latency, resolve_latency};
pub use listing::{Entry, Listing};
pub use pace::Pace;
pub use resolve::{Resolved, Site, Source, resolve};
pub use spec::{Place, Spec, SpecError, split_pair};
pub use suggest::{likely, suggest};
pub use usdt::{Usdt, probes as usdt_probes};

use crate::symbols::Module;

/// Where a line of source has its code: an address in each function that has some of it.
///
/// # Errors
/// When there is no such file or line, with the nearest ones.
pub fn by_line(module: &Module, file: &str, line: u32) -> anyhow::Result<Vec<u64>> {
    Ok(by_line::find(module, file, line)?.0.into_iter().map(|found| found.address).collect())
}

/// Where the functions of this name begin, inlined copies included.
///
/// # Errors
/// When there is no such function, with the nearest names.
pub fn by_symbol(module: &Module, name: &str) -> anyhow::Result<Vec<u64>> {
    Ok(by_symbol::find(module, name, 0)?.0.into_iter().map(|found| found.address).collect())
}
