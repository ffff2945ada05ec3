//! What the experiment's state machine and the controller say to each other, and the machine's settings.

use std::fmt;

use coz_common::units::{LineId, Nanos, Speedup};

use super::{
    data::{Experiment, Snapshot},
    spend::Standing,
};

/// Longest time for which a target goes on paying after its profiler has died: a running experiment's deadline
/// lies this far ahead.
pub const LEASE: Nanos = Nanos(2_000_000_000);
/// The deadline is moved on this often: three renewals may be late before a target stops paying.
pub const RENEW: Nanos = Nanos(500_000_000);
/// While no line has been sampled yet, counts are read this often.
pub const POLL: Nanos = Nanos(20_000_000);

/// The machine's settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MachineConfig {
    /// How long an experiment lasts at first. 300 ms: the bundled programs visit their points hundreds of times in
    /// it, and a run of 40 s has some 125 experiments.
    pub length: Nanos,
    /// No experiment gets longer than this by doubling. 10 s: with 5 visits wanted, points that are visited every
    /// two seconds can still be used; slower ones call for `--end-to-end`.
    pub max_length: Nanos,
    /// Least time between two experiments, in which nobody owes anything; at random up to twice that. 10 ms: as long
    /// as a thread sleeps at a stretch to pay, so nobody is still asleep for the last experiment when the next begins.
    pub cool_off: Nanos,
    /// An experiment in which no point had so many visits doubles the length of the later ones.
    pub min_visits: u64,
    /// Part of the time that delays and our own load may take, thousandths (`--max-overhead`); `None`: any.
    pub max_overhead: Option<u32>,
}

impl Default for MachineConfig {
    fn default() -> Self {
        Self {
            length: Nanos(300_000_000),
            max_length: Nanos(10_000_000_000),
            cool_off: Nanos(10_000_000),
            min_visits: 5,
            max_overhead: None,
        }
    }
}

/// What decides about experiments: the machine within a run ([`super::machine`]), or over many ([`super::series`]).
pub trait Conductor: fmt::Debug {
    /// Takes an event in, says what to do. `now`: `CLOCK_MONOTONIC`.
    fn on(&mut self, event: Event, now: Nanos) -> Vec<Action>;

    /// For how long experiments were put off to stay within the budget (`--max-overhead`), all in all.
    fn held_back(&self) -> Nanos {
        Nanos(0)
    }
}

/// What the controller tells it.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The line table has some lines: experiments make sense from now on.
    TableReady,
    /// The line that the user fixed is known: for a plan with [`super::plan::Lines::Fixed`].
    FixedLine(LineId),
    /// There is at least one progress point (also learnt from any snapshot that names one).
    PointsKnown,
    /// Answer to [`Action::ReadLines`]: samples of each line since the last answer.
    LinesSeen(Vec<(LineId, u64)>),
    /// Answer to [`Action::TakeSnapshot`].
    Snapshot(Snapshot),
    /// The timer ran out (early or spurious ticks do no harm).
    Tick,
    /// What is known about the lines by now: of all that were experimented on.
    Standings(Vec<(LineId, Standing)>),
    /// Our own load takes this part of the time now, thousandths.
    Load(u32),
    /// `--until` is reached: no more experiments; the run goes on.
    Enough,
    /// `--duration` is over: no more experiments; the run goes on.
    DurationOver,
    /// Ctrl-C: no more experiments, and we are done.
    Interrupted,
    /// A run of a series has ended, and well: another one may follow.
    RunEnded,
    /// Answer to [`Action::RunAgain`]: the program runs.
    Released,
    /// No process of the profiled set is left, and none will come.
    TargetExited,
}

/// What is asked of the controller, to be done in the order given.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Start an experiment: fill the control page, epoch last.
    Begin(Begin),
    /// The running experiment's deadline is now this one.
    Extend {
        /// See [`Begin::deadline`].
        deadline: Nanos,
    },
    /// End the running experiment: nobody owes anything any more, `G` stays where it is.
    End,
    /// Read the maps, answer with [`Event::Snapshot`].
    TakeSnapshot {
        /// The line whose samples [`Snapshot::selected`] holds.
        line: LineId,
    },
    /// Read all lines' counts, answer with [`Event::LinesSeen`].
    ReadLines,
    /// An experiment is over: write it down, whether it counts or not.
    Record(Box<Experiment>),
    /// Start the program again, answer with [`Event::Released`].
    RunAgain,
    /// Send [`Event::Tick`] at this time, which lies ahead. Replaces any timer set before.
    SetTimer(Nanos),
    /// The machine is done and will ask for nothing more: detach, write the end of the profile.
    Finish,
}

/// An experiment's settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begin {
    /// The selected line.
    pub line: LineId,
    /// The virtual speedup.
    pub speedup: Speedup,
    /// Number of the experiment, from 1 on.
    pub epoch: u32,
    /// How long it is meant to last; [`Nanos`] of `u64::MAX` where it lasts as long as the run.
    pub length: Nanos,
    /// Nobody pays after this time, unless it is extended.
    pub deadline: Nanos,
}

/// `a + b`, at most the end of time.
pub(super) fn after(a: Nanos, b: Nanos) -> Nanos {
    Nanos(a.0.saturating_add(b.0))
}
