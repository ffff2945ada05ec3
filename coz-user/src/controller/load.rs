//! What part of the machine's time we take ourselves: for samples, for visits of points, and for all that this process does.

use coz_common::units::Nanos;

/// It is looked at this often.
const OFTEN: Nanos = Nanos(1_000_000_000);
/// The last look counts for so much, the ones before for the rest.
const FRESH: f64 = 0.3;
/// A load that stays above the limit for so long will not go by itself.
const PATIENCE: Nanos = Nanos(10_000_000_000);

/// The load over the last seconds.
#[derive(Debug)]
pub struct Load {
    at: Nanos,
    spent: Nanos,
    share: f64,
    above_since: Option<Nanos>,
}

impl Load {
    /// From now on; what was spent before does not count.
    #[must_use]
    pub fn new(at: Nanos) -> Self {
        Self { at, spent: ours(), share: 0.0, above_since: None }
    }

    /// Whether it is time to look.
    #[must_use]
    pub fn is_due(&self, now: Nanos) -> bool {
        now.since(self.at) >= OFTEN
    }

    /// By `now` we have spent so much CPU time, all in all, on a machine with so many CPUs: the part of its time that we take.
    pub fn look(&mut self, now: Nanos, spent: Nanos, cpus: usize) -> f64 {
        let wall = now.since(self.at).as_secs_f64() * cpus.max(1) as f64;
        if wall > 0.0 {
            let share = spent.since(self.spent).as_secs_f64() / wall;
            self.share += FRESH * (share - self.share);
            (self.at, self.spent) = (now, spent);
        }
        self.share
    }

    /// Whether it has been above this limit for too long.
    pub fn is_too_much(&mut self, limit: f64, now: Nanos) -> bool {
        if self.share <= limit {
            self.above_since = None;
            return false;
        }
        now.since(*self.above_since.get_or_insert(now)) >= PATIENCE
    }
}

/// CPU time of this process.
#[must_use]
pub fn ours() -> Nanos {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid pointer; the call can not fail for this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_is_too_much_only_when_it_stays() {
        let second = |n: u64| Nanos(n * 1_000_000_000);
        let mut load = Load { at: Nanos(0), spent: Nanos(0), share: 0.0, above_since: None };
        assert!(!load.is_due(Nanos(1)) && load.is_due(second(1)));
        // Half of two CPUs for four seconds, then next to nothing.
        let mut spent = 0;
        for n in 1..=4 {
            spent += 1;
            load.look(second(n), second(spent), 2);
            assert!(!load.is_too_much(0.2, second(n)));
        }
        assert!(load.share > 0.35 && load.share < 0.5, "{}", load.share);
        for n in 5..=30 {
            load.look(second(n), second(spent), 2);
            assert!(!load.is_too_much(0.2, second(n)));
        }
        for n in 31..=60 {
            spent += 1;
            load.look(second(n), second(spent), 2);
        }
        assert!(!load.is_too_much(0.2, second(60)) && load.is_too_much(0.2, second(70)));
    }
}
