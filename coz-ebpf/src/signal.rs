//! Asking a thread to pay, only where that can neither kill nor disturb it.

use aya_ebpf::{
    bindings::task_struct,
    helpers::{bpf_get_current_task, generated::bpf_send_signal_thread},
};
use coz_common::abi::{Control, Process, Stat};

use crate::{
    kernel::{Task, read},
    maps::{count, offsets},
    thread::Thread,
};

/// `SECCOMP_MODE_STRICT` (include/uapi/linux/seccomp.h): any system call but four kills.
const SECCOMP_STRICT: u32 = 1;

/// Sends the signal to the current thread, which was interrupted in user mode; the time `from` here on is paid. A signal whose handler is
/// not ours, that is blocked, or whose handler may not make its system calls, is not sent.
#[inline(always)]
pub fn ask_to_pay(thread: &mut Thread, process: &Process, control: &Control, from: u64) -> Option<()> {
    let signal = control.signal;
    // What it pays would not be seen.
    let is_booked = u32::from(thread.slot.book) == process.book;
    if signal == 0 || signal > 64 || process.handler == 0 || !is_booked {
        count(Stat::HeldHandler, 1);
        return None;
    }
    // Real-time signals queue: none while one is pending.
    if thread.slot.sent != thread.target.acked {
        count(Stat::HeldPending, 1);
        return None;
    }
    // SAFETY: a helper without arguments.
    let task = unsafe { bpf_get_current_task() } as *const task_struct as Task;
    let at = offsets();

    let blocked: u64 = read(task, at.task_blocked)?;
    if blocked & (1u64 << (signal - 1)) != 0 {
        count(Stat::HeldBlocked, 1);
        return None;
    }
    // 0: it has none, and the handler runs on the stack that it is on.
    let alternate: usize = read(task, at.task_alternate)?;
    if alternate != 0 && alternate < at.alternate_least as usize {
        count(Stat::HeldBlocked, 1);
        return None;
    }
    let mode: u32 = read(task, at.task_seccomp_mode)?;
    let filters: u32 = read(task, at.task_seccomp_filters)?;
    if mode == SECCOMP_STRICT || filters > process.seccomp_filters {
        count(Stat::HeldSeccomp, 1);
        return None;
    }
    let sighand: *const u8 = read(task, at.task_sighand)?;
    let action = at.sighand_action + (signal - 1) * at.k_sigaction_size;
    let handler: u64 = read(sighand, action + at.k_sigaction_handler)?;
    if handler != process.handler {
        count(Stat::HeldHandler, 1);
        return None;
    }

    // Delivery is part of the delay.
    thread.slot.sent_at = from;
    thread.slot.sent = thread.slot.sent.wrapping_add(1);
    // SAFETY: a helper with a plain number.
    if unsafe { bpf_send_signal_thread(signal) } == 0 {
        count(Stat::SignalsSent, 1);
    } else {
        // Nothing is pending after all; the next sample tries again.
        thread.slot.sent = thread.slot.sent.wrapping_sub(1);
        count(Stat::SignalsFailed, 1);
    }
    Some(())
}
