//! The machine: how many CPUs, and what things cost on it.

use super::{MS, Ns, US};

/// What the simulated machine is like. The defaults are those of the measuring VM, but for the cost of a sample.
#[derive(Clone, Debug)]
pub struct Machine {
    /// CPUs.
    pub cpus: usize,
    /// How long a thread keeps its CPU while others wait for one.
    pub slice: Ns,
    /// Whether a thread that wakes up may take a CPU away from one that has had more than its share.
    pub preempt: bool,
    /// By how much more, then.
    pub granularity: Ns,
    /// CPU time of a switch.
    pub switch: Ns,
    /// From a wake-up to the first instruction, on an idle CPU.
    pub wake_latency: Ns,
    /// CPU time that waking somebody takes the waker.
    pub wake_cost: Ns,
    /// CPU time in the kernel of a thread that goes to sleep.
    pub block_cost: Ns,
    /// CPU time of making a thread.
    pub spawn_cost: Ns,
    /// How late a timer may be.
    pub timer_slack: Ns,
    /// From the sample that asks to the handler's first instruction.
    pub delivery: Ns,
    /// CPU time of a sample, interrupt and all.
    pub sample_cost: Ns,
    /// Of this, what passes before the sample is taken.
    pub sample_before: Ns,
    /// Whether the kernel reports a thread's end before it wakes the one that joins it (Linux 6.16 and later).
    pub exit_first: bool,
    /// Simulated time after which results count.
    pub warm_up: Ns,
}

impl Default for Machine {
    fn default() -> Self {
        Self {
            cpus: 2,
            slice: 3 * MS,
            preempt: true,
            granularity: MS,
            switch: 2 * US,
            wake_latency: 35 * US,
            wake_cost: 5 * US,
            block_cost: 2 * US,
            spawn_cost: 20 * US,
            timer_slack: 50 * US,
            delivery: 10 * US,
            sample_cost: 2 * US,
            sample_before: 0,
            exit_first: false,
            warm_up: 50 * MS,
        }
    }
}
