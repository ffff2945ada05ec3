//! Progress points: what the user writes, and where in which file it is.

mod binaries;
mod by_line;
mod by_symbol;
mod candidates;
mod resolve;
mod spec;

pub use binaries::Binaries;
pub use candidates::{Candidate, candidates};
pub use resolve::{Resolved, Site, resolve};
pub use spec::{Place, Spec, SpecError, split_pair};
