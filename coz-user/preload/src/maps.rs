//! The five maps that kernel, controller and target share.

use core::ffi::c_int;
use core::mem::size_of;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64};

use coz_common::abi::{Control, CounterSlot, Global, KernelSlot, MAX_COUNTERS, MAX_SLOTS, TargetSlot};

pub use crate::slot::Slot;
use crate::sys;

/// How many maps there are, in the order of `abi::HELLO_REGISTER`.
pub const MAPS: usize = 5;
/// The control page's place among them.
pub const CONTROL: usize = 0;
/// The place of `GLOBAL`.
pub const GLOBAL: usize = 1;
/// The place of `SLOTS`.
pub const SLOTS: usize = 2;
/// The place of `PAYMENTS`.
pub const PAYMENTS: usize = 3;
const COUNTERS: usize = 4;

/// Length in bytes of each, and whether the target writes it.
const SHAPES: [(usize, bool); MAPS] = [
    (size_of::<Control>(), false),
    (size_of::<Global>(), false),
    (size_of::<KernelSlot>() * MAX_SLOTS as usize, false),
    (size_of::<TargetSlot>() * MAX_SLOTS as usize, true),
    (size_of::<CounterSlot>() * MAX_COUNTERS as usize, true),
];

/// Set once, by the constructor, before [`SIGNAL`]; `fork` copies them together with the mappings.
static ADDRESSES: [AtomicPtr<u8>; MAPS] = [const { AtomicPtr::new(core::ptr::null_mut()) }; MAPS];
static PID_NAMESPACE: AtomicU32 = AtomicU32::new(0);
static SIGNAL: AtomicI32 = AtomicI32::new(0);

const fn pages(length: usize) -> usize {
    length.next_multiple_of(4096)
}

/// The signal that is ours; `None` without a profiler: then every function here does what libc's does.
#[inline(always)]
pub fn signal() -> Option<c_int> {
    let signal = SIGNAL.load(Acquire);
    (signal != 0).then_some(signal)
}

/// Maps all five; `false`, with nothing left mapped, if one cannot be.
pub fn attach(fds: &[sys::Fd; MAPS], pid_namespace: u32) -> bool {
    let mut done = 0;
    for ((fd, &(length, writable)), place) in fds.iter().zip(&SHAPES).zip(&ADDRESSES) {
        let Some(address) = sys::map(fd.0, pages(length), writable) else { break };
        place.store(address, Relaxed);
        done += 1;
    }
    if done < MAPS {
        for (place, &(length, _)) in ADDRESSES.iter().zip(&SHAPES).take(done) {
            // SAFETY: mapped above; `SIGNAL` is 0, so nobody uses it.
            unsafe { sys::unmap(place.load(Relaxed), pages(length)) };
        }
        return false;
    }
    PID_NAMESPACE.store(pid_namespace, Relaxed);
    true
}

/// From now on the maps are used.
pub fn activate(signal: c_int) {
    SIGNAL.store(signal, Release);
}

/// The pid namespace of this process; `None` without a profiler. What gives one promises that the maps are there, for good.
#[inline(always)]
pub fn pid_namespace() -> Option<u32> {
    signal().map(|_| PID_NAMESPACE.load(Relaxed))
}

/// # Safety
/// [`pid_namespace`] has given one; the offset is within the map and aligned.
#[inline(always)]
pub unsafe fn word32(map: usize, offset: usize) -> &'static AtomicU32 {
    // SAFETY: within the map, aligned as the ABI's offsets are, and only ever touched as an atomic.
    unsafe { AtomicU32::from_ptr(ADDRESSES[map].load(Relaxed).add(offset).cast()) }
}

/// # Safety
/// As [`word32`].
#[inline(always)]
pub unsafe fn word64(map: usize, offset: usize) -> &'static AtomicU64 {
    // SAFETY: as in `word32`.
    unsafe { AtomicU64::from_ptr(ADDRESSES[map].load(Relaxed).add(offset).cast()) }
}

/// The table of counters, or `None` without a profiler.
pub fn counters() -> Option<*mut CounterSlot> {
    signal().map(|_| ADDRESSES[COUNTERS].load(Relaxed).cast())
}
