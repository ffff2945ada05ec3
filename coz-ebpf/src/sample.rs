//! A sample: which line, whose debt.

use core::intrinsics::{AtomicOrdering, atomic_xadd};

use aya_ebpf::{
    EbpfContext,
    helpers::{bpf_get_current_pid_tgid, bpf_ktime_get_ns},
    programs::PerfEventContext,
};
use coz_common::{
    abi::{Stat, flags},
    clock::{self, debt},
    stretch,
};

use crate::{
    lines,
    maps::{LINE_COUNTS, PROCESSES, control, count},
    signal, spin, thread,
};

/// Word of the interrupted registers that holds the code segment (x86-64 `struct pt_regs`).
const CS: usize = 17;
/// Word that holds the instruction pointer.
const IP: usize = 16;

/// The clock of this CPU ticks.
#[inline(always)]
pub fn try_sample(ctx: &PerfEventContext) -> Option<()> {
    let both = bpf_get_current_pid_tgid();
    let mut thread = thread::at(thread::index_of(both as u32)?)?;
    let control = control()?;
    let experiment = thread::experiment()?;
    // SAFETY: a helper without arguments.
    let now = unsafe { bpf_ktime_get_ns() };
    let mut required = thread.catch_up(&experiment, now);
    // In our own handler, or past its end: no sample of the program.
    if thread.target.paying != 0 || thread.slot.flags & flags::LEAVING != 0 {
        return None;
    }
    count(Stat::Samples, 1);
    let registers = ctx.as_ptr().cast::<u64>();
    // SAFETY: a perf event's context begins with the interrupted registers.
    let (user_mode, ip) = unsafe { (*registers.add(CS) & 3 == 3, *registers.add(IP)) };
    if !user_mode {
        count(Stat::InKernel, 1);
    }
    let weight = clock::take_sample_weight(thread.slot, &experiment, now);
    // SAFETY: a pointer into the map; the controller replaces entries as a whole.
    let process = unsafe { &*PROCESSES.get_ptr((both >> 32) as u32)? };
    let line = lines::of_chain(ctx, process, weight);
    if line != 0
        && let Some(counts) = LINE_COUNTS.get_ptr_mut(line)
    {
        // SAFETY: words of a map that every CPU adds to: one instruction each.
        unsafe {
            atomic_xadd::<u64, u64, { AtomicOrdering::Relaxed }>(&raw mut (*counts).samples, 1);
            atomic_xadd::<u64, u64, { AtomicOrdering::Relaxed }>(&raw mut (*counts).weight_ns, weight);
        }
    }
    if !experiment.running {
        return None;
    }
    let hit = line != 0 && line == control.selected;
    let spins = user_mode && spin::at_pause(ip);
    let waits = thread::meet(both as u32, hit, spins, now, experiment.period_ns);
    thread.slot.spinning.observe(waits, weight, experiment.period_ns);
    stretch::observe(thread.slot, hit, weight, &experiment);
    required = thread.charge(&experiment, required);
    if user_mode && !waits && debt(thread.slot, required) >= control.threshold_ns && now < control.deadline_ns
    {
        signal::ask_to_pay(&mut thread, process, control, now);
    }
    Some(())
}
