//! What the state machine of experiments is told, and what is done of what it asks for.

use std::collections::VecDeque;

use anyhow::Result;
use coz_common::{
    abi::Stat,
    units::{LineId, Nanos},
};

use super::{
    clockwork::{Counts, snapshot},
    session::Session,
    setup::Ready,
    subject::End,
};
use crate::{
    experiment::machine::{Action, Event},
    kernel::control::{Trial, now},
    target::exit::ExitStatus,
};

impl Session {
    pub(super) fn tell(&mut self, event: Event) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            if self.finished {
                return;
            }
            for action in self.machine.on(event.clone(), now()) {
                match self.act(action) {
                    Ok(Some(answer)) => events.push_back(answer),
                    Ok(None) => {}
                    Err(error) => self.fail(error),
                }
            }
        }
    }

    /// Something of ours failed: the program runs on, undelayed; what was measured is kept.
    pub(super) fn fail(&mut self, error: anyhow::Error) {
        self.ready.kernel.end();
        if self.trouble.is_none() {
            self.voice.complain(&format!("{error:#}; no more experiments, the program runs on"));
            self.trouble = Some(error);
            self.tell(Event::DurationOver);
            self.end_between_runs(ExitStatus::Code(0));
        }
    }

    fn act(&mut self, action: Action) -> Result<Option<Event>> {
        match action {
            Action::Begin(begin) => {
                if self.epoch == 0 && self.subject.is_attached() {
                    self.note_what_is_usual()?;
                }
                self.keep_pace();
                self.is_running = true;
                self.epoch = begin.epoch;
                self.delaying = !begin.speedup.is_baseline();
                if self.delaying {
                    self.counts.delayed_begin(&self.ready.kernel, &self.ready.attribution)?;
                }
                self.ready.kernel.begin(&Trial {
                    epoch: begin.epoch,
                    line: begin.line,
                    speedup: begin.speedup,
                    deadline: begin.deadline,
                });
            }
            Action::Extend { deadline } => self.ready.kernel.extend(deadline),
            Action::End => {
                self.ready.kernel.end();
                self.is_running = false;
            }
            Action::TakeSnapshot { line } => {
                let Ready { kernel, attribution, points, .. } = &mut self.ready;
                let mut snapshot = snapshot(kernel, attribution, points, self.epoch, line)?;
                self.clock_of_the_run(&mut snapshot);
                return Ok(Some(Event::Snapshot(snapshot)));
            }
            Action::RunAgain => return self.run_again().map(Some),
            Action::ReadLines => {
                let Ready { kernel, attribution, .. } = &self.ready;
                return Ok(Some(Event::LinesSeen(self.counts.since_last(kernel, attribution))));
            }
            // Programs of others are no run that was seen whole.
            Action::Record(ended) if self.subject.is_attached() && ended.epoch == 0 => {}
            Action::Record(mut ended) => {
                let pace = &self.overhead.pace;
                if self.delaying {
                    self.delaying = false;
                    self.counts.delayed_end(&self.ready.kernel, &self.ready.attribution, pace)?;
                    self.debts.ended(&self.ready.kernel, ended.epoch);
                }
                self.delay.0 += ended.delay_before.0 + ended.delay.0;
                self.unpaid.0 += ended.unpaid.0;
                self.progress.ended(&ended);
                if self.subject.is_attached()
                    && let Some(alarm) = self.guard.ended(&ended)
                {
                    self.ending.get_or_insert(End::Harm(alarm.to_string()));
                }
                let Ready { kernel, attribution, points, .. } = &self.ready;
                let total = |line| Counts::total(kernel, attribution, line);
                let mut line = ended.line;
                if !line.is_some() {
                    line = attribution.hottest(|line| total(line).samples);
                    ended.selected = total(line);
                }
                // Experiments at different rates are compared.
                ended.set.samples = pace.scaled(ended.set.samples);
                ended.selected.samples = pace.scaled(ended.selected.samples);
                let location = attribution.lines().get(line).map(crate::symbols::Line::location);
                self.recorder.experiment(&ended, line, attribution, points)?;
                self.check_file();
                self.spending.recorded(location.unwrap_or_default(), line);
                return Ok(self.know(ended.line));
            }
            Action::SetTimer(at) => self.timer = Some(at),
            Action::Finish => {
                self.finished = true;
                self.end_between_runs(ExitStatus::Code(0));
            }
        }
        Ok(None)
    }

    /// Before the first experiment: how often points are visited, and how long threads wait for CPUs.
    fn note_what_is_usual(&mut self) -> Result<()> {
        let Ready { kernel, points, .. } = &mut self.ready;
        let (visits, stats) = (points.visits(kernel)?, kernel.stats()?);
        self.guard.before(&visits, now().since(self.released), Nanos(stats.get(Stat::RunqueueNs)));
        Ok(())
    }

    /// What the planner is to know after this line's experiment; at the end nothing any more.
    fn know(&mut self, line: LineId) -> Option<Event> {
        if !line.is_some() || self.finished {
            return None;
        }
        let told = self.spending.look(self.recorder.kept(), now());
        if told == Some(Event::Enough) {
            let seconds = now().since(self.released).0 as f64 / 1e9;
            let points = self.config.until.unwrap_or_default();
            self.voice.mention(&format!(
                "enough after {seconds:.1} s: the first line's effect at 50 % is known to within {points} points; the program \
                 runs on undelayed"
            ));
            self.over();
        }
        told
    }
}
