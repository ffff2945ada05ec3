//! What each thread owed, paid and left unpaid, over all experiments.

use std::collections::HashMap;

use coz_common::{
    abi::{KernelSlot, TargetSlot},
    clock::{OVERSLEPT, debt},
};

use crate::{experiment::record::ThreadDelay, kernel::load::Kernel};

/// So many threads are followed: of more, nobody reads the list.
const FOLLOWED: usize = 256;
/// And so many told of.
const TOLD: usize = 8;

/// By slot key, which tells threads apart.
#[derive(Debug, Default)]
pub struct Debts {
    threads: HashMap<u64, Thread>,
}

#[derive(Debug, Default)]
struct Thread {
    delay: ThreadDelay,
    /// What it had paid in all when its experiment before ended.
    paid: u64,
    /// In this book.
    book: u8,
}

impl Debts {
    /// An experiment with delays has ended.
    pub fn ended(&mut self, kernel: &Kernel, epoch: u32) {
        let required = kernel.required(epoch).0;
        let books = kernel.books.open();
        for index in 0..kernel.slots.len() {
            let Some(slot) = kernel.slots.get(index) else { continue };
            // SAFETY: within the mapping and aligned. Most of the table is free: two words tell.
            let (key, of) = unsafe {
                ((&raw const (*slot).key).read_volatile(), (&raw const (*slot).epoch).read_volatile())
            };
            if key == 0 || of != epoch {
                continue;
            }
            let Some(slot) = kernel.slots.read(index) else { continue };
            if let Some(payments) = books.read(&slot, index) {
                self.add(&slot, &payments, required, |tid| {
                    std::fs::read_to_string(format!("/proc/{tid}/comm")).unwrap_or_default()
                });
            }
        }
    }

    fn add(&mut self, slot: &KernelSlot, payments: &TargetSlot, required: u64, name: impl Fn(u32) -> String) {
        if self.threads.len() >= FOLLOWED && !self.threads.contains_key(&slot.key) {
            return;
        }
        let thread = self.threads.entry(slot.key).or_insert_with(|| Thread {
            delay: ThreadDelay {
                tid: slot.tid,
                name: name(slot.tid).trim_end().to_owned(),
                ..ThreadDelay::default()
            },
            // What the slot's owners before have paid is not its own; of its first experiment, that is not known.
            paid: payments.paid,
            book: slot.book,
        });
        thread.delay.owed_ns += required;
        thread.delay.unpaid_ns += debt(slot, required);
        // No more than it can have: the target may write what it likes.
        let paid = payments.paid.wrapping_sub(thread.paid).min(required.saturating_add(OVERSLEPT));
        thread.delay.paid_ns =
            thread.delay.paid_ns.saturating_add(if thread.book == slot.book { paid } else { 0 });
        thread.delay.visits += slot.visits.into_iter().map(u64::from).sum::<u64>();
        thread.paid = payments.paid;
        thread.book = slot.book;
    }

    /// Those that left most unpaid, worst first.
    #[must_use]
    pub fn worst(&self) -> Vec<ThreadDelay> {
        let mut all: Vec<ThreadDelay> = self.threads.values().map(|thread| thread.delay.clone()).collect();
        all.retain(|thread| thread.owed_ns > 0);
        all.sort_by_key(|thread| (std::cmp::Reverse(thread.unpaid_ns), thread.tid));
        all.truncate(TOLD);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debts_add_up_by_thread_and_the_worst_comes_first() {
        let mut debts = Debts::default();
        let slot = |tid: u32, local| KernelSlot {
            key: u64::from(tid),
            tid,
            local,
            visits: [1, 0, 0, 0, 0, 0, 1],
            ..KernelSlot::default()
        };
        let paid = |paid| TargetSlot { paid, ..TargetSlot::default() };
        let name = |tid: u32| format!("t{tid}\n");
        debts.add(&slot(1, 90), &paid(500), 100, name);
        debts.add(&slot(1, 100), &paid(570), 100, name);
        debts.add(&slot(2, 10), &paid(0), 100, name);
        let told = debts.worst();
        assert_eq!((told[0].tid, told[0].owed_ns, told[0].unpaid_ns), (2, 100, 90));
        assert_eq!(
            told[1],
            ThreadDelay { name: "t1".into(), tid: 1, owed_ns: 200, paid_ns: 70, unpaid_ns: 10, visits: 4 }
        );
        for tid in 10..400 {
            debts.add(&slot(tid, 0), &paid(0), 100, name);
        }
        assert_eq!((debts.worst().len(), debts.threads.len()), (TOLD, FOLLOWED));
    }
}
