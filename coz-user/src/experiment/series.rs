//! Whole runs as the experiments (`--end-to-end`): the program is run again and again, and each run tries one line at one
//! speedup from its first instruction to its last.
//!
//! ```text
//!           ended well           snapshot: Record          lines            snapshot
//!  Running ------------> Closing ----------------> Looking -------> Opening --------> Starting --> Running
//!             End                                           Begin            RunAgain
//! ```
//!
//! The first run is not delayed at all: it tells where the time goes, and is a baseline. What comes next is drawn by the same
//! [`Plan`] as experiments within a run are, but hottest lines first. A run that fails, or is interrupted, is the last one, and does not count.

use std::mem;

use coz_common::units::{LineId, Nanos, Speedup};

use super::{
    data::{Experiment, PointId, PointVisits, Snapshot, Why},
    plan::{Choice, Plan},
    protocol::{Action, Begin, Conductor, Event, LEASE, POLL, RENEW, after},
};

/// Lines that were sampled in the first run may still be looked up when it ends: so long is waited before the first of them is
/// drawn,
const SETTLE: Nanos = Nanos(100_000_000);
/// and at most so long until any is known.
const PATIENCE: Nanos = Nanos(1_000_000_000);
/// Nothing to select after so many runs: more would not help.
const SCOUTS: u32 = 3;

/// A run, as far as it is known before it ends.
#[derive(Debug)]
struct Run {
    /// What it tries; `None`: nothing, it is to show where the time goes.
    trial: Option<(u32, Choice)>,
    /// What was counted before it.
    first: Snapshot,
    began: Nanos,
}

#[derive(Debug)]
enum State {
    Running(Run),
    /// Over, or cut short because of that; the snapshot of its end is on its way.
    Closing(Run, Option<Why>),
    /// Between two runs, since this time; what had been counted by then. What comes next?
    Looking(Nanos, Snapshot),
    /// The next run's experiment has begun; the snapshot of its beginning is on its way.
    Opening(u32, Choice),
    /// The program is being started.
    Starting(Option<(u32, Choice)>, Snapshot),
    /// No more experiments; the program runs on.
    Stopped,
    Finished,
}

/// The runs of one program: see the module's text.
#[derive(Debug)]
pub struct Series {
    plan: Plan,
    /// Runs that may still begin.
    left: u32,
    state: State,
    /// Runs without a trial so far.
    scouts: u32,
    epoch: u32,
    table_ready: bool,
    /// There are to be no more experiments.
    stopped: bool,
    /// The program has ended, and is not run again.
    over: bool,
}

impl Series {
    /// So many runs, the first of which was released at `start`.
    #[must_use]
    pub fn new(plan: Plan, runs: u32, start: Nanos) -> Self {
        Self {
            plan: plan.by_need(),
            left: runs.saturating_sub(1),
            state: State::Running(Run { trial: None, first: Snapshot::default(), began: start }),
            scouts: 1,
            epoch: 0,
            table_ready: false,
            stopped: false,
            over: false,
        }
    }

    /// The lines have been looked at between two runs.
    fn look(&mut self, now: Nanos) -> Vec<Action> {
        let State::Looking(since, end) = &mut self.state else { return Vec::new() };
        let (since, end) = (*since, mem::take(end));
        let waited = now.since(since);
        let settled = self.epoch > 0 || waited >= SETTLE;
        if self.table_ready
            && settled
            && let Some(choice) = self.plan.choose()
        {
            self.epoch += 1;
            self.state = State::Opening(self.epoch, choice);
            return vec![
                Action::Begin(Begin {
                    line: choice.line,
                    speedup: choice.speedup,
                    epoch: self.epoch,
                    length: Nanos(u64::MAX),
                    deadline: after(now, LEASE),
                }),
                Action::TakeSnapshot { line: choice.line },
            ];
        }
        if waited < PATIENCE {
            self.state = State::Looking(since, end);
            return vec![Action::SetTimer(after(now, POLL))];
        }
        if self.scouts >= SCOUTS {
            return self.finish();
        }
        self.scouts += 1;
        self.state = State::Starting(None, end);
        vec![Action::RunAgain]
    }

    fn close(&mut self, cut: Option<Why>) -> Vec<Action> {
        match mem::replace(&mut self.state, State::Finished) {
            State::Running(run) => {
                let line = run.trial.map_or(LineId::NONE, |(_, choice)| choice.line);
                self.state = State::Closing(run, cut);
                vec![Action::End, Action::TakeSnapshot { line }]
            }
            State::Stopped | State::Looking(..) | State::Starting(..) => self.finish(),
            State::Opening(..) => vec![Action::End, Action::Finish],
            other => {
                self.state = other;
                Vec::new()
            }
        }
    }

    fn on_snapshot(&mut self, snapshot: Snapshot, now: Nanos) -> Vec<Action> {
        match mem::replace(&mut self.state, State::Finished) {
            State::Opening(epoch, choice) => {
                self.state = State::Starting(Some((epoch, choice)), snapshot);
                vec![Action::RunAgain]
            }
            State::Closing(run, cut) => {
                let experiment = whole_run(&run, &snapshot, cut);
                if run.trial.is_some() {
                    self.plan.ended(experiment.selected.samples);
                }
                let mut actions = vec![Action::Record(Box::new(experiment))];
                actions.extend(self.conclude(snapshot, now));
                actions
            }
            other => {
                self.state = other;
                Vec::new()
            }
        }
    }

    /// A run was written down.
    fn conclude(&mut self, end: Snapshot, now: Nanos) -> Vec<Action> {
        if self.over || (self.left == 0 && !self.stopped) {
            return self.finish();
        }
        if self.stopped {
            self.state = State::Stopped;
            return Vec::new();
        }
        self.left -= 1;
        self.state = State::Looking(now, end);
        vec![Action::ReadLines]
    }

    fn finish(&mut self) -> Vec<Action> {
        self.state = State::Finished;
        vec![Action::Finish]
    }
}

impl Conductor for Series {
    fn on(&mut self, event: Event, now: Nanos) -> Vec<Action> {
        match event {
            Event::TableReady => self.table_ready = true,
            Event::FixedLine(line) => self.plan.fix(line),
            Event::Standings(standings) => self.plan.learn(standings),
            Event::LinesSeen(samples) => {
                self.plan.observe(&samples, now);
                return self.look(now);
            }
            Event::Tick => {
                return match self.state {
                    State::Looking(..) => vec![Action::ReadLines],
                    State::Running(_) => {
                        vec![
                            Action::Extend { deadline: after(now, LEASE) },
                            Action::SetTimer(after(now, RENEW)),
                        ]
                    }
                    _ => Vec::new(),
                };
            }
            Event::Snapshot(snapshot) => return self.on_snapshot(snapshot, now),
            Event::Released => {
                if let State::Starting(trial, first) = &mut self.state {
                    self.state = State::Running(Run { trial: *trial, first: mem::take(first), began: now });
                    return vec![Action::SetTimer(after(now, RENEW))];
                }
            }
            Event::RunEnded => return self.close(None),
            Event::DurationOver | Event::Enough | Event::Interrupted => {
                if !mem::replace(&mut self.stopped, true) {
                    return self.close(Some(Why::Interrupted));
                }
            }
            Event::TargetExited => {
                self.over = true;
                return self.close(Some(Why::Truncated));
            }
            Event::PointsKnown | Event::Load(_) => {}
        }
        Vec::new()
    }
}

/// A run as one experiment, in which nothing but its own end was visited.
fn whole_run(run: &Run, last: &Snapshot, cut: Option<Why>) -> Experiment {
    let trial = run.trial.map(|(_, choice)| choice);
    let delayed = |nanos: Nanos| if trial.is_some() { nanos } else { Nanos(0) };
    let seen_whole = cut.is_none().then_some(PointVisits::of(PointId::WHOLE_RUN, 1));
    let mut experiment = Experiment {
        epoch: run.trial.map_or(0, |(epoch, _)| epoch),
        round: trial.map_or(0, |choice| choice.round),
        line: trial.map_or(LineId::NONE, |choice| choice.line),
        speedup: trial.map_or(Speedup::BASELINE, |choice| choice.speedup),
        planned: Nanos(0),
        begin: run.began,
        end: last.at,
        settle: Nanos(0),
        delay_before: Nanos(0),
        delay: delayed(last.required),
        absorbed: delayed(last.absorbed),
        unpaid: delayed(last.unpaid),
        points: seen_whole.into_iter().collect(),
        latencies: Vec::new(),
        selected: last.selected_since(&run.first),
        set: last.set.since(&run.first.set),
        half: None,
        invalid: None,
    };
    experiment.invalid = cut.or_else(|| experiment.defect());
    experiment
}

#[cfg(test)]
mod tests;
