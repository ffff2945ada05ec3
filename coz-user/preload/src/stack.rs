//! Alternate signal stacks: where one is too small for our handler, the thread's signal stays blocked.

use core::arch::x86_64::__cpuid_count;
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
/// Largest frame that the kernel ever writes on this machine.
static LARGEST_FRAME: AtomicUsize = AtomicUsize::new(USUAL_FRAME);
/// The part of it that only processes get which have asked for AMX.
static TILES: AtomicUsize = AtomicUsize::new(0);
/// Number of the state component XTILEDATA (Intel SDM, volume 1, section 13.1).
const XTILEDATA: u32 = 18;
/// `arch_prctl`: which dynamically enabled components this process may use.
const ARCH_GET_XCOMP_PERM: usize = 0x1022;

/// Asks the kernel how large a signal frame is, and the processor how much of that are AMX's tiles.
pub fn measure() {
    // SAFETY: reads the auxiliary vector.
    let frame = unsafe { libc::getauxval(libc::AT_MINSIGSTKSZ) } as usize;
    if frame == 0 {
        return;
    }
    LARGEST_FRAME.store(frame, Relaxed);
    let highest = __cpuid_count(0, 0).eax;
    if highest >= 0xD {
        let (all, tiles) = (__cpuid_count(0xD, 0), __cpuid_count(0xD, XTILEDATA));
        // Offset and size: the tiles are the last component where they are there at all.
        if tiles.eax != 0 && tiles.ebx.checked_add(tiles.eax) == Some(all.ebx) {
            TILES.store((tiles.eax as usize).min(frame), Relaxed);
        }
    }
}

/// Smallest alternate stack that our handler runs on. The kernel names the largest frame there can be; programs (Rust's
/// standard library for one) allocate just that, and have room for us in the part that only users of AMX need.
fn enough() -> usize {
    let mut frame = LARGEST_FRAME.load(Relaxed);
    let tiles = TILES.load(Relaxed);
    if tiles != 0 && sys::state_permissions(ARCH_GET_XCOMP_PERM) & (1 << XTILEDATA) == 0 {
        frame -= tiles;
    }
    frame + HANDLER
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
        let tiny = (*new).ss_flags & libc::SS_DISABLE == 0 && (*new).ss_size < enough();
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
