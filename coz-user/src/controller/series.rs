//! The program run again and again (`--end-to-end`): what happens between two of its runs. When that is, and what the next one
//! tries, is [`crate::experiment::series`]'s to say.

use anyhow::{Context, Result};

use super::{
    session::Session,
    subject::{End, Subject},
};
use crate::{
    experiment::{data::Snapshot, machine::Event},
    target::exit::ExitStatus,
};

/// The runs of a series. Of a program that is run once there is none.
#[derive(Debug)]
pub(super) struct Runs {
    /// How many there are to be.
    pub(super) planned: u32,
    /// How many have begun.
    pub(super) begun: u32,
    /// The last one has ended, and the next has not begun.
    pub(super) is_between: bool,
}

impl Runs {
    pub(super) fn new(planned: u32) -> Self {
        Self { planned, begun: 1, is_between: false }
    }
}

impl Session {
    /// Whether no program runs just now, and one will.
    pub(super) fn is_between_runs(&self) -> bool {
        self.runs.as_ref().is_some_and(|runs| runs.is_between)
    }

    /// The program has ended: the end of the profile, unless another run of it is to follow.
    pub(super) fn program_ended(&mut self, status: ExitStatus) {
        match &mut self.runs {
            Some(runs) if status.success() => {
                runs.is_between = true;
                self.tell(Event::RunEnded);
            }
            runs => {
                if let Some(Runs { begun, planned, .. }) = runs
                    && begun < planned
                {
                    self.voice.mention(&format!("run {begun} of {planned} is the last: {status}"));
                }
                self.ending = Some(End::Program(status));
            }
        }
    }

    /// No run follows: what there is to be waited for has ended, and this is what we leave with.
    pub(super) fn end_between_runs(&mut self, status: ExitStatus) {
        let Some(Runs { begun, planned, is_between: true }) = &self.runs else { return };
        if begun < planned && !self.table_ready && self.ending.is_none() {
            self.voice.mention(&format!(
                "run {begun} of {planned} is the last: no line that could be sped up was sampled"
            ));
        }
        self.ending.get_or_insert(End::Program(status));
    }

    /// A signal that no program is there to get: we end as if the program had died of it.
    pub(super) fn interrupted_between_runs(&mut self, signal: i32) {
        self.end_between_runs(ExitStatus::Signal { number: u8::try_from(signal).unwrap_or(0), core: false });
        self.tell(Event::Interrupted);
    }

    /// Starts the program again. The experiment has begun.
    pub(super) fn run_again(&mut self) -> Result<Event> {
        let launcher = self.ready.launcher.as_ref().context("there is no program to run again")?;
        let suspended = launcher.suspended()?;
        self.ready.kernel.follow(suspended.pid().cast_unsigned());
        self.subject = Subject::Launched(suspended.release().map_err(super::launcher::failure)?);
        if let Some(runs) = &mut self.runs {
            runs.is_between = false;
            runs.begun += 1;
        }
        Ok(Event::Released)
    }

    /// A run's time goes by the clock of the thread that began it: what that has absorbed by its end is what the run's wall time is
    /// too long by.
    pub(super) fn clock_of_the_run(&self, snapshot: &mut Snapshot) {
        if let (Some(_), Subject::Launched(running)) = (&self.runs, &self.subject)
            && let Some(absorbed) = self.ready.kernel.absorbed_by(running.pid().cast_unsigned(), self.epoch)
        {
            snapshot.absorbed = absorbed;
            snapshot.unpaid = snapshot.required.since(absorbed);
        }
    }

    /// What the status line says of it.
    pub(super) fn run_number(&self) -> Option<String> {
        self.runs.as_ref().map(|runs| format!("run {} of {}", runs.begun, runs.planned))
    }
}
