//! The event loop.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use coz_user::kernel::standing::Stood;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::Ns;
use super::machine::Machine;
use super::profiler::{Audit, Profiler, Totals};
use super::program::Program;
use super::rules::Rules;
use super::sync::{Id, Sync};
use super::thread::{State, Thread};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// The running burst of a CPU is over, unless it has changed since (the second number).
    Burst(usize, u64),
    /// A woken thread has reached its idle CPU.
    Arrival(usize),
    /// The running thread may have had its slice.
    Slice(usize, u64),
    /// Somebody more deserving waits.
    Resched(usize, u64),
    /// A CPU's sampling clock ticks.
    Tick(usize),
    /// A thread's timer runs out.
    Timer(Id, u64),
    /// The interrupt of that timer has come through.
    Interrupt(Id, u64),
}

#[derive(Debug, Default)]
pub(super) struct Cpu {
    pub running: Option<Id>,
    /// A thread is on its way to it.
    pub arriving: Option<Id>,
    /// Changes with every burst.
    pub token: u64,
    /// Changes with every switch.
    pub turn: u64,
    /// When the running thread's share was last accounted.
    pub since: Ns,
    pub resched: bool,
}

/// A machine with a program on it.
#[derive(Debug)]
pub struct World<'a> {
    pub(super) program: &'a Program,
    pub(super) machine: &'a Machine,
    /// By how much the hot line is really shortened, thousandths.
    pub(super) shortened: u32,
    pub(super) now: Ns,
    pub(super) events: BinaryHeap<Reverse<(Ns, Event, u64)>>,
    pub(super) sequence: u64,
    pub(super) cpus: Vec<Cpu>,
    pub(super) threads: Vec<Thread>,
    pub(super) dead: Vec<Id>,
    /// Who waits for a CPU, most deserving first.
    pub(super) ready: BTreeSet<(Ns, u64, Id)>,
    /// The share that the last thread to get a CPU had had.
    pub(super) least_turn: Ns,
    pub(super) sync: Sync,
    pub(super) profiler: Option<Profiler>,
    pub(super) rng: ChaCha8Rng,
    /// Apart, so that sampling does not change what the machine does.
    ticks: ChaCha8Rng,
    pub(super) seed: u64,
    pub(super) born: u64,
    pub(super) visits: u64,
    /// When each visit was, if wanted.
    pub(super) visit_times: Option<Vec<Ns>>,
    /// Visits by thread.
    pub(super) visits_of: Vec<u64>,
}

impl<'a> World<'a> {
    /// The program at its beginning, with the hot line really shortened by so many thousandths and nobody looking.
    #[must_use]
    pub fn plain(program: &'a Program, machine: &'a Machine, shortened: u32, seed: u64) -> Self {
        Self::new(program, machine, shortened, None, seed)
    }

    /// The program at its beginning, with a profiler.
    #[must_use]
    pub fn profiled(program: &'a Program, machine: &'a Machine, rules: &Rules, seed: u64) -> Self {
        Self::new(program, machine, 0, Some(rules), seed)
    }

    fn new(
        program: &'a Program,
        machine: &'a Machine,
        shortened: u32,
        rules: Option<&Rules>,
        seed: u64,
    ) -> Self {
        let mut world = Self {
            program,
            machine,
            shortened,
            now: 1,
            events: BinaryHeap::new(),
            sequence: 0,
            cpus: (0..machine.cpus).map(|_| Cpu::default()).collect(),
            threads: Vec::new(),
            dead: Vec::new(),
            ready: BTreeSet::new(),
            least_turn: 0,
            sync: Sync::of(program),
            profiler: rules.map(|rules| Profiler::new(rules, machine)),
            rng: ChaCha8Rng::seed_from_u64(seed),
            ticks: ChaCha8Rng::seed_from_u64(seed ^ 0x5EED),
            seed,
            born: 0,
            visits: 0,
            visit_times: None,
            visits_of: Vec::new(),
        };
        for &body in &program.initial {
            let id = world.bear(body, None);
            if let Some(profiler) = &mut world.profiler {
                profiler.join(id);
            }
            world.place(id, 0);
        }
        if world.profiler.is_some() {
            // The clocks of the CPUs tick independently of each other.
            for cpu in 0..machine.cpus {
                let period = world.period();
                let first = world.ticks.random_range(0..period.max(1));
                world.after(first, Event::Tick(cpu));
            }
        }
        world
    }

    /// Makes a thread; it does not run yet.
    pub(super) fn bear(&mut self, body: usize, parent: Option<Id>) -> Id {
        // A thread's durations depend on when it was born among the others, not on when in time: a really shortened
        // program and the original draw the same.
        self.born += 1;
        let seed = self.seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(self.born);
        let mut thread = Thread::new(body, self.program.counters + 1, parent, seed);
        thread.turn = self.least_turn;
        match self.dead.pop() {
            Some(id) => {
                thread.sleeps = self.threads[id].sleeps + 1;
                self.threads[id] = thread;
                id
            }
            None => {
                self.threads.push(thread);
                self.visits_of.push(0);
                self.threads.len() - 1
            }
        }
    }

    pub(super) fn after(&mut self, delay: Ns, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse((self.now + delay, event, self.sequence)));
    }

    /// The sampling period, with jitter.
    fn period(&mut self) -> Ns {
        let Some(profiler) = &self.profiler else { return 0 };
        let (period, jitter) = (profiler.rules.period, profiler.rules.jitter);
        if jitter == 0 { period } else { self.ticks.random_range(period - jitter..=period + jitter) }
    }

    /// Lets time pass up to `end`.
    pub fn run_until(&mut self, end: Ns) {
        while let Some(&Reverse((time, event, _))) = self.events.peek() {
            if time > end {
                break;
            }
            self.events.pop();
            self.now = time;
            self.handle(event);
        }
        self.now = end;
    }

    /// Lets time pass until the progress point has been visited so often, at most up to `end`.
    pub fn run_until_visits(&mut self, visits: u64, end: Ns) {
        while self.visits < visits {
            let Some(Reverse((time, event, _))) = self.events.pop() else { break };
            if time > end {
                break;
            }
            self.now = time;
            self.handle(event);
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Burst(cpu, token) if self.cpus[cpu].token == token => self.burst_over(cpu),
            Event::Arrival(cpu) => self.arrive(cpu),
            Event::Slice(cpu, turn) if self.cpus[cpu].turn == turn => self.slice_over(cpu),
            Event::Resched(cpu, turn) if self.cpus[cpu].turn == turn => self.give_way(cpu),
            Event::Tick(cpu) => {
                self.tick(cpu);
                let period = self.period();
                self.after(period, Event::Tick(cpu));
            }
            Event::Timer(id, sleeps)
                if self.threads[id].sleeps == sleeps && self.threads[id].state == State::Blocked =>
            {
                // An idle CPU takes as long to notice its own timer as to notice another CPU's call.
                let idle = self.cpus[self.threads[id].last_cpu].running.is_none();
                let latency = if idle { self.machine.wake_latency } else { 0 };
                self.after(latency, Event::Interrupt(id, sleeps));
            }
            Event::Interrupt(id, sleeps)
                if self.threads[id].sleeps == sleeps && self.threads[id].state == State::Blocked =>
            {
                self.wake(None, id);
            }
            Event::Burst(..)
            | Event::Slice(..)
            | Event::Resched(..)
            | Event::Timer(..)
            | Event::Interrupt(..) => {}
        }
    }

    /// Begins an experiment at this speedup (thousandths).
    pub fn begin(&mut self, speedup: u32) {
        let now = self.now;
        if let Some(profiler) = &mut self.profiler {
            profiler.begin(speedup, now);
        }
    }

    /// Ends it.
    pub fn end(&mut self) {
        if let Some(profiler) = &mut self.profiler {
            profiler.end();
        }
    }

    /// Simulated time.
    #[must_use]
    pub fn now(&self) -> Ns {
        self.now
    }

    /// Visits of the progress point.
    #[must_use]
    pub fn visits(&self) -> u64 {
        self.visits
    }

    /// `G`, nanoseconds.
    #[must_use]
    pub fn required(&self) -> Ns {
        self.profiler.as_ref().map_or(0, Profiler::required)
    }

    /// Sums of the profiler.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.profiler.as_ref().map(|profiler| profiler.totals).unwrap_or_default()
    }

    /// What each thread owes, and how often it has visited the progress point.
    #[must_use]
    pub fn owed(&self) -> Vec<(Ns, u64)> {
        let Some(profiler) = &self.profiler else { return Vec::new() };
        (0..self.threads.len())
            .filter(|&id| self.threads[id].state != State::Dead)
            .map(|id| (profiler.owed(id), self.visits_of[id]))
            .collect()
    }

    /// What each thread has absorbed in the experiment, and how often it has visited the progress point in it.
    #[must_use]
    pub fn standing(&self) -> Vec<Stood> {
        let Some(profiler) = &self.profiler else { return Vec::new() };
        (0..self.threads.len())
            .filter(|&id| self.threads[id].state != State::Dead)
            .map(|id| profiler.standing(id, self.now))
            .collect()
    }

    /// Checks the virtual clocks from now on.
    pub fn audit(&mut self) {
        if let Some(profiler) = &mut self.profiler {
            profiler.audit = Some(Audit::default());
            for id in 0..profiler.slots.len() {
                profiler.watch(id);
            }
        }
    }

    /// What the checks have found.
    #[must_use]
    pub fn broken(&self) -> &[String] {
        self.profiler.as_ref().and_then(|profiler| profiler.audit.as_ref()).map_or(&[], |audit| &audit.broken)
    }

    /// Visits of each thread.
    #[must_use]
    pub fn visits_of(&self) -> &[u64] {
        &self.visits_of
    }

    /// Keeps the time of each visit from now on.
    pub fn record_visits(&mut self) {
        self.visit_times = Some(Vec::new());
    }

    /// The times kept.
    #[must_use]
    pub fn visit_times(&self) -> &[Ns] {
        self.visit_times.as_deref().unwrap_or_default()
    }
}
