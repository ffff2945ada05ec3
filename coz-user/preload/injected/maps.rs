//! The maps, where the injector has put them.

use core::sync::atomic::{AtomicU32, AtomicU64};

use crate::params::Params;

/// The control page's place among them.
pub const CONTROL: usize = 0;
/// The place of `GLOBAL`.
pub const GLOBAL: usize = 1;
/// The place of `SLOTS`.
pub const SLOTS: usize = 2;
/// The place of `PAYMENTS`.
pub const PAYMENTS: usize = 3;

/// Filled in by the injector, in the process.
#[used]
#[unsafe(link_section = ".params")]
static PARAMS: Params = Params { maps: [0; 4], inside: 0, old_handler: 0, pid_namespace: 0, _pad: 0 };

/// One field of it. Volatile: as far as the compiler sees, all are zero.
macro_rules! param {
    ($($field:tt)+) => {
        // SAFETY: within the struct, which is there as long as this code is.
        unsafe { (&raw const PARAMS.$($field)+).read_volatile() }
    };
}

/// The pid namespace of this process.
#[inline(always)]
pub fn pid_namespace() -> Option<u32> {
    Some(param!(pid_namespace))
}

/// How many threads are in the handler.
#[inline(always)]
pub fn inside() -> &'static AtomicU64 {
    let address = param!(inside) as *mut u64;
    // SAFETY: the injector's word, mapped as long as this code is.
    unsafe { AtomicU64::from_ptr(address) }
}

/// What was done with the signal before.
#[inline(always)]
pub fn before() -> usize {
    param!(old_handler) as usize
}

#[inline(always)]
fn address(map: usize, offset: usize) -> *mut u8 {
    let base = match map {
        CONTROL => param!(maps[CONTROL]),
        GLOBAL => param!(maps[GLOBAL]),
        SLOTS => param!(maps[SLOTS]),
        _ => param!(maps[PAYMENTS]),
    };
    (base as *mut u8).wrapping_add(offset)
}

/// # Safety
/// The offset is within the map and aligned.
#[inline(always)]
pub unsafe fn word32(map: usize, offset: usize) -> &'static AtomicU32 {
    // SAFETY: the caller's promise; the maps are there as long as this code is, and only ever touched as atomics.
    unsafe { AtomicU32::from_ptr(address(map, offset).cast()) }
}

/// # Safety
/// As [`word32`].
#[inline(always)]
pub unsafe fn word64(map: usize, offset: usize) -> &'static AtomicU64 {
    // SAFETY: as in `word32`.
    unsafe { AtomicU64::from_ptr(address(map, offset).cast()) }
}
