//! Calls that wait for signals.
//!
//! By name (`sigwait` and its kin): one of ours that gets caught is paid, not shown.
//!
//! With a mask for the time of the call (`sigsuspend`, `ppoll`, ...): the mask goes through as it is. A thread
//! that waits has nothing to pay, and one that is to be woken by a signal of our number is. What the program
//! wants of our signal changes along with the mask, for as long.

use core::ffi::c_int;
use core::mem::MaybeUninit;
use core::ptr::null_mut;

use coz_common::slot::WANTS_BLOCKED;
use libc::{epoll_event, fd_set, nfds_t, pollfd, siginfo_t, sigset_t, timespec};

use crate::handler::FROM_KERNEL;
use crate::slot::Slot;
use crate::{clock, maps, mask, next, pay, sys};

/// Whether what was caught is ours; then it is paid.
///
/// # Safety
/// `info` was filled in with a signal.
unsafe fn paid(signal: c_int, info: *const siginfo_t) -> bool {
    // SAFETY: the caller's promise.
    let ours = unsafe { (*info).si_code } == FROM_KERNEL && maps::signal() == Some(signal);
    if ours {
        let before = sys::change_mask(libc::SIG_SETMASK, !0);
        pay::asked();
        sys::change_mask(libc::SIG_SETMASK, before);
    }
    ours
}

/// Whether a wait for this set can catch one of ours.
///
/// # Safety
/// `set` is valid.
unsafe fn concerns(set: *const sigset_t) -> bool {
    // SAFETY: the caller's promise.
    maps::signal().is_some_and(|signal| unsafe { mask::bit_of(set, signal) })
}

/// As libc's, in front of it.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigwaitinfo(set: *const sigset_t, info: *mut siginfo_t) -> c_int {
    let Some(next) = next::SIGWAITINFO.get() else { return sys::fail(libc::ENOSYS) };
    // SAFETY: the caller's promises are handed on.
    unsafe {
        if !concerns(set) {
            return next(set, info);
        }
        let mut own = MaybeUninit::<siginfo_t>::uninit();
        let info = if info.is_null() { own.as_mut_ptr() } else { info };
        loop {
            let caught = next(set, info);
            if caught < 0 || !paid(caught, info) {
                return caught;
            }
        }
    }
}

/// As libc's, in front of it.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigtimedwait(
    set: *const sigset_t,
    info: *mut siginfo_t,
    timeout: *const timespec,
) -> c_int {
    let Some(next) = next::SIGTIMEDWAIT.get() else { return sys::fail(libc::ENOSYS) };
    // SAFETY: the caller's promises are handed on.
    unsafe {
        if timeout.is_null() || !concerns(set) {
            return if timeout.is_null() { sigwaitinfo(set, info) } else { next(set, info, timeout) };
        }
        let mut own = MaybeUninit::<siginfo_t>::uninit();
        let info = if info.is_null() { own.as_mut_ptr() } else { info };
        let begun = clock::now();
        let mut left = *timeout;
        loop {
            let caught = next(set, info, &raw const left);
            if caught < 0 || !paid(caught, info) {
                return caught;
            }
            left = remaining(*timeout, clock::now() - begun);
        }
    }
}

fn remaining(timeout: timespec, passed: u64) -> timespec {
    let whole = (timeout.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(timeout.tv_nsec as u64);
    let left = whole.saturating_sub(passed);
    timespec { tv_sec: (left / 1_000_000_000) as i64, tv_nsec: (left % 1_000_000_000) as i64 }
}

/// As libc's, in front of it.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigwait(set: *const sigset_t, caught: *mut c_int) -> c_int {
    // SAFETY: the caller's promises are handed on.
    unsafe {
        if !concerns(set) {
            return next::SIGWAIT.get().map_or(libc::ENOSYS, |next| next(set, caught));
        }
        // It reports failure by its value and leaves errno alone.
        let errno = *sys::errno();
        let result = loop {
            match sigwaitinfo(set, null_mut()) {
                signal if signal > 0 => {
                    *caught = signal;
                    break 0;
                }
                _ if *sys::errno() == libc::EINTR => {}
                _ => break *sys::errno(),
            }
        };
        *sys::errno() = errno;
        result
    }
}

/// Waits with a mask that may let our signal through where the program else has it blocked.
///
/// # Safety
/// `mask` is null or valid.
unsafe fn with_mask(mask: *const sigset_t, wait: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: the caller's promise.
    let lets_through = !mask.is_null() && maps::signal().is_some() && !unsafe { concerns(mask) };
    let slot = if lets_through { Slot::current() } else { None };
    let Some(slot) = slot.filter(|slot| slot.flags() & WANTS_BLOCKED != 0) else { return wait() };
    slot.set_flags(slot.flags() & !WANTS_BLOCKED);
    let result = wait();
    slot.set_flags(slot.flags() | WANTS_BLOCKED);
    result
}

macro_rules! waiter {
    ($name:ident, $next:ident, ($($argument:ident: $kind:ty),*)) => {
        /// As libc's, in front of it.
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $kind,)* mask: *const sigset_t) -> c_int {
            let Some(next) = next::$next.get() else { return sys::fail(libc::ENOSYS) };
            // SAFETY: the caller's promises are handed on.
            unsafe { with_mask(mask, || next($($argument,)* mask)) }
        }
    };
}
waiter!(sigsuspend, SIGSUSPEND, ());
waiter!(ppoll, PPOLL, (fds: *mut pollfd, count: nfds_t, timeout: *const timespec));
waiter!(
    pselect,
    PSELECT,
    (count: c_int, read: *mut fd_set, write: *mut fd_set, error: *mut fd_set, timeout: *const timespec)
);
waiter!(epoll_pwait, EPOLL_PWAIT, (fd: c_int, events: *mut epoll_event, most: c_int, timeout: c_int));
waiter!(
    epoll_pwait2,
    EPOLL_PWAIT2,
    (fd: c_int, events: *mut epoll_event, most: c_int, timeout: *const timespec)
);
