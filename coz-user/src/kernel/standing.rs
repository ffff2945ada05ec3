//! Where the threads' virtual clocks stand at the end of an experiment.

use coz_common::{
    abi::{KernelSlot, VISIT_PLACES},
    clock::absorbed,
    units::Nanos,
};

/// Where one thread stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stood {
    /// Delay that it has absorbed, nanoseconds.
    pub absorbed: u64,
    /// Visits of points, by place.
    pub visits: [u64; VISIT_PLACES],
    /// CPU time, in any unit, as far as its samples tell.
    pub ran: u64,
}

/// What the threads of an experiment have absorbed of the delay that it required.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Mean delay absorbed by the threads that visited a point, weighted by their visits. Where none did (they may have ended, or
    /// the points are those of coz.h), who runs is taken to visit: at least what was required, and what they have absorbed
    /// beyond it, weighted by their CPU time. `None` where no thread is known.
    pub absorbed: Option<Nanos>,
    /// The same of those that visited the points of one place only; `None` where none did.
    pub by_place: [Option<Nanos>; VISIT_PLACES],
    /// Mean of what is missing to the delay required, over the same threads, or over all where none visited a point.
    pub unpaid: Nanos,
}

impl Standing {
    /// Of these threads.
    #[must_use]
    pub fn of(threads: impl Iterator<Item = Stood>, required: u64) -> Self {
        let (mut visited, mut beyond) = (Mean::default(), Mean::default());
        let (mut owed, mut owed_by_all) = (Mean::default(), Mean::default());
        let mut by_place = [Mean::default(); VISIT_PLACES];
        for Stood { absorbed, visits, ran } in threads {
            let debt = required.saturating_sub(absorbed);
            by_place.iter_mut().zip(visits).for_each(|(mean, visits)| mean.add(absorbed, visits));
            let visits = visits.into_iter().sum();
            visited.add(absorbed, visits);
            beyond.add(absorbed.max(required), ran);
            owed.add(debt, visits);
            owed_by_all.add(debt, 1);
        }
        Self {
            absorbed: visited.get().or(beyond.get()).map(Nanos),
            by_place: by_place.map(|mean| mean.get().map(Nanos)),
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

#[derive(Clone, Copy, Default)]
struct Mean {
    sum: u128,
    weight: u128,
}

impl Mean {
    fn add(&mut self, value: u64, weight: u64) {
        self.sum += u128::from(value) * u128::from(weight);
        self.weight += u128::from(weight);
    }

    fn get(self) -> Option<u64> {
        self.sum.checked_div(self.weight).and_then(|mean| u64::try_from(mean).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stood(absorbed: u64, visits: u64) -> Stood {
        Stood { absorbed, visits: [visits, 0, 0, 0, 0, 0, 0], ran: 1 }
    }

    const ONE_PLACE: fn(u64) -> [Option<Nanos>; VISIT_PLACES] =
        |absorbed| [Some(Nanos(absorbed)), None, None, None, None, None, None];

    #[test]
    fn each_point_goes_by_the_clocks_of_those_who_pass_it() {
        let often = Stood { absorbed: 900, visits: [0, 1_000, 0, 0, 0, 0, 0], ran: 1 };
        let standing = Standing::of([stood(100, 10), often].into_iter(), 100);
        assert_eq!(standing.by_place[..3], [Some(Nanos(100)), Some(Nanos(900)), None]);
        assert_eq!(standing.absorbed, Some(Nanos(892)), "all together: whose point is passed most often");
    }

    #[test]
    fn the_thread_that_makes_the_progress_counts_not_the_one_that_sleeps() {
        let standing = Standing::of([stood(900, 9), stood(0, 0), stood(800, 1)].into_iter(), 1_000);
        let by_place = ONE_PLACE(890);
        assert_eq!(standing, Standing { absorbed: Some(Nanos(890)), by_place, unpaid: Nanos(110) });
    }

    #[test]
    fn what_was_paid_in_excess_is_absorbed_and_nobodys_debt() {
        let standing = Standing::of([stood(1_200, 1), stood(1_000, 1)].into_iter(), 1_000);
        let by_place = ONE_PLACE(1_100);
        assert_eq!(standing, Standing { absorbed: Some(Nanos(1_100)), by_place, unpaid: Nanos(0) });
    }

    #[test]
    fn without_visits_who_runs_is_taken_to_visit() {
        let ran = |absorbed, ran| Stood { absorbed, visits: [0; VISIT_PLACES], ran };
        // What has not been absorbed may have been anybody's; what was absorbed beyond, by our samples, was who ran.
        let standing = Standing::of([ran(900, 1), ran(1_200, 3), ran(700, 0)].into_iter(), 1_000);
        assert_eq!((standing.absorbed, standing.unpaid), (Some(Nanos(1_150)), Nanos(133)));
        assert_eq!(Standing::of([ran(900, 0)].into_iter(), 1_000).absorbed, None, "nobody has run");
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
