//! Mutexes and reader-writer locks.

use rand::RngExt;

use super::Ns;
use super::program::Fairness;
use super::scheduler::Next;
use super::sync::Id;
use super::thread::{ENDLESS, State, Work};
use super::world::World;

/// A spinner notices a change after at most this long.
const NOTICE: Ns = 200;

impl World<'_> {
    /// Tries to take a mutex: `Some(true)` taken, `Some(false)` it must sleep (and is known), `None` it works on it.
    /// Uses stages from `base` on.
    pub(super) fn lock(&mut self, id: Id, mutex: usize, base: u8) -> Option<bool> {
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

    pub(super) fn unlock(&mut self, id: Id, mutex: usize) {
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
    pub(super) fn notice(&mut self, id: Id) {
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

    /// Takes a reader-writer lock, to read or to write.
    pub(super) fn take_shared(&mut self, id: Id, number: usize, read: bool) -> Option<Next> {
        let lock = &mut self.sync.shared[number];
        if !lock.written && (read || lock.readers == 0) {
            if read {
                lock.readers += 1;
            } else {
                lock.written = true;
            }
            return self.next(id);
        }
        self.before_sleep(id, |world| {
            let lock = &mut world.sync.shared[number];
            if read { lock.want_read.push_back(id) } else { lock.want_write.push_back(id) }
        })
    }

    /// Gives it back. As in glibc by default, waiting readers go before waiting writers, and who comes by before
    /// the woken ones run has it.
    pub(super) fn give_shared(&mut self, id: Id, number: usize) {
        let lock = &mut self.sync.shared[number];
        if lock.written {
            lock.written = false;
        } else {
            lock.readers -= 1;
        }
        if lock.readers > 0 {
            return;
        }
        if lock.want_read.is_empty() {
            self.threads[id].wakes.extend(lock.want_write.pop_front());
        } else {
            self.threads[id].wakes.extend(lock.want_read.drain(..));
        }
    }
}
