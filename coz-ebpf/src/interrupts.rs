//! Is it a thread that wakes, or an interrupt on its back? An interrupt depth per CPU, from the tracepoints around
//! every handler, tells.
//!
//! One interrupt is a thread's own doing: what it sends over loopback is received in a network softirq on its own
//! CPU. So a `softirq_raise` in a thread's context is remembered until that softirq has run.

use aya_ebpf::helpers::{bpf_get_current_pid_tgid, bpf_ktime_get_ns};
use coz_common::clock::absorbed;

use crate::{maps::INTERRUPTS, thread};

/// `NET_RX_SOFTIRQ` (include/linux/interrupt.h).
const NET_RX: u32 = 3;

/// One CPU's state.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Interrupts {
    hard: u32,
    soft: u32,
    vector: u32,
    raised: u32,
    raised_epoch: u32,
    _pad: u32,
    raised_local: u64,
}

/// Who wakes.
pub enum Waker {
    /// The current thread.
    Current,
    /// A thread that had sent something over the network, with its clock then.
    Raised {
        /// Delay it had absorbed.
        local: u64,
        /// In this epoch.
        epoch: u32,
    },
    /// A timer, a device, anything else.
    Interrupt,
}

#[inline(always)]
fn here() -> Option<&'static mut Interrupts> {
    // SAFETY: this CPU's own element; its programs do not nest in a way that breaks a counter (an interrupt leaves
    // it as it found it).
    INTERRUPTS.get_ptr_mut(0).map(|state| unsafe { &mut *state })
}

/// A hardware interrupt begins.
#[inline(always)]
pub fn hard_enter() {
    if let Some(state) = here() {
        state.hard += 1;
    }
}

/// A hardware interrupt ends.
#[inline(always)]
pub fn hard_leave() {
    if let Some(state) = here() {
        state.hard = state.hard.saturating_sub(1);
    }
}

/// This CPU is in no interrupt now: a tracepoint that was not heard must not count for longer.
#[inline(always)]
pub fn none() {
    if let Some(state) = here() {
        state.hard = 0;
        state.soft = 0;
    }
}

/// A softirq begins.
#[inline(always)]
pub fn soft_enter(vector: u32) {
    if let Some(state) = here() {
        state.soft += 1;
        state.vector = vector;
    }
}

/// A softirq ends.
#[inline(always)]
pub fn soft_leave(vector: u32) {
    if let Some(state) = here() {
        state.soft = state.soft.saturating_sub(1);
        if vector == NET_RX {
            state.raised = 0;
        }
    }
}

/// A softirq is asked for.
#[inline(always)]
pub fn soft_raise(vector: u32) {
    if vector != NET_RX {
        return;
    }
    let Some(state) = here() else { return };
    if state.hard != 0 || state.soft != 0 {
        return;
    }
    state.raised = 0;
    let Some(mut thread) = thread::index_of(bpf_get_current_pid_tgid() as u32).and_then(thread::at) else {
        return;
    };
    let Some(experiment) = thread::experiment() else { return };
    // SAFETY: a helper without arguments.
    let required = thread.catch_up(&experiment, unsafe { bpf_ktime_get_ns() });
    thread.charge(&experiment, required);
    thread.begin_stretch(true);
    state.raised_local = absorbed(thread.slot);
    state.raised_epoch = experiment.epoch;
    state.raised = 1;
}

/// Who wakes, here and now.
#[inline(always)]
pub fn waker() -> Waker {
    let Some(state) = here() else { return Waker::Interrupt };
    if state.hard != 0 {
        Waker::Interrupt
    } else if state.soft == 0 {
        Waker::Current
    } else if state.vector == NET_RX && state.raised != 0 {
        Waker::Raised { local: state.raised_local, epoch: state.raised_epoch }
    } else {
        Waker::Interrupt
    }
}
