//! Entering a process that runs already, or one that loads no libraries, and leaving it as it was.
//!
//! One thread is stopped for less than a millisecond and made to run a few system calls: they map what the shim maps at a
//! program's start and put a handler in place, whose code is a page without a file. The same steps backwards undo it. Of
//! the target's own memory only the zeros at the vDSO's end are written, and they are put back. If we are killed meanwhile, the
//! thread puts itself right (`rescue`).
//!
//! All functions here block (a thread is stopped, looked for, waited for): call them on a thread that may.

mod attempt;
mod choose;
mod code;
mod entered;
mod filters;
mod gate;
mod holds;
mod leave;
mod look;
mod moment;
mod priority;
mod program;
mod rebook;
mod refused;
mod rescue;
mod restart;
mod rseq;
mod seat;
mod stop;
mod trace;

use std::{
    io,
    os::fd::{FromRawFd, OwnedFd, RawFd},
    sync::Arc,
};

use coz_common::units::Nanos;

use self::{
    attempt::Done, choose::Bearing, gate::Gate, look::Looked, moment::Patience, program::Program, seat::Seat,
};
pub use self::{
    entered::{Entered, LeaveError, Left},
    holds::{finish, unless_held},
    rebook::rebook,
    refused::{Filtered, Refused},
};
use super::seccomp::{ENTER, PAY, SHIM};

/// The maps, in the order of `abi::HELLO_REGISTER` (what `Registration::maps` holds).
/// `COUNTERS` is not mapped: programs look for coz.h's counters in the shim, at their start.
pub type Maps = [Arc<OwnedFd>; 5];

/// What a process gets.
#[derive(Clone, Debug)]
pub struct Given {
    /// The number of the book among the maps (`Process::book`).
    pub book: u32,
    /// The maps.
    pub maps: Maps,
}

/// Who says what a process of a user gets.
pub type Giver<'a> = dyn Fn(u32) -> io::Result<Given> + Sync + 'a;

/// Enters a process: from here on its threads pay when they are asked to by `signal`, once the kernel knows
/// [`Entered::handler`] (`Process::handler`), as with a program that has registered the shim's.
///
/// Blocks up to 5 s: for a moment at which a thread can be stopped without any of its calls being broken off.
///
/// # Errors
/// [`Refused`]: the process is as it was.
pub fn enter(pid: i32, maps: &Maps, signal: u32) -> Result<Entered, Refused> {
    enter_unless(pid, &|_| Ok(Given { book: 0, maps: maps.clone() }), signal, &|| false)
}

/// The same, unless it is `over` before a good moment comes. It gets what is `given` to its user (the real one: who can act as him).
///
/// # Errors
/// [`Refused`]: the process is as it was.
pub fn enter_unless(
    pid: i32,
    given: &Giver<'_>,
    signal: u32,
    over: &(dyn Fn() -> bool + Sync),
) -> Result<Entered, Refused> {
    let looked = look::look(pid, signal)?;
    let Looked { program, pid_namespace, is_filtered, .. } = looked;
    let pidfd = pidfd(pid).map_err(look::trouble)?;
    let gate = Gate::find(pid).map_err(look::trouble)?;
    // Any of its threads may be asked to pay.
    let seccomp_filters =
        if is_filtered { filters::judge(pid, &program, gate, over, &[ENTER, PAY])? } else { 0 };
    const GIVE: &str = "give it a table of payments";
    let failed = |error| Refused::Failed { what: GIVE, error };
    // What has to be made for a user is made before a thread is stopped.
    given(looked.uid).map_err(failed)?;
    let done = attempt::with_one_stopped(
        pid,
        &program,
        gate,
        Patience::ENTER,
        over,
        |_| false,
        |held| {
            // It may have become another user's since, and its number another process's.
            let Given { book, maps } = given(look::user(pid)?).map_err(failed)?;
            let taken = Seat::take(held, &maps, &pidfd, pid_namespace, signal);
            Ok((taken.map_err(Refused::by)?, book))
        },
    )?;
    let notices = notices(pid, &looked, &done, signal);
    Ok(Entered {
        pid,
        program,
        gate,
        seat: done.value.0.clone(),
        book: done.value.1,
        signal,
        seccomp_filters,
        stopped_for: Nanos(done.stopped_for.as_nanos() as u64),
        notices,
    })
}

/// Whether the seccomp filters of a process that has the shim, or was entered, allow what its handler does; the smallest number of filters
/// that one of its threads has (`Process::seccomp_filters`). Stops its threads, one after the other, for a fraction of a millisecond each.
///
/// # Errors
/// [`Refused`]: what is in the way.
pub fn filters_allow(pid: i32, over: &(dyn Fn() -> bool + Sync)) -> Result<u32, Refused> {
    let program = Program::of(pid).map_err(look::trouble)?;
    let gate = Gate::find(pid).map_err(look::trouble)?;
    filters::judge(pid, &program, gate, over, &[PAY, SHIM])
}

/// What the user is to know.
fn notices(pid: i32, looked: &Looked, done: &Done<(Seat, u32)>, signal: u32) -> Vec<String> {
    let mut notices = Vec::new();
    let tid = done.tid;
    let call = usize::try_from(done.in_call).ok().and_then(syscalls::Sysno::new);
    if let Some(call) = call {
        match choose::bearing(choose::Doing::Sleeping { call: done.in_call, pc: 0 }) {
            Bearing::Badly => notices.push(format!(
                "thread {tid} was stopped in {call}, which may say to the program that it was interrupted (EINTR): no better \
                 moment came"
            )),
            Bearing::Mended => notices.push(format!(
                "thread {tid} was stopped in {call}, which began again: a time limit, if it has one, began anew"
            )),
            _ => {}
        }
    }
    // For a moment many do: when they start a thread, for one.
    let now =
        if looked.blocking.is_empty() { Vec::new() } else { look::blocking(pid, signal).unwrap_or_default() };
    let blocking = looked.blocking.iter().filter(|tid| now.contains(tid)).count();
    if blocking > 0 {
        let one = blocking == 1;
        let (block, they, are) = if one { ("blocks", "it", "is") } else { ("block", "they", "are") };
        notices.push(format!(
            "process {pid}: {blocking} of its threads {block} signal {signal}, so {they} cannot be delayed: what is predicted \
             is too little where {they} {are} involved"
        ));
    }
    notices
}

fn pidfd(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: numbers only; what the call returns is a new descriptor, or an error.
    unsafe {
        let fd = libc::syscall(libc::SYS_pidfd_open, pid, 0);
        if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(fd as RawFd)) }
    }
}
