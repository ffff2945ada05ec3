//! New threads and processes: what the program wants of our signal is inherited, as a mask is.

use core::ffi::{c_int, c_void};
use core::mem::transmute;
use core::ptr::null_mut;
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use coz_common::slot::WANTS_BLOCKED;

use crate::maps::{self, Slot};
use crate::next::{self, Start};
use crate::sys;

/// What a thread is to run, between its creation and its first step.
struct Errand {
    /// The start routine; null where the place is free, [`TAKEN`] while it is being filled in or read.
    start: AtomicPtr<c_void>,
    argument: AtomicPtr<c_void>,
}

const TAKEN: *mut c_void = core::ptr::without_provenance_mut(1);

static ERRANDS: [Errand; 64] =
    [const { Errand { start: AtomicPtr::new(null_mut()), argument: AtomicPtr::new(null_mut()) } }; 64];

/// As libc's, in front of it.
///
/// Only a thread that wants our signal blocked, or has it held, needs care: its child inherits a wish that is
/// not in the real mask, or a real mask that is not a wish.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_create(
    thread: *mut libc::pthread_t,
    attributes: *const c_void,
    start: Start,
    argument: *mut c_void,
) -> c_int {
    let Some(next) = next::PTHREAD_CREATE.get() else { return libc::ENOSYS };
    let flags = Slot::current().map_or(0, Slot::flags);
    let errand = if flags != 0 { leave_errand(start, argument) } else { None };
    // SAFETY: the caller's promises are handed on; the errand is read once, by the new thread.
    unsafe {
        let Some(errand) = errand else { return next(thread, attributes, start, argument) };
        let run = if flags & WANTS_BLOCKED != 0 { run_blocked } else { run_open };
        let result = next(thread, attributes, run, (&raw const *errand).cast_mut().cast());
        if result != 0 {
            errand.start.store(null_mut(), Release);
        }
        result
    }
}

fn leave_errand(start: Start, argument: *mut c_void) -> Option<&'static Errand> {
    let free = |errand: &&Errand| errand.start.compare_exchange(null_mut(), TAKEN, AcqRel, Relaxed).is_ok();
    let errand = ERRANDS.iter().find(free)?;
    errand.argument.store(argument, Relaxed);
    errand.start.store(start as *mut c_void, Release);
    Some(errand)
}

extern "C" fn run_blocked(errand: *mut c_void) -> *mut c_void {
    run(errand, WANTS_BLOCKED)
}

extern "C" fn run_open(errand: *mut c_void) -> *mut c_void {
    run(errand, 0)
}

#[inline(always)]
fn run(errand: *mut c_void, flags: u32) -> *mut c_void {
    // SAFETY: `pthread_create` was given one of `ERRANDS`, filled in.
    let errand = unsafe { &*errand.cast::<Errand>() };
    let argument = errand.argument.load(Relaxed);
    // SAFETY: a start routine was stored there.
    let start: Start = unsafe { transmute::<*mut c_void, Start>(errand.start.load(Acquire)) };
    errand.start.store(null_mut(), Release);
    inherit(flags);
    start(argument)
}

/// The calling thread, new, takes over its creator's wish; the real signal is let through.
fn inherit(flags: u32) {
    if let (Some(signal), Some(slot)) = (maps::signal(), Slot::current()) {
        slot.set_flags(flags);
        sys::change_mask(libc::SIG_UNBLOCK, sys::bit(signal));
    }
}

macro_rules! forker {
    ($name:ident, $next:ident) => {
        /// As libc's, in front of it.
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name() -> libc::pid_t {
            let Some(next) = next::$next.get() else { return sys::fail(libc::ENOSYS) };
            let flags = Slot::current().map_or(0, Slot::flags);
            // SAFETY: as libc's.
            let pid = unsafe { next() };
            if pid == 0
                && flags != 0
                && let Some(slot) = Slot::current()
            {
                slot.set_flags(flags);
            }
            pid
        }
    };
}
forker!(fork, FORK);
forker!(_Fork, FORK_);
