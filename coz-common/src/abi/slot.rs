//! A thread's slot: what the kernel and what the target say of it, and where it is.

use super::MAX_SLOTS;

/// A thread's virtual clock and what belongs to it; written by the kernel, in the thread's own context
/// (or on its CPU) except where a comment says otherwise. Mapped read-only in the target.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct KernelSlot {
    /// Whose slot this is: see [`slot_key`]; 0 = free. Claimed with compare-and-exchange.
    pub key: u64,
    /// Thread id, as the initial pid namespace sees it.
    pub tid: u32,
    /// Process id, as the initial pid namespace sees it.
    pub tgid: u32,
    /// The delay absorbed in this epoch, nanoseconds; at most `G`.
    pub local: u64,
    /// What was paid beyond `G`: kept apart, so that the next hit does not bill it to everyone.
    pub credit: u64,
    /// `TargetSlot::paid` up to which payments have gone into `local` and `credit`.
    pub paid_seen: u64,
    /// The epoch that `local`, `credit` and the shares of the selected line belong to.
    pub epoch: u32,
    /// CPU time of the thread's whole life, up to `on_cpu_since`, nanoseconds; stays at its largest value.
    pub lived: u32,
    /// Of all the thread's CPU time, whatever stretch it is in.
    pub share: Share,
    /// The share of its CPU time in which it waits by spinning while another thread is in the selected line.
    pub spinning: Share,
    /// When the thread last got its CPU; 0 while it has none.
    pub on_cpu_since: u64,
    /// Up to when its samples stand for it: the time of the last one, put forward by what it has paid since.
    pub counted_to: u64,
    /// CPU time since it was last charged, up to `on_cpu_since`.
    pub cpu_uncharged: u64,
    /// CPU time of the present stretch, up to `on_cpu_since`, nanoseconds.
    pub age: u64,
    /// When it blocked; 0 while it runs or waits for a CPU only.
    pub blocked_at: u64,
    /// When it was last woken by a thread of the profiled set; 0 once that has been applied. Written by the waker's CPU.
    pub woken_at: u64,
    /// The waker's `local` then. Written by the waker's CPU.
    pub woken_local: u64,
    /// The epoch of `woken_local`. Written by the waker's CPU.
    pub woken_epoch: u32,
    /// Number of the last signal sent; one is pending while `TargetSlot::acked` differs.
    pub sent: u32,
    /// When it was sent; 0 if the thread has lost its CPU since, before its handler began.
    pub sent_at: u64,
    /// Time spent waiting for a CPU while paying, all in all: no delay of ours.
    pub pay_wait: u64,
    /// When it became ready to run; 0 while it runs or is blocked.
    pub ready_at: u64,
    /// Visits of points in this epoch, by [`crate::point::Code::place`].
    pub visits: [u32; VISIT_PLACES],
    /// Which of `kinds` the present stretch is of; [`STRETCH_KINDS`] where none was free.
    pub stretch: u16,
    /// Bits of [`flags`].
    pub flags: u8,
    /// The number of the book that its [`TargetSlot`] is in: that of the user whose process it is.
    pub book: u8,
    /// What it owed when it last came back from a wait that no thread of the set has ended (input, output, a timer).
    pub private: u64,
    /// The kinds of stretches seen in this epoch.
    pub kinds: [Kind; STRETCH_KINDS as usize],
    /// CPU time behind those samples of the present stretch that no class has yet, in units of 1024 ns.
    pub met: u32,
    /// The part of it on the selected line.
    pub met_line: u32,
    /// Line time that was charged before the end of its stretch, less what such ends have set right, nanoseconds.
    pub ahead: u64,
    /// To a cache line: neighbours run on other CPUs.
    pub _reserved: [u64; 2],
}

/// In how many places a thread's visits are counted: one for each of the first throughput points, the last for all others.
pub const VISIT_PLACES: usize = 7;

/// The place where a thread's life begins.
pub const PLACE_START: u32 = 1;

/// How many kinds of stretches a thread's slot tells apart: places where it blocks or wakes somebody. A thread with more
/// of them is charged at its share of all its time in the others.
pub const STRETCH_KINDS: u16 = 8;

/// A running share of CPU time.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// In 1/65536.
    pub value: u32,
    /// CPU time behind it, capped, in units of 1024 ns; 0: nothing is known.
    pub weight: u32,
}

/// The stretches of a thread's CPU time that begin at the same place of its code.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kind {
    /// The place; 0: none, the entry is free.
    pub place: u32,
    /// Of the CPU time in these stretches.
    pub share: Share,
    /// The same, by the length of the stretch: up to 65.5 us of CPU time ([`LENGTH_FIRST`]), up to twice as much, and so on; the last three are of
    /// those longer than that, by how old they were: see [`crate::stretch`].
    pub classes: [Share; STRETCH_CLASSES],
}

/// How many classes of stretches that begin at the same place are told apart.
pub const STRETCH_CLASSES: usize = 8;
/// Up to which CPU time a stretch is of the first length, nanoseconds; each of the next ones up to twice as much as the one before.
pub const LENGTH_FIRST: u64 = 1 << 16;

impl KernelSlot {
    /// The slot gets a new owner: everything but the claimed key is set anew.
    #[inline(always)]
    pub fn reset(&mut self, tid: u32, tgid: u32, book: u8, target: &TargetSlot) {
        let key = self.key;
        *self = Self { key, tid, tgid, ..Self::default() };
        self.kinds[0].place = PLACE_START;
        self.open_book(book, target);
    }

    /// From now on this is where the thread says what it has paid. What others have said there before, and the signals that were
    /// answered, are behind us.
    #[inline(always)]
    pub fn open_book(&mut self, book: u8, target: &TargetSlot) {
        self.book = book;
        self.paid_seen = target.paid;
        self.sent = target.acked;
    }
}

/// Bits of [`KernelSlot::flags`].
pub mod flags {
    /// The thread is on its way out: its memory is gone, it has no call chain any more.
    pub const LEAVING: u8 = 1;
    /// The thread was in its handler when it last left its CPU, and is so until it gets one again.
    pub const PAYING: u8 = 2;
}

/// What a thread says of itself: written by the shim in the thread's own context, never by anyone else.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct TargetSlot {
    /// Delay paid in this slot, all in all, nanoseconds. Only ever grows, also when the slot gets a new owner.
    pub paid: u64,
    /// `KernelSlot::sent` as the handler saw it at its end: no signal is pending when they are equal.
    pub acked: u32,
    /// 1 while the handler runs.
    pub paying: u32,
    /// What the program believes about our signal in this thread: 1 = it asked to have it blocked.
    pub wants_blocked: u32,
    /// Explicit padding.
    pub _pad: u32,
    /// `KernelSlot::key` of the thread that `wants_blocked` belongs to: slots are used again.
    pub owner: u64,
    /// When the handler last ended: CPU time before it was ours, not the program's.
    pub ended_at: u64,
    /// To a cache line: two threads never write the same one.
    pub _reserved: [u64; 3],
}

/// The key of a thread's slot: number of its pid namespace, and its id in there.
#[must_use]
#[inline(always)]
pub const fn slot_key(pid_namespace: u32, tid: u32) -> u64 {
    ((pid_namespace as u64) << 32) | tid as u64
}

/// The first of the [`super::SLOT_PROBES`] places where a slot with this key can be (Fibonacci hashing, Knuth 6.4).
#[must_use]
#[inline(always)]
pub const fn slot_home(key: u64) -> u32 {
    (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as u32 & (MAX_SLOTS - 1)
}

/// The `probe`-th place where a slot with this key can be.
#[must_use]
#[inline(always)]
pub const fn slot_place(key: u64, probe: u32) -> u32 {
    (slot_home(key) + probe) & (MAX_SLOTS - 1)
}

#[cfg(test)]
mod tests {
    use super::super::SLOT_PROBES;
    use super::*;

    #[test]
    fn a_slot_is_always_within_the_table() {
        for tid in 0..100_000 {
            for probe in 0..SLOT_PROBES {
                assert!(slot_place(slot_key(0xF000_0001, tid), probe) < MAX_SLOTS);
            }
        }
    }

    #[test]
    fn neighbouring_threads_do_not_crowd() {
        let mut load = [0u32; MAX_SLOTS as usize];
        for tid in 1000..5000 {
            let key = slot_key(4_026_531_836, tid);
            let place = (0..SLOT_PROBES).map(|p| slot_place(key, p)).find(|&i| load[i as usize] == 0);
            load[place.expect("4000 threads fit in 16384 slots") as usize] = 1;
        }
    }
}
