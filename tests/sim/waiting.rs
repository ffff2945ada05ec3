//! Queues, pipes and barriers.

use super::program::Waiting;
use super::scheduler::Next;
use super::sync::Id;
use super::thread::{ENDLESS, Work};
use super::world::World;

impl World<'_> {
    /// Waits on a queue's condition variable, its mutex held before and after.
    pub(super) fn await_queue(&mut self, id: Id, number: usize, room: bool) -> Option<Next> {
        let mutex = self.sync.queues[number].mutex;
        match self.threads[id].stage {
            0 => {
                let queue = &mut self.sync.queues[number];
                if if room { queue.items < queue.places } else { queue.items > 0 } {
                    return self.next(id);
                }
                if room {
                    queue.want_room.push_back(id)
                } else {
                    queue.want_item.push_back(id)
                }
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
                Some(Next::Block(None))
            }
        }
    }

    pub(super) fn pipe(&mut self, id: Id, number: usize, send: bool) -> Option<Next> {
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

    pub(super) fn meet(&mut self, id: Id, number: usize) -> Option<Next> {
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
}
