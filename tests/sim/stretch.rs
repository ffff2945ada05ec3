//! A variant of charging: by the stretch of CPU time between two events that others can see.
//!
//! A thread that holds a lock runs, in the kernel's eyes, from the moment it got its CPU after somebody woke it to the
//! moment it wakes somebody. What it does outside runs from there to the moment it blocks. The line's share is kept
//! apart for each kind of stretch, by how it began and how it ended, so that a line inside a lock is charged there and
//! not, smeared, outside too.

use coz_common::clock::SHARE_ONE;

use super::Ns;

/// How a stretch begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// With the CPU, after a timer, a device, a birth.
    Alone,
    /// With the CPU, after another thread's wake-up.
    Woken,
    /// With a wake-up that the thread has made.
    Waker,
    /// With the closing of a long one.
    Goes,
}

/// How it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The thread sleeps.
    Blocks,
    /// It wakes another one.
    Wakes,
    /// It goes on: a sample.
    Open,
    /// It goes on, when it gets its CPU again.
    Preempted,
}

/// How much is known and looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretching {
    /// Whether the kinds of stretches are told apart by their ends too.
    pub ends: bool,
    /// Whether a stretch's own samples count for more than its kind's.
    pub own: bool,
    /// Weight of the kind's share against a stretch's own samples, in periods.
    pub prior: u64,
    /// What a kind's share looks back on, in periods.
    pub window: u64,
    /// A stretch is charged when it ends, or when it has taken so much CPU time.
    pub hold: Ns,
}

#[derive(Clone, Copy, Debug, Default)]
struct Share {
    share: u64,
    weight: u64,
}

impl Share {
    fn observe(&mut self, hits: Ns, seen: Ns, window: Ns) {
        if seen == 0 {
            return;
        }
        let seen_capped = seen.min(window);
        let total = (self.weight + seen_capped).min(window);
        let own = u64::from(SHARE_ONE) * hits / seen;
        self.share = (self.share * (total - seen_capped) + own * seen_capped) / total;
        self.weight = total;
    }
}

/// A thread's stretch and what is known of its kinds.
#[derive(Clone, Debug)]
pub(super) struct Stretch {
    start: Start,
    /// CPU time of this stretch.
    cpu: Ns,
    /// Line time charged for it.
    charged: i64,
    hits: Ns,
    seen: Ns,
    shares: [Share; 16],
    starts: [Share; 4],
    all: Share,
}

impl Default for Stretch {
    fn default() -> Self {
        Self {
            start: Start::Alone,
            cpu: 0,
            charged: 0,
            hits: 0,
            seen: 0,
            shares: Default::default(),
            starts: Default::default(),
            all: Share::default(),
        }
    }
}

impl Stretch {
    /// Another experiment: nothing is known of its line.
    pub fn forget(&mut self) {
        *self = Self { start: self.start, ..Self::default() };
    }

    /// A sample.
    pub fn observe(&mut self, hit: bool, weight: Ns) {
        self.seen += weight;
        if hit {
            self.hits += weight;
        }
    }

    /// Line time to be charged now, after `cpu` more of CPU time.
    pub fn take(&mut self, cpu: Ns, end: End, period: Ns, how: Stretching) -> Ns {
        self.cpu += cpu;
        if end == End::Open && self.cpu < how.hold {
            return 0;
        }
        let window = how.window * period;
        let known = if !how.ends {
            self.starts[self.start as usize]
        } else {
            self.shares[self.start as usize * 4 + end as usize]
        };
        let prior = if known.weight >= period { known } else { self.all };
        if prior.weight == 0 && self.seen == 0 {
            return 0;
        }
        let k = if prior.weight == 0 { 0 } else { (how.prior * period).min(prior.weight) };
        let share = if how.own || k == 0 {
            (prior.share * k + u64::from(SHARE_ONE) * self.hits) / (k + self.seen).max(1)
        } else {
            prior.share
        };
        let target = (self.cpu as i64 * share as i64) >> 16;
        let due = target - self.charged;
        self.charged += due.max(0);
        if end != End::Open || how.hold > 0 || self.seen >= 8 * period {
            // What was charged too much is taken from what comes next.
            self.charged -= target;
            self.close(end, window);
            if matches!(end, End::Open | End::Preempted) {
                self.start = Start::Goes;
            }
        }
        due.max(0) as Ns
    }

    fn close(&mut self, end: End, window: Ns) {
        self.shares[self.start as usize * 4 + end as usize].observe(self.hits, self.seen, window);
        self.starts[self.start as usize].observe(self.hits, self.seen, window);
        self.all.observe(self.hits, self.seen, window);
        (self.cpu, self.hits, self.seen) = (0, 0, 0);
    }

    /// The next stretch begins.
    pub fn begin(&mut self, start: Start) {
        self.start = start;
    }
}
