//! A variant of charging: by stretches of CPU time between two events that others can see.
//!
//! A thread that holds a contended lock runs, in the kernel's eyes, from the moment it got its CPU to the moment it
//! wakes the next one. What it does outside runs from there to the moment it blocks. So stretches are told apart by
//! whether they began with a wake-up that the thread made, and by how they end, and the line's share is kept for each
//! of the six kinds. A line inside a lock is then charged there and not, smeared, outside too.

use coz_common::stretch::{SHARE_ONE, SHARE_WINDOW};

use super::Ns;

/// How a stretch ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The thread blocks.
    Stops,
    /// It wakes another one.
    Wakes,
    /// It loses its CPU.
    Preempted,
    /// It has not ended: a sample. What goes on for long is cut there, and is a kind of its own.
    Open,
}

/// A share of samples and the CPU time behind it.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    share: u64,
    weight: Ns,
}

impl Share {
    fn observe(&mut self, hits: Ns, seen: Ns, window: Ns) {
        if seen == 0 {
            return;
        }
        let fresh = seen.min(window);
        let total = (self.weight + fresh).min(window);
        let own = u64::from(SHARE_ONE) * hits / seen;
        self.share = (self.share * (total - fresh) + own * fresh) / total;
        self.weight = total;
    }
}

/// A thread's present stretch and what is known of the kinds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stretch {
    after_wake: bool,
    cpu: Ns,
    /// Line time charged for it so far, less what was charged too much before.
    charged: i64,
    hits: Ns,
    seen: Ns,
    kinds: [Share; 6],
    starts: [Share; 2],
    all: Share,
}

impl Stretch {
    /// Another experiment: nothing is known of its line.
    pub fn forget(&mut self) {
        *self = Self { after_wake: self.after_wake, ..Self::default() };
    }

    /// A sample.
    pub fn observe(&mut self, hit: bool, weight: Ns, period: Ns) {
        let hits = if hit { weight } else { 0 };
        self.hits += hits;
        self.seen += weight;
        self.all.observe(hits, weight, 4 * SHARE_WINDOW * period);
    }

    /// Line time to be charged now, after `cpu` more of CPU time.
    ///
    /// While a stretch goes on, its kind is not known and the share of long ones, or of all, stands for it; at its end
    /// the account is set right, with what was charged too much taken from the next one.
    pub fn take(&mut self, cpu: Ns, end: End, period: Ns) -> Ns {
        self.cpu += cpu;
        let ends = match end {
            End::Stops | End::Preempted => 0,
            End::Wakes => 1,
            End::Open => 2,
        };
        let kind = usize::from(self.after_wake) * 3 + ends;
        let start = usize::from(self.after_wake);
        let known =
            [self.kinds[kind], self.starts[start], self.all].into_iter().find(|share| share.weight >= period);
        let known = known.unwrap_or(self.all);
        if known.weight == 0 {
            return 0;
        }
        let line = (self.cpu * known.share) >> 16;
        let due = line as i64 - self.charged;
        self.charged += due.max(0);
        if end != End::Open || self.seen >= SHARE_WINDOW * period {
            self.charged -= line as i64;
            self.kinds[kind].observe(self.hits, self.seen, 4 * SHARE_WINDOW * period);
            self.starts[start].observe(self.hits, self.seen, 4 * SHARE_WINDOW * period);
            (self.cpu, self.hits, self.seen) = (0, 0, 0);
            self.after_wake = end == End::Wakes;
        }
        due.max(0) as Ns
    }
}
