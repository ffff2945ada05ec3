//! Latency points: intervals begin and end.
//!
//! A thread's clock is read in its own context, but not in an interrupt as everywhere else, so a tick can come in between.
//! `BUSY` keeps that tick away from the slot.

use core::intrinsics::{AtomicOrdering, atomic_xadd};

use aya_ebpf::helpers::bpf_ktime_get_ns;
use coz_common::{
    clock::{Experiment, debt},
    latency::{self, Ended, Frame, LatencyCounts, Open, OpenKey},
    point::Code,
    stretch,
};

use crate::{
    maps::{BUSY, LATENCIES, NO_OPEN, OPEN, PROCESSES, control},
    signal,
    thread::{self, Thread},
};

/// Where the thread's clock stands.
struct Clock {
    experiment: Experiment,
    now: u64,
    required: u64,
    absorbed: u64,
}

impl Clock {
    fn in_experiment(&self, absorbed: u64, at: u64) -> u64 {
        latency::virtual_time(&self.experiment, absorbed, at)
    }
}

/// Whether the slot of this thread is being changed on this CPU.
#[inline(always)]
pub fn is_busy(index: u32) -> bool {
    // SAFETY: this CPU's own element.
    BUSY.get_ptr(0).is_some_and(|busy| unsafe { core::ptr::read_volatile(busy) } == index + 1)
}

#[inline(always)]
fn set_busy(value: u32) {
    if let Some(busy) = BUSY.get_ptr_mut(0) {
        // SAFETY: this CPU's own element; volatile, since an interrupt reads it.
        unsafe { core::ptr::write_volatile(busy, value) };
    }
}

/// Brings the clock of the current thread up to date. What it does from here on is a stretch of its own: what it is charged within
/// the interval must be the line's share there, not that of all its time.
#[inline(always)]
fn clock(thread: &mut Thread, index: u32, code: Code) -> Option<Clock> {
    set_busy(index + 1);
    let experiment = thread::experiment()?;
    // SAFETY: a helper without arguments.
    let now = unsafe { bpf_ktime_get_ns() };
    let mut required = thread.catch_up(&experiment, now);
    required = thread.charge(&experiment, required);
    stretch::begin(thread.slot, stretch::place(u64::from(code.0), 0, false));
    let absorbed = latency::absorbed_in(thread.slot, &experiment);
    set_busy(0);
    Some(Clock { experiment, now, required, absorbed })
}

#[inline(always)]
fn add(sum: *mut u64, by: u64) {
    // SAFETY: a word of a map that every CPU adds to: one instruction.
    unsafe { atomic_xadd::<u64, u64, { AtomicOrdering::Relaxed }>(sum, by) };
}

/// The intervals that the thread has under way; made where there are none yet.
#[inline(always)]
fn open_of(thread: &Thread, key: &OpenKey) -> Option<*mut Open> {
    if OPEN.get_ptr_mut(key).is_none() {
        // SAFETY: this CPU's own element, never written; copied by the kernel.
        let empty = unsafe { &*NO_OPEN.get_ptr(0)? };
        OPEN.insert(key, empty, 0).ok()?;
    }
    let open = OPEN.get_ptr_mut(key)?;
    // SAFETY: an element that only its thread touches, in its own context.
    unsafe {
        if (*open).owner != thread.slot.key {
            (*open).owner = thread.slot.key;
            (*open).depth = 0;
            (*open).tangled = 0;
        }
    }
    Some(open)
}

/// An interval begins in the current thread.
#[inline(always)]
pub fn begin(thread: &mut Thread, index: u32, code: Code, stack_pointer: u64) {
    let Some(counts) = LATENCIES.get_ptr_mut(code.index()) else { return };
    let Some(clock) = clock(thread, index, code) else {
        set_busy(0);
        return;
    };
    // SAFETY: addresses of words within the map's element.
    unsafe {
        add(&raw mut (*counts).begins, 1);
        if clock.experiment.running {
            add(&raw mut (*counts).arrivals, 1);
            add(&raw mut (*counts).arrived_at, clock.in_experiment(clock.absorbed, clock.now));
        }
    }
    let frame = code.frame(stack_pointer);
    if let Some(open) = open_of(thread, &OpenKey { slot: index, point: code.index() }) {
        // SAFETY: see `open_of`.
        let open = unsafe { &mut *open };
        drop_abandoned(open, counts, &clock, frame, true);
        open.push(Frame {
            at: clock.now,
            absorbed: clock.absorbed,
            frame,
            epoch: clock.experiment.epoch,
            delayed: u32::from(clock.experiment.running && clock.experiment.speedup != 0),
        });
    }
    pay_first(thread, &clock);
}

/// Calls that were left without a return have not departed: they are taken out of the sums.
#[inline(always)]
fn drop_abandoned(open: &mut Open, counts: *mut LatencyCounts, clock: &Clock, frame: u64, begins: bool) {
    for _ in 0..latency::OPEN_FRAMES {
        let Some(gone) = open.pop_abandoned(frame, begins) else { break };
        // SAFETY: addresses of words within the map's element.
        unsafe {
            add(&raw mut (*counts).abandoned, 1);
            if clock.experiment.running
                && gone.epoch == clock.experiment.epoch
                && gone.at >= clock.experiment.started_ns
            {
                add(&raw mut (*counts).arrivals, u64::MAX);
                let at = clock.in_experiment(gone.absorbed, gone.at);
                add(&raw mut (*counts).arrived_at, at.wrapping_neg());
            }
        }
    }
}

/// What begins here may be seen by others from now on, so it must not be there, in virtual time, before they are: a thread
/// that owes pays first. Threads that only hand work to others, and sleep in between, are hardly ever met by a sample;
/// here they are met each time.
#[inline(always)]
fn pay_first(thread: &mut Thread, clock: &Clock) {
    let Some(control) = control() else { return };
    if clock.experiment.running
        && debt(thread.slot, clock.required) >= control.threshold_ns
        && clock.now < control.deadline_ns
        && let Some(process) = PROCESSES.get_ptr(thread.slot.tgid)
    {
        // SAFETY: a pointer into the map; the controller replaces entries as a whole.
        thread.keep_book(unsafe { (*process).book });
        // SAFETY: as above.
        signal::ask_to_pay(thread, unsafe { &*process }, control, clock.now);
    }
}

/// An interval ends in the current thread, whichever it began in.
#[inline(always)]
pub fn end(thread: &mut Thread, index: u32, code: Code, stack_pointer: u64) {
    let Some(counts) = LATENCIES.get_ptr_mut(code.index()) else { return };
    let Some(clock) = clock(thread, index, code) else {
        set_busy(0);
        return;
    };
    let key = OpenKey { slot: index, point: code.index() };
    let frame = code.frame(stack_pointer);
    let ended = match OPEN.get_ptr_mut(&key) {
        // SAFETY: see `open_of`.
        Some(open) if unsafe { (*open).owner } == thread.slot.key => {
            // SAFETY: as above.
            let open = unsafe { &mut *open };
            drop_abandoned(open, counts, &clock, frame, false);
            open.pop(frame, &clock.experiment, clock.absorbed, clock.now)
        }
        _ => Ended::Unmatched,
    };
    // SAFETY: addresses of words within the map's element.
    unsafe {
        add(&raw mut (*counts).ends, 1);
        if !clock.experiment.running {
            return;
        }
        add(&raw mut (*counts).departures, 1);
        add(&raw mut (*counts).departed_at, clock.in_experiment(clock.absorbed, clock.now));
        match ended {
            Ended::Unmatched => add(&raw mut (*counts).unmatched, 1),
            Ended::Lost => add(&raw mut (*counts).lost, 1),
            Ended::Measured(ns) => {
                add(&raw mut (*counts).measured, 1);
                add(&raw mut (*counts).measured_ns, ns);
                // Volatile: the compiler knows that no bucket lies behind the end and would leave out the check, which
                // the verifier wants to see.
                let bucket = latency::bucket(ns);
                let bucket = core::ptr::read_volatile(&raw const bucket);
                if let Some(bucket) = (*counts).buckets.get_mut(bucket as usize) {
                    add(bucket, 1);
                }
            }
        }
    }
}
