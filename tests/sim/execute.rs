//! What the steps of a script do.

use rand::RngExt;

use super::Ns;
use super::program::{HOT, Op, Step};
use super::scheduler::Next;
use super::sync::Id;
use super::thread::Work;
use super::world::World;

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
        self.threads[id].site = step.site();
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

    pub(super) fn next(&mut self, id: Id) -> Option<Next> {
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
                Some(Next::Block(None))
            }
            Op::Unlock(mutex) => {
                self.unlock(id, *mutex);
                self.next(id)
            }
            Op::Read(lock) => self.take_shared(id, *lock, true),
            Op::Write(lock) => self.take_shared(id, *lock, false),
            Op::EndRead(lock) | Op::EndWrite(lock) => {
                self.give_shared(id, *lock);
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
                    profiler.fork(id, child, now);
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
                if let Some(profiler) = &mut self.profiler {
                    profiler.visit(id);
                }
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
    pub(super) fn before_sleep(&mut self, id: Id, register: impl FnOnce(&mut Self)) -> Option<Next> {
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

    /// A thread has come to its end.
    fn leave(&mut self, id: Id) -> Option<Next> {
        let now = self.now;
        let stage = self.threads[id].stage;
        self.threads[id].stage += 1;
        let exit_first = self.machine.exit_first;
        match stage {
            0 => {
                if exit_first && let Some(profiler) = &mut self.profiler {
                    profiler.exit(id, now);
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
                    profiler.exit(id, now);
                }
                Some(Next::Exit)
            }
        }
    }
}
