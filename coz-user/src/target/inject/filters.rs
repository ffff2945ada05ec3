//! The seccomp filters of a process's threads: read while a thread is stopped, and asked whether they allow what we need.

use std::{
    collections::HashSet,
    io, ptr,
    sync::Mutex,
    thread,
    time::{Duration, Instant},
};

use super::{
    attempt,
    choose::{self, Bearing},
    gate::Gate,
    look, moment,
    program::Program,
    refused::{Filtered, Refused},
    stop::Held,
};
use crate::target::seccomp::{Call, ENTER, Filter, Instruction, PRIORITY, forbidden};

/// `PTRACE_SECCOMP_GET_FILTER` (include/uapi/linux/ptrace.h).
const GET_FILTER: u16 = 0x420c;
/// More instructions a thread cannot have in its filters (`MAX_INSNS_PER_PATH`).
const MOST: usize = 32768;
/// How long it is waited for moments at which no call of a thread is broken off.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often is looked.
const OFTEN: Duration = Duration::from_millis(1);

/// The filters of a thread that this thread has stopped, the oldest first; none where none is installed.
fn of(pid: i32, held: &Held) -> Result<Vec<Filter>, Filtered> {
    // Asked even then, the kernel would want a capability first.
    if look::thread(pid, held.tid()).is_none_or(|status| status.seccomp_mode == 0) {
        return Ok(Vec::new());
    }
    let mut filters = Vec::new();
    let mut left = MOST;
    loop {
        let length = match get(held.tid(), filters.len(), ptr::null_mut()) {
            Ok(length) => length,
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(filters),
            Err(error) => return Err(Filtered::Unknown(error)),
        };
        left =
            left.checked_sub(length).ok_or_else(|| Filtered::Unknown(io::ErrorKind::InvalidData.into()))?;
        let mut bytes = vec![[0u8; Instruction::SIZE]; length];
        get(held.tid(), filters.len(), bytes.as_mut_ptr()).map_err(Filtered::Unknown)?;
        filters.push(bytes.into_iter().map(Instruction::of).collect());
    }
}

/// The length of a filter; the filter itself, where there is room for it.
fn get(tid: i32, number: usize, room: *mut [u8; Instruction::SIZE]) -> io::Result<usize> {
    // SAFETY: a filter does not change, so `room` is either null or as long as the kernel has said that it is.
    let length = unsafe { libc::ptrace(GET_FILTER.into(), tid, number, room) };
    usize::try_from(length).map_err(|_| io::Error::last_os_error())
}

/// Whether a stopped thread may be made to run what we need in it.
///
/// # Errors
/// What is in the way.
pub fn permit(pid: i32, held: &mut Held) -> Result<(), Refused> {
    judge_one(pid, held, &[ENTER], &Mutex::default())?;
    if of(pid, held).is_ok_and(|filters| forbidden(&filters, [&PRIORITY]).is_none()) {
        held.may_go_first();
    }
    Ok(())
}

/// Asks the filters of one thread; how many it has. `allowing`: chains of filters that are known to allow it all.
fn judge_one(
    pid: i32,
    held: &mut Held,
    calls: &[&[Call]],
    allowing: &Mutex<Vec<Vec<Filter>>>,
) -> Result<u32, Refused> {
    let filters = of(pid, held);
    let verdict = filters.and_then(|filters| {
        let count = filters.len() as u32;
        let mut allowing = allowing.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if filters.is_empty() || allowing.contains(&filters) {
            return Ok(count);
        }
        if let Some(call) = forbidden(&filters, calls.iter().copied().flatten()) {
            return Err(Filtered::Forbids(call.name()));
        }
        allowing.push(filters);
        Ok(count)
    });
    verdict.map_err(|why| {
        // To go on with its sleep may be what it is not allowed to do.
        held.begin_anew();
        Refused::Filtered(why)
    })
}

/// Asks the filters of every thread of a process whether they allow these calls; the smallest number of filters that a thread has. Who has
/// more later, by inheritance or otherwise, has others than those that were asked.
///
/// Threads are stopped for that, one after the other, each for a fraction of a millisecond.
///
/// # Errors
/// What is in the way; the process is as it was.
pub fn judge(
    pid: i32,
    program: &Program,
    gate: Gate,
    over: &(dyn Fn() -> bool + Sync),
    calls: &[&[Call]],
) -> Result<u32, Refused> {
    let began = Instant::now();
    let (mut asked, mut fewest) = (HashSet::new(), u32::MAX);
    let allowing = Mutex::default();
    loop {
        let (mut open, mut news) = (false, false);
        for (tid, doing) in moment::survey(pid)? {
            if asked.contains(&tid) {
                continue;
            }
            let Some(status) = look::thread(pid, tid) else { continue };
            news = true;
            let is_late = began.elapsed() > PATIENCE;
            let found = match choose::bearing(doing) {
                _ if status.seccomp_mode == 0 => Some(0),
                Bearing::Never => None,
                Bearing::Badly if !is_late => None,
                _ => attempt::with_this_stopped(pid, tid, program, gate, |held| {
                    judge_one(pid, held, calls, &allowing)
                })?,
            };
            match found {
                Some(count) => {
                    fewest = fewest.min(count);
                    asked.insert(tid);
                }
                None if is_late => return Err(Refused::Unstoppable),
                None => open = true,
            }
        }
        if open {
            if over() {
                return Err(Refused::Unstoppable);
            }
            thread::sleep(OFTEN);
        } else if !news {
            // None is new: those that are born from now on have the filters of one of these.
            return if asked.is_empty() { Err(Refused::Gone) } else { Ok(fewest) };
        }
    }
}
