//! Who runs where, and when.

use rand::RngExt;

use super::Ns;
use super::handler::{Handler, Stage, Want};
use super::kernel::At;
use super::program::{HOT, Line};
use super::sync::Id;
use super::thread::{ENDLESS, State, Work};
use super::world::{Event, World};

/// What a running thread does next.
pub(super) enum Next {
    /// Something that takes time is on its stack.
    Run,
    /// It sleeps: until somebody wakes it, or so long.
    Block(Option<Ns>),
    /// It is done.
    Exit,
}

impl World<'_> {
    /// Accounts for what the CPU's thread has done of its burst.
    pub(super) fn settle(&mut self, cpu: usize) {
        let Some(id) = self.cpus[cpu].running else { return };
        let thread = &mut self.threads[id];
        let ran = self.now - thread.since;
        thread.since = self.now;
        thread.turn += self.now - self.cpus[cpu].since;
        self.cpus[cpu].since = self.now;
        if let Some(burst) = thread.bursts.last_mut()
            && burst.left != ENDLESS
        {
            burst.left = burst.left.saturating_sub(ran);
            if burst.work == Work::Line(HOT)
                && let Some(profiler) = &mut self.profiler
            {
                profiler.line_ran(id, ran);
            }
        }
    }

    /// Sets the end of the burst on top.
    pub(super) fn schedule(&mut self, cpu: usize) {
        let Some(id) = self.cpus[cpu].running else { return };
        self.cpus[cpu].token += 1;
        self.threads[id].since = self.now;
        if let Some(burst) = self.threads[id].bursts.last()
            && burst.left != ENDLESS
        {
            let (left, token) = (burst.left, self.cpus[cpu].token);
            self.after(left, Event::Burst(cpu, token));
        }
    }

    /// The burst on top is done.
    pub(super) fn burst_over(&mut self, cpu: usize) {
        let Some(id) = self.cpus[cpu].running else { return };
        self.settle(cpu);
        self.threads[id].bursts.pop();
        self.go_on(cpu);
    }

    /// Lets the CPU's thread go on until it does something that takes time, or leaves.
    fn go_on(&mut self, cpu: usize) {
        let Some(id) = self.cpus[cpu].running else { return };
        loop {
            if self.threads[id].bursts.len() > self.threads[id].floor() {
                break;
            }
            let next = if let Some(handler) = self.threads[id].handler.take() {
                self.pay(id, handler)
            } else if let Some(woken) = self.threads[id].wakes.pop_front() {
                self.wake(Some(id), woken);
                let cost = self.machine.wake_cost;
                self.threads[id].push(Work::Kernel, cost);
                None
            } else {
                self.step(id)
            };
            match next {
                None | Some(Next::Run) => {}
                Some(Next::Block(time)) => {
                    self.threads[id].sleeps += 1;
                    if let Some(time) = time {
                        let sleeps = self.threads[id].sleeps;
                        self.after(time, Event::Timer(id, sleeps));
                    }
                    self.switch(cpu, State::Blocked);
                    return;
                }
                Some(Next::Exit) => {
                    self.switch(cpu, State::Dead);
                    return;
                }
            }
        }
        self.schedule(cpu);
        if self.cpus[cpu].resched {
            self.give_way(cpu);
        }
    }

    /// The handler's next step.
    fn pay(&mut self, id: Id, mut handler: Handler) -> Option<Next> {
        let want = match &mut self.profiler {
            Some(profiler) => handler.step(profiler, id, self.now),
            None => Want::Done,
        };
        if want != Want::Done {
            self.threads[id].handler = Some(handler);
        }
        match want {
            Want::Cpu(ns) => {
                self.threads[id].push(Work::Handler, ns);
                Some(Next::Run)
            }
            // The timer's own delay; the wake-up's comes on top.
            Want::SleepUntil(time) => {
                let late = self.rng.random_range(0..=2_000);
                Some(Next::Block(Some(time.saturating_sub(self.now) + late)))
            }
            Want::Done => None,
        }
    }

    /// The CPU's thread leaves it for this state, and the next one comes.
    fn switch(&mut self, cpu: usize, state: State) {
        self.settle(cpu);
        let now = self.now;
        self.cpus[cpu].resched = false;
        self.cpus[cpu].token += 1;
        self.cpus[cpu].turn += 1;
        let before = self.cpus[cpu].running.take();
        if let Some(id) = before {
            self.threads[id].state = state;
            match state {
                State::Dead => self.dead.push(id),
                _ => {
                    if let Some(profiler) = &mut self.profiler {
                        profiler.leaves(id, state == State::Ready, cpu, self.threads[id].site, now);
                    }
                }
            }
            if state == State::Ready {
                self.enqueue(id);
            }
        }
        if let Some((_, _, id)) = self.ready.pop_first() {
            self.put(cpu, id);
        }
    }

    fn enqueue(&mut self, id: Id) {
        self.sequence += 1;
        self.ready.insert((self.threads[id].turn, self.sequence, id));
    }

    /// A thread gets a CPU.
    fn put(&mut self, cpu: usize, id: Id) {
        let now = self.now;
        self.least_turn = self.least_turn.max(self.threads[id].turn);
        self.cpus[cpu].running = Some(id);
        self.cpus[cpu].since = now;
        self.cpus[cpu].turn += 1;
        let asked = self.profiler.as_mut().is_some_and(|profiler| profiler.gets(id, cpu, now));
        let delivery = self.machine.delivery;
        let switch = self.machine.switch;
        let thread = &mut self.threads[id];
        thread.state = State::Running(cpu);
        thread.since = now;
        thread.last_cpu = cpu;
        // A spin for time, not for work, is not made longer by being interrupted.
        if let Some(Handler { stage: Stage::Spin(until), floor, .. }) = thread.handler
            && thread.bursts.len() > floor
            && let Some(burst) = thread.bursts.last_mut()
        {
            burst.left = burst.left.min(until.saturating_sub(now));
        }
        if asked {
            thread.handler = Some(Handler::new(thread.bursts.len()));
            thread.push(Work::Kernel, delivery);
        }
        thread.push(Work::Kernel, switch);
        let turn = self.cpus[cpu].turn;
        self.after(self.machine.slice, Event::Slice(cpu, turn));
        self.schedule(cpu);
    }

    /// A woken thread has reached its CPU.
    pub(super) fn arrive(&mut self, cpu: usize) {
        if let Some(id) = self.cpus[cpu].arriving.take() {
            self.put(cpu, id);
        }
    }

    /// Wakes a sleeping thread: for another one, or for an interrupt.
    pub(super) fn wake(&mut self, waker: Option<Id>, id: Id) {
        if self.threads[id].state != State::Blocked {
            self.threads[id].permit = true;
            return;
        }
        let now = self.now;
        if let Some(profiler) = &mut self.profiler {
            profiler.waking(waker.map(|waker| (waker, self.threads[waker].site)), id, now);
        }
        // An interrupt has woken the CPU already.
        let latency = if waker.is_some() { self.machine.wake_latency } else { self.machine.switch };
        self.place(id, latency);
    }

    /// Finds a CPU for a thread that has become ready; an idle one takes so long to come.
    pub(super) fn place(&mut self, id: Id, latency: Ns) {
        let machine = self.machine;
        let floor = self.least_turn.saturating_sub(machine.slice);
        let thread = &mut self.threads[id];
        thread.turn = thread.turn.max(floor);
        let (turn, last) = (thread.turn, thread.last_cpu);
        let idle = |cpu: &usize| self.cpus[*cpu].running.is_none() && self.cpus[*cpu].arriving.is_none();
        let cpu = Some(last).filter(idle).or_else(|| (0..self.cpus.len()).find(idle));
        if let Some(cpu) = cpu {
            self.threads[id].state = State::Arriving;
            self.cpus[cpu].arriving = Some(id);
            self.after(latency, Event::Arrival(cpu));
            return;
        }
        self.threads[id].state = State::Ready;
        self.enqueue(id);
        if machine.preempt {
            let had = |cpu: &usize| {
                let cpu = &self.cpus[*cpu];
                cpu.running.map(|id| self.threads[id].turn + (self.now - cpu.since))
            };
            if let Some((most, cpu)) = (0..self.cpus.len()).filter_map(|cpu| Some((had(&cpu)?, cpu))).max()
                && turn + machine.granularity < most
            {
                let turn = self.cpus[cpu].turn;
                self.after(1_000, Event::Resched(cpu, turn));
            }
        }
    }

    /// A slice is over: the next one's turn, if somebody waits who has had less.
    pub(super) fn slice_over(&mut self, cpu: usize) {
        self.settle(cpu);
        self.schedule(cpu);
        let Some(id) = self.cpus[cpu].running else { return };
        match self.ready.first() {
            Some(&(turn, ..)) if turn <= self.threads[id].turn => self.give_way(cpu),
            _ => {
                let turn = self.cpus[cpu].turn;
                self.after(self.machine.slice, Event::Slice(cpu, turn));
            }
        }
    }

    /// The CPU's thread is preempted, if anybody waits.
    pub(super) fn give_way(&mut self, cpu: usize) {
        if self.cpus[cpu].running.is_some() && !self.ready.is_empty() {
            self.switch(cpu, State::Ready);
        }
        self.cpus[cpu].resched = false;
    }

    /// A CPU's sampling clock ticks.
    pub(super) fn tick(&mut self, cpu: usize) {
        let Some(id) = self.cpus[cpu].running else { return };
        self.settle(cpu);
        let (delivery, cost) = (self.machine.delivery, self.machine.sample_cost);
        let now = self.now + self.machine.sample_before;
        let thread = &mut self.threads[id];
        let (line, at): (Line, At) = match thread.bursts.last().map(|burst| burst.work) {
            Some(Work::Line(line)) => (line, At::Work),
            Some(Work::Spin) => (0, At::Spin),
            Some(Work::Handler) => (0, At::Work),
            Some(Work::Kernel) | None => (0, At::Kernel),
        };
        if let Some(profiler) = &mut self.profiler
            && profiler.sample(id, line, at, now)
        {
            thread.handler = Some(Handler::new(thread.bursts.len()));
            thread.push(Work::Kernel, delivery);
        }
        if cost > 0 {
            thread.push(Work::Kernel, cost);
        }
        self.schedule(cpu);
    }
}
