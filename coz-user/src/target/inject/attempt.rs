//! One stop of one thread, on a thread of ours that ends with it: whatever goes wrong, the kernel then lets the tracee go.

use std::{collections::HashSet, io, thread, time::Duration};

use super::{
    filters,
    gate::Gate,
    moment::{self, Patience},
    priority::First,
    program::Program,
    refused::Refused,
    stop::Held,
    trace::tracer,
};

/// So many threads are tried.
const TRIES: usize = 4;

/// How it went.
#[derive(Debug)]
pub struct Done<T> {
    /// What the errand gave.
    pub value: T,
    /// How long the thread was stopped.
    pub stopped_for: Duration,
    /// The thread.
    pub tid: i32,
    /// The call that it was met in; -1: none.
    pub in_call: i64,
}

/// Waits for a good moment, stops a thread and runs an errand with it. An errand that fails has left the process as it was;
/// it is not run again.
///
/// # Errors
/// No thread could be stopped, or what the errand says.
pub fn with_one_stopped<T: Send>(
    pid: i32,
    program: &Program,
    gate: Gate,
    patience: Patience,
    over: &(dyn Fn() -> bool + Sync),
    avoid: impl Fn(u64) -> bool + Sync,
    errand: impl Fn(&mut Held) -> Result<T, Refused> + Sync,
) -> Result<Done<T>, Refused> {
    let mut tried = HashSet::new();
    for _ in 0..TRIES {
        let tid = moment::wait(pid, patience, over, &tried, &avoid)?;
        tried.insert(tid);
        let allowed = |held: &mut Held| filters::permit(pid, held).and_then(|()| errand(held));
        match once(pid, tid, program, gate, &avoid, &allowed) {
            Ok(done) => return Ok(done),
            Err(Failure::Errand(why)) => return Err(why),
            Err(Failure::Stop(error)) => refusal(pid, program, error)?,
        }
    }
    Err(Refused::Unstoppable)
}

/// Stops this thread and runs an errand with it, which has it run nothing. `None`: it could not be stopped now, or is gone.
///
/// # Errors
/// No thread of the process can be stopped, or what the errand says.
pub fn with_this_stopped<T: Send>(
    pid: i32,
    tid: i32,
    program: &Program,
    gate: Gate,
    errand: impl Fn(&mut Held) -> Result<T, Refused> + Sync,
) -> Result<Option<T>, Refused> {
    match once(pid, tid, program, gate, &|_| false, &errand) {
        Ok(done) => Ok(Some(done.value)),
        Err(Failure::Errand(why)) => Err(why),
        Err(Failure::Stop(error)) => refusal(pid, program, error).map(|()| None),
    }
}

fn once<T: Send>(
    pid: i32,
    tid: i32,
    program: &Program,
    gate: Gate,
    avoid: &(impl Fn(u64) -> bool + Sync),
    errand: &(impl Fn(&mut Held) -> Result<T, Refused> + Sync),
) -> Result<Done<T>, Failure> {
    let ours = || {
        let _first = First::go();
        let mut held = Held::stop(pid, tid, program, gate).map_err(Failure::Stop)?;
        if avoid(held.pc()) {
            return Err(Failure::Stop(io::ErrorKind::TimedOut.into()));
        }
        let in_call = held.in_call();
        let value = errand(&mut held).map_err(Failure::Errand)?;
        let stopped_for = held.let_go().map_err(|_| Failure::Errand(Refused::Gone))?;
        Ok(Done { value, stopped_for, tid, in_call })
    };
    let result = thread::scope(|scope| scope.spawn(ours).join());
    result.unwrap_or_else(|_| Err(Failure::Stop(io::ErrorKind::Other.into())))
}

enum Failure {
    Stop(io::Error),
    Errand(Refused),
}

/// What it means that a thread could not be stopped: `Ok`, that another one may be tried.
fn refusal(pid: i32, program: &Program, error: io::Error) -> Result<(), Refused> {
    if !Program::of(pid).is_ok_and(|now| now == *program) {
        return Err(Refused::Gone);
    }
    match error.raw_os_error() {
        // That thread is gone.
        Some(libc::ESRCH) => Ok(()),
        Some(libc::EPERM) => Err(tracer(pid).map_or(Refused::NoPrivileges, |by| Refused::Traced { by })),
        Some(_) => Err(Refused::Failed { what: "stop a thread", error }),
        None if error.kind() == io::ErrorKind::Unsupported => Err(Refused::NotX86),
        None if error.kind() == io::ErrorKind::ResourceBusy => Err(Refused::Frozen),
        None => Ok(()),
    }
}

/// Stops a thread for as long as it takes to see where it is. `false` also where that cannot be done.
pub fn is_outside(
    pid: i32,
    tid: i32,
    program: &Program,
    gate: Gate,
    avoid: impl Fn(u64) -> bool + Sync,
) -> bool {
    let ours = || {
        let _first = First::go();
        Held::stop(pid, tid, program, gate).is_ok_and(|held| !avoid(held.pc()))
    };
    thread::scope(|scope| scope.spawn(ours).join()).unwrap_or(false)
}
