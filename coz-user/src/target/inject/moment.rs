//! Waiting for a moment at which a thread can be stopped.

use std::{
    collections::HashSet,
    fs, io, thread,
    time::{Duration, Instant},
};

use super::{
    choose::{self, Bearing, Doing},
    look,
    refused::Refused,
};
use crate::target::process;

/// For threads that wait for events: their calls are made to begin again, only their time limits begin anew.
const MENDED: Duration = Duration::from_secs(1);
/// For threads whose calls would be broken off.
const BADLY: Duration = Duration::from_secs(5);
/// How often is looked.
const OFTEN: Duration = Duration::from_millis(1);

/// What every thread does now.
///
/// # Errors
/// The process is gone, or may not be looked at.
pub fn survey(pid: i32) -> Result<Vec<(i32, Doing)>, Refused> {
    let threads = process::threads(pid).ok().flatten().ok_or(Refused::Gone)?;
    let mut found = Vec::with_capacity(threads.len());
    for tid in threads {
        match fs::read_to_string(format!("/proc/{pid}/task/{tid}/syscall")) {
            Ok(text) => found.extend(Doing::parse(&text).map(|doing| (tid, doing))),
            Err(error) if is_gone(&error) => {}
            Err(error) => return Err(look::trouble(error)),
        }
    }
    Ok(found)
}

fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH))
}

/// Waits for the best moment; in the end takes what there is. The thread to stop: none of those that were `tried` or are at addresses to `avoid`.
///
/// # Errors
/// The process is gone, may not be looked at, or has no thread that can be stopped.
pub fn wait(pid: i32, tried: &HashSet<i32>, avoid: impl Fn(u64) -> bool) -> Result<i32, Refused> {
    let began = Instant::now();
    loop {
        let threads = survey(pid)?.into_iter().filter(|(tid, _)| !tried.contains(tid));
        let best = choose::best(threads, &avoid);
        let waited = began.elapsed();
        let patience = match best {
            Some((_, _, Bearing::Well | Bearing::Running)) => Duration::ZERO,
            Some((_, _, Bearing::Mended)) => MENDED,
            _ => BADLY,
        };
        if waited >= patience {
            return best.map(|(tid, ..)| tid).ok_or(Refused::Unstoppable);
        }
        thread::sleep(OFTEN);
    }
}
