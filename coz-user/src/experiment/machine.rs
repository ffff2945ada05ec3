//! The experiment's state machine: events and the time go in, actions come out. It does nothing itself.
//!
//! ```text
//!            choose             settled            snapshot             end of time           snapshot
//!  Waiting ---------> Settling ---------> Opening ----------> Running -------------> Closing ----------> Waiting
//!     ^  cool-off        Begin                                  (renew the lease,      End                 Record
//!                                                                look at it halfway)
//! ```
//!
//! The target's end, Ctrl-C and the end of `--duration` cut this short from wherever it stands: a running
//! experiment is ended, recorded as truncated or interrupted, and no other begins.
//!
//! **Without any progress point** no experiment is made: there is nothing that a delay could show. The run is
//! sampled undelayed to its end and recorded as one long baseline, visited once ([`PointId::WHOLE_RUN`]). Points
//! may appear while the program runs (coz.h counters do): experiments start then.

use std::mem;

use coz_common::units::{LineId, Nanos, Speedup};

use super::budget::Budget;
use super::data::{Experiment, Half, PointId, PointVisits, Snapshot, Why};
use super::plan::{Choice, Plan};
use super::protocol::after;
pub use super::protocol::{Action, Begin, Conductor, Event, LEASE, MachineConfig, POLL, RENEW};
use super::settling::Settling;

/// An experiment under way.
#[derive(Clone, Copy, Debug)]
struct Current {
    choice: Choice,
    epoch: u32,
    planned: Nanos,
    /// When its delays began.
    begun: Nanos,
    /// How much of it does not count, if there were other delays before it, or none where it has some.
    settle: Nanos,
    /// Which part of the experiment before it was delay.
    after: f64,
}

impl Current {
    /// How much of its effective time had passed by a snapshot.
    fn age(&self, at: &Snapshot) -> Nanos {
        at.at.since(self.begun).since(at.absorbed)
    }
}

#[derive(Debug)]
enum State {
    /// Between experiments.
    Waiting { not_before: Nanos },
    /// Begun; until then the program settles.
    Settling { current: Current, until: Nanos },
    /// The snapshot of its start is on its way. `ended`: and it was ended already, before its time or not.
    Opening { current: Current, ended: Option<Cut> },
    /// Running until `until`.
    Running { current: Current, first: Snapshot, half: Option<Half>, until: Nanos },
    /// Ended; the snapshot of its end is on its way.
    Closing { current: Current, first: Snapshot, half: Option<Half>, cut: Cut },
    /// The snapshot of a run without experiments is on its way.
    Summing,
    /// No more experiments; the run goes on.
    Stopped,
    /// Done.
    Finished,
}

/// Whether an experiment ended before its time, and why.
type Cut = Option<Why>;

/// Why no more experiments begin. Of several, the greatest holds: Ctrl-C reaches the target too, and the end that
/// it then comes to is not its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stop {
    Duration,
    Exited,
    Interrupted,
}

/// The state machine: see the module's text.
#[derive(Debug)]
pub struct Machine {
    config: MachineConfig,
    plan: Plan,
    state: State,
    /// When the target was released: the start of a run that is one experiment.
    start: Nanos,
    /// Present length of an experiment.
    length: Nanos,
    /// How much goes before it.
    settling: Settling,
    /// The last experiment's speedup, and which part of it was delay; none at all is a baseline.
    before: (Speedup, f64),
    epoch: u32,
    table_ready: bool,
    points_known: bool,
    stop: Option<Stop>,
    budget: Budget,
    /// For how long experiments were put off to stay within the budget.
    held_back: Nanos,
}

impl Machine {
    /// A machine that waits for lines and points; `start` is when the target was released.
    #[must_use]
    pub fn new(config: MachineConfig, plan: Plan, start: Nanos) -> Self {
        let length = config.length.min(config.max_length);
        Self {
            length,
            settling: Settling::new(length),
            before: (Speedup::BASELINE, 0.0),
            budget: Budget::new(config.max_overhead, start),
            held_back: Nanos(0),
            config,
            plan,
            state: State::Waiting { not_before: start },
            start,
            epoch: 0,
            table_ready: false,
            points_known: false,
            stop: None,
        }
    }

    /// How many experiments have begun.
    #[must_use]
    pub fn experiments(&self) -> u32 {
        self.epoch
    }

    /// The present length of an experiment.
    #[must_use]
    pub fn length(&self) -> Nanos {
        self.length
    }

    /// Begins an experiment if all that it takes is there.
    fn try_begin(&mut self, now: Nanos) -> Vec<Action> {
        let State::Waiting { not_before } = self.state else { return Vec::new() };
        if !self.table_ready || !self.points_known {
            return Vec::new();
        }
        if now < not_before {
            return vec![Action::SetTimer(not_before)];
        }
        let Some(choice) = self.plan.choose() else {
            return if self.plan.wants_samples() {
                vec![Action::ReadLines, Action::SetTimer(after(now, POLL))]
            } else {
                Vec::new()
            };
        };
        self.epoch += 1;
        let planned = self.length;
        let (before, after_delay) = self.before;
        let changed = !(choice.speedup.is_baseline() && before.is_baseline());
        let settle = self.settling.time(choice.speedup);
        let current = Current { choice, epoch: self.epoch, planned, begun: now, settle, after: after_delay };
        let begin = Action::Begin(Begin {
            line: choice.line,
            speedup: choice.speedup,
            epoch: self.epoch,
            length: planned,
            deadline: after(now, LEASE),
        });
        let next = if changed {
            let until = after(now, settle);
            self.state = State::Settling { current, until };
            Action::SetTimer(until)
        } else {
            self.open(current, None)
        };
        vec![begin, next]
    }

    /// From here on it counts, or does not if it is `ended` already.
    fn open(&mut self, current: Current, ended: Option<Cut>) -> Action {
        self.state = State::Opening { current, ended };
        Action::TakeSnapshot { line: current.choice.line }
    }

    fn on_tick(&mut self, now: Nanos) -> Vec<Action> {
        match self.state {
            State::Waiting { .. } => self.try_begin(now),
            State::Settling { until, .. } if now < until => vec![Action::SetTimer(until)],
            State::Settling { current, .. } => vec![self.open(current, None)],
            State::Running { until, .. } if now >= until => self.close(None),
            State::Running { current, ref first, ref half, until } => {
                let halfway = halfway(first.at, until);
                let look = half.is_none() && now >= halfway;
                let next = if half.is_none() && !look { halfway } else { until };
                let look = look.then_some(Action::TakeSnapshot { line: current.choice.line });
                let renew = Action::Extend { deadline: after(now, LEASE) };
                look.into_iter().chain([renew, Action::SetTimer(after(now, RENEW).min(next))]).collect()
            }
            _ => Vec::new(),
        }
    }

    fn on_stop(&mut self, stop: Stop, now: Nanos) -> Vec<Action> {
        self.stop = self.stop.max(Some(stop));
        let cut = match stop {
            Stop::Exited => Some(Why::Truncated),
            Stop::Duration | Stop::Interrupted => Some(Why::Interrupted),
        };
        match &mut self.state {
            State::Waiting { .. } | State::Stopped => self.conclude(now),
            State::Opening { ended: ended @ None, .. } => {
                *ended = Some(cut);
                vec![Action::End]
            }
            State::Settling { current, .. } => {
                let current = *current;
                vec![Action::End, self.open(current, Some(cut))]
            }
            State::Running { .. } => self.close(cut),
            State::Opening { .. } | State::Closing { .. } | State::Summing | State::Finished => Vec::new(),
        }
    }

    /// Ends the running experiment.
    fn close(&mut self, cut: Cut) -> Vec<Action> {
        match mem::replace(&mut self.state, State::Finished) {
            State::Running { current, first, half, .. } => {
                self.state = State::Closing { current, first, half, cut };
                vec![Action::End, Action::TakeSnapshot { line: current.choice.line }]
            }
            other => {
                self.state = other;
                Vec::new()
            }
        }
    }

    fn on_snapshot(&mut self, snapshot: Snapshot, now: Nanos) -> Vec<Action> {
        self.points_known |= !snapshot.points.is_empty();
        match mem::replace(&mut self.state, State::Finished) {
            State::Opening { current, ended: None } => {
                let until = after(snapshot.at, current.planned);
                let next = after(now, RENEW).min(halfway(snapshot.at, until)).max(after(now, Nanos(1)));
                self.state = State::Running { current, first: snapshot, half: None, until };
                vec![Action::SetTimer(next)]
            }
            State::Opening { current, ended: Some(cut) } => {
                self.record(current, window(current, &snapshot, &snapshot, None), cut, now)
            }
            State::Running { current, first, half: None, until } => {
                let half = window(current, &first, &snapshot, None);
                let half = Some(Half { effective: half.effective(), points: half.points });
                self.state = State::Running { current, first, half, until };
                Vec::new()
            }
            State::Closing { current, first, half, cut } => {
                self.record(current, window(current, &first, &snapshot, half), cut, now)
            }
            State::Summing => {
                let cut = (self.stop != Some(Stop::Exited)).then_some(Why::Interrupted);
                vec![Action::Record(Box::new(judged(whole_run(self.start, &snapshot), cut))), Action::Finish]
            }
            other => {
                self.state = other;
                // It may have named the first point.
                self.try_begin(now)
            }
        }
    }

    /// Writes down the experiment that has ended, and goes on.
    fn record(&mut self, current: Current, measured: Experiment, cut: Cut, now: Nanos) -> Vec<Action> {
        let experiment = judged(measured, cut);
        self.plan.ended(experiment.selected.samples);
        self.budget.spend(Nanos(experiment.delay_before.0.saturating_add(experiment.delay.0)), now);
        if cut.is_none() && experiment.most_visits() < self.config.min_visits {
            self.length = Nanos(self.length.0.saturating_mul(2)).min(self.config.max_length);
        }
        if experiment.invalid.is_none() {
            self.settling.ended(&experiment, current.after);
        }
        self.before = (experiment.speedup, experiment.delayed_share());
        let mut actions = vec![Action::Record(Box::new(experiment))];
        actions.extend(self.conclude(now));
        actions
    }

    /// Between experiments: cools off, or stops where that is asked for.
    fn conclude(&mut self, now: Nanos) -> Vec<Action> {
        match self.stop {
            None => {
                let cool = after(now, self.plan.jitter(self.config.cool_off)).max(after(now, Nanos(1)));
                let not_before = cool.max(self.budget.not_before(now));
                self.held_back.0 += not_before.since(cool).0;
                self.state = State::Waiting { not_before };
                let read = self.plan.wants_samples().then_some(Action::ReadLines);
                read.into_iter().chain([Action::SetTimer(not_before)]).collect()
            }
            Some(Stop::Duration) => {
                self.state = State::Stopped;
                Vec::new()
            }
            Some(Stop::Exited | Stop::Interrupted) => {
                if self.epoch == 0 && !self.points_known {
                    self.state = State::Summing;
                    vec![Action::TakeSnapshot { line: LineId::NONE }]
                } else {
                    self.state = State::Finished;
                    vec![Action::Finish]
                }
            }
        }
    }
}

impl Conductor for Machine {
    fn on(&mut self, event: Event, now: Nanos) -> Vec<Action> {
        match event {
            Event::TableReady => self.table_ready = true,
            Event::PointsKnown => self.points_known = true,
            Event::FixedLine(line) => self.plan.fix(line),
            Event::LinesSeen(samples) => {
                self.plan.observe(&samples, now);
                // Nothing seen: the timer is set already, and asking again at once would never end.
                return if self.plan.can_choose() { self.try_begin(now) } else { Vec::new() };
            }
            Event::Standings(standings) => {
                self.plan.learn(standings);
                return Vec::new();
            }
            Event::Load(load) => {
                self.budget.load(load, now);
                return Vec::new();
            }
            Event::Snapshot(snapshot) => return self.on_snapshot(snapshot, now),
            Event::Tick => return self.on_tick(now),
            Event::DurationOver | Event::Enough => return self.on_stop(Stop::Duration, now),
            Event::Interrupted => return self.on_stop(Stop::Interrupted, now),
            Event::TargetExited => return self.on_stop(Stop::Exited, now),
            // Of a series of runs.
            Event::RunEnded | Event::Released => return Vec::new(),
        }
        self.try_begin(now)
    }

    fn held_back(&self) -> Nanos {
        self.held_back
    }
}

/// When half of the time is over.
fn halfway(begin: Nanos, until: Nanos) -> Nanos {
    Nanos(begin.0 + until.since(begin).0 / 2)
}

/// The experiment between two snapshots.
fn window(current: Current, first: &Snapshot, last: &Snapshot, half: Option<Half>) -> Experiment {
    Experiment {
        epoch: current.epoch,
        round: current.choice.round,
        line: current.choice.line,
        speedup: current.choice.speedup,
        planned: current.planned,
        begin: first.at,
        end: last.at,
        settle: current.settle,
        delay_before: first.required,
        delay: last.required.since(first.required),
        absorbed: last.absorbed.since(first.absorbed),
        unpaid: last.unpaid,
        points: last.visits_since(first),
        latencies: last.latencies_since(first, current.age(first)),
        selected: last.selected_since(first),
        set: last.set.since(&first.set),
        half,
        invalid: None,
    }
}

/// The run as one baseline, where there was no experiment; `last` was taken at its end.
fn whole_run(start: Nanos, last: &Snapshot) -> Experiment {
    let visits = last.points.iter().copied().chain([PointVisits::of(PointId::WHOLE_RUN, 1)]);
    Experiment {
        epoch: 0,
        round: 0,
        line: LineId::NONE,
        speedup: Speedup::BASELINE,
        planned: Nanos(0),
        begin: start,
        end: last.at,
        settle: Nanos(0),
        delay_before: Nanos(0),
        delay: Nanos(0),
        absorbed: Nanos(0),
        unpaid: last.unpaid,
        points: visits.collect(),
        latencies: last.latencies_since(&Snapshot::default(), Nanos(0)),
        selected: last.selected,
        set: last.set,
        half: None,
        invalid: None,
    }
}

/// The same, with the reason why it must not count, if there is one.
fn judged(mut experiment: Experiment, cut: Cut) -> Experiment {
    if cut.is_some() {
        // The run was not seen to its end.
        experiment.points.retain(|p| p.point != PointId::WHOLE_RUN);
    }
    experiment.invalid = cut.or_else(|| experiment.defect());
    experiment
}

#[cfg(test)]
mod tests;
