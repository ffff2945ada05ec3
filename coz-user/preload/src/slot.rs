//! A thread's place in the maps. Compiled into the code that is put into running processes too (`injected/`).

use core::mem::{offset_of, size_of};
use core::sync::atomic::Ordering::{Acquire, Relaxed};
use core::sync::atomic::{AtomicU32, AtomicU64};

use coz_common::abi::{Control, Global, KernelSlot, SLOT_PROBES, TargetSlot, slot_key, slot_place};
use coz_common::slot::{KernelWords, Native, PageWords, TargetWords};

use crate::maps::{self, CONTROL, GLOBAL, PAYMENTS, SLOTS, word32, word64};
use crate::sys;

/// A thread's two slots.
#[derive(Clone, Copy)]
pub struct Slot {
    place: usize,
    key: u64,
}

impl Slot {
    /// The calling thread's, found anew each time: nothing is remembered that a `fork` would make wrong.
    /// `None` without a profiler, or if the kernel side has no slot for it.
    #[inline(never)]
    pub fn current() -> Option<Self> {
        let key = slot_key(maps::pid_namespace()?, sys::gettid());
        (0..SLOT_PROBES).map(|probe| slot_place(key, probe) as usize).find_map(|place| {
            let offset = place * size_of::<KernelSlot>() + offset_of!(KernelSlot, key);
            // SAFETY: there is a namespace; `place` is below MAX_SLOTS.
            let found = unsafe { word64(SLOTS, offset) }.load(Acquire);
            (found == key).then_some(Self { place, key })
        })
    }

    /// What decides whether anybody owes.
    pub fn page(self) -> PageWords<'static, Native> {
        // SAFETY: a slot exists, so the maps do.
        unsafe {
            PageWords {
                epoch: word32(CONTROL, offset_of!(Control, epoch)),
                state: word32(CONTROL, offset_of!(Control, state)),
                deadline: word64(CONTROL, offset_of!(Control, deadline_ns)),
                required: word64(GLOBAL, offset_of!(Global, required)),
            }
        }
    }

    /// What the kernel writes of this thread.
    pub fn kernel(self) -> KernelWords<'static, Native> {
        let base = self.place * size_of::<KernelSlot>();
        // SAFETY: a slot exists, so the maps do, and `place` is below MAX_SLOTS.
        unsafe {
            KernelWords {
                epoch: word32(SLOTS, base + offset_of!(KernelSlot, epoch)),
                local: word64(SLOTS, base + offset_of!(KernelSlot, local)),
                credit: word64(SLOTS, base + offset_of!(KernelSlot, credit)),
                paid_seen: word64(SLOTS, base + offset_of!(KernelSlot, paid_seen)),
                sent: word32(SLOTS, base + offset_of!(KernelSlot, sent)),
                sent_at: word64(SLOTS, base + offset_of!(KernelSlot, sent_at)),
                pay_wait: word64(SLOTS, base + offset_of!(KernelSlot, pay_wait)),
            }
        }
    }

    /// What this thread says of its payments.
    pub fn target(self) -> TargetWords<'static, Native> {
        let base = self.place * size_of::<TargetSlot>();
        // SAFETY: as in `kernel`.
        unsafe {
            TargetWords {
                paid: word64(PAYMENTS, base + offset_of!(TargetSlot, paid)),
                acked: word32(PAYMENTS, base + offset_of!(TargetSlot, acked)),
                paying: word32(PAYMENTS, base + offset_of!(TargetSlot, paying)),
                ended_at: word64(PAYMENTS, base + offset_of!(TargetSlot, ended_at)),
            }
        }
    }

    fn wishes(self) -> (&'static AtomicU64, &'static AtomicU32) {
        let base = self.place * size_of::<TargetSlot>();
        // SAFETY: as in `kernel`.
        unsafe {
            (
                word64(PAYMENTS, base + offset_of!(TargetSlot, owner)),
                word32(PAYMENTS, base + offset_of!(TargetSlot, wants_blocked)),
            )
        }
    }

    /// `WANTS_BLOCKED` and `HELD` of this thread; none if they are a former owner's.
    pub fn flags(self) -> u32 {
        let (owner, flags) = self.wishes();
        if owner.load(Relaxed) == self.key { flags.load(Relaxed) } else { 0 }
    }

    /// Sets them.
    pub fn set_flags(self, value: u32) {
        let (owner, flags) = self.wishes();
        // A handler may come between the two: what it then reads must not be a former owner's.
        if owner.load(Relaxed) != self.key {
            flags.store(0, Relaxed);
            owner.store(self.key, Relaxed);
        }
        flags.store(value, Relaxed);
    }
}
