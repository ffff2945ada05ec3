//! Where the threads' virtual clocks stand at the end of an experiment.

use coz_common::{abi::KernelSlot, clock::absorbed, units::Nanos};

/// What the threads of an experiment have absorbed of the delay that it required.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Mean delay absorbed by the threads that visited a point, weighted by their visits; `None` where none did (they
    /// may have ended, or the points are those of coz.h).
    pub absorbed: Option<Nanos>,
    /// Mean of what is missing to the delay required, over the same threads, or over all where none visited a point.
    pub unpaid: Nanos,
}

impl Standing {
    /// `threads`: delay absorbed (nanoseconds) and visits of each.
    #[must_use]
    pub fn of(threads: impl Iterator<Item = (u64, u64)>, required: u64) -> Self {
        let mut visited = Mean::default();
        let (mut owed, mut owed_by_all) = (Mean::default(), Mean::default());
        for (absorbed, visits) in threads {
            let debt = required.saturating_sub(absorbed);
            visited.add(absorbed, visits);
            owed.add(debt, visits);
            owed_by_all.add(debt, 1);
        }
        Self {
            absorbed: visited.get().map(Nanos),
            unpaid: Nanos(owed.get().or(owed_by_all.get()).unwrap_or(0)),
        }
    }
}

/// What a thread has absorbed up to `now`, nanoseconds: what its clock says, and what the clock will learn at the thread's
/// next event. That is what it has `paid` since the last one; and if it is blocked, it is taken to be woken now, by
/// a thread that owes nothing.
#[must_use]
pub fn standing_of(slot: &KernelSlot, paid: u64, required: u64, now: u64) -> u64 {
    let known = absorbed(slot) + paid.wrapping_sub(slot.paid_seen).min(required);
    let waited = if slot.blocked_at == 0 { 0 } else { now.saturating_sub(slot.blocked_at) };
    known.max(required.min(known + waited))
}

#[derive(Default)]
struct Mean {
    sum: u128,
    weight: u128,
}

impl Mean {
    fn add(&mut self, value: u64, weight: u64) {
        self.sum += u128::from(value) * u128::from(weight);
        self.weight += u128::from(weight);
    }

    fn get(&self) -> Option<u64> {
        self.sum.checked_div(self.weight).and_then(|mean| u64::try_from(mean).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thread_that_makes_the_progress_counts_not_the_one_that_sleeps() {
        let standing = Standing::of([(900, 9), (0, 0), (800, 1)].into_iter(), 1_000);
        assert_eq!(standing, Standing { absorbed: Some(Nanos(890)), unpaid: Nanos(110) });
    }

    #[test]
    fn what_was_paid_in_excess_is_absorbed_and_nobodys_debt() {
        let standing = Standing::of([(1_200, 1), (1_000, 1)].into_iter(), 1_000);
        assert_eq!(standing, Standing { absorbed: Some(Nanos(1_100)), unpaid: Nanos(0) });
    }

    #[test]
    fn without_visits_nothing_is_known_of_who_visits() {
        let standing = Standing::of([(900, 0), (700, 0)].into_iter(), 1_000);
        assert_eq!(standing, Standing { absorbed: None, unpaid: Nanos(200) });
        assert_eq!(Standing::of(std::iter::empty(), 1_000), Standing::default());
    }

    #[test]
    fn who_is_blocked_absorbs_what_it_waits_but_no_more_than_is_required() {
        let slot = KernelSlot { local: 100, paid_seen: 7, blocked_at: 5_000, ..KernelSlot::default() };
        assert_eq!(standing_of(&slot, 7, 1_000, 5_300), 400);
        assert_eq!(standing_of(&slot, 7, 1_000, 50_000), 1_000);
        assert_eq!(standing_of(&slot, 57, 1_000, 5_300), 450);
        let ahead = KernelSlot { local: 1_000, credit: 50, ..slot };
        assert_eq!(standing_of(&ahead, 7, 1_000, 50_000), 1_050);
    }
}
