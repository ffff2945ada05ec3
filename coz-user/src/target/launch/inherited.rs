//! What we were started with, recorded before anything of ours could change it.
//!
//! Rust's runtime ignores `SIGPIPE` and opens closed standard descriptors before `main`; Tokio installs handlers
//! (a handled signal becomes a default one in the target, also where it was ignored, as under `nohup`).
//! The target must find everything as our caller left it, so this looks before `main`.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};

static RECORDED: AtomicBool = AtomicBool::new(false);
static IGNORED: AtomicU64 = AtomicU64::new(0);
static BLOCKED: AtomicU64 = AtomicU64::new(0);
static CLOSED: AtomicU8 = AtomicU8::new(0);

/// Highest signal number of Linux on x86-64.
pub(super) const MAX_SIGNAL: i32 = 64;
/// Size of the kernel's signal set, in bytes.
pub(super) const SET_SIZE: usize = 8;

/// The kernel's own `struct sigaction`. libc's wrapper refuses the signals 32 and 33, which it keeps for itself.
#[repr(C)]
pub(super) struct KernelAction {
    pub(super) handler: usize,
    pub(super) flags: u64,
    pub(super) restorer: usize,
    pub(super) mask: u64,
}

/// Signal dispositions, signal mask and closed standard descriptors that our caller gave us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inherited {
    /// Ignored signals: bit `n - 1` is signal `n`.
    pub ignored: u64,
    /// Blocked signals: bit `n - 1` is signal `n`.
    pub blocked: u64,
    /// Bit `n` is set where descriptor `n` (0, 1, 2) was closed.
    pub closed: u8,
}

impl Inherited {
    /// As it was when this program was started.
    #[must_use]
    pub fn at_start() -> Self {
        if !RECORDED.load(Relaxed) {
            // The linker left the recorder out: the present state is the best there is. Nobody means to ignore SIGPIPE.
            record();
            IGNORED.fetch_and(!(1 << (libc::SIGPIPE - 1)), Relaxed);
        }
        Self { ignored: IGNORED.load(Relaxed), blocked: BLOCKED.load(Relaxed), closed: CLOSED.load(Relaxed) }
    }

    /// Whether the recorder ran before `main`.
    #[cfg(test)]
    fn was_recorded() -> bool {
        RECORDED.load(Relaxed)
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static RECORD_AT_START: extern "C" fn() = record;

/// Runs before `main` and before Rust's runtime: system calls and atomics only.
extern "C" fn record() {
    let mut ignored = 0;
    for signal in 1..=MAX_SIGNAL {
        let mut action = KernelAction { handler: 0, flags: 0, restorer: 0, mask: 0 };
        // SAFETY: asks only; `action` has the kernel's layout and outlives the call.
        let result =
            unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, 0usize, &raw mut action, SET_SIZE) };
        if result == 0 && action.handler == libc::SIG_IGN {
            ignored |= 1u64 << (signal - 1);
        }
    }
    let mut blocked = 0u64;
    // SAFETY: asks only; `blocked` is as large as the kernel's set.
    unsafe {
        libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_BLOCK, 0usize, &raw mut blocked, SET_SIZE);
    }
    let mut closed = 0;
    for fd in 0..3 {
        // SAFETY: asks for a descriptor's flags.
        if unsafe { libc::fcntl(fd, libc::F_GETFD) } == -1 {
            closed |= 1u8 << fd;
        }
    }
    IGNORED.store(ignored, Relaxed);
    BLOCKED.store(blocked, Relaxed);
    CLOSED.store(closed, Relaxed);
    RECORDED.store(true, Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recorder_is_linked_and_ran_before_the_runtime() {
        assert!(Inherited::was_recorded());
        let mut now = KernelAction { handler: 0, flags: 0, restorer: 0, mask: 0 };
        // SAFETY: asks only; `now` has the kernel's layout and outlives the call.
        let result =
            unsafe { libc::syscall(libc::SYS_rt_sigaction, libc::SIGPIPE, 0usize, &raw mut now, SET_SIZE) };
        // Rust's runtime has come to ignore SIGPIPE; cargo, our caller, passed it on as the default.
        assert_eq!((result, now.handler), (0, libc::SIG_IGN));
        assert_eq!(Inherited::at_start().ignored & (1 << (libc::SIGPIPE - 1)), 0);
    }
}
