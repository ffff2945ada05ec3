//! Waiting for signals by name: one of ours that gets caught is paid, not shown.

use core::ffi::c_int;
use core::mem::MaybeUninit;
use core::ptr::null_mut;

use libc::{siginfo_t, sigset_t, timespec};

use crate::handler::FROM_KERNEL;
use crate::{maps, mask, next, pay, sys};

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
        let begun = sys::now();
        let mut left = *timeout;
        loop {
            let caught = next(set, info, &raw const left);
            if caught < 0 || !paid(caught, info) {
                return caught;
            }
            left = remaining(*timeout, sys::now() - begun);
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
