//! What part of the machine's time we take ourselves: for samples, for visits of points, at switches of threads, and for all that this
//! process does.

use coz_common::units::Nanos;

/// It is looked at this often.
const OFTEN: Nanos = Nanos(1_000_000_000);
/// The last look counts for so much, the ones before for the rest.
const FRESH: f64 = 0.3;
/// A load that stays above the limit for so long will not go by itself.
const PATIENCE: Nanos = Nanos(10_000_000_000);

/// CPU time that we have taken, all in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// For samples.
    pub samples: Nanos,
    /// For visits of points.
    pub points: Nanos,
    /// When threads of the set wake up, get a CPU and leave it.
    pub switches: Nanos,
    /// This process.
    pub ourselves: Nanos,
}

/// Parts of the machine's time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Parts {
    /// For samples.
    pub samples: f64,
    /// For visits of points.
    pub points: f64,
    /// When threads wake up, get a CPU and leave it.
    pub switches: f64,
    /// This process.
    pub ourselves: f64,
}

impl Parts {
    /// All of it.
    #[must_use]
    pub fn all(&self) -> f64 {
        self.samples + self.points + self.switches + self.ourselves
    }
}

/// The load over the last seconds.
#[derive(Debug)]
pub struct Load {
    at: Nanos,
    spent: Spent,
    parts: Parts,
    above_since: Option<Nanos>,
}

impl Load {
    /// From now on; what was spent before does not count.
    #[must_use]
    pub fn new(at: Nanos) -> Self {
        let spent = Spent { ourselves: ours(), ..Spent::default() };
        Self { at, spent, parts: Parts::default(), above_since: None }
    }

    /// Whether it is time to look.
    #[must_use]
    pub fn is_due(&self, now: Nanos) -> bool {
        now.since(self.at) >= OFTEN
    }

    /// By `now` we have spent so much, on a machine with so many CPUs: the parts of its time that we take.
    pub fn look(&mut self, now: Nanos, spent: Spent, cpus: usize) -> Parts {
        let wall = now.since(self.at).as_secs_f64() * cpus.max(1) as f64;
        if wall > 0.0 {
            let before = self.spent;
            let (was, new) = (&mut self.parts, |part: &mut f64, now: Nanos, before: Nanos| {
                *part += FRESH * (now.since(before).as_secs_f64() / wall - *part);
            });
            new(&mut was.samples, spent.samples, before.samples);
            new(&mut was.points, spent.points, before.points);
            new(&mut was.switches, spent.switches, before.switches);
            new(&mut was.ourselves, spent.ourselves, before.ourselves);
            (self.at, self.spent) = (now, spent);
        }
        self.parts
    }

    /// From now on samples take only this part of what they took.
    pub fn samples_take_less(&mut self, part: f64) {
        self.parts.samples *= part;
    }

    /// Whether it has been above this limit for too long.
    pub fn is_too_much(&mut self, limit: f64, now: Nanos) -> bool {
        if self.parts.all() <= limit {
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

    fn second(n: u64) -> Nanos {
        Nanos(n * 1_000_000_000)
    }

    fn idle() -> Load {
        Load { at: Nanos(0), spent: Spent::default(), parts: Parts::default(), above_since: None }
    }

    #[test]
    fn a_load_is_too_much_only_when_it_stays() {
        let mut load = idle();
        assert!(!load.is_due(Nanos(1)) && load.is_due(second(1)));
        // Half of two CPUs for four seconds, then next to nothing.
        let spent = |n| Spent { points: second(n), ..Spent::default() };
        for n in 1..=4 {
            load.look(second(n), spent(n), 2);
            assert!(!load.is_too_much(0.2, second(n)));
        }
        assert!(load.parts.all() > 0.35 && load.parts.all() < 0.5, "{:?}", load.parts);
        for n in 5..=30 {
            load.look(second(n), spent(4), 2);
            assert!(!load.is_too_much(0.2, second(n)));
        }
        for n in 31..=60 {
            load.look(second(n), spent(n - 26), 2);
        }
        assert!(!load.is_too_much(0.2, second(60)) && load.is_too_much(0.2, second(70)));
    }

    #[test]
    fn each_cause_has_its_part() {
        let mut load = idle();
        let mut parts = Parts::default();
        for n in 1..=60 {
            let of = |permille: u64| Nanos(n * permille * 1_000_000);
            let spent = Spent { samples: of(20), points: of(40), switches: of(60), ourselves: of(80) };
            parts = load.look(second(n), spent, 2);
        }
        for (part, expected) in
            [(parts.samples, 0.01), (parts.points, 0.02), (parts.switches, 0.03), (parts.ourselves, 0.04)]
        {
            assert!((part - expected).abs() < 1e-6, "{parts:?}");
        }
        assert!((parts.all() - 0.1).abs() < 1e-6);
    }
}
