//! What a thread owes for the time that it has waited for a CPU: the CPU as a lock with a virtual clock of its own.

use coz_common::clock::{self, Experiment, absorbed};

use super::Ns;
use super::profiler::Profiler;
use super::rules::CpuEdge;
use super::sync::Id;

/// A thread that gets a CPU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    /// Since when it was ready to run.
    pub ready_at: Ns,
    /// What it has slept as a payment, and will book.
    pub slept: Ns,
    /// The most that it can have absorbed: its virtual clock went neither back nor before its waker's.
    pub most: Ns,
}

impl Profiler {
    /// `v(T) = max(v(T) when it was ready, v(CPU))`, where `v(CPU)` is that of the thread that has left it last.
    pub fn cpu_edge(&mut self, id: Id, cpu: usize, arrival: Arrival, experiment: &Experiment, now: Ns) {
        if self.rules.cpu_edge == CpuEdge::Owes {
            return;
        }
        self.enter_epoch(id, experiment, now);
        let clock = self.cpus[cpu];
        if clock.epoch != experiment.epoch {
            return;
        }
        let paying = self.targets[id].paying != 0;
        // A payer counts this much of its wait as paid: `clock::book_wait`.
        let counted = if paying { (now - arrival.ready_at).min(experiment.wake_latency_ns) } else { 0 };
        let unbooked = arrival.slept + counted;
        let own = absorbed(&self.slots[id]) + unbooked;
        // It waited for the CPU only as long as somebody else had it; the rest is the wake-up's latency.
        let waited = clock.at.saturating_sub(arrival.ready_at + counted);
        let there = clock.local + (now - clock.at);
        // Only a CPU that stood idle puts back; who waited behind others, or has paid, is not put back.
        let total = if waited > 0 || paying { own.max((own + waited).min(there)) } else { own.min(there) };
        let total = total.min(arrival.most.max(own));
        self.totals.inherited += total.saturating_sub(own);
        let required = self.required();
        clock::set_absorbed(&mut self.slots[id], total.saturating_sub(unbooked), required);
        self.check(id, now, 0);
    }
}
