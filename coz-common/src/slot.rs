//! The protocol between a thread's two slots: how the shim reads what the thread owes, publishes what it has
//! paid, answers a signal, and claims a coz.h counter.
//!
//! Generic over the atomic words, so that one text runs in the target and under the model checker
//! (`RUSTFLAGS="--cfg loom" cargo test -p coz-common --release slot`).
//!
//! What the kernel side must keep for this to be right:
//!
//! * It writes `local`, `credit`, `paid_seen` and `epoch` only while the thread itself is interrupted or off
//!   its CPU. The thread can be stopped between any two of its reads, but never sees half an update.
//! * Within an epoch `local` and `paid_seen` only grow. A fold takes `paid - paid_seen` into `local` and
//!   `credit`, and moves `paid_seen` by the same amount. A new epoch sets `paid_seen` to `paid`.
//! * A reader on another CPU (the controller) can see half an update. Written in the order `epoch`, `local`,
//!   `credit`, `paid_seen` ([`KernelWords::write_clock`]), half an update shows too little debt, never too much.
//! * It sends no signal while `TargetSlot::acked` differs from `KernelSlot::sent`.

use core::sync::atomic::Ordering::{self, Acquire, Relaxed, Release};

use crate::abi::{STATE_RUNNING, TargetSlot};
use crate::units::Nanos;

/// A word that two sides touch.
pub trait Word<T: Copy> {
    /// Reads it.
    fn get(&self, order: Ordering) -> T;
    /// Writes it.
    fn set(&self, value: T, order: Ordering);
    /// Writes `new` if it holds `old`; whether it did.
    fn replace(&self, old: T, new: T) -> bool;
}

/// A family of atomic words.
pub trait Atomics {
    /// Its 32-bit word.
    type U32: Word<u32>;
    /// Its 64-bit word.
    type U64: Word<u64>;
    /// Orders what was written before against what is read after.
    fn fence();
}

/// The words of `core`: what the shim uses.
#[derive(Clone, Copy, Debug)]
pub struct Native;

macro_rules! word {
    ($atomic:ty, $value:ty) => {
        impl Word<$value> for $atomic {
            #[inline(always)]
            fn get(&self, order: Ordering) -> $value {
                self.load(order)
            }
            #[inline(always)]
            fn set(&self, value: $value, order: Ordering) {
                self.store(value, order);
            }
            #[inline(always)]
            fn replace(&self, old: $value, new: $value) -> bool {
                self.compare_exchange(old, new, Ordering::AcqRel, Relaxed).is_ok()
            }
        }
    };
}
word!(core::sync::atomic::AtomicU32, u32);
word!(core::sync::atomic::AtomicU64, u64);

impl Atomics for Native {
    type U32 = core::sync::atomic::AtomicU32;
    type U64 = core::sync::atomic::AtomicU64;
    #[inline(always)]
    fn fence() {
        core::sync::atomic::fence(Ordering::SeqCst);
    }
}

/// The words of [`crate::abi::Control`] and [`crate::abi::Global`] that decide whether anybody owes anything.
#[derive(Debug)]
pub struct PageWords<'a, A: Atomics> {
    /// `Control::epoch`.
    pub epoch: &'a A::U32,
    /// `Control::state`.
    pub state: &'a A::U32,
    /// `Control::deadline_ns`.
    pub deadline: &'a A::U64,
    /// `Global::required`.
    pub required: &'a A::U64,
}

/// The words of [`crate::abi::KernelSlot`] that the shim reads.
#[derive(Debug)]
pub struct KernelWords<'a, A: Atomics> {
    /// `KernelSlot::epoch`.
    pub epoch: &'a A::U32,
    /// `KernelSlot::local`.
    pub local: &'a A::U64,
    /// `KernelSlot::credit`.
    pub credit: &'a A::U64,
    /// `KernelSlot::paid_seen`.
    pub paid_seen: &'a A::U64,
    /// `KernelSlot::sent`.
    pub sent: &'a A::U32,
    /// `KernelSlot::sent_at`.
    pub sent_at: &'a A::U64,
    /// `KernelSlot::pay_wait`.
    pub pay_wait: &'a A::U64,
}

/// The words of [`TargetSlot`] that make up a payment.
#[derive(Debug)]
pub struct TargetWords<'a, A: Atomics> {
    /// `TargetSlot::paid`.
    pub paid: &'a A::U64,
    /// `TargetSlot::acked`.
    pub acked: &'a A::U32,
    /// `TargetSlot::paying`.
    pub paying: &'a A::U32,
    /// `TargetSlot::ended_at`.
    pub ended_at: &'a A::U64,
}

/// How many bits of `Global::required` are the delay; the rest is the low part of the epoch's number.
pub const DELAY_BITS: u32 = 48;
/// A signal older than this was not just delivered: the handler does not count from its sending.
pub const STALE: Nanos = Nanos(1_000_000_000);
/// A reader gives up after this many disturbed readings, and owes nothing this time.
const ATTEMPTS: u32 = 8;

/// The delay in a `Global::required` that belongs to `epoch`; `None` where it is another epoch's.
#[must_use]
#[inline(always)]
pub const fn required_in(word: u64, epoch: u32) -> Option<u64> {
    if (word >> DELAY_BITS) as u16 == epoch as u16 { Some(word & ((1 << DELAY_BITS) - 1)) } else { None }
}

impl<A: Atomics> KernelWords<'_, A> {
    /// Writes a thread's clock in the order that readers on other CPUs rely on: what they see of half an
    /// update is less debt than there is. The kernel side does the same with plain stores.
    pub fn write_clock(&self, epoch: u32, local: u64, credit: u64, paid_seen: u64) {
        self.epoch.set(epoch, Release);
        self.local.set(local, Release);
        self.credit.set(credit, Release);
        self.paid_seen.set(paid_seen, Release);
    }

    /// What only grows: equal at two moments means that it was so all the time between.
    #[inline(always)]
    fn marks(&self) -> (u32, u64, u64) {
        (self.epoch.get(Acquire), self.paid_seen.get(Acquire), self.local.get(Acquire))
    }
}

/// What the thread owes at `now`: at most what it truly owed at some moment of the call, 0 where no experiment
/// runs, the deadline has passed, or the slot is another epoch's.
///
/// `G` is read before the slot, and `G` only grows: a reading is never too high. The slot's words count only
/// if what can move in it was the same before and after, so all of them were true at one moment.
#[must_use]
pub fn debt<A: Atomics>(
    page: &PageWords<'_, A>,
    kernel: &KernelWords<'_, A>,
    target: &TargetWords<'_, A>,
    now: Nanos,
) -> Nanos {
    debt_in(None, page, kernel, target, now)
}

/// [`debt`], of one epoch if one is given: 0 if it is over.
fn debt_in<A: Atomics>(
    wanted: Option<u32>,
    page: &PageWords<'_, A>,
    kernel: &KernelWords<'_, A>,
    target: &TargetWords<'_, A>,
    now: Nanos,
) -> Nanos {
    for _ in 0..ATTEMPTS {
        let epoch = page.epoch.get(Acquire);
        if page.state.get(Acquire) != STATE_RUNNING || now.0 >= page.deadline.get(Acquire) {
            return Nanos(0);
        }
        if wanted.is_some_and(|wanted| wanted != epoch) {
            return Nanos(0);
        }
        let Some(required) = required_in(page.required.get(Acquire), epoch) else { return Nanos(0) };
        let marks = kernel.marks();
        let credit = kernel.credit.get(Acquire);
        if kernel.marks() != marks {
            continue;
        }
        let (slot_epoch, paid_seen, local) = marks;
        if slot_epoch != epoch {
            return Nanos(0);
        }
        let unseen = target.paid.get(Relaxed).wrapping_sub(paid_seen);
        return Nanos(required.saturating_sub(local).saturating_sub(credit).saturating_sub(unseen));
    }
    Nanos(0)
}

/// A payment under way, from the handler's first instruction to its last. Made in the thread's own context.
#[derive(Debug)]
pub struct Payment {
    start: Nanos,
    waited_before: u64,
    epoch: u32,
    sent: u32,
    published: u64,
}

impl Payment {
    /// Begins to count: from the moment the signal was sent, if the thread has kept its CPU since, else from
    /// `clock()`. `asked` says whether a signal is behind it.
    ///
    /// `paying` is set between the two readings that it decides on: a thread that loses its CPU before it is
    /// set has `sent_at` taken away; one that loses it afterwards has the wait added to `pay_wait`.
    pub fn begin<A: Atomics>(
        kernel: &KernelWords<'_, A>,
        target: &TargetWords<'_, A>,
        asked: bool,
        clock: impl FnOnce() -> Nanos,
    ) -> Self {
        let waited_before = kernel.pay_wait.get(Relaxed);
        target.paying.set(1, Release);
        A::fence();
        let sent = kernel.sent.get(Acquire);
        let sent_at = Nanos(if asked { kernel.sent_at.get(Acquire) } else { 0 });
        let epoch = kernel.epoch.get(Acquire);
        let waited_now = kernel.pay_wait.get(Acquire);
        let now = clock();
        let fresh = sent_at.0 != 0 && sent_at <= now && now.since(sent_at) <= STALE;
        let (start, waited_before) = if fresh { (sent_at, waited_before) } else { (now, waited_now) };
        Self { start, waited_before, epoch, sent, published: 0 }
    }

    /// What is left to pay: [`debt`], but nothing once the experiment in which the payment began is over. A
    /// payment goes to one epoch; what the next one asks for is another.
    #[must_use]
    pub fn remaining<A: Atomics>(
        &self,
        page: &PageWords<'_, A>,
        kernel: &KernelWords<'_, A>,
        target: &TargetWords<'_, A>,
        now: Nanos,
    ) -> Nanos {
        debt_in(Some(self.epoch), page, kernel, target, now)
    }

    /// Adds the time spent up to `now` to `paid`, without what was spent waiting for a CPU. What belongs to
    /// an epoch that is over is not added: the new one starts with nothing.
    pub fn publish<A: Atomics>(
        &mut self,
        kernel: &KernelWords<'_, A>,
        target: &TargetWords<'_, A>,
        now: Nanos,
    ) {
        let waited = kernel.pay_wait.get(Acquire).wrapping_sub(self.waited_before);
        let spent = now.since(self.start).0.saturating_sub(waited);
        if spent <= self.published || kernel.epoch.get(Acquire) != self.epoch {
            return;
        }
        let paid = target.paid.get(Relaxed);
        target.paid.set(paid.wrapping_add(spent - self.published), Release);
        self.published = spent;
    }

    /// Ends the payment without an answer: no signal was behind it.
    /// `now`: CPU time from here on is the program's again.
    pub fn end<A: Atomics>(self, target: &TargetWords<'_, A>, now: Nanos) {
        target.ended_at.set(now.0, Relaxed);
        target.paying.set(0, Release);
    }

    /// Ends the payment and answers the signal that was pending at its beginning. Last of all: who sees the
    /// answer sees the payment.
    pub fn answer<A: Atomics>(self, target: &TargetWords<'_, A>, now: Nanos) {
        target.ended_at.set(now.0, Relaxed);
        target.paying.set(0, Release);
        target.acked.set(self.sent, Release);
    }
}

/// Whether a signal may be sent: none is pending. The kernel side of [`Payment::answer`].
#[must_use]
#[inline(always)]
pub const fn may_send(sent: u32, acked: u32) -> bool {
    sent == acked
}

/// [`crate::abi::CounterSlot::state`]: nobody has it.
pub const COUNTER_FREE: u32 = 0;
/// [`crate::abi::CounterSlot::state`]: its name is being written.
pub const COUNTER_CLAIMED: u32 = 1;
/// [`crate::abi::CounterSlot::state`]: kind and name are there to stay.
pub const COUNTER_READY: u32 = 2;

/// A place in the table of counters.
pub trait CounterPlace<A: Atomics> {
    /// Its state.
    fn state(&self) -> &A::U32;
    /// Whether it has our kind and name; asked only once it is ready.
    fn is_ours(&self) -> bool;
    /// Writes our kind and name; asked only of the one who claimed it.
    fn write(&self);
}

/// The place of one counter among `places`, found or claimed; `None` when all are taken by others.
///
/// All searchers go the same way and nothing is ever given back, so a counter gets one place whoever asks
/// first. `patience(round)` is called while another one writes a name, and ends the wait by returning `false`
/// (the writer may have been killed): the counter can then get a second place, and readers add up by name.
pub fn claim_counter<A: Atomics, P: CounterPlace<A>>(
    places: impl IntoIterator<Item = P>,
    mut patience: impl FnMut(u32) -> bool,
) -> Option<P> {
    for place in places {
        let mut round = 0;
        loop {
            match place.state().get(Acquire) {
                COUNTER_FREE if place.state().replace(COUNTER_FREE, COUNTER_CLAIMED) => {
                    place.write();
                    place.state().set(COUNTER_READY, Release);
                    return Some(place);
                }
                COUNTER_FREE => {}
                COUNTER_CLAIMED if patience(round) => round += 1,
                COUNTER_READY if place.is_ours() => return Some(place),
                _ => break,
            }
        }
    }
    None
}

/// Bit of [`TargetSlot::wants_blocked`]: the program asked to have our signal blocked.
pub const WANTS_BLOCKED: u32 = 1;
/// Bit of [`TargetSlot::wants_blocked`]: we keep it blocked, since the thread's alternate stack is too small
/// for our handler.
pub const HELD: u32 = 2;

const _: () = assert!(core::mem::offset_of!(TargetSlot, paid) == 0);

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;
