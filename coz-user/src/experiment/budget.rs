//! `--max-overhead`: delays and our own load are kept within a part of the time.
//!
//! Delays are lent: each experiment's has to be paid off, by the time that goes by, before the next one begins. Time pays off the
//! part of it that is allowed, less what our own load takes. So over a long time the delays are within the budget, but for
//! the last experiment's.

use coz_common::units::Nanos;

/// Time that nobody needed pays in advance, up to this: the time of an experiment pays for its own delays.
const AHEAD: u64 = 1_000_000_000;
/// However much our own load takes, time pays off this part, thousandths: experiments get rare, not impossible.
const LEAST: u64 = 1;

/// What is lent, and what time pays off.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Part of the time that is allowed, thousandths; `None`: any.
    allowed: Option<u32>,
    /// Part that our own load takes, thousandths.
    load: u32,
    /// What is lent, nanoseconds; below zero: what was paid in advance.
    owed: i64,
    at: Nanos,
}

impl Budget {
    /// `allowed`: the part of the time that delays and load may take, thousandths; `None`: no limit. `start`: from now on.
    #[must_use]
    pub const fn new(allowed: Option<u32>, start: Nanos) -> Self {
        Self { allowed, load: 0, owed: 0, at: start }
    }

    /// Our own load takes this part of the time now, thousandths.
    pub fn load(&mut self, load: u32, now: Nanos) {
        self.pay_off(now);
        self.load = load;
    }

    /// An experiment has ended that delayed everyone by so much.
    pub fn spend(&mut self, delay: Nanos, now: Nanos) {
        self.pay_off(now);
        self.owed = self.owed.saturating_add(i64::try_from(delay.0).unwrap_or(i64::MAX));
    }

    /// When the next experiment may begin.
    #[must_use]
    pub fn not_before(&self, now: Nanos) -> Nanos {
        match self.rate() {
            None => now,
            Some(rate) => {
                let owed = u64::try_from(self.owed).unwrap_or(0);
                Nanos(self.at.0.saturating_add(owed.saturating_mul(1000) / rate)).max(now)
            }
        }
    }

    fn rate(&self) -> Option<u64> {
        Some(u64::from(self.allowed?.saturating_sub(self.load)).max(LEAST))
    }

    fn pay_off(&mut self, now: Nanos) {
        if let Some(rate) = self.rate() {
            let worth = |time: u64| i64::try_from(time.saturating_mul(rate) / 1000).unwrap_or(i64::MAX);
            let paid = self.owed.saturating_sub(worth(now.since(self.at).0));
            self.owed = paid.max(-worth(AHEAD)).min(self.owed);
        }
        self.at = self.at.max(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn without_a_limit_nothing_waits() {
        let mut budget = Budget::new(None, Nanos(0));
        budget.spend(Nanos(300 * MS), Nanos(300 * MS));
        assert_eq!(budget.not_before(Nanos(300 * MS)), Nanos(300 * MS));
    }

    #[test]
    fn delays_stay_within_their_part_of_the_time() {
        // 100 ms of delay in each experiment of 300 ms, and no more than a fifth of the time.
        let mut budget = Budget::new(Some(200), Nanos(0));
        let (mut now, mut delay) = (0, 0);
        for _ in 0..50 {
            now += 300 * MS;
            delay += 100 * MS;
            budget.spend(Nanos(100 * MS), Nanos(now));
            now = budget.not_before(Nanos(now)).0;
        }
        let share = delay as f64 / now as f64;
        assert!((0.19..=0.2001).contains(&share), "{share}");
    }

    #[test]
    fn what_our_load_takes_is_not_there_for_delays() {
        let wait = |load| {
            let mut budget = Budget::new(Some(200), Nanos(0));
            budget.load(load, Nanos(0));
            budget.spend(Nanos(10 * MS), Nanos(0));
            budget.not_before(Nanos(0)).0 / MS
        };
        assert_eq!((wait(0), wait(100), wait(500)), (50, 100, 10_000), "rare, not impossible");
    }
}
