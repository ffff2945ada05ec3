//! The system calls that are made in a process because of us.

use super::filter::Word;

/// `AUDIT_ARCH_X86_64` (include/uapi/linux/audit.h).
const X86_64: u32 = 0xc000_003e;
/// `MADV_WIPEONFORK`.
const WIPE_ON_FORK: u64 = 18;
/// `ARCH_GET_XCOMP_PERM`.
const GET_PERMISSIONS: u64 = 0x1022;
const READ: i32 = libc::PROT_READ;
const WRITE: i32 = libc::PROT_WRITE;
const EXECUTE: i32 = libc::PROT_EXEC;
const PRIVATE: i32 = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
const SET: i32 = 8;

/// A system call: its number, and those of its arguments that are known beforehand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    number: i64,
    arguments: [Option<u64>; 6],
}

const fn call<const N: usize>(number: i64, known: [(usize, i32); N]) -> Call {
    let mut arguments = [None; 6];
    let mut i = 0;
    while i < N {
        arguments[known[i].0] = Some(known[i].1 as u64);
        i += 1;
    }
    Call { number, arguments }
}

/// What a stopped thread is made to do, on the way in and on the way out (`inject::seat`).
pub const ENTER: &[Call] = &[
    call(libc::SYS_mmap, [(0, 0), (2, READ | WRITE), (3, PRIVATE), (4, -1), (5, 0)]),
    call(libc::SYS_mmap, [(0, 0), (2, READ | EXECUTE), (3, PRIVATE), (4, -1), (5, 0)]),
    call(libc::SYS_socketpair, [(0, libc::AF_UNIX), (1, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC), (2, 0)]),
    call(libc::SYS_recvmsg, [(2, libc::MSG_CMSG_CLOEXEC | libc::MSG_DONTWAIT)]),
    call(libc::SYS_mmap, [(0, 0), (2, READ), (3, libc::MAP_SHARED), (5, 0)]),
    call(libc::SYS_mmap, [(0, 0), (2, READ | WRITE), (3, libc::MAP_SHARED), (5, 0)]),
    // In the place of another one.
    call(libc::SYS_mmap, [(2, READ | WRITE), (3, libc::MAP_SHARED | libc::MAP_FIXED), (5, 0)]),
    call(libc::SYS_close, []),
    call(libc::SYS_madvise, [(1, 4096), (2, WIPE_ON_FORK as i32)]),
    call(libc::SYS_rt_sigaction, [(3, SET)]),
    call(libc::SYS_arch_prctl, [(0, GET_PERMISSIONS as i32)]),
    call(libc::SYS_munmap, []),
    // If we are killed meanwhile (`inject::rescue`).
    call(libc::SYS_rt_sigprocmask, [(0, libc::SIG_SETMASK), (2, 0), (3, SET)]),
    RESTART,
];

/// The same, where a thread was given priority.
pub const PRIORITY: Call = call(libc::SYS_setpriority, [(0, libc::PRIO_PROCESS as i32), (1, 0)]);

/// What the kernel itself makes of a sleep that a stop has broken off.
const RESTART: Call = call(libc::SYS_restart_syscall, []);

/// What the handler does (`preload/src/pay.rs`), in any thread. What it does with signals that are not from us is left out:
/// without it they would end the process.
pub const PAY: &[Call] = &[
    call(libc::SYS_gettid, []),
    call(libc::SYS_clock_gettime, [(0, libc::CLOCK_MONOTONIC)]),
    call(libc::SYS_prctl, [(0, libc::PR_GET_TIMERSLACK)]),
    call(libc::SYS_prctl, [(0, libc::PR_SET_TIMERSLACK)]),
    call(libc::SYS_clock_nanosleep, [(0, libc::CLOCK_MONOTONIC), (1, libc::TIMER_ABSTIME)]),
    call(libc::SYS_rt_sigreturn, []),
    // Every thread is stopped, to be asked for its filters.
    RESTART,
];

/// What the shim does besides, when a thread pays without having been asked.
pub const SHIM: &[Call] = &[call(libc::SYS_rt_sigprocmask, [(0, libc::SIG_SETMASK), (3, SET)])];

impl Call {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        usize::try_from(self.number).ok().and_then(syscalls::Sysno::new).map_or("a call", |call| call.name())
    }

    /// Whether a call of this number with these arguments is one of these.
    #[must_use]
    pub fn covers(&self, number: i64, arguments: [u64; 6]) -> bool {
        let fits = |(known, given): (&Option<u64>, u64)| known.is_none_or(|known| known == given);
        self.number == number && self.arguments.iter().zip(arguments).all(fits)
    }

    /// What a filter is given of it, `struct seccomp_data` word by word. Where the call is made from is not known.
    pub(super) fn data(&self) -> [Word; 16] {
        let mut data = [Word::Any; 16];
        data[0] = Word::Is(self.number as u32);
        data[1] = Word::Is(X86_64);
        for (pair, argument) in data[4..].chunks_exact_mut(2).zip(self.arguments) {
            if let Some(value) = argument {
                pair.copy_from_slice(&[Word::Is(value as u32), Word::Is((value >> 32) as u32)]);
            }
        }
        data
    }
}
