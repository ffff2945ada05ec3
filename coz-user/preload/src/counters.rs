//! The four functions that coz.h looks for.

use core::ffi::{CStr, c_char, c_int};
use core::mem::offset_of;
use core::sync::atomic::{AtomicU32, AtomicU64};

use coz_common::abi::{COUNTER_NAME, CounterSlot, MAX_COUNTERS};
use coz_common::slot::{CounterPlace, Native, claim_counter};

use crate::{maps, pay, sys};

/// coz.h's `coz_counter_t`.
#[repr(C, align(64))]
pub struct Counter {
    count: AtomicU64,
    backoff: AtomicU64,
}

/// What is counted where nobody reads: without a profiler, or when the table is full. More than one, so that
/// counters of several threads do not share a cache line more than they must.
static UNREAD: [Counter; 32] =
    [const { Counter { count: AtomicU64::new(0), backoff: AtomicU64::new(0) } }; 32];

/// One place of the shared table, and what we look for.
struct Place<'a> {
    slot: *mut CounterSlot,
    kind: u32,
    name: &'a [u8],
}

impl CounterPlace<Native> for Place<'_> {
    fn state(&self) -> &AtomicU32 {
        // SAFETY: within the table, which stays mapped; only ever touched as an atomic.
        unsafe { AtomicU32::from_ptr(self.slot.cast::<u8>().add(offset_of!(CounterSlot, state)).cast()) }
    }

    fn is_ours(&self) -> bool {
        // SAFETY: within the table; what is ready no longer changes.
        unsafe {
            let stored = &(*self.slot).name;
            let length = stored.iter().position(|&b| b == 0).unwrap_or(COUNTER_NAME);
            (*self.slot).kind == self.kind && stored[..length] == *self.name
        }
    }

    fn write(&self) {
        // SAFETY: within the table; claimed, so nobody else writes it.
        unsafe {
            (*self.slot).kind = self.kind;
            for (to, &from) in (*self.slot).name.iter_mut().zip(self.name) {
                *to = from;
            }
        }
    }
}

/// The counter of this kind (1 throughput, 2 begin, 3 end) and name. Never null; the same one for the same name.
///
/// # Safety
/// `name` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _coz_get_counter(kind: c_int, name: *const c_char) -> *mut Counter {
    // SAFETY: the caller's promise.
    let name = unsafe { sys::string(name) }.map_or(&[][..], CStr::to_bytes);
    let name = &name[..name.len().min(COUNTER_NAME)];
    let kind = kind as u32;
    let found = maps::counters().and_then(|table| {
        // SAFETY: `i` is within the table.
        let places = (0..MAX_COUNTERS as usize).map(|i| Place { slot: unsafe { table.add(i) }, kind, name });
        claim_counter::<Native, _>(places, |round| {
            core::hint::spin_loop();
            round < 1_000_000
        })
    });
    match found {
        // SAFETY: within the slot, and coz.h's struct begins there.
        Some(place) => unsafe { place.slot.cast::<u8>().add(offset_of!(CounterSlot, count)).cast() },
        None => {
            let hash = name.iter().fold(kind, |h, &b| h.wrapping_mul(16_777_619) ^ u32::from(b));
            (&raw const UNREAD[hash as usize % UNREAD.len()]).cast_mut()
        }
    }
}

/// Pays at once what the calling thread owes.
#[unsafe(no_mangle)]
pub extern "C" fn _coz_add_delays() {
    pay::volunteer();
}

/// Before a call that may block: nothing to do, the scheduler's edges are seen by the kernel side.
#[unsafe(no_mangle)]
pub extern "C" fn _coz_pre_block() {}

/// After a call that may have blocked: nothing to do either.
#[unsafe(no_mangle)]
pub extern "C" fn _coz_post_block(_skip_delays: bool) {}
