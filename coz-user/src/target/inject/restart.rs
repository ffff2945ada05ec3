//! What becomes of a system call that a stop has broken off: it must begin again, as if nothing had been.

use super::trace::Registers;

/// Begin again if no handler has run (`include/linux/errno.h`; the program never sees it).
const RESTART_UNLESS_HANDLED: i64 = -514;
/// Begin again by `restart_syscall`, with the time that is left.
const RESTART_WITH_THE_REST: i64 = -516;
const INTERRUPTED: i64 = -(libc::EINTR as i64);

/// Calls that say `EINTR` where others would begin again by themselves, and that can be made again: they have done nothing
/// by then. One with a time limit has all of its time anew.
const AGAIN: &[i64] = &[
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_io_getevents,
];

/// Whether this system call, broken off by a stop, is made to begin again here (and not by the kernel alone).
#[must_use]
pub fn is_mended(call: i64) -> bool {
    AGAIN.contains(&call)
}

/// The registers to go on with, of those that a thread was stopped with. What the kernel itself makes begin again has other
/// values in `rax` and is left alone, as is everything else.
#[must_use]
pub fn mended(stopped: &Registers) -> Registers {
    let mut registers = *stopped;
    if registers.rax.cast_signed() == INTERRUPTED && is_mended(registers.orig_rax.cast_signed()) {
        registers.rax = RESTART_UNLESS_HANDLED.cast_unsigned();
    }
    registers
}

/// The same where `restart_syscall` may not be made: the call itself begins again.
#[must_use]
pub fn anew(registers: &Registers) -> Registers {
    let mut registers = *registers;
    if registers.rax.cast_signed() == RESTART_WITH_THE_REST && registers.orig_rax.cast_signed() >= 0 {
        registers.rax = RESTART_UNLESS_HANDLED.cast_unsigned();
    }
    registers
}

/// What the kernel makes of these registers when the thread goes on and no handler runs: a call that was broken off is about to be made
/// again.
#[must_use]
pub fn resumed(registers: &Registers) -> Registers {
    /// Length of `syscall`.
    const CALL: u64 = 2;
    let mut resumed = *registers;
    if registers.orig_rax.cast_signed() >= 0 {
        let number = match registers.rax.cast_signed() {
            // ERESTARTSYS, ERESTARTNOINTR, ERESTARTNOHAND.
            -514..=-512 => Some(registers.orig_rax),
            RESTART_WITH_THE_REST => Some(libc::SYS_restart_syscall.cast_unsigned()),
            _ => None,
        };
        if let Some(number) = number {
            resumed.rax = number;
            resumed.rip = registers.rip.wrapping_sub(CALL);
        }
    }
    resumed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stopped(call: i64, result: i64) -> Registers {
        // SAFETY: plain integers.
        let mut registers: Registers = unsafe { std::mem::zeroed() };
        registers.orig_rax = call.cast_unsigned();
        registers.rax = result.cast_unsigned();
        registers.rip = 0x1234;
        registers
    }

    fn after(call: i64, result: i64) -> i64 {
        let before = stopped(call, result);
        let after = mended(&before);
        assert_eq!((after.orig_rax, after.rip), (before.orig_rax, before.rip));
        after.rax.cast_signed()
    }

    #[test]
    fn a_wait_that_would_say_eintr_begins_again() {
        assert_eq!(after(libc::SYS_epoll_wait, -4), -514);
        assert_eq!(after(libc::SYS_rt_sigtimedwait, -4), -514);
    }

    #[test]
    fn everything_else_stays() {
        assert_eq!(after(libc::SYS_epoll_wait, 3), 3, "it has an answer");
        assert_eq!(after(libc::SYS_futex, -516), -516, "the kernel's own");
        assert_eq!(after(libc::SYS_connect, -4), -4, "a second connect would fail otherwise");
        assert_eq!(after(-1, -4), -4, "no call: a number in a register");
    }

    #[test]
    fn a_sleep_begins_anew_where_it_may_not_be_continued() {
        let rest = stopped(libc::SYS_clock_nanosleep, RESTART_WITH_THE_REST);
        assert_eq!(mended(&rest), rest, "the kernel continues it");
        assert_eq!(anew(&rest), stopped(libc::SYS_clock_nanosleep, RESTART_UNLESS_HANDLED));
        for other in
            [stopped(libc::SYS_read, -512), stopped(-1, RESTART_WITH_THE_REST), stopped(libc::SYS_read, 5)]
        {
            assert_eq!(anew(&other), other);
        }
    }

    #[test]
    fn a_call_that_was_broken_off_is_made_again_as_the_kernel_would() {
        let after = |call, result| {
            let resumed = resumed(&stopped(call, result));
            (resumed.rax.cast_signed(), resumed.rip)
        };
        assert_eq!(after(libc::SYS_futex, -512), (libc::SYS_futex, 0x1232));
        assert_eq!(after(libc::SYS_epoll_wait, -514), (libc::SYS_epoll_wait, 0x1232));
        assert_eq!(after(libc::SYS_clock_nanosleep, -516), (libc::SYS_restart_syscall, 0x1232));
        assert_eq!(after(libc::SYS_read, 5), (5, 0x1234), "it has an answer");
        assert_eq!(after(libc::SYS_read, -4), (-4, 0x1234));
        assert_eq!(after(-1, -512), (-512, 0x1234), "in no call: a number in a register");
    }
}
