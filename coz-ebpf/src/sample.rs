//! A sample: which line, whose debt.

use aya_ebpf::{
    helpers::{bpf_get_current_pid_tgid, bpf_ktime_get_ns},
    programs::PerfEventContext,
};
use coz_common::{
    abi::{Stat, flags},
    clock::{self, debt},
    stretch,
};

use crate::{
    chain::{self, Sample},
    maps::{PROCESSES, control, count},
    process, signal, spin, thread,
    unwind::{self, Place},
};

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
    let user_mode = unwind::is_user_mode(ctx);
    if !user_mode {
        count(Stat::InKernel, 1);
    }
    let weight = clock::take_sample_weight(thread.slot, &experiment, now);
    let tgid = (both >> 32) as u32;
    // SAFETY: a pointer into the map; the controller replaces entries as a whole.
    let process = unsafe { &*PROCESSES.get_ptr(tgid)? };
    thread.keep_book(process::book_of_current(process, tgid));
    let place = unwind::innermost(ctx, user_mode);
    let hit = match place {
        Place::Program(frame) => chain::attribute(&Sample {
            frame,
            tgid,
            space: process.space,
            weight,
            selected: control.selected,
        }),
        Place::Probe => {
            count(Stat::InProbe, 1);
            false
        }
        Place::Unknown => false,
    };
    let spins = user_mode && matches!(place, Place::Program(frame) if spin::at_pause(frame.ip));
    if spins {
        count(Stat::Spinning, 1);
    }
    if !experiment.running {
        return None;
    }
    clock::absorb_sample(thread.slot, &experiment, required);
    let waits = thread::meet(both as u32, hit, now, experiment.period_ns) && spins;
    thread.slot.spinning.observe(waits, weight, experiment.period_ns);
    stretch::observe(thread.slot, hit, weight, &experiment);
    required = thread.charge_at_sample(&experiment, required, control.threshold_ns);
    if user_mode && !waits && debt(thread.slot, required) >= control.threshold_ns && now < control.deadline_ns
    {
        let counts_from = now + clock::rest_of_sample(&experiment);
        signal::ask_to_pay(&mut thread, process, control, counts_from);
    }
    Some(())
}
