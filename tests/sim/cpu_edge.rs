//! What a thread owes for the time that it has waited for a CPU: the variants.

use coz_common::clock::{self, Experiment, absorbed};

use super::Ns;
use super::profiler::Profiler;
use super::rules::CpuEdge;
use super::sync::Id;

impl Profiler {
    /// A thread that was ready since `ready_at` gets a CPU, which `before` has just left. `slept`: what it has paid
    /// meanwhile and will book; `most`: the most that it can have absorbed.
    pub fn cpu_edge(
        &mut self,
        id: Id,
        before: Option<Id>,
        cpu: usize,
        [ready_at, slept, most]: [Ns; 3],
        experiment: &Experiment,
        now: Ns,
    ) {
        let rule = self.rules.cpu_edge;
        if rule == CpuEdge::Owes {
            return;
        }
        self.enter_epoch(id, experiment, now);
        let paying = self.targets[id].paying != 0;
        let queued = now - ready_at;
        // A payer counts this much of its wait as paid: `clock::book_wait`.
        let counted = if paying { queued.min(experiment.wake_latency_ns) } else { 0 };
        let (queued, slept) = (queued - counted, slept + counted);
        let own = absorbed(&self.slots[id]) + slept;
        let clock = self.cpus[cpu];
        let total = match rule {
            CpuEdge::Owes => own,
            CpuEdge::Absolute => match before.map(|before| &self.slots[before]) {
                Some(ahead) if ahead.epoch == experiment.epoch => {
                    own.max((own + queued).min(absorbed(ahead)))
                }
                _ => own,
            },
            CpuEdge::Clock => {
                if clock.epoch != experiment.epoch {
                    return;
                }
                // It waited for the CPU only as long as somebody else had it; the rest is the wake-up's latency.
                let waited = clock.at.saturating_sub(ready_at + counted);
                let there = clock.local + (now - clock.at);
                // Only a CPU that stood idle pushes; behind others, and after paying, nobody is put back.
                if waited > 0 || paying { own.max((own + waited).min(there)) } else { own.min(there) }
            }
        };
        let total = total.min(most.max(own));
        self.totals.inherited += total.saturating_sub(own);
        let required = self.required();
        clock::set_absorbed(&mut self.slots[id], total.saturating_sub(slept), required);
        self.check(id, now, 0);
    }
}
