//! Which thread to stop: one whose system call begins again by itself, if there is any.

use super::restart;

/// What a thread does, by its `/proc/PID/task/TID/syscall`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// It has a CPU, or waits for one.
    Running,
    /// It sleeps in this system call; -1: in none (a page of memory comes, say).
    Sleeping {
        /// The call's number.
        call: i64,
        /// Where it goes on in its own code.
        pc: u64,
    },
}

impl Doing {
    /// Reads the file's text; `None` where it says nothing.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_ascii_whitespace();
        let first = words.next()?;
        if first == "running" {
            return Some(Self::Running);
        }
        let call = first.parse().ok()?;
        let pc = u64::from_str_radix(words.next_back()?.strip_prefix("0x")?, 16).ok()?;
        Some(Self::Sleeping { call, pc })
    }
}

/// How well a thread bears to be stopped: the first is the best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bearing {
    /// Its call begins again with what is left of its time.
    Well,
    /// It runs: nothing is broken off, unless it begins to wait just then.
    Running,
    /// Its call is made to begin again; a time limit begins anew.
    Mended,
    /// Its call may say that it was interrupted.
    Badly,
    /// It could not be stopped at all.
    Never,
}

/// Calls that begin again by themselves, with the time that is left.
const RESUMED: &[i64] = &[
    libc::SYS_futex,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_poll,
    libc::SYS_select,
    libc::SYS_pselect6,
    libc::SYS_ppoll,
    // One of these, broken off before.
    libc::SYS_restart_syscall,
];

/// Calls that begin again by themselves and have no time limit.
const REPEATED: &[i64] = &[
    libc::SYS_wait4,
    libc::SYS_waitid,
    libc::SYS_pause,
    libc::SYS_rt_sigsuspend,
    libc::SYS_flock,
    libc::SYS_fcntl,
    libc::SYS_openat,
    libc::SYS_msgrcv,
    libc::SYS_msgsnd,
];

/// How a thread bears to be stopped.
#[must_use]
pub fn bearing(doing: Doing) -> Bearing {
    match doing {
        Doing::Running => Bearing::Running,
        // Waits for its child to execute, and hears nothing.
        Doing::Sleeping { call: libc::SYS_vfork | libc::SYS_clone | libc::SYS_clone3, .. } => Bearing::Never,
        Doing::Sleeping { call, .. } if RESUMED.contains(&call) => Bearing::Well,
        Doing::Sleeping { call, .. } if REPEATED.contains(&call) || restart::is_mended(call) => {
            Bearing::Mended
        }
        Doing::Sleeping { .. } => Bearing::Badly,
    }
}

/// The thread that bears it best, of those that are not at an address that `avoid` names. The first of equals.
pub fn best(
    threads: impl IntoIterator<Item = (i32, Doing)>,
    avoid: impl Fn(u64) -> bool,
) -> Option<(i32, Doing, Bearing)> {
    threads
        .into_iter()
        .filter(|(_, doing)| !matches!(doing, Doing::Sleeping { pc, .. } if avoid(*pc)))
        .map(|(tid, doing)| (tid, doing, bearing(doing)))
        .filter(|&(_, _, bearing)| bearing != Bearing::Never)
        .min_by_key(|&(_, _, bearing)| bearing)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sleeping(call: i64) -> Doing {
        Doing::Sleeping { call, pc: 0x10 }
    }

    #[test]
    fn the_file_is_read() {
        let text = "202 0x7f 0x80 0x0 0x0 0x0 0x0 0x7ffd10 0x7f1234\n";
        assert_eq!(Doing::parse(text), Some(Doing::Sleeping { call: 202, pc: 0x7f_1234 }));
        assert_eq!(Doing::parse("-1 0x7ffd10 0x7f1234\n"), Some(Doing::Sleeping { call: -1, pc: 0x7f_1234 }));
        assert_eq!(Doing::parse("running\n"), Some(Doing::Running));
        for nonsense in ["", "x", "202", "202 7f"] {
            assert_eq!(Doing::parse(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn who_resumes_goes_before_who_runs_and_both_before_who_waits_for_events() {
        let waits = (1, sleeping(libc::SYS_epoll_wait));
        let (runs, resumes) = ((2, Doing::Running), (3, sleeping(libc::SYS_futex)));
        let chosen = |threads: &[(i32, Doing)]| best(threads.iter().copied(), |_| false).map(|best| best.0);
        assert_eq!(chosen(&[waits, runs, resumes]), Some(3));
        assert_eq!(chosen(&[waits, runs]), Some(2));
        assert_eq!(chosen(&[waits, (4, sleeping(libc::SYS_connect))]), Some(1));
        assert_eq!(chosen(&[(5, sleeping(libc::SYS_vfork))]), None, "it hears nothing");
        assert_eq!(chosen(&[]), None);
    }

    #[test]
    fn who_is_in_our_own_code_is_left_alone() {
        let threads =
            [(1, Doing::Sleeping { call: libc::SYS_clock_nanosleep, pc: 0x1080 }), (2, sleeping(-1))];
        let best = best(threads, |pc| (0x1000..0x2000).contains(&pc));
        assert_eq!(best.map(|best| best.0), Some(2));
    }
}
