//! The rules of the virtual clock, as pure functions on a thread's slot.
//!
//! Every thread `T` has a virtual clock `v(T) = wall - local(T) - credit(T)`: wall time less the delay that it
//! has absorbed. It is a Lamport clock (Lamport 1978) in nanoseconds: an event happens no earlier, in virtual
//! time, than what caused it. `G` is the largest delay that a hit has created; a thread owes
//! `G - local - credit`. What is paid beyond `G` is kept apart as `credit`, so that the next hit does not
//! bill it to everyone else.
//!
//! The kernel runs these functions at samples, switches and wake-ups; the simulator and the tests run the
//! same ones. They contain no loop, no division by a variable that can be zero, and no panic.

use crate::abi::{Control, KernelSlot, STATE_RUNNING, TargetSlot, VISIT_PLACES};
use crate::stretch;

/// `G` together with the epoch that it belongs to, in one word, so that raising it is one compare-and-exchange
/// and a late hit of the experiment before can not touch the next one's.
///
/// Upper 16 bits: the epoch's lower 16; lower 48 bits: nanoseconds (78 hours).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct TaggedDelay(pub u64);

impl TaggedDelay {
    const BITS: u32 = 48;
    const MASK: u64 = (1 << Self::BITS) - 1;

    /// `ns` of delay (cut at 48 bits) in this epoch.
    #[must_use]
    #[inline(always)]
    pub const fn new(epoch: u32, ns: u64) -> Self {
        Self(((epoch as u64) << Self::BITS) | (ns & Self::MASK))
    }

    /// The delay if it is of this epoch, else zero.
    #[must_use]
    #[inline(always)]
    pub const fn in_epoch(self, epoch: u32) -> u64 {
        if self.0 >> Self::BITS == epoch as u64 & 0xFFFF { self.0 & Self::MASK } else { 0 }
    }

    /// What to store so that `G >= local` in this epoch; `None` where nothing is to be stored: it is so already, or
    /// the epoch is over. The first hit of an epoch replaces what an older one has left.
    #[must_use]
    #[inline(always)]
    pub const fn raised(self, epoch: u32, local: u64) -> Option<Self> {
        // Distance of the two epochs on the circle of 16-bit numbers: up to half of it is "later".
        let ahead = (epoch as u16).wrapping_sub((self.0 >> Self::BITS) as u16);
        let newer = ahead != 0 && ahead < 1 << 15;
        if newer || (ahead == 0 && local > self.0 & Self::MASK) {
            Some(Self::new(epoch, local))
        } else {
            None
        }
    }
}

/// What the rules need to know of the experiment: read once per event.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// Its number.
    pub epoch: u32,
    /// Whether it runs.
    pub running: bool,
    /// Thousandths.
    pub speedup: u32,
    /// When it began, nanoseconds.
    pub started_ns: u64,
    /// Nominal sampling period, nanoseconds; at least 1.
    pub period_ns: u64,
    /// Latency of a wake-up on an idle machine, nanoseconds.
    pub wake_latency_ns: u64,
    /// What a sample takes from the thread that it meets, nanoseconds.
    pub sample_cost_ns: u64,
}

impl Experiment {
    /// As the control page says now.
    #[must_use]
    #[inline(always)]
    pub fn of(control: &Control) -> Self {
        Self {
            epoch: control.epoch,
            running: control.state == STATE_RUNNING,
            speedup: control.speedup,
            started_ns: control.started_ns,
            period_ns: if control.period_ns == 0 { 1 } else { control.period_ns },
            wake_latency_ns: control.wake_latency_ns,
            sample_cost_ns: control.sample_cost_ns,
        }
    }
}

/// Delay that the thread has absorbed, all in all: what `v` is short of wall time.
#[must_use]
#[inline(always)]
pub const fn absorbed(slot: &KernelSlot) -> u64 {
    slot.local + slot.credit
}

/// What the thread owes.
#[must_use]
#[inline(always)]
pub const fn debt(slot: &KernelSlot, required: u64) -> u64 {
    required.saturating_sub(absorbed(slot))
}

/// An experiment begins for this thread, at its first event in it: nothing is carried over, and the clock starts
/// at `G = 0` whenever that event comes. `true` where it did begin.
#[inline(always)]
pub fn enter_epoch(slot: &mut KernelSlot, target: &TargetSlot, experiment: &Experiment, now: u64) -> bool {
    if slot.epoch == experiment.epoch {
        return false;
    }
    slot.epoch = experiment.epoch;
    slot.local = 0;
    slot.credit = 0;
    slot.private = 0;
    stretch::forget(slot);
    slot.visits = [0; VISIT_PLACES];
    slot.paid_seen = target.paid;
    // CPU time before the experiment is not charged to it.
    let within = now.saturating_sub(experiment.started_ns);
    if slot.cpu_uncharged > within {
        slot.cpu_uncharged = within;
    }
    // Nor is waiting before it a delay absorbed in it.
    if slot.blocked_at != 0 && slot.blocked_at < experiment.started_ns {
        slot.blocked_at = experiment.started_ns;
    }
    true
}

/// Books the CPU time since the last event. The part in which the handler ran is ours, not the program's.
/// Returns the nanoseconds booked.
#[inline(always)]
pub fn account_cpu(slot: &mut KernelSlot, target: &TargetSlot, now: u64) -> u64 {
    if slot.on_cpu_since == 0 {
        return 0;
    }
    let mut since = slot.on_cpu_since;
    slot.on_cpu_since = now;
    if target.paying != 0 {
        return 0;
    }
    if target.ended_at > since && target.ended_at <= now {
        since = target.ended_at;
    }
    let ran = now.saturating_sub(since);
    slot.cpu_uncharged += ran;
    slot.age += ran;
    slot.lived = slot.lived.saturating_add(if ran > u32::MAX as u64 { u32::MAX } else { ran as u32 });
    ran
}

/// The thread has had the CPU for `ran`, in a part of which it waited by spinning, while another one was in the selected line.
/// So far it is taken for one that waits for the other, and would in virtual time have waited less: it absorbs as much of what
/// it owes. The kernel sees neither when such a wait begins nor who ends it; who spins while nobody
/// is in the line is taken for one who works. Returns the nanoseconds absorbed.
#[inline(always)]
pub fn absorb_spinning(slot: &mut KernelSlot, required: u64, ran: u64) -> u64 {
    let spun = (ran * u64::from(slot.spinning.value)) >> 16;
    let owed = debt(slot, required);
    let waited = if spun < owed { spun } else { owed };
    slot.local += waited;
    waited
}

/// A sample takes time from the thread that it meets: ours, so it is absorbed like a payment, and it is no time of a line.
///
/// It would not matter if all lost alike. But a thread that was asked to pay at a tick is awake again some time before the next
/// one: who pays meets more ticks per time of its own, and would seem to need that much more.
#[inline(always)]
pub fn absorb_sample(slot: &mut KernelSlot, experiment: &Experiment, required: u64) {
    let cost = experiment.sample_cost_ns;
    slot.cpu_uncharged = slot.cpu_uncharged.saturating_sub(cost);
    set_absorbed(slot, absorbed(slot) + cost, required);
}

/// The part of a sample's time that passes after it was taken, nanoseconds: what it absorbs beforehand. A payment counts from
/// there on. Half of it by measurement: 42 % (with the times in the records of a software clock, of a thread that looks at the clock).
#[must_use]
#[inline(always)]
pub const fn rest_of_sample(experiment: &Experiment) -> u64 {
    experiment.sample_cost_ns / 2
}

/// A probe takes time from the thread that passes it, before and after it is seen to.
#[inline(always)]
pub fn absorb_visit(slot: &mut KernelSlot, required: u64, cost: u64) {
    // What has not been booked yet begins later.
    slot.on_cpu_since += if slot.on_cpu_since == 0 { 0 } else { cost };
    set_absorbed(slot, absorbed(slot) + cost, required);
}

/// Whether another thread than `tid` is in the selected line at a sample at `now`: the last sample of `hitter` (0: nobody) fell on it,
/// no longer than a period ago.
#[must_use]
#[inline(always)]
pub const fn line_runs_elsewhere(hitter: u64, hit_at: u64, tid: u64, now: u64, period: u64) -> bool {
    hitter != 0 && hitter != tid && now.saturating_sub(hit_at) <= period
}

/// By so much, nanoseconds, a payer can oversleep: the latency of a wake-up, of a timer.
pub const OVERSLEPT: u64 = 1_000_000;

/// Books what the thread has paid since the last event. Returns the nanoseconds booked; `None` where the target
/// claims more than can be true (it is booked at nothing: only its own results suffer).
///
/// `longest`: the time since the experiment began, the most that anyone can have paid in it. What goes far beyond what the thread owed is
/// not booked either: it would be handed on to whoever waits for this thread, or for its CPU.
#[inline(always)]
pub fn fold_payment(slot: &mut KernelSlot, target: &TargetSlot, required: u64, longest: u64) -> Option<u64> {
    let paid = target.paid.wrapping_sub(slot.paid_seen);
    slot.paid_seen = target.paid;
    if paid > longest {
        return None;
    }
    slot.counted_to += paid;
    let before = absorbed(slot);
    let most = if before > required + OVERSLEPT { before } else { required + OVERSLEPT };
    let after = if before + paid < most { before + paid } else { most };
    set_absorbed(slot, after, required);
    Some(after - before)
}

/// Splits what has been absorbed into `local`, at most `G`, and `credit`, the rest.
#[inline(always)]
pub const fn set_absorbed(slot: &mut KernelSlot, total: u64, required: u64) {
    slot.local = if total < required { total } else { required };
    slot.credit = total - slot.local;
}

/// The weight of a sample at `now`, nanoseconds: a period, less what the thread has paid of it.
///
/// The clock of a CPU ticks without regard to what runs, so each tick stands for a period. Not so for a thread that has paid:
/// it was asked to at a tick and is awake again some time before the next one, which would meet it more
/// often than chance. CPU time since the last sample, as the scheduler measures it, would not do: where a thread
/// works a little and waits a little, what it did just after a wait is met with the weight of just before it (simulated:
/// 0.9 of that line's time).
#[inline(always)]
pub fn take_sample_weight(slot: &mut KernelSlot, experiment: &Experiment, now: u64) -> u64 {
    let since = now.saturating_sub(slot.counted_to);
    slot.counted_to = now;
    if since < experiment.period_ns { since } else { experiment.period_ns }
}

/// Charges the CPU time since the last charge: the thread has, in the program that is being predicted, had less to do by the line's share of it,
/// so everyone else must be delayed by as much. The present stretch ends here: others can notice how far the thread is, and the caller
/// begins another one. Before the thread's first sample in the experiment nothing is known: the time stays, to be charged then.
///
/// Returns the nanoseconds charged. The caller raises `G` to the new `local`.
#[inline(always)]
pub fn charge(slot: &mut KernelSlot, experiment: &Experiment, required: u64) -> u64 {
    if !experiment.running || slot.share.weight == 0 {
        return 0;
    }
    stretch::classify(slot, experiment);
    let line = stretch::line_time(slot, slot.cpu_uncharged, experiment);
    slot.cpu_uncharged = 0;
    let ahead = slot.ahead;
    slot.ahead = ahead.saturating_sub(line);
    charge_line(slot, experiment, required, line.saturating_sub(ahead))
}

/// The stretch goes on, and what the thread has absorbed must be known: it loses its CPU, or may be asked to pay. It is charged in advance what
/// its time so far would be if it were like all that begins there; the end of the stretch sets that right.
#[inline(always)]
pub fn charge_ahead(slot: &mut KernelSlot, experiment: &Experiment, required: u64) -> u64 {
    if !experiment.running || slot.share.weight == 0 {
        return 0;
    }
    if slot.age >= stretch::LONG {
        return charge(slot, experiment, required);
    }
    let due = stretch::line_time_so_far(slot, slot.cpu_uncharged).saturating_sub(slot.ahead);
    slot.ahead += due;
    charge_line(slot, experiment, required, due)
}

/// A sample: the stretch goes on. It is charged only if it is long already, or if the thread owes `threshold` without that
/// and may be asked to pay: until then nobody else knows how far it is, and its end will tell more about it.
#[inline(always)]
pub fn charge_at_sample(
    slot: &mut KernelSlot,
    experiment: &Experiment,
    required: u64,
    threshold: u64,
) -> u64 {
    if slot.age < stretch::LONG && debt(slot, required) < threshold {
        return 0;
    }
    charge_ahead(slot, experiment, required)
}

/// The end of a thread: what is left is charged. Threads that live for less than a sampling period are sampled
/// only with probability `life / period`; those that were stand for the others too, as if they had lived that long.
#[inline(always)]
pub fn charge_exit(slot: &mut KernelSlot, experiment: &Experiment, required: u64) -> u64 {
    let charged = charge(slot, experiment, required);
    let lived = u64::from(slot.lived);
    if !experiment.running || slot.share.weight == 0 || lived >= experiment.period_ns {
        return charged;
    }
    let unseen = stretch::line_time(slot, experiment.period_ns - lived, experiment);
    charged + charge_line(slot, experiment, required, unseen)
}

#[inline(always)]
fn charge_line(slot: &mut KernelSlot, experiment: &Experiment, required: u64, line: u64) -> u64 {
    let delay = line * u64::from(experiment.speedup) / 1000;
    // The hit moves this thread's own clock, wherever it stands; credit from before stays credit.
    let credit = slot.credit;
    set_absorbed(slot, slot.local, required);
    slot.local += delay;
    slot.credit += credit;
    delay
}

/// A CPU's virtual clock: that of the thread of the set that left it last.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuClock {
    /// When that was.
    pub at: u64,
    /// The delay that the thread had absorbed, without what it owes for waits of its own.
    pub local: u64,
    /// In this epoch.
    pub epoch: u32,
    /// Explicit padding.
    pub _pad: u32,
}

/// The thread leaves its CPU; its clock is up to date.
#[inline(always)]
pub fn leave_cpu(slot: &KernelSlot, cpu: &mut CpuClock, required: u64, now: u64) {
    let owed = debt(slot, required);
    let private = if slot.private < owed { slot.private } else { owed };
    *cpu = CpuClock { at: now, local: absorbed(slot) + private, epoch: slot.epoch, _pad: 0 };
}

/// What a thread brings along when it gets a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Began {
    /// Time that it had stood in the run queue, nanoseconds.
    pub waited: u64,
    /// Delay that it has absorbed by waiting for who woke it, or for the CPU, nanoseconds.
    pub inherited: u64,
}

/// The CPU that a thread gets.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// Its clock.
    pub clock: &'a CpuClock,
    /// It had been idle until now, or the profiler's, so the time since the thread was ready is the latency of a wake-up and nothing else;
    /// otherwise that is known only up to what a wake-up takes on an idle machine.
    pub idle: bool,
}

/// The thread gets a CPU at `now`.
#[inline(always)]
pub fn get_cpu(
    slot: &mut KernelSlot,
    target: &TargetSlot,
    experiment: &Experiment,
    required: u64,
    cpu: Place<'_>,
    now: u64,
) -> Began {
    let longest = if cpu.idle { u64::MAX } else { experiment.wake_latency_ns };
    let mut began = Began::default();
    slot.on_cpu_since = now;
    let ready_at = if slot.ready_at == 0 { now } else { slot.ready_at };
    let left_at = if slot.blocked_at == 0 { ready_at } else { slot.blocked_at };
    began.waited = now.saturating_sub(ready_at);
    slot.ready_at = 0;
    book_wait(slot, target, longest, began.waited);
    let paying = target.paying != 0;
    if paying {
        slot.woken_at = 0;
    }
    enter_epoch(slot, target, experiment, now);
    let before = absorbed(slot);
    // Its clock goes neither back nor before its waker's.
    let mut most = before + now.saturating_sub(left_at);
    if slot.woken_at != 0 {
        let reach = slot.woken_local + now.saturating_sub(slot.woken_at);
        most = if reach < most { reach } else { most };
        apply_wake(slot, experiment, required, longest, now);
        slot.private = 0;
    } else if slot.blocked_at != 0 && !paying {
        slot.private = debt(slot, required);
    }
    if cpu.clock.epoch == experiment.epoch {
        // A payer will book what it has slept, and the latency that `book_wait` leaves it.
        let slept = if paying { ready_at.saturating_sub(left_at) } else { 0 };
        let latency = if paying { began.waited.min(longest) } else { 0 };
        let unbooked = slept + latency;
        let own = absorbed(slot) + unbooked;
        // It waited for the CPU only as long as somebody else had it.
        let waited = cpu.clock.at.saturating_sub(ready_at + latency);
        let there = cpu.clock.local + now.saturating_sub(cpu.clock.at);
        // Only a CPU that stood idle puts back; who waited behind others, or has paid, is not put back.
        let total = if waited > 0 || paying { own.max((own + waited).min(there)) } else { own.min(there) };
        let total = total.min(own.max(most));
        set_absorbed(slot, total.saturating_sub(unbooked), required);
    }
    began.inherited = absorbed(slot).saturating_sub(before);
    slot.blocked_at = 0;
    began
}

/// The thread runs, though it was not seen to get its CPU: `Some` of when it must have, to be given to [`get_cpu`]. That is
/// when it became ready, or `now` where that was not seen either.
///
/// Such a thing should not happen, but does: on a virtual machine whose hypervisor kept an old copy of the kernel's code for
/// some processes, the tracepoint was silent while one of them gave its CPU away. A thread that is taken
/// for sleeping while it runs would be charged nothing until its next switch.
#[must_use]
#[inline(always)]
pub const fn missed_switch(slot: &KernelSlot, now: u64) -> Option<u64> {
    match (slot.on_cpu_since, slot.ready_at) {
        (0, 0) => Some(now),
        (0, ready) => Some(ready),
        _ => None,
    }
}

/// The thread runs again, `waited` after it was ready to. While it pays, waiting for a CPU is no payment; but the latency of a
/// wake-up (at most `longest`) would not have been there without the payment.
#[inline(always)]
fn book_wait(slot: &mut KernelSlot, target: &TargetSlot, longest: u64, waited: u64) {
    if target.paying != 0 {
        slot.pay_wait += waited.saturating_sub(longest);
    }
}

/// The thread was woken by another one of the profiled set, and runs again at `now`:
/// `v(T) = max(v(T) at block, v(W))`.
///
/// Where the waker had, in virtual time, been there before this thread began to wait, it would not have waited at
/// all: then the whole stretch until it runs again is delay absorbed, the latency of the wake-up included (at most `longest`;
/// the rest is waiting for a CPU). Returns the nanoseconds absorbed.
#[inline(always)]
pub fn apply_wake(
    slot: &mut KernelSlot,
    experiment: &Experiment,
    required: u64,
    longest: u64,
    now: u64,
) -> u64 {
    let woken_at = slot.woken_at;
    if woken_at == 0 {
        return 0;
    }
    slot.woken_at = 0;
    if slot.woken_epoch != experiment.epoch || slot.epoch != experiment.epoch {
        return 0;
    }
    // Never left its CPU: it waited for nothing.
    let waited = if slot.blocked_at == 0 { 0 } else { woken_at.saturating_sub(slot.blocked_at) };
    let before = absorbed(slot);
    let after = if slot.woken_local >= before + waited {
        let latency = if slot.blocked_at == 0 { 0 } else { now.saturating_sub(woken_at).min(longest) };
        before + waited + latency
    } else {
        slot.woken_local
    };
    set_absorbed(slot, after, required);
    after.saturating_sub(before)
}

/// A thread is born: in virtual time it begins where its parent is.
#[inline(always)]
pub fn inherit(child: &mut KernelSlot, parent: &KernelSlot) {
    child.local = parent.local;
    child.credit = parent.credit;
    child.epoch = parent.epoch;
}

#[cfg(test)]
mod tests;
