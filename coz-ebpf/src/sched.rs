//! Switches and wake-ups: where threads wait for each other, and what delay comes along.

use aya_ebpf::helpers::{bpf_get_current_pid_tgid, bpf_ktime_get_ns};
use coz_common::{
    abi::{KernelSlot, Stat, TargetSlot, flags},
    clock::absorbed,
};

use crate::{
    interrupts::{self, Waker},
    kernel::{Task, read},
    maps::{control, count, offsets},
    thread::{self, Thread},
};

/// `TASK_DEAD` (include/linux/sched.h): this is the thread's last switch.
const TASK_DEAD: u32 = 0x80;

/// Id of every CPU's idle task.
const IDLE: u32 = 0;

/// One thread loses its CPU, another gets it.
#[inline(always)]
pub fn try_switch(next: Task, prev_state: u32, preempted: bool) {
    // Whoever switches is in no interrupt, whatever was seen of the last one.
    interrupts::none();
    let both = bpf_get_current_pid_tgid();
    let prev = both as u32;
    if let Some(thread) = thread::index_of(prev).and_then(thread::at) {
        leaves_cpu(prev, thread, prev_state, preempted);
    }
    let Some(next) = read::<u32>(next, offsets().task_pid) else { return };
    if let Some(slot) = thread::index_of(next).and_then(thread::slot_at) {
        gets_cpu(slot, prev == IDLE || is_ours((both >> 32) as u32));
    }
}

/// What state a thread is in; running, where that cannot be read.
#[inline(always)]
pub fn state_of(task: Task) -> u32 {
    read::<u32>(task, offsets().task_state).unwrap_or_default()
}

/// Whether a process is the profiler. A thread that waited for it has waited for nobody that would run without a profile.
#[inline(always)]
fn is_ours(tgid: u32) -> bool {
    control().is_some_and(|control| control.ourselves == tgid)
}

#[inline(always)]
fn leaves_cpu(tid: u32, mut thread: Thread, state: u32, preempted: bool) {
    let Some(experiment) = thread::experiment() else { return };
    let now = now();
    let mut required = thread.catch_up(&experiment, now);
    let paying = thread.target.paying != 0;
    // A preempted thread is ready to run whatever it was about to wait for.
    let blocks = state != 0 && !preempted;
    thread.slot.flags &= !flags::PAYING;
    if paying {
        thread.slot.flags |= flags::PAYING;
    } else {
        required = if blocks {
            thread.charge(&experiment, required)
        } else {
            thread.charge_ahead(&experiment, required)
        };
        // The time of sending counts only while the thread goes straight into its handler.
        thread.slot.sent_at = 0;
    }
    thread.leave_cpu(required, now);
    if state & TASK_DEAD != 0 {
        thread::leave(tid, &mut thread);
        return;
    }
    thread.slot.on_cpu_since = 0;
    if blocks {
        thread.slot.blocked_at = now;
        thread.slot.ready_at = 0;
        // Our handler's own sleep is no part of the program.
        if !paying {
            thread.begin_stretch(false);
        }
    } else {
        thread.slot.ready_at = now;
    }
}

#[inline(always)]
fn gets_cpu(slot: &mut KernelSlot, idle: bool) {
    let Some(experiment) = thread::experiment() else { return };
    if slot.on_cpu_since != 0 {
        count(Stat::SwitchesMissed, 1);
    }
    // What it says of itself is what it said when it left its CPU: it alone writes there.
    let paying = u32::from(slot.flags & flags::PAYING != 0);
    let target = TargetSlot { paid: slot.paid_seen, paying, ..TargetSlot::default() };
    // Not in the thread's own context, but nobody else is: it is about to run here.
    thread::get_cpu(slot, &target, &experiment, idle, now());
}

/// A task is being woken, by the current one or by an interrupt on its back.
#[inline(always)]
pub fn try_waking(task: Task) {
    let Some(tid) = read::<u32>(task, offsets().task_pid) else { return };
    let Some(woken) = thread::index_of(tid).and_then(thread::slot_at) else { return };
    let now = now();
    woken.ready_at = now;
    let Some(experiment) = thread::experiment() else { return };
    let local = match interrupts::waker() {
        Waker::Interrupt => None,
        Waker::Raised { local, epoch } => (epoch == experiment.epoch).then_some(local),
        Waker::Current => {
            thread::index_of(bpf_get_current_pid_tgid() as u32).and_then(thread::at).map(|mut waker| {
                let required = waker.catch_up(&experiment, now);
                waker.charge(&experiment, required);
                waker.begin_stretch(true);
                absorbed(waker.slot)
            })
        }
    };
    match local {
        Some(local) => {
            woken.woken_local = local;
            woken.woken_epoch = experiment.epoch;
            woken.woken_at = now;
            count(Stat::WakeEdges, 1);
        }
        None => {
            woken.woken_at = 0;
            count(Stat::WakeOther, 1);
        }
    }
}

#[inline(always)]
fn now() -> u64 {
    // SAFETY: a helper without arguments.
    unsafe { bpf_ktime_get_ns() }
}
