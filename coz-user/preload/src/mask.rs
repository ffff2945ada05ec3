//! Masks: our signal stays unblocked, and the program sees the mask it has set.
//!
//! This is about masks that last; for those that hold during one call see `wait`.
//!
//! Not seen: masks that libc restores inside itself (`siglongjmp`, `swapcontext`), and those of a handler's
//! return. They leave the signal as it is; only what we then say of our own signal's bit can be out of date.

use core::ffi::c_int;
use core::mem::MaybeUninit;

use coz_common::slot::{HELD, WANTS_BLOCKED};
use libc::sigset_t;

use crate::maps::{self, Slot};
use crate::next::{self, Handler};
use crate::{action, sys};

/// The signals of a set that exist: its first word.
///
/// # Safety
/// `set` is valid.
pub unsafe fn word_of(set: *const sigset_t) -> sys::Mask {
    // SAFETY: the caller's promise; libc's set begins with the kernel's.
    unsafe { set.cast::<u64>().read() }
}

/// Whether a signal is in a set.
///
/// # Safety
/// `set` is valid.
pub unsafe fn bit_of(set: *const sigset_t, signal: c_int) -> bool {
    // SAFETY: the caller's promise.
    unsafe { word_of(set) & sys::bit(signal) != 0 }
}

/// Puts a signal into a set, or takes it out.
///
/// # Safety
/// `set` is valid.
pub unsafe fn set_bit(set: *mut sigset_t, signal: c_int, member: bool) {
    // SAFETY: the caller's promise.
    unsafe {
        let word = word_of(set);
        let word = if member { word | sys::bit(signal) } else { word & !sys::bit(signal) };
        set.cast::<u64>().write(word);
    }
}

/// The program was started with our signal blocked, perhaps: that becomes its wish, and the signal is let
/// through. Without a slot nothing is sent to this thread: then the mask stays what it is.
pub fn adopt(signal: c_int) {
    let Some(slot) = Slot::current() else { return };
    slot.set_flags(WANTS_BLOCKED);
    let before = sys::change_mask(libc::SIG_UNBLOCK, sys::bit(signal));
    if before & sys::bit(signal) == 0 {
        slot.set_flags(0);
    }
}

/// `sigprocmask` and `pthread_sigmask`.
///
/// # Safety
/// As libc's.
unsafe fn change(
    next: unsafe extern "C" fn(c_int, *const sigset_t, *mut sigset_t) -> c_int,
    how: c_int,
    set: *const sigset_t,
    old: *mut sigset_t,
) -> c_int {
    // SAFETY: the caller's promises are handed on; pointers that are not null are valid.
    unsafe {
        let (Some(signal), Some(slot)) = (maps::signal(), Slot::current()) else {
            return next(how, set, old);
        };
        let before = slot.flags();
        let held = before & HELD != 0;
        let mut copy = MaybeUninit::<sigset_t>::uninit();
        let mut given = set;
        if !set.is_null() {
            let named = bit_of(set, signal);
            copy.write(*set);
            given = copy.as_ptr();
            let after = match how {
                libc::SIG_BLOCK if named => {
                    set_bit(copy.as_mut_ptr(), signal, false);
                    before | WANTS_BLOCKED
                }
                libc::SIG_UNBLOCK if named => {
                    set_bit(copy.as_mut_ptr(), signal, !held);
                    before & !WANTS_BLOCKED
                }
                libc::SIG_SETMASK => {
                    set_bit(copy.as_mut_ptr(), signal, held);
                    if named { before | WANTS_BLOCKED } else { before & !WANTS_BLOCKED }
                }
                _ => before,
            };
            // Before the call: what it lets through is treated by the new wish.
            if after != before {
                slot.set_flags(after);
            }
        }
        let result = next(how, given, old);
        if result != 0 {
            slot.set_flags(before);
        } else if !old.is_null() {
            let blocked = before & WANTS_BLOCKED != 0 || (!held && bit_of(old, signal));
            set_bit(old, signal, blocked);
        }
        result
    }
}

/// As libc's, in front of it.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigprocmask(how: c_int, set: *const sigset_t, old: *mut sigset_t) -> c_int {
    // SAFETY: the caller's promises are handed on.
    next::SIGPROCMASK
        .get()
        .map_or_else(|| sys::fail(libc::ENOSYS), |next| unsafe { change(next, how, set, old) })
}

/// As libc's, in front of it.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_sigmask(how: c_int, set: *const sigset_t, old: *mut sigset_t) -> c_int {
    // SAFETY: the caller's promises are handed on.
    next::PTHREAD_SIGMASK.get().map_or(libc::ENOSYS, |next| unsafe { change(next, how, set, old) })
}

/// As libc's, in front of it.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigpending(set: *mut sigset_t) -> c_int {
    let Some(next) = next::SIGPENDING.get() else { return sys::fail(libc::ENOSYS) };
    // SAFETY: the caller's promises are handed on.
    unsafe {
        let result = next(set);
        if let (0, Some(signal), Some(slot)) = (result, maps::signal(), Slot::current())
            && slot.flags() & WANTS_BLOCKED == 0
        {
            // Not blocked as the program sees it: it would never be pending for longer than a moment.
            set_bit(set, signal, false);
        }
        result
    }
}

/// Blocks or unblocks our signal alone, as the program asked.
fn change_ours(how: c_int) -> c_int {
    let mut set = MaybeUninit::<sigset_t>::zeroed();
    let Some(signal) = maps::signal() else { return 0 };
    // SAFETY: a set of zeros is an empty one.
    unsafe {
        set_bit(set.as_mut_ptr(), signal, true);
        sigprocmask(how, set.as_ptr(), core::ptr::null_mut())
    }
}

macro_rules! holder {
    ($name:ident, $next:ident, $how:expr) => {
        /// As libc's, in front of it.
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(number: c_int) -> c_int {
            if action::is_ours(number) {
                return change_ours($how);
            }
            // SAFETY: the caller's promises are handed on.
            next::$next.get().map_or_else(|| sys::fail(libc::ENOSYS), |next| unsafe { next(number) })
        }
    };
}
holder!(sighold, SIGHOLD, libc::SIG_BLOCK);
holder!(sigrelse, SIGRELSE, libc::SIG_UNBLOCK);

/// As libc's, in front of it.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigset(number: c_int, handler: Handler) -> Handler {
    const SIG_HOLD: Handler = 2;
    if !action::is_ours(number) || handler == libc::SIG_ERR {
        // SAFETY: the caller's promises are handed on.
        return next::SIGSET.get().map_or(libc::SIG_ERR, |next| unsafe { next(number, handler) });
    }
    let blocked = Slot::current().is_some_and(|slot| slot.flags() & WANTS_BLOCKED != 0);
    let before = if handler == SIG_HOLD {
        change_ours(libc::SIG_BLOCK);
        action::wish().handler
    } else {
        let before = action::exchange(handler, 0, 0);
        change_ours(libc::SIG_UNBLOCK);
        before
    };
    if blocked { SIG_HOLD } else { before }
}
