//! The five maps that kernel, controller and target share, and a thread's place in them.

use core::ffi::c_int;
use core::mem::{offset_of, size_of};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64};

use coz_common::abi::{
    Control, CounterSlot, Global, KernelSlot, MAX_COUNTERS, MAX_SLOTS, SLOT_PROBES, TargetSlot, slot_key,
    slot_place,
};
use coz_common::slot::{KernelWords, Native, PageWords, TargetWords};

use crate::sys;

/// How many maps there are, in the order of `abi::HELLO_REGISTER`.
pub const MAPS: usize = 5;
const CONTROL: usize = 0;
const GLOBAL: usize = 1;
const SLOTS: usize = 2;
const PAYMENTS: usize = 3;
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

/// # Safety
/// [`signal`] has given a signal: the maps are there, for good.
#[inline(always)]
unsafe fn word32(map: usize, offset: usize) -> &'static AtomicU32 {
    // SAFETY: within the map, aligned as the ABI's offsets are, and only ever touched as an atomic.
    unsafe { AtomicU32::from_ptr(ADDRESSES[map].load(Relaxed).add(offset).cast()) }
}

/// # Safety
/// As [`word32`].
#[inline(always)]
unsafe fn word64(map: usize, offset: usize) -> &'static AtomicU64 {
    // SAFETY: as in `word32`.
    unsafe { AtomicU64::from_ptr(ADDRESSES[map].load(Relaxed).add(offset).cast()) }
}

/// The table of counters, or `None` without a profiler.
pub fn counters() -> Option<*mut CounterSlot> {
    signal().map(|_| ADDRESSES[COUNTERS].load(Relaxed).cast())
}

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
        signal()?;
        let key = slot_key(PID_NAMESPACE.load(Relaxed), sys::gettid());
        (0..SLOT_PROBES).map(|probe| slot_place(key, probe) as usize).find_map(|place| {
            let offset = place * size_of::<KernelSlot>() + offset_of!(KernelSlot, key);
            // SAFETY: there is a signal; `place` is below MAX_SLOTS.
            let found = unsafe { word64(SLOTS, offset) }.load(Acquire);
            (found == key).then_some(Self { place, key })
        })
    }

    /// What decides whether anybody owes.
    pub fn page(self) -> PageWords<'static, Native> {
        // SAFETY: a slot exists, so there is a signal.
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
        // SAFETY: a slot exists, so there is a signal, and `place` is below MAX_SLOTS.
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
