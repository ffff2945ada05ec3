//! Points: a probe has been passed, or a system call has returned.

use aya_ebpf::{
    EbpfContext,
    helpers::{bpf_get_attach_cookie, bpf_get_current_pid_tgid},
    programs::ProbeContext,
};
use coz_common::{
    abi::Stat,
    clock,
    point::{Code, ROLE_BEGIN, ROLE_END, SYSCALL_POINTS},
};

use crate::{
    kernel::read,
    latency,
    maps::{SYSCALLS, VISITS, control, count},
    thread,
};

/// Offset of the system call's number in the registers that a thread entered the kernel with (x86-64 `struct pt_regs`).
const PT_REGS_ORIG_AX: u32 = 120;
/// Results from -512 to -516 are the kernel's own: the call is made again (include/linux/errno.h).
const RESTARTS: core::ops::RangeInclusive<i64> = -516..=-512;

/// A thread passes a probe.
#[inline(always)]
pub fn visit(ctx: &ProbeContext) {
    let Some(index) = thread::index_of(bpf_get_current_pid_tgid() as u32) else {
        count(Stat::ForeignVisits, 1);
        return;
    };
    // SAFETY: the context is the program's own.
    let code = Code(unsafe { bpf_get_attach_cookie(ctx.as_ptr()) } as u32);
    // SAFETY: as above; these are the thread's registers in user mode.
    let stack_pointer = unsafe { (*ctx.regs).rsp };
    absorb_visit(index);
    passed(index, code, stack_pointer);
}

/// What the probe takes is no time of the program.
#[inline(always)]
fn absorb_visit(index: u32) {
    let (Some(slot), Some(control), Some(experiment)) =
        (thread::slot_at(index), control(), thread::experiment())
    else {
        return;
    };
    if experiment.running && slot.epoch == experiment.epoch {
        clock::absorb_visit(slot, thread::required(experiment.epoch), control.visit_cost_ns);
    }
}

/// A system call returns to the program.
#[inline(always)]
pub fn syscall(registers: *const u8, result: i64) {
    let Some(index) = thread::index_of(bpf_get_current_pid_tgid() as u32) else { return };
    let Some(number) = read::<u64>(registers, PT_REGS_ORIG_AX) else { return };
    if RESTARTS.contains(&result) || number > u64::from(u32::MAX) {
        return;
    }
    let Some(codes) = SYSCALLS.get_ptr(number as u32) else { return };
    for place in 0..SYSCALL_POINTS {
        // SAFETY: words of a map.
        let code = Code(unsafe { (*codes)[place] });
        if !code.is_some() {
            break;
        }
        passed(index, code, 0);
    }
}

#[inline(always)]
fn passed(index: u32, code: Code, stack_pointer: u64) {
    let Some(mut thread) = thread::at(index) else { return };
    if let Some(visits) = thread.slot.visits.get_mut(code.place()) {
        *visits = visits.wrapping_add(1);
    }
    match code.role() {
        ROLE_BEGIN => latency::begin(&mut thread, index, code, stack_pointer),
        ROLE_END => latency::end(&mut thread, index, code, stack_pointer),
        _ => {
            if let Some(visits) = VISITS.get_ptr_mut(code.index()) {
                // SAFETY: this CPU's own element.
                unsafe { *visits += 1 };
            }
        }
    }
}
