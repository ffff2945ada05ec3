//! Leaving a process: first the handler, then, once nobody is in it any more, the mappings.

use std::{
    collections::HashSet,
    fs::{self, File},
    os::unix::fs::FileExt,
    thread,
    time::{Duration, Instant},
};

use super::{
    attempt,
    choose::Doing,
    entered::{Entered, LeaveError, Left},
    moment::{self, Patience},
    program::Program,
    refused::Refused,
};
use coz_common::units::Nanos;

/// How long threads may take to come out of the handler: a sleep there is cut in slices of 10 ms.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often is looked.
const OFTEN: Duration = Duration::from_millis(1);
/// So often a thread may be met running before it is stopped to look where it is.
const GLANCES: u32 = 5;

/// Undoes everything.
pub fn leave(entered: &Entered) -> Result<Left, LeaveError> {
    if !is_there(entered) {
        return Ok(Left::Gone);
    }
    match undo(entered) {
        Ok(stopped_for) => Ok(Left::Undone { stopped_for: Nanos(stopped_for.as_nanos() as u64) }),
        Err(Refused::Gone) => Ok(Left::Gone),
        Err(why) => Err(why.into()),
    }
}

/// Whether the process runs the program that was entered, and still has all that was mapped.
pub fn is_there(entered: &Entered) -> bool {
    Program::of(entered.pid).is_ok_and(|program| program == entered.program)
        && fs::read_to_string(format!("/proc/{}/maps", entered.pid)).is_ok_and(|maps| {
            entered.seat.mappings().all(|(start, length)| has(&maps, start, start + length))
        })
}

/// Whether a process's mappings cover an address range.
fn has(maps: &str, start: u64, end: u64) -> bool {
    maps.lines().any(|line| {
        let range = line.split_once(' ').and_then(|(range, _)| range.split_once('-'));
        let hex = |digits| u64::from_str_radix(digits, 16).ok();
        range.and_then(|(a, b)| Some((hex(a)?, hex(b)?))).is_some_and(|(from, to)| from <= start && end <= to)
    })
}

fn undo(entered: &Entered) -> Result<Duration, Refused> {
    let Entered { pid, program, gate, seat, signal, .. } = entered;
    let failed = |what| move |error| Refused::Failed { what, error };
    let first = attempt::with_one_stopped(
        *pid,
        program,
        *gate,
        Patience::LEAVE,
        &|| false,
        |pc| seat.has(pc),
        |held| {
            let now = seat.action(held, *signal).map_err(failed("look at the signal's handler"))?;
            if now.handler == seat.handler() {
                seat.restore_action(held, *signal).map_err(failed("restore the signal's handler"))?;
            }
            Ok(())
        },
    )?;
    nobody_inside(entered)?;
    let second = attempt::with_one_stopped(
        *pid,
        program,
        *gate,
        Patience::LEAVE,
        &|| false,
        |pc| seat.has(pc),
        |held| {
            seat.clone().clear(held);
            Ok(())
        },
    )?;
    Ok(first.stopped_for + second.stopped_for)
}

/// Waits until no thread is in the handler. None can enter it any more: who is seen outside is outside for good.
fn nobody_inside(entered: &Entered) -> Result<(), Refused> {
    let Entered { pid, program, gate, seat, .. } = entered;
    let deadline = Instant::now() + PATIENCE;
    let mut outside = HashSet::new();
    let mut glances = 0;
    loop {
        let mut open = Vec::new();
        for (tid, doing) in moment::survey(*pid)? {
            match doing {
                _ if outside.contains(&tid) => {}
                Doing::Sleeping { pc, .. } if !seat.has(pc) => drop(outside.insert(tid)),
                doing => open.push((tid, doing)),
            }
        }
        if open.is_empty() && inside(entered)? == 0 {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(Refused::Failed { what: STILL_INSIDE, error: std::io::ErrorKind::TimedOut.into() });
        }
        glances += 1;
        if glances > GLANCES
            && let Some(&(tid, _)) = open.iter().find(|(_, doing)| *doing == Doing::Running)
            && attempt::is_outside(*pid, tid, program, *gate, |pc| seat.has(pc))
        {
            outside.insert(tid);
            continue;
        }
        thread::sleep(OFTEN);
    }
}

/// What fails where threads stay in the handler.
pub const STILL_INSIDE: &str = "wait for threads that are in the handler";

/// How many threads say that they are in the handler.
fn inside(entered: &Entered) -> Result<u64, Refused> {
    let mut word = [0; 8];
    let read = File::open(format!("/proc/{}/mem", entered.pid))
        .and_then(|memory| memory.read_exact_at(&mut word, entered.seat.data));
    read.map_err(|_| Refused::Gone)?;
    Ok(u64::from_ne_bytes(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_covered_by_one_mapping_that_may_be_larger() {
        let maps = "1000-3000 r-xp 00000000 00:00 0 \n5000-6000 rw-p 00000000 00:00 0 [heap]\n";
        for (start, end, covered) in
            [(0x1000, 0x2000, true), (0x2000, 0x3000, true), (0x2000, 0x4000, false), (0x4000, 0x5000, false)]
        {
            assert_eq!(has(maps, start, end), covered, "{start:#x}");
        }
    }
}
