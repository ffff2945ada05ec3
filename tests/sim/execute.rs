//! What the steps of a script do.

use rand::RngExt;

use super::Ns;
use super::program::{Fairness, HOT, Op, Step, Waiting};
use super::scheduler::Next;
use super::sync::Id;
use super::thread::{ENDLESS, State, Work};
use super::world::World;

/// A spinner notices a change after at most this long.
const NOTICE: Ns = 200;

impl World<'_> {
    /// The next thing that a running thread does.
    pub(super) fn step(&mut self, id: Id) -> Option<Next> {
        let program = self.program;
        let body = self.threads[id].body;
        if self.threads[id].at == program.bodies[body].len() {
            if !program.forever[body] {
                return self.leave(id);
            }
            self.threads[id].at = 0;
        }
        let step = &program.bodies[body][self.threads[id].at];
        match step {
            Step::Op(op) => self.op(id, op),
            Step::Set(counter, times) => {
                self.threads[id].counters[*counter] = *times;
                self.next(id)
            }
            Step::Again(counter, start) => {
                let thread = &mut self.threads[id];
                thread.counters[*counter] -= 1;
                if thread.counters[*counter] == 0 {
                    return self.next(id);
                }
                thread.at = *start;
                None
            }
            Step::AwaitRoom(queue) => self.await_queue(id, *queue, true),
            Step::AwaitItem(queue) => self.await_queue(id, *queue, false),
            Step::Push(queue) => {
                let queue = &mut self.sync.queues[*queue];
                queue.items += 1;
                let woken = queue.want_item.pop_front();
                self.threads[id].wakes.extend(woken);
                self.next(id)
            }
            Step::Pop(queue) => {
                let queue = &mut self.sync.queues[*queue];
                queue.items -= 1;
                let woken = queue.want_room.pop_front();
                self.threads[id].wakes.extend(woken);
                self.next(id)
            }
        }
    }

    fn next(&mut self, id: Id) -> Option<Next> {
        self.threads[id].at += 1;
        self.threads[id].stage = 0;
        None
    }

    fn op(&mut self, id: Id, op: &Op) -> Option<Next> {
        match op {
            Op::Cpu(line, span) => {
                let mut ns = span.draw(&mut self.threads[id].rng);
                if *line == HOT {
                    ns -= ns * u64::from(self.shortened) / 1000;
                }
                self.threads[id].push(Work::Line(*line), ns);
                self.next(id)
            }
            Op::Lock(mutex) => {
                if self.lock(id, *mutex, 0)? {
                    return self.next(id);
                }
                self.sleep_in_lock(id)
            }
            Op::Unlock(mutex) => {
                self.unlock(id, *mutex);
                self.next(id)
            }
            Op::Meet(barrier) => self.meet(id, *barrier),
            Op::Send(pipe) => self.pipe(id, *pipe, true),
            Op::Receive(pipe) => self.pipe(id, *pipe, false),
            Op::Sleep(span) => self.sleep(id, |world| span.draw(&mut world.threads[id].rng)),
            Op::Io(device, span) => self.sleep(id, |world| {
                let service = span.draw(&mut world.threads[id].rng);
                let free = &mut world.sync.devices[*device];
                *free = (*free).max(world.now) + service;
                *free - world.now
            }),
            Op::Spawn(body) => {
                let cost = self.machine.spawn_cost;
                self.threads[id].push(Work::Kernel, cost);
                self.threads[id].children += 1;
                let child = self.bear(*body, Some(id));
                let now = self.now;
                if let Some(profiler) = &mut self.profiler {
                    profiler.fork(id, child, self.threads[id].last_cpu, now);
                }
                let latency = self.machine.wake_latency;
                self.place(child, latency);
                self.next(id)
            }
            Op::Join => {
                if self.threads[id].children == 0 {
                    self.threads[id].joining = false;
                    return self.next(id);
                }
                self.before_sleep(id, |world| world.threads[id].joining = true)
            }
            Op::Progress => {
                self.visits += 1;
                self.visits_of[id] += 1;
                if let Some(times) = &mut self.visit_times {
                    times.push(self.now);
                }
                self.next(id)
            }
            Op::Repeat(..) | Op::Put(_) | Op::Get(_) => self.next(id),
        }
    }

    /// A thread goes to sleep, at stage 0 through the kernel, at stage 1 really; `register` makes it known to who is to
    /// wake it. At stage 0 it comes back to look once more.
    fn before_sleep(&mut self, id: Id, register: impl FnOnce(&mut Self)) -> Option<Next> {
        if self.threads[id].stage == 0 {
            self.threads[id].stage = 1;
            let cost = self.machine.block_cost;
            self.threads[id].push(Work::Kernel, cost);
            return Some(Next::Run);
        }
        self.threads[id].stage = 0;
        register(self);
        Some(Next::Block(None))
    }

    fn sleep(&mut self, id: Id, time: impl FnOnce(&mut Self) -> Ns) -> Option<Next> {
        let stage = self.threads[id].stage;
        self.threads[id].stage += 1;
        match stage {
            0 => {
                let cost = self.machine.block_cost;
                self.threads[id].push(Work::Kernel, cost);
                Some(Next::Run)
            }
            1 => {
                let late = self.rng.random_range(0..=self.machine.timer_slack);
                let time = time(self) + late;
                Some(Next::Block(Some(time)))
            }
            _ => self.next(id),
        }
    }

    /// Tries to take a mutex: `Some(true)` taken, `Some(false)` it must sleep (and is known), `None` it works on it.
    /// Uses stages from `base` on.
    fn lock(&mut self, id: Id, mutex: usize, base: u8) -> Option<bool> {
        let block_cost = self.machine.block_cost;
        let lock = &mut self.sync.mutexes[mutex];
        let thread = &mut self.threads[id];
        if lock.owner.is_none() || lock.owner == Some(id) {
            lock.owner = Some(id);
            lock.contended |= thread.slept;
            thread.slept = false;
            lock.spinners.retain(|&other| other != id);
            return Some(true);
        }
        match (lock.fairness, thread.stage - base) {
            (Fairness::Spin, _) => {
                lock.spinners.push(id);
                thread.push(Work::Spin, ENDLESS);
                None
            }
            (Fairness::Barging { spin }, 0) if spin > 0 && !thread.slept => {
                lock.spinners.push(id);
                thread.stage = base + 1;
                thread.push(Work::Spin, spin);
                None
            }
            (_, 0 | 1) => {
                lock.spinners.retain(|&other| other != id);
                thread.stage = base + 2;
                thread.push(Work::Kernel, block_cost);
                None
            }
            _ => {
                lock.contended = true;
                thread.slept = true;
                lock.sleepers.push_back(id);
                thread.stage = base;
                Some(false)
            }
        }
    }

    fn sleep_in_lock(&mut self, _id: Id) -> Option<Next> {
        Some(Next::Block(None))
    }

    fn unlock(&mut self, id: Id, mutex: usize) {
        let now = self.now;
        if let Some(profiler) = &mut self.profiler {
            profiler.releases(id, self.threads[id].last_cpu, now);
        }
        let lock = &mut self.sync.mutexes[mutex];
        lock.owner = None;
        if lock.fairness == Fairness::Fifo {
            let heir = lock.sleepers.pop_front();
            lock.owner = heir;
            self.threads[id].wakes.extend(heir);
            return;
        }
        if lock.contended {
            lock.contended = false;
            let woken = lock.sleepers.pop_front();
            self.threads[id].wakes.extend(woken);
        }
        let spinners = std::mem::take(&mut lock.spinners);
        for spinner in spinners {
            self.notice(spinner);
        }
    }

    /// A spinner sees that something has changed.
    fn notice(&mut self, id: Id) {
        let soon = self.rng.random_range(NOTICE / 10..=NOTICE);
        let running = if let State::Running(cpu) = self.threads[id].state { Some(cpu) } else { None };
        if let Some(cpu) = running {
            self.settle(cpu);
        }
        for burst in &mut self.threads[id].bursts {
            if burst.work == Work::Spin {
                burst.left = burst.left.min(soon);
            }
        }
        if let Some(cpu) = running {
            self.schedule(cpu);
        }
    }

    /// Waits on a queue's condition variable, its mutex held before and after.
    fn await_queue(&mut self, id: Id, number: usize, room: bool) -> Option<Next> {
        let mutex = self.sync.queues[number].mutex;
        match self.threads[id].stage {
            0 => {
                let queue = &mut self.sync.queues[number];
                if if room { queue.items < queue.places } else { queue.items > 0 } {
                    return self.next(id);
                }
                if room { queue.want_room.push_back(id) } else { queue.want_item.push_back(id) }
                self.unlock(id, mutex);
                let cost = self.machine.block_cost;
                self.threads[id].push(Work::Kernel, cost);
                self.threads[id].stage = 1;
                None
            }
            1 => {
                self.threads[id].stage = 2;
                if std::mem::take(&mut self.threads[id].permit) {
                    return None;
                }
                Some(Next::Block(None))
            }
            _ => {
                if self.lock(id, mutex, 2)? {
                    self.threads[id].stage = 0;
                    return None;
                }
                self.sleep_in_lock(id)
            }
        }
    }

    fn pipe(&mut self, id: Id, number: usize, send: bool) -> Option<Next> {
        let pipe = &mut self.sync.pipes[number];
        if if send { pipe.items < pipe.places } else { pipe.items > 0 } {
            let woken = if send {
                pipe.items += 1;
                pipe.want_item.pop_front()
            } else {
                pipe.items -= 1;
                pipe.want_room.pop_front()
            };
            self.threads[id].wakes.extend(woken);
            let cost = self.machine.block_cost;
            self.threads[id].push(Work::Kernel, cost);
            return self.next(id);
        }
        self.before_sleep(id, |world| {
            let pipe = &mut world.sync.pipes[number];
            if send { pipe.want_room.push_back(id) } else { pipe.want_item.push_back(id) }
        })
    }

    fn meet(&mut self, id: Id, number: usize) -> Option<Next> {
        let now = self.now;
        if self.threads[id].stage == 0
            && let Some(profiler) = &mut self.profiler
        {
            profiler.releases(id, self.threads[id].last_cpu, now);
        }
        let barrier = &mut self.sync.barriers[number];
        match (self.threads[id].stage, barrier.waiting) {
            (0, _) if barrier.arrived + 1 == barrier.size => {
                barrier.arrived = 0;
                barrier.round += 1;
                let waiters = std::mem::take(&mut barrier.waiters);
                match barrier.waiting {
                    Waiting::Asleep => self.threads[id].wakes.extend(waiters),
                    Waiting::Spinning => waiters.into_iter().for_each(|waiter| self.notice(waiter)),
                }
                self.next(id)
            }
            (0, Waiting::Spinning) => {
                barrier.arrived += 1;
                barrier.waiters.push(id);
                self.threads[id].stage = 1;
                self.threads[id].push(Work::Spin, ENDLESS);
                None
            }
            (0, Waiting::Asleep) => {
                barrier.arrived += 1;
                barrier.waiters.push(id);
                self.threads[id].stage = 1;
                let cost = self.machine.block_cost;
                self.threads[id].push(Work::Kernel, cost);
                None
            }
            (1, Waiting::Asleep) => {
                self.threads[id].stage = 2;
                if std::mem::take(&mut self.threads[id].permit) {
                    return None;
                }
                Some(Next::Block(None))
            }
            _ => self.next(id),
        }
    }

    /// A thread has come to its end.
    fn leave(&mut self, id: Id) -> Option<Next> {
        let now = self.now;
        let stage = self.threads[id].stage;
        self.threads[id].stage += 1;
        let exit_first = self.machine.exit_first;
        match stage {
            0 => {
                if exit_first && let Some(profiler) = &mut self.profiler {
                    profiler.exit(id, self.threads[id].last_cpu, now);
                }
                if let Some(parent) = self.threads[id].parent {
                    self.threads[parent].children -= 1;
                    if self.threads[parent].joining && self.threads[parent].children == 0 {
                        self.threads[parent].joining = false;
                        self.wake(Some(id).filter(|_| !exit_first), parent);
                        let cost = self.machine.wake_cost;
                        self.threads[id].push(Work::Kernel, cost);
                    }
                }
                None
            }
            _ => {
                if !exit_first && let Some(profiler) = &mut self.profiler {
                    profiler.exit(id, self.threads[id].last_cpu, now);
                }
                Some(Next::Exit)
            }
        }
    }
}
