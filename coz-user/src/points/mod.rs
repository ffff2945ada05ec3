//! Progress points: what the user writes, and where in which file it is.

mod binaries;
mod by_symbol;
mod resolve;
mod spec;

pub use binaries::Binaries;
pub use resolve::{Resolved, Site, resolve};
pub use spec::{Place, Spec, SpecError, split_pair};
