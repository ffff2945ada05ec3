//! Alternate signal stacks: where one is too small for our handler, the thread's signal stays blocked.

use core::ffi::c_int;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;

use coz_common::slot::HELD;
use libc::stack_t;

use crate::maps::{self, Slot};
use crate::{next, sys};

/// What the handler itself uses, with a margin; the kernel's frame comes on top.
const HANDLER: usize = 2048;
/// The kernel's frame where it does not say how large that is.
const USUAL_FRAME: usize = 3632;
/// Smallest alternate stack that our handler runs on.
static ENOUGH: AtomicUsize = AtomicUsize::new(USUAL_FRAME + HANDLER);

/// Asks the kernel how large a signal frame is.
pub fn measure() {
    // SAFETY: reads the auxiliary vector.
    let frame = unsafe { libc::getauxval(libc::AT_MINSIGSTKSZ) } as usize;
    ENOUGH.store(if frame == 0 { USUAL_FRAME } else { frame } + HANDLER, Relaxed);
}

/// As libc's, in front of it.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigaltstack(new: *const stack_t, old: *mut stack_t) -> c_int {
    let Some(next) = next::SIGALTSTACK.get() else { return sys::fail(libc::ENOSYS) };
    // SAFETY: the caller's promises are handed on; pointers that are not null are valid.
    unsafe {
        if new.is_null() {
            return next(new, old);
        }
        let (Some(signal), Some(slot)) = (maps::signal(), Slot::current()) else { return next(new, old) };
        let tiny = (*new).ss_flags & libc::SS_DISABLE == 0 && (*new).ss_size < ENOUGH.load(Relaxed);
        let before = slot.flags();
        if tiny {
            slot.set_flags(before | HELD);
            sys::change_mask(libc::SIG_BLOCK, sys::bit(signal));
        }
        let result = next(new, old);
        let held = if result == 0 { tiny } else { before & HELD != 0 };
        if !held && slot.flags() & HELD != 0 {
            slot.set_flags(slot.flags() & !HELD);
            sys::change_mask(libc::SIG_UNBLOCK, sys::bit(signal));
        }
        result
    }
}
