//! The kernel side: what happens at a sample, a switch, a wake-up, a birth and a death.
//!
//! The order of the calls is that of coz-ebpf's `sample`, `sched`, `process` and `thread`.

use coz_common::abi::{Control, KernelSlot, STATE_IDLE, STATE_RUNNING, TargetSlot};
use coz_common::clock::{self, Experiment, SHARE_ONE, TaggedDelay, absorbed, debt};

use super::machine::Machine;
use super::program::{HOT, Line};
use super::rules::{Charging, CpuEdge, Rules, Wake};
use super::stretch::{End, Start, Stretch};
use super::sync::Id;
use super::{Ns, S};

/// Sums over a run, nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// CPU time of the program.
    pub cpu: Ns,
    /// Delay charged by hits.
    pub charged: Ns,
    /// Delay absorbed along with wake-ups.
    pub inherited: Ns,
    /// Delay paid.
    pub paid: Ns,
    /// Time spent waiting for a CPU.
    pub queued: Ns,
    /// Signals.
    pub asked: u64,
}

/// The profiler's state.
#[derive(Debug)]
pub(super) struct Profiler {
    pub rules: Rules,
    pub control: Box<Control>,
    pub required: u64,
    pub slots: Vec<KernelSlot>,
    pub targets: Vec<TargetSlot>,
    /// Delay charged on each CPU so far, and what it was when a thread began to wait: for [`CpuEdge::Relative`].
    cpu_charged: Vec<Ns>,
    /// When each CPU was last given up, with what delay absorbed, in which epoch.
    cpu_clock: Vec<(Ns, Ns, u32)>,
    charged_before: Vec<(usize, Ns)>,
    /// The line's true time since it was last charged: for [`Charging::Exact`].
    pub line_time: Vec<Ns>,
    /// And in all experiments.
    pub line_total: Ns,
    stretches: Vec<Stretch>,
    /// What each thread owes for waits that nobody of the set has ended.
    private: Vec<Ns>,
    pub totals: Totals,
    /// Checks of the clock's invariants, where wanted.
    pub audit: Option<Audit>,
}

/// Where each thread's virtual clock stood, and how often a rule broke its promise.
#[derive(Debug, Default)]
pub struct Audit {
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
        Self {
            rules: rules.clone(),
            control,
            required: 0,
            slots: Vec::new(),
            targets: Vec::new(),
            cpu_charged: vec![0; machine.cpus],
            cpu_clock: vec![(0, 0, 0); machine.cpus],
            charged_before: Vec::new(),
            line_time: Vec::new(),
            line_total: 0,
            stretches: Vec::new(),
            private: Vec::new(),
            totals: Totals::default(),
            audit: None,
        }
    }

    /// The hot line has run.
    pub fn line_ran(&mut self, id: Id, ran: Ns) {
        self.line_time[id] += ran;
        if self.control.state == STATE_RUNNING {
            self.line_total += ran;
        }
    }

    /// An experiment begins.
    pub fn begin(&mut self, speedup: u32, now: Ns) {
        self.control.speedup = speedup;
        self.control.started_ns = now;
        self.control.deadline_ns = now + 3600 * S;
        self.control.state = STATE_RUNNING;
        self.control.epoch += 1;
        self.line_time.fill(0);
    }

    /// It ends.
    pub fn end(&mut self) {
        self.control.state = STATE_IDLE;
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

    /// A thread joins the set.
    pub fn join(&mut self, id: Id) {
        if self.slots.len() <= id {
            self.slots.resize_with(id + 1, KernelSlot::default);
            self.targets.resize_with(id + 1, TargetSlot::default);
            self.charged_before.resize(id + 1, (0, 0));
            self.line_time.resize(id + 1, 0);
            self.private.resize(id + 1, 0);
            self.stretches.resize(id + 1, Stretch::default());
        }
        self.line_time[id] = 0;
        self.private[id] = 0;
        self.stretches[id] = Stretch::default();
        let target = self.targets[id];
        self.slots[id].reset(id as u32 + 1, 1, &target);
        if let Some(audit) = &mut self.audit {
            audit.last.resize(self.slots.len(), i128::MIN);
            audit.last[id] = i128::MIN;
        }
    }

    fn experiment(&self) -> Experiment {
        Experiment::of(&self.control)
    }

    fn catch_up(&mut self, id: Id, experiment: &Experiment, now: Ns) -> u64 {
        let (slot, target) = (&mut self.slots[id], &self.targets[id]);
        self.totals.cpu += clock::account_cpu(slot, target, now);
        let entered = clock::enter_epoch(slot, target, experiment, now);
        if entered {
            self.stretches[id].forget();
        }
        let (slot, target) = (&mut self.slots[id], &self.targets[id]);
        let required = TaggedDelay(self.required).in_epoch(experiment.epoch);
        let longest = now.saturating_sub(experiment.started_ns);
        self.totals.paid += clock::fold_payment(slot, target, required, longest).unwrap_or(0);
        self.check(id, now, 0, entered);
        required
    }

    fn charge(&mut self, id: Id, experiment: &Experiment, required: u64, now: Ns, cpu: Option<usize>, end: End) -> u64 {
        match self.rules.charging {
            Charging::Lumped => return required,
            Charging::Fluid => {}
            Charging::Exact => {
                let slot = &mut self.slots[id];
                slot.share = SHARE_ONE;
                slot.share_weight = 1;
                slot.cpu_uncharged = std::mem::take(&mut self.line_time[id]);
            }
            Charging::Stretches(how) => {
                if !experiment.running {
                    return required;
                }
                let slot = &mut self.slots[id];
                slot.cpu_uncharged = self.stretches[id].take(slot.cpu_uncharged, end, experiment.period_ns, how);
                slot.share = SHARE_ONE;
                slot.share_weight = 1;
            }
        }
        let charged = clock::charge(&mut self.slots[id], experiment, required);
        self.charged(id, charged, experiment, required, now, cpu)
    }

    fn charged(
        &mut self,
        id: Id,
        charged: Ns,
        experiment: &Experiment,
        required: u64,
        now: Ns,
        cpu: Option<usize>,
    ) -> u64 {
        if charged == 0 {
            return required;
        }
        self.totals.charged += charged;
        if let Some(cpu) = cpu {
            self.cpu_charged[cpu] += charged;
        }
        self.check(id, now, charged, false);
        self.raise(experiment.epoch, self.slots[id].local)
    }

    fn raise(&mut self, epoch: u32, local: u64) -> u64 {
        if let Some(raised) = TaggedDelay(self.required).raised(epoch, local) {
            self.required = raised.0;
        }
        TaggedDelay(self.required).in_epoch(epoch)
    }

    /// A sample of a running thread. Whether it is asked to pay.
    pub fn sample(&mut self, id: Id, line: Line, user: bool, cpu: usize, now: Ns) -> bool {
        let experiment = self.experiment();
        let mut required = self.catch_up(id, &experiment, now);
        if self.targets[id].paying != 0 {
            return false;
        }
        let weight = clock::take_sample_weight(&mut self.slots[id], &experiment);
        if !experiment.running {
            return false;
        }
        let hit = line == self.control.selected;
        match self.rules.charging {
            Charging::Fluid | Charging::Exact => {
                let longer = Experiment { period_ns: experiment.period_ns * self.rules.window, ..experiment };
                clock::observe(&mut self.slots[id], hit, weight, &longer);
                required = self.charge(id, &experiment, required, now, Some(cpu), End::Open);
            }
            Charging::Stretches(_) => {
                self.stretches[id].observe(hit, weight);
                required = self.charge(id, &experiment, required, now, Some(cpu), End::Open);
            }
            Charging::Lumped => {
                let slot = &mut self.slots[id];
                slot.share = if hit { SHARE_ONE } else { 0 };
                slot.share_weight = 1;
                slot.cpu_uncharged = weight;
                let charged = clock::charge(slot, &experiment, required);
                required = self.charged(id, charged, &experiment, required, now, Some(cpu));
            }
        }
        if user && debt(&self.slots[id], required) >= self.control.threshold_ns && now < self.control.deadline_ns {
            return self.ask(id, now);
        }
        false
    }

    fn ask(&mut self, id: Id, now: Ns) -> bool {
        let slot = &mut self.slots[id];
        if slot.sent != self.targets[id].acked {
            return false;
        }
        slot.sent_at = now;
        slot.sent = slot.sent.wrapping_add(1);
        self.totals.asked += 1;
        true
    }

    /// A thread loses its CPU.
    pub fn leaves(&mut self, id: Id, runnable: bool, cpu: usize, now: Ns) {
        let experiment = self.experiment();
        let required = self.catch_up(id, &experiment, now);
        if self.targets[id].paying == 0 {
            let end = if runnable { End::Preempted } else { End::Blocks };
            self.charge(id, &experiment, required, now, Some(cpu), end);
            self.slots[id].sent_at = 0;
        }
        let slot = &mut self.slots[id];
        slot.on_cpu_since = 0;
        // What a thread owes for the time that it waited for a device is its own affair.
        let owes = debt(slot, TaggedDelay(self.required).in_epoch(experiment.epoch));
        self.private[id] = self.private[id].min(owes);
        self.cpu_clock[cpu] = (now, absorbed(slot) + self.private[id], slot.epoch);
        if runnable {
            slot.ready_at = now;
            self.charged_before[id] = (cpu, self.cpu_charged[cpu]);
        } else {
            slot.blocked_at = now;
            slot.ready_at = 0;
        }
    }

    /// A thread gets a CPU, which `before` has had.
    pub fn gets(&mut self, id: Id, before: Option<Id>, cpu: usize, now: Ns) -> bool {
        let experiment = self.experiment();
        let paying = self.targets[id].paying != 0;
        let slot = &mut self.slots[id];
        slot.on_cpu_since = now;
        let mut queued = 0;
        let woken = slot.woken_at != 0;
        if slot.ready_at != 0 {
            queued = now.saturating_sub(slot.ready_at);
            slot.ready_at = 0;
            self.totals.queued += queued;
            if paying {
                slot.pay_wait += queued;
            }
        }
        if slot.blocked_at != 0 && !paying {
            self.stretches[id].begin(if slot.woken_at != 0 { Start::Woken } else { Start::Alone });
        }
        if slot.woken_at != 0 {
            if paying {
                slot.woken_at = 0;
            } else {
                self.wakes(id, &experiment, now);
            }
        }
        let resumes = self.slots[id].blocked_at != 0;
        if resumes && !paying {
            self.private[id] = if woken { 0 } else {
                let required = self.catch_up(id, &experiment, now);
                debt(&self.slots[id], required)
            };
        }
        self.slots[id].blocked_at = 0;
        if queued > 0 || matches!(self.rules.cpu_edge, CpuEdge::Clock | CpuEdge::ClockAndLatency) {
            self.cpu_edge(id, before, cpu, queued, &experiment, now);
        }
        if self.rules.pay_at_wake && resumes && !paying && experiment.running {
            let required = self.catch_up(id, &experiment, now);
            if debt(&self.slots[id], required) >= self.control.threshold_ns {
                return self.ask(id, now);
            }
        }
        false
    }

    fn wakes(&mut self, id: Id, experiment: &Experiment, now: Ns) {
        let required = TaggedDelay(self.required).in_epoch(experiment.epoch);
        let (slot, target) = (&mut self.slots[id], &self.targets[id]);
        if clock::enter_epoch(slot, target, experiment, now) {
            self.stretches[id].forget();
        }
        let waker_virtual = (slot.woken_epoch == experiment.epoch && slot.epoch == experiment.epoch)
            .then(|| i128::from(slot.woken_at) - i128::from(slot.woken_local));
        match self.rules.wake {
            Wake::Nothing => slot.woken_at = 0,
            Wake::Max => {
                let plain = Experiment { wake_latency_ns: 0, ..*experiment };
                self.totals.inherited += clock::apply_wake(slot, &plain, required, now);
            }
            Wake::Product => self.totals.inherited += clock::apply_wake(slot, experiment, required, now),
        }
        let virtual_now = i128::from(now) - i128::from(absorbed(slot));
        if let (Some(audit), Some(waker)) = (&mut self.audit, waker_virtual)
            && self.rules.wake != Wake::Nothing
            && virtual_now < waker
        {
            audit.broken.push(format!("{now}: thread {id} is {} ns before its waker", waker - virtual_now));
        }
        self.check(id, now, 0, false);
    }

    fn cpu_edge(&mut self, id: Id, before: Option<Id>, cpu: usize, queued: Ns, experiment: &Experiment, now: Ns) {
        if self.rules.cpu_edge == CpuEdge::Owes {
            return;
        }
        let required = TaggedDelay(self.required).in_epoch(experiment.epoch);
        let slot = &mut self.slots[id];
        clock::enter_epoch(slot, &self.targets[id], experiment, now);
        let own = absorbed(slot);
        let absorbs = match self.rules.cpu_edge {
            CpuEdge::Owes => 0,
            CpuEdge::Absolute => {
                let Some(before) = before.filter(|&before| before != id) else { return };
                let ahead = &self.slots[before];
                if ahead.epoch != experiment.epoch {
                    return;
                }
                absorbed(ahead).saturating_sub(own).min(queued)
            }
            CpuEdge::Clock | CpuEdge::ClockAndLatency => {
                let (at, local, epoch) = self.cpu_clock[cpu];
                if epoch != experiment.epoch {
                    return;
                }
                // What it waited for was the CPU only as long as somebody else had it.
                let waited = match self.rules.cpu_edge {
                    CpuEdge::Clock => at.saturating_sub(now - queued).min(queued),
                    _ => queued,
                };
                let total = (own + waited).min(local + (now - at));
                self.totals.inherited += total.saturating_sub(own);
                let slot = &mut self.slots[id];
                clock::set_absorbed(slot, total, required);
                return;
            }
            CpuEdge::Relative => {
                let (from, charged) = self.charged_before[id];
                if from != cpu {
                    return;
                }
                (self.cpu_charged[cpu] - charged).min(queued)
            }
        };
        let slot = &mut self.slots[id];
        clock::set_absorbed(slot, own + absorbs, required);
        self.totals.inherited += absorbs;
        self.check(id, now, 0, false);
    }

    /// A thread is woken: by another one, or (`None`) by an interrupt.
    pub fn waking(&mut self, waker: Option<Id>, woken: Id, now: Ns) {
        self.slots[woken].ready_at = now;
        self.charged_before[woken] = (usize::MAX, 0);
        let Some(waker) = waker else {
            self.slots[woken].woken_at = 0;
            return;
        };
        let experiment = self.experiment();
        let required = self.catch_up(waker, &experiment, now);
        self.charge(waker, &experiment, required, now, None, End::Wakes);
        self.stretches[waker].begin(Start::Waker);
        let waker = &self.slots[waker];
        let local = if self.rules.hand_on_credit { absorbed(waker) } else { waker.local };
        let slot = &mut self.slots[woken];
        slot.woken_local = local;
        slot.woken_epoch = experiment.epoch;
        slot.woken_at = now;
    }

    /// A thread gives something up that others wait for, without waking anybody.
    pub fn releases(&mut self, id: Id, now: Ns) {
        if self.rules.charge_at_unlock {
            let experiment = self.experiment();
            let required = self.catch_up(id, &experiment, now);
            self.charge(id, &experiment, required, now, None, End::Blocks);
        }
    }

    /// A thread makes another one.
    pub fn fork(&mut self, parent: Id, child: Id, now: Ns) {
        let experiment = self.experiment();
        let required = self.catch_up(parent, &experiment, now);
        self.charge(parent, &experiment, required, now, None, End::Wakes);
        self.join(child);
        let parent = self.slots[parent];
        clock::inherit(&mut self.slots[child], &parent);
        self.slots[child].ready_at = now;
    }

    /// A thread is gone.
    pub fn exit(&mut self, id: Id, now: Ns) {
        let experiment = self.experiment();
        let required = self.catch_up(id, &experiment, now);
        if matches!(self.rules.charging, Charging::Exact | Charging::Stretches(_)) {
            self.charge(id, &experiment, required, now, None, End::Blocks);
        } else if self.rules.charging == Charging::Fluid {
            let charged = clock::charge_exit(&mut self.slots[id], &experiment, required);
            self.charged(id, charged, &experiment, required, now, None);
        }
    }

    /// The virtual clock went on, or back by no more than `hit`.
    fn check(&mut self, id: Id, now: Ns, hit: Ns, entered: bool) {
        let Some(audit) = &mut self.audit else { return };
        let virtual_now = i128::from(now) - i128::from(absorbed(&self.slots[id]));
        let last = &mut audit.last[id];
        if !entered && virtual_now < *last - i128::from(hit) {
            audit.broken.push(format!("{now}: thread {id} went back by {} ns", *last - virtual_now));
        }
        *last = virtual_now;
    }
}
