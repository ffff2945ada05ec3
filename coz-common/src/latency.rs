//! Latency points: what the kernel keeps of them, and the rules by which begins and ends are put together.
//!
//! Two things are kept. **Sums**, for any point: the virtual times of all begins and of all ends within an experiment. Their
//! difference is the area below the number of intervals under way, so its mean over virtual time, and with it the mean
//! interval, follow (J. D. C. Little, "A proof for the queuing formula L = lambda W", Operations Research 9, 1961). And a
//! **histogram**, for intervals that begin and end in the same thread: how long each took on that thread's own virtual clock.

use core::{hint::black_box, mem::size_of};

use crate::abi::KernelSlot;
use crate::clock::{Experiment, absorbed};

/// How many latency points one profile can have.
pub const MAX_LATENCIES: u32 = 32;
/// How many intervals of one point one thread can have under way (calls within calls); more are counted, not measured.
pub const OPEN_FRAMES: u32 = 16;
/// How many threads and points can have intervals under way at once.
pub const MAX_OPEN: u32 = 65_536;

/// Each power of two is cut in so many parts: a bucket is 3 % wide at most.
const PARTS_LOG2: u32 = 5;
const PARTS: u32 = 1 << PARTS_LOG2;
/// Buckets of the histogram: up to 2^41 ns, 36 minutes. Longer intervals fall into the last.
pub const BUCKETS: usize = ((41 - PARTS_LOG2 + 1) * PARTS) as usize;

/// The bucket of an interval, nanoseconds.
#[must_use]
#[inline(always)]
pub const fn bucket(ns: u64) -> u32 {
    if ns < PARTS as u64 {
        return ns as u32;
    }
    let exponent = 63 - ns.leading_zeros();
    let part = (ns >> (exponent - PARTS_LOG2)) as u32 & (PARTS - 1);
    let index = (exponent - PARTS_LOG2 + 1) * PARTS + part;
    if index < BUCKETS as u32 { index } else { BUCKETS as u32 - 1 }
}

/// The shortest interval of a bucket, nanoseconds; of the one behind the last: where it ends.
#[must_use]
pub const fn bucket_begin(index: u32) -> u64 {
    if index < PARTS {
        return index as u64;
    }
    let exponent = index / PARTS - 1;
    ((PARTS + index % PARTS) as u64) << exponent
}

/// What the kernel has counted of a latency point: running totals, written by the kernel alone, with atomic additions.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LatencyCounts {
    /// Begins, all in all.
    pub begins: u64,
    /// Ends, all in all.
    pub ends: u64,
    /// Begins whose function was left without a return (an exception, `longjmp`), as far as that showed.
    pub abandoned: u64,
    /// Begins within experiments.
    pub arrivals: u64,
    /// Ends within experiments.
    pub departures: u64,
    /// Sum of the virtual times of the arrivals since their experiment's begin, nanoseconds, wrapping.
    pub arrived_at: u64,
    /// The same of the departures.
    pub departed_at: u64,
    /// Intervals in `buckets`.
    pub measured: u64,
    /// Their sum, nanoseconds.
    pub measured_ns: u64,
    /// Departures that no begin in the same thread belongs to, or of which it can not be told which one does.
    pub unmatched: u64,
    /// Departures whose interval began in an earlier experiment with delays, or long ago, or for which there was no room.
    pub lost: u64,
    /// The histogram.
    pub buckets: [u64; BUCKETS],
}

/// Key of the intervals that a thread has under way.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenKey {
    /// Index of the thread's slot.
    pub slot: u32,
    /// Number of the latency point.
    pub point: u32,
}

/// An interval under way.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// When it began, nanoseconds of wall time.
    pub at: u64,
    /// What its thread had absorbed then, in that epoch, nanoseconds.
    pub absorbed: u64,
    /// See [`crate::point::Code::frame`].
    pub frame: u64,
    /// The epoch.
    pub epoch: u32,
    /// 1: in that epoch there can have been delays since.
    pub delayed: u32,
}

/// The intervals of one point that a thread has under way, the newest last.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Open {
    /// Key of the thread's slot: slots are used again.
    pub owner: u64,
    /// How many there are; those from [`OPEN_FRAMES`] on are not in `frames`.
    pub depth: u32,
    /// 1: more than one is or was under way, and nothing tells which end belongs to which begin.
    pub tangled: u32,
    /// The intervals.
    pub frames: [Frame; OPEN_FRAMES as usize],
}

const _: () = assert!(size_of::<LatencyCounts>() == (11 + BUCKETS) * 8);
const _: () = assert!(size_of::<Open>() == 16 + OPEN_FRAMES as usize * 32 && size_of::<OpenKey>() == 8);

/// What a thread, at an event of its own for which its slot was brought up to date, has absorbed in this epoch.
#[must_use]
#[inline(always)]
pub const fn absorbed_in(slot: &KernelSlot, experiment: &Experiment) -> u64 {
    if slot.epoch == experiment.epoch { absorbed(slot) } else { 0 }
}

/// Virtual time since the experiment's begin, nanoseconds, for a thread that has absorbed so much; wraps below zero.
#[must_use]
#[inline(always)]
pub const fn virtual_time(experiment: &Experiment, absorbed: u64, now: u64) -> u64 {
    now.wrapping_sub(experiment.started_ns).wrapping_sub(absorbed)
}

/// What becomes of an interval that ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It took so long in virtual time, nanoseconds.
    Measured(u64),
    /// Which begin it belongs to is not known.
    Unmatched,
    /// How long it took is not known.
    Lost,
}

impl Open {
    /// None under way.
    #[must_use]
    pub const fn new(owner: u64) -> Self {
        let frame = Frame { at: 0, absorbed: 0, frame: 0, epoch: 0, delayed: 0 };
        Self { owner, depth: 0, tangled: 0, frames: [frame; OPEN_FRAMES as usize] }
    }

    /// Another one begins.
    #[inline(always)]
    pub fn push(&mut self, frame: Frame) {
        if self.depth > 0 && frame.frame == 0 {
            self.tangled = 1;
        }
        if self.depth < OPEN_FRAMES {
            self.frames[place(self.depth)] = frame;
        }
        self.depth = self.depth.wrapping_add(1);
    }

    /// The newest one, if it has been left without a return: the stack has been taken back behind it by now. `frame` is that of
    /// the call that begins or ends now; of a call that begins, frames as deep as its own are gone too.
    #[inline(always)]
    pub fn pop_abandoned(&mut self, frame: u64, begins: bool) -> Option<Frame> {
        if frame == 0 || self.depth == 0 || self.depth > OPEN_FRAMES {
            return None;
        }
        let top = self.frames[place(self.depth - 1)];
        // Stacks grow down.
        if top.frame < frame || (begins && top.frame == frame) {
            self.depth -= 1;
            return Some(top);
        }
        None
    }

    /// The newest one ends, in a thread that has absorbed so much in this epoch.
    #[inline(always)]
    pub fn pop(&mut self, frame: u64, experiment: &Experiment, absorbed: u64, now: u64) -> Ended {
        if self.depth == 0 {
            return Ended::Unmatched;
        }
        if self.depth > OPEN_FRAMES {
            self.depth -= 1;
            return Ended::Lost;
        }
        let top = self.frames[place(self.depth - 1)];
        if frame != 0 && top.frame != frame {
            return Ended::Unmatched;
        }
        self.depth -= 1;
        let tangled = self.tangled != 0;
        if self.depth == 0 {
            self.tangled = 0;
        }
        if tangled {
            return Ended::Unmatched;
        }
        let delay = if top.epoch == experiment.epoch {
            absorbed.saturating_sub(top.absorbed)
        } else if top.delayed == 0 && top.epoch.wrapping_add(1) == experiment.epoch {
            absorbed
        } else {
            return Ended::Lost;
        };
        Ended::Measured(now.saturating_sub(top.at).saturating_sub(delay))
    }
}

/// Where the interval of this depth is. The compiler, which would see that the depth is in bounds and leave out the mask, is
/// kept from it: verifiers before kernel 6.5 do not see it.
#[inline(always)]
fn place(depth: u32) -> usize {
    (black_box(depth) & (OPEN_FRAMES - 1)) as usize
}

#[cfg(test)]
mod tests;
