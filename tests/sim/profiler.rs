//! The profiler's state in the kernel, and what every event begins with: coz-ebpf's `thread`.

use coz_common::abi::{Control, KernelSlot, NO_BOOK, STATE_IDLE, STATE_RUNNING, TargetSlot};
use coz_common::clock::{self, CpuClock, Experiment, TaggedDelay, absorbed, debt};
use coz_common::stretch::SHARE_ONE;

use coz_user::kernel::standing::{Stood, standing_of};

use super::machine::Machine;
use super::program::HOT;
use super::rules::{Charging, Rules};
use super::stretch::{End, Stretch};
use super::sync::Id;
use super::{Ns, S};

/// Sums over a run, nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// CPU time of the program.
    pub cpu: Ns,
    /// The hot line's true time in experiments.
    pub line: Ns,
    /// Delay charged by hits.
    pub charged: Ns,
    /// Delay absorbed along with wake-ups and CPUs.
    pub inherited: Ns,
    /// Delay paid.
    pub paid: Ns,
    /// Time spent waiting for a CPU.
    pub queued: Ns,
    /// Signals.
    pub asked: u64,
}

/// What the variants of the rules keep of a thread, beside its slot.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Aside {
    /// The line's true time since it was last charged: for [`Charging::Exact`].
    pub line: Ns,
    /// For [`Charging::Kinds`].
    pub stretch: Stretch,
}

/// The profiler's state.
#[derive(Debug)]
pub(super) struct Profiler {
    pub rules: Rules,
    pub control: Box<Control>,
    pub required: u64,
    pub hit_at: u64,
    pub hit_tid: u64,
    pub slots: Vec<KernelSlot>,
    pub targets: Vec<TargetSlot>,
    pub asides: Vec<Aside>,
    pub cpus: Vec<CpuClock>,
    pub totals: Totals,
    /// Checks of the clock's invariants, where wanted.
    pub audit: Option<Audit>,
}

/// Where each thread's virtual clock stood, and how often a rule broke its promise.
#[derive(Debug, Default)]
pub(super) struct Audit {
    last: Vec<i128>,
    /// What went wrong.
    pub broken: Vec<String>,
}

impl Profiler {
    pub fn new(rules: &Rules, machine: &Machine) -> Self {
        // SAFETY: all fields are integers, for which zero is a value.
        let mut control: Box<Control> = Box::new(unsafe { std::mem::zeroed() });
        control.selected = HOT;
        control.threshold_ns = rules.threshold;
        control.period_ns = rules.period;
        control.wake_latency_ns = machine.wake_latency;
        control.sample_cost_ns = if rules.intrusion { machine.sample_cost } else { 0 };
        Self {
            rules: rules.clone(),
            control,
            required: 0,
            hit_at: 0,
            hit_tid: 0,
            slots: Vec::new(),
            targets: Vec::new(),
            asides: Vec::new(),
            cpus: vec![CpuClock::default(); machine.cpus],
            totals: Totals::default(),
            audit: None,
        }
    }

    /// An experiment begins.
    pub fn begin(&mut self, speedup: u32, now: Ns) {
        self.control.speedup = speedup;
        self.control.started_ns = now;
        self.control.deadline_ns = now + 3600 * S;
        self.control.state = STATE_RUNNING;
        self.control.epoch += 1;
        self.asides.iter_mut().for_each(|aside| aside.line = 0);
    }

    /// It ends.
    pub fn end(&mut self) {
        self.control.state = STATE_IDLE;
    }

    /// The hot line has run.
    pub fn line_ran(&mut self, id: Id, ran: Ns) {
        self.asides[id].line += ran;
        if self.control.state == STATE_RUNNING {
            self.totals.line += ran;
        }
    }

    /// `G`.
    pub fn required(&self) -> u64 {
        TaggedDelay(self.required).in_epoch(self.control.epoch)
    }

    /// What a thread owes, as the controller sees it at the end of an experiment.
    pub fn owed(&self, id: Id) -> u64 {
        let slot = &self.slots[id];
        if slot.epoch != self.control.epoch {
            return 0;
        }
        debt(slot, self.required()).saturating_sub(self.targets[id].paid.wrapping_sub(slot.paid_seen))
    }

    /// Where a thread stands in this epoch, as the controller sees it at its end.
    pub fn standing(&self, id: Id, now: Ns) -> Stood {
        let slot = &self.slots[id];
        if slot.epoch != self.control.epoch {
            return Stood::default();
        }
        Stood {
            absorbed: standing_of(slot, self.targets[id].paid, self.required(), now),
            visits: slot.visits.map(u64::from),
            ran: slot.share.weight.into(),
        }
    }

    /// A visit of the progress point.
    pub fn visit(&mut self, id: Id) {
        if self.slots[id].epoch == self.control.epoch {
            self.slots[id].visits[0] += 1;
        }
    }

    /// A thread joins the set.
    pub fn join(&mut self, id: Id) {
        if self.slots.len() <= id {
            self.slots.resize_with(id + 1, KernelSlot::default);
            self.targets.resize_with(id + 1, TargetSlot::default);
            self.asides.resize(id + 1, Aside::default());
        }
        self.asides[id] = Aside::default();
        let target = self.targets[id];
        self.slots[id].reset(id as u32 + 1, 1, NO_BOOK, &target);
        self.watch(id);
    }

    /// Checks the thread's virtual clock from now on, if any are checked.
    pub fn watch(&mut self, id: Id) {
        if let Some(audit) = &mut self.audit {
            audit.last.resize(self.slots.len(), i128::MIN);
            audit.last[id] = i128::MIN;
        }
    }

    pub fn experiment(&self) -> Experiment {
        Experiment::of(&self.control)
    }

    pub fn enter_epoch(&mut self, id: Id, experiment: &Experiment, now: Ns) -> bool {
        let entered = clock::enter_epoch(&mut self.slots[id], &self.targets[id], experiment, now);
        if entered {
            self.forget(id);
        }
        entered
    }

    /// Another experiment, for this thread.
    pub fn forget(&mut self, id: Id) {
        self.asides[id].stretch.forget();
    }

    pub fn catch_up(&mut self, id: Id, experiment: &Experiment, now: Ns) -> u64 {
        let ran = clock::account_cpu(&mut self.slots[id], &self.targets[id], now);
        self.totals.cpu += ran;
        let entered = self.enter_epoch(id, experiment, now);
        let required = self.required();
        let longest = now.saturating_sub(experiment.started_ns);
        let (slot, target) = (&mut self.slots[id], &self.targets[id]);
        let paid = clock::fold_payment(slot, target, required, longest).unwrap_or(0);
        self.totals.paid += paid;
        if self.rules.spinning {
            clock::absorb_spinning(&mut self.slots[id], required, ran);
        }
        self.check(id, now, if entered { i128::MAX } else { 0 });
        required
    }

    /// Charges what is due at an event that ends a stretch so. Returns the new `G`.
    pub fn charge(&mut self, id: Id, experiment: &Experiment, required: u64, now: Ns, end: End) -> u64 {
        let (slot, aside) = (&mut self.slots[id], &mut self.asides[id]);
        // The variants hand the very function a time all of which is the line's.
        let all = match self.rules.charging {
            Charging::Lumped => return required,
            Charging::Fluid | Charging::Places => None,
            Charging::Exact => Some(std::mem::take(&mut aside.line)),
            Charging::Kinds if experiment.running => {
                Some(aside.stretch.take(slot.cpu_uncharged, end, experiment.period_ns))
            }
            Charging::Kinds => return required,
        };
        if let Some(line) = all {
            slot.cpu_uncharged = line;
            slot.share.value = SHARE_ONE;
            slot.share.weight = 1;
        }
        let charged = match (self.rules.charging, end) {
            (Charging::Places | Charging::Fluid, End::Open) => {
                clock::charge_at_sample(slot, experiment, required, self.control.threshold_ns)
            }
            (Charging::Places | Charging::Fluid, End::Preempted) => {
                clock::charge_ahead(slot, experiment, required)
            }
            _ => clock::charge(slot, experiment, required),
        };
        self.charged(id, charged, experiment, required, now)
    }

    /// Something has been charged: raises `G`.
    pub fn charged(&mut self, id: Id, charged: Ns, experiment: &Experiment, required: u64, now: Ns) -> u64 {
        if charged == 0 {
            return required;
        }
        self.totals.charged += charged;
        self.check(id, now, i128::from(charged));
        if let Some(raised) = TaggedDelay(self.required).raised(experiment.epoch, self.slots[id].local) {
            self.required = raised.0;
        }
        self.required()
    }

    /// The virtual clock went on, or back by no more than `hit`.
    pub fn check(&mut self, id: Id, now: Ns, hit: i128) {
        let Some(audit) = &mut self.audit else { return };
        // While a payment is asked for or under way, it stands; by how much shows when the payment is booked.
        if self.slots[id].sent != self.targets[id].acked && hit != i128::MAX {
            return;
        }
        let virtual_now = i128::from(now) - i128::from(absorbed(&self.slots[id]));
        let last = &mut audit.last[id];
        let back = last.saturating_sub(virtual_now);
        if back > hit {
            audit.broken.push(format!("{now}: thread {id} went back by {back} ns"));
        }
        *last = virtual_now;
    }
}
