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

/// How long a good moment is waited for.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Where threads wait for events: their calls are made to begin again, only their time limits begin anew.
    mended: Duration,
    /// Where calls would be broken off.
    badly: Duration,
}

impl Patience {
    /// To enter: there is time.
    pub const ENTER: Self = Self { mended: Duration::from_millis(100), badly: Duration::from_secs(5) };
    /// To leave: somebody waits for that.
    pub const LEAVE: Self = Self { mended: Duration::from_millis(5), badly: Duration::from_millis(500) };
}

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

/// Waits for the best moment; in the end takes what there is. The thread to stop: none of those that were `tried` or are at
/// addresses to `avoid`; none either if it is `over` before that.
///
/// # Errors
/// The process is gone, may not be looked at, or has no thread that can be stopped.
pub fn wait(
    pid: i32,
    patience: Patience,
    over: &(dyn Fn() -> bool + Sync),
    tried: &HashSet<i32>,
    avoid: impl Fn(u64) -> bool,
) -> Result<i32, Refused> {
    let began = Instant::now();
    loop {
        let threads = survey(pid)?.into_iter().filter(|(tid, _)| !tried.contains(tid));
        let best = choose::best(threads, &avoid);
        let waited = began.elapsed();
        let enough = match best {
            Some((_, _, Bearing::Well | Bearing::Running)) => Duration::ZERO,
            Some((_, _, Bearing::Mended)) => patience.mended,
            _ => patience.badly,
        };
        if waited >= enough {
            return best.map(|(tid, ..)| tid).ok_or(Refused::Unstoppable);
        }
        if over() {
            return Err(Refused::Unstoppable);
        }
        thread::sleep(OFTEN);
    }
}
