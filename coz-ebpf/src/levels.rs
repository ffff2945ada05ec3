//! Latency points of coz.h: two counters in the program's own hands, so nothing happens at their changes. How far they are
//! apart is looked at at each tick of each CPU, whoever runs there.

use aya_ebpf::helpers::bpf_ktime_get_ns;
use coz_common::point::{LastTick, MAX_LEVELS};

use crate::{
    maps::{COUNTERS, LAST_TICK, LEVEL_SUMS, LEVELS},
    thread,
};

/// A CPU's clock ticks.
#[inline(always)]
pub fn tick() {
    try_tick().unwrap_or_default();
}

#[inline(always)]
fn try_tick() -> Option<()> {
    // SAFETY: a word of a map, written by the controller.
    if unsafe { core::ptr::read_volatile(&raw const (*LEVELS.get_ptr(0)?).used) } == 0 {
        return None;
    }
    let experiment = thread::experiment()?;
    // SAFETY: a helper without arguments.
    let now = unsafe { bpf_ktime_get_ns() };
    let wall = now.saturating_sub(experiment.started_ns);
    let at = wall.saturating_sub(thread::required(experiment.epoch));
    // SAFETY: this CPU's own element.
    let last = unsafe { &mut *LAST_TICK.get_ptr_mut(0)? };
    let since = if last.epoch == experiment.epoch { at.saturating_sub(last.at) } else { at };
    *last = LastTick { at, epoch: experiment.epoch, _pad: 0 };
    if !experiment.running {
        return None;
    }
    for index in 0..MAX_LEVELS {
        // SAFETY: as above; the counters are the target's, plain words.
        unsafe {
            let level = LEVELS.get_ptr(index)?;
            if core::ptr::read_volatile(&raw const (*level).used) == 0 {
                break;
            }
            let begun = core::ptr::read_volatile(&raw const (*COUNTERS.get_ptr((*level).begin)?).count);
            let ended = core::ptr::read_volatile(&raw const (*COUNTERS.get_ptr((*level).end)?).count);
            let sum = LEVEL_SUMS.get_ptr_mut(index)?;
            (*sum).area += begun.saturating_sub(ended) * since;
            (*sum).time += since;
        }
    }
    Some(())
}
