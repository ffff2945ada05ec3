//! What the kernel side does at a sample, a switch, a wake-up, a birth and a death.
//!
//! The order of the calls is that of coz-ebpf's `sample`, `sched` and `process`.

use coz_common::clock::{self, CpuClock, Experiment, absorbed, debt};
use coz_common::stretch::{self, SHARE_ONE};

use super::Ns;
use super::profiler::Profiler;
use super::program::Line;
use super::rules::{Charging, CpuEdge, Wake};
use super::stretch::End;
use super::sync::Id;

/// Where a sample meets a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum At {
    /// At work, in user mode.
    Work,
    /// Spinning until somebody is ready.
    Spin,
    /// In the kernel.
    Kernel,
}

/// The place where threads make others.
const FORKS: u64 = u64::MAX;

impl Profiler {
    /// A sample of a running thread. Whether it is asked to pay.
    pub fn sample(&mut self, id: Id, line: Line, at: At, now: Ns) -> bool {
        let experiment = self.experiment();
        let mut required = self.catch_up(id, &experiment, now);
        if self.targets[id].paying != 0 {
            return false;
        }
        let weight = clock::take_sample_weight(&mut self.slots[id], &experiment, now);
        if !experiment.running {
            return false;
        }
        clock::absorb_sample(&mut self.slots[id], &experiment, required);
        let hit = line == self.control.selected;
        let waits = self.waits(id, hit, at, now);
        self.slots[id].spinning.observe(waits, weight, experiment.period_ns);
        if self.rules.charging == Charging::Lumped {
            let slot = &mut self.slots[id];
            slot.share.value = if hit { SHARE_ONE } else { 0 };
            slot.share.weight = 1;
            slot.cpu_uncharged = weight;
            let charged = clock::charge(slot, &experiment, required);
            required = self.charged(id, charged, &experiment, required, now);
        } else {
            if matches!(self.rules.charging, Charging::Fluid | Charging::Places) {
                stretch::observe(&mut self.slots[id], hit, weight, &experiment);
            }
            self.asides[id].stretch.observe(hit, weight, experiment.period_ns);
            required = self.charge(id, &experiment, required, now, End::Open);
        }
        let may = at != At::Kernel && !waits;
        may && now < self.control.deadline_ns
            && self.ask(id, required, now + clock::rest_of_sample(&experiment))
    }

    /// Whether the thread spins while another one is in the line.
    fn waits(&mut self, id: Id, hit: bool, at: At, now: Ns) -> bool {
        let tid = id as u64 + 1;
        let (hitter, at_line) = (self.hit_tid, self.hit_at);
        if hit {
            (self.hit_tid, self.hit_at) = (tid, now);
        } else if hitter == tid {
            self.hit_tid = 0;
        }
        let period = self.control.period_ns;
        self.rules.spinning && at == At::Spin && clock::line_runs_elsewhere(hitter, at_line, tid, now, period)
    }

    /// Asks a thread to pay, if it owes enough.
    fn ask(&mut self, id: Id, required: u64, now: Ns) -> bool {
        let slot = &mut self.slots[id];
        if debt(slot, required) < self.control.threshold_ns || slot.sent != self.targets[id].acked {
            return false;
        }
        slot.sent_at = now;
        slot.sent = slot.sent.wrapping_add(1);
        self.totals.asked += 1;
        true
    }

    /// A thread loses its CPU.
    pub fn leaves(&mut self, id: Id, runnable: bool, cpu: usize, site: u64, now: Ns) {
        let experiment = self.experiment();
        let mut required = self.catch_up(id, &experiment, now);
        if self.targets[id].paying == 0 {
            let end = if runnable { End::Preempted } else { End::Stops };
            required = self.charge(id, &experiment, required, now, end);
            self.slots[id].sent_at = 0;
        }
        let slot = &mut self.slots[id];
        clock::leave_cpu(slot, &mut self.cpus[cpu], required, now);
        slot.on_cpu_since = 0;
        if runnable {
            slot.ready_at = now;
        } else {
            slot.blocked_at = now;
            slot.ready_at = 0;
            if self.targets[id].paying == 0 {
                self.begin_stretch(id, site, false);
            }
        }
    }

    /// A thread gets a CPU. Whether it is asked to pay.
    pub fn gets(&mut self, id: Id, cpu: usize, now: Ns) -> bool {
        let experiment = self.experiment();
        let resumes = self.slots[id].blocked_at != 0 && self.targets[id].paying == 0;
        let woken = self.slots[id].woken_at != 0;
        self.back(id, cpu, &experiment, now);
        if woken {
            self.check(id, now, 0);
        }
        let required = self.required();
        self.rules.pay_at_wake && resumes && experiment.running && self.ask(id, required, now)
    }

    /// What comes now is another stretch.
    fn begin_stretch(&mut self, id: Id, site: u64, woke: bool) {
        if self.rules.charging == Charging::Places {
            stretch::begin(&mut self.slots[id], stretch::place(site, 0, woke));
        }
    }

    /// It is back: what comes along with a wake-up, and with the CPU.
    fn back(&mut self, id: Id, cpu: usize, experiment: &Experiment, now: Ns) {
        let required = self.required();
        let cpu = match self.rules.cpu_edge {
            CpuEdge::Owes => CpuClock::default(),
            CpuEdge::Clock => self.cpus[cpu],
        };
        let (slot, target) = (&mut self.slots[id], &self.targets[id]);
        if self.rules.wake == Wake::Nothing {
            slot.woken_at = 0;
        }
        let latency = if self.rules.wake == Wake::Max { 0 } else { experiment.wake_latency_ns };
        let waker = (slot.woken_at != 0 && target.paying == 0 && slot.woken_epoch == experiment.epoch)
            .then(|| i128::from(slot.woken_at) - i128::from(slot.woken_local));
        let entered = slot.epoch != experiment.epoch;
        let rule = Experiment { wake_latency_ns: latency, ..*experiment };
        let began =
            clock::get_cpu(slot, target, &rule, required, clock::Place { clock: &cpu, idle: false }, now);
        self.totals.queued += began.waited;
        self.totals.inherited += began.inherited;
        let late = waker.map_or(0, |waker| waker - (i128::from(now) - i128::from(absorbed(slot))));
        if entered && slot.epoch == experiment.epoch {
            self.forget(id);
        }
        if let Some(audit) = &mut self.audit
            && late > 0
        {
            audit.broken.push(format!("{now}: thread {id} is {late} ns before its waker"));
        }
    }

    /// A thread is woken: by another one, or (`None`) by an interrupt.
    pub fn waking(&mut self, waker: Option<(Id, u64)>, woken: Id, now: Ns) {
        self.slots[woken].ready_at = now;
        let Some((waker, site)) = waker else {
            self.slots[woken].woken_at = 0;
            return;
        };
        let experiment = self.experiment();
        let required = self.catch_up(waker, &experiment, now);
        self.charge(waker, &experiment, required, now, End::Wakes);
        self.begin_stretch(waker, site, true);
        let local = absorbed(&self.slots[waker]);
        let slot = &mut self.slots[woken];
        slot.woken_local = local;
        slot.woken_epoch = experiment.epoch;
        slot.woken_at = now;
    }

    /// A thread makes another one.
    pub fn fork(&mut self, parent: Id, child: Id, now: Ns) {
        let experiment = self.experiment();
        let required = self.catch_up(parent, &experiment, now);
        self.charge(parent, &experiment, required, now, End::Wakes);
        self.begin_stretch(parent, FORKS, true);
        self.join(child);
        let parent = self.slots[parent];
        clock::inherit(&mut self.slots[child], &parent);
        self.slots[child].ready_at = now;
    }

    /// A thread is gone.
    pub fn exit(&mut self, id: Id, now: Ns) {
        let experiment = self.experiment();
        let required = self.catch_up(id, &experiment, now);
        match self.rules.charging {
            Charging::Lumped => {}
            Charging::Fluid | Charging::Places => {
                let charged = clock::charge_exit(&mut self.slots[id], &experiment, required);
                self.charged(id, charged, &experiment, required, now);
            }
            Charging::Kinds | Charging::Exact => {
                self.charge(id, &experiment, required, now, End::Stops);
            }
        }
    }
}
