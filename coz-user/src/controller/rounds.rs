//! Which process is looked at next. That code was unloaded, and other code stands in its place, nobody tells: so the mappings
//! of each are read again and again, for a small part of the time.

use coz_common::units::Nanos;

/// Looking takes at most one part in so many of the time.
const SHARE: u64 = 200;
/// And is done no more often than this.
const REST: Nanos = Nanos(50_000_000);

/// Whose turn it is.
#[derive(Debug, Default)]
pub struct Rounds {
    last: u32,
    not_before: Nanos,
}

impl Rounds {
    /// The next process to be looked at, if it is time; `alive` in the order of their ids.
    pub fn next(&mut self, mut alive: impl Iterator<Item = u32> + Clone, now: Nanos) -> Option<u32> {
        if now < self.not_before {
            return None;
        }
        let first = alive.clone().next();
        self.last = alive.find(|pid| *pid > self.last).or(first)?;
        Some(self.last)
    }

    /// Looking took so long.
    pub fn took(&mut self, cost: Nanos, now: Nanos) {
        self.not_before = Nanos(now.0.saturating_add(cost.0.saturating_mul(SHARE).max(REST.0)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everyone_gets_a_turn() {
        let mut rounds = Rounds::default();
        let mut next = |alive: &[u32]| rounds.next(alive.iter().copied(), Nanos(0));
        assert_eq!([next(&[3, 5, 9]), next(&[3, 5, 9]), next(&[3, 9])], [Some(3), Some(5), Some(9)]);
        assert_eq!((next(&[3, 9]), next(&[])), (Some(3), None));
    }

    #[test]
    fn who_takes_long_is_looked_at_seldom() {
        let mut rounds = Rounds::default();
        rounds.took(Nanos(5_000_000), Nanos(0));
        assert_eq!(rounds.next([1].into_iter(), Nanos(999_999_999)), None);
        assert_eq!(rounds.next([1].into_iter(), Nanos(1_000_000_000)), Some(1));
        rounds.took(Nanos(1), Nanos(0));
        assert_eq!(rounds.next([1].into_iter(), Nanos(REST.0 - 1)), None);
    }
}
