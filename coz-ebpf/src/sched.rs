//! Switches and wake-ups: where threads wait for each other, and what delay comes along.

use aya_ebpf::helpers::{bpf_get_current_pid_tgid, bpf_ktime_get_ns};
use coz_common::{
    abi::Stat,
    clock::{absorbed, apply_wake, book_wait, enter_epoch},
};

use crate::{
    interrupts::{self, Waker},
    kernel::{Task, read},
    maps::{count, offsets},
    thread::{self, Thread},
};

/// `TASK_DEAD` (include/linux/sched.h): this is the thread's last switch.
const TASK_DEAD: u32 = 0x80;

/// One thread loses its CPU, another gets it.
#[inline(always)]
pub fn try_switch(next: Task, prev_state: u32, preempted: bool) {
    let prev = bpf_get_current_pid_tgid() as u32;
    if let Some(thread) = thread::index_of(prev).and_then(thread::at) {
        leaves_cpu(prev, thread, prev_state, preempted);
    }
    let Some(next) = read::<u32>(next, offsets().task_pid) else { return };
    if let Some(thread) = thread::index_of(next).and_then(thread::at) {
        gets_cpu(thread);
    }
}

#[inline(always)]
fn leaves_cpu(tid: u32, mut thread: Thread, state: u32, preempted: bool) {
    let Some(experiment) = thread::experiment() else { return };
    let now = now();
    let required = thread.catch_up(&experiment, now);
    if thread.target.paying == 0 {
        thread.charge(&experiment, required);
        // The time of sending counts only while the thread goes straight into its handler.
        thread.slot.sent_at = 0;
    }
    if state & TASK_DEAD != 0 {
        thread::leave(tid, &mut thread);
        return;
    }
    thread.slot.on_cpu_since = 0;
    // A preempted thread is ready to run whatever it was about to wait for.
    if state == 0 || preempted {
        thread.slot.ready_at = now;
    } else {
        thread.slot.blocked_at = now;
        thread.slot.ready_at = 0;
    }
}

#[inline(always)]
fn gets_cpu(thread: Thread) {
    let Some(experiment) = thread::experiment() else { return };
    let now = now();
    let slot = thread.slot;
    slot.on_cpu_since = now;
    if slot.ready_at != 0 {
        let waited = now.saturating_sub(slot.ready_at);
        slot.ready_at = 0;
        count(Stat::RunqueueNs, waited);
        book_wait(slot, thread.target, &experiment, waited);
    }
    if slot.woken_at != 0 {
        if thread.target.paying != 0 {
            slot.woken_at = 0;
        } else {
            // Not in the thread's own context, but nobody else is: it is about to run here.
            enter_epoch(slot, thread.target, &experiment, now);
            let inherited = apply_wake(slot, &experiment, thread::required(experiment.epoch), now);
            count(Stat::InheritedNs, inherited);
        }
    }
    slot.blocked_at = 0;
}

/// A task is being woken, by the current one or by an interrupt on its back.
#[inline(always)]
pub fn try_waking(task: Task) {
    let Some(tid) = read::<u32>(task, offsets().task_pid) else { return };
    let Some(woken) = thread::index_of(tid).and_then(thread::at) else { return };
    let now = now();
    woken.slot.ready_at = now;
    let Some(experiment) = thread::experiment() else { return };
    let local = match interrupts::waker() {
        Waker::Interrupt => None,
        Waker::Raised { local, epoch } => (epoch == experiment.epoch).then_some(local),
        Waker::Current => {
            thread::index_of(bpf_get_current_pid_tgid() as u32).and_then(thread::at).map(|mut waker| {
                let required = waker.catch_up(&experiment, now);
                waker.charge(&experiment, required);
                absorbed(waker.slot)
            })
        }
    };
    match local {
        Some(local) => {
            woken.slot.woken_local = local;
            woken.slot.woken_epoch = experiment.epoch;
            woken.slot.woken_at = now;
            count(Stat::WakeEdges, 1);
        }
        None => {
            woken.slot.woken_at = 0;
            count(Stat::WakeOther, 1);
        }
    }
}

#[inline(always)]
fn now() -> u64 {
    // SAFETY: a helper without arguments.
    unsafe { bpf_ktime_get_ns() }
}
