//! A session's loop: whatever happens next, to the program, in the kernel, or with time, goes where it belongs.

use std::time::Duration;

use anyhow::{Context, Result};
use coz_common::units::Nanos;
use tokio::time::Instant;

use super::{
    session::Session,
    subject::{End, Subject},
};
use crate::{experiment::machine::Event, kernel::control::now, target::launch::Change};

/// How often addresses that the kernel did not know are fetched while a program shows new code.
const BUSY: Duration = Duration::from_millis(20);
/// And when it has shown none for a while.
const QUIET: Duration = Duration::from_millis(200);

impl Session {
    /// Until the profile ends; the exit code.
    pub(super) async fn serve(mut self) -> Result<u8> {
        let over = self.config.duration.map(|duration| Instant::now() + Duration::from_nanos(duration.0));
        let mut over = Box::pin(tokio::time::sleep_until(over.unwrap_or_else(far)));
        let mut over_seen = self.config.duration.is_none();
        let mut look = Instant::now() + BUSY;
        if let Some(line) = self.ready.fixed {
            self.tell(Event::FixedLine(line));
        }
        self.look_for_points();
        let end = loop {
            if let Some(end) = self.ending.take() {
                break end;
            }
            let timer = self.timer;
            tokio::select! {
                biased;
                change = self.subject.changed(), if !self.is_between_runs() => match change.context("cannot wait for the program")? {
                    Change::Ended(status) => self.program_ended(status),
                    Change::Stopped(_) => {
                        if let Subject::Launched(running) = &self.subject {
                            running.mirror_stop().await.context("cannot stop with the program")?;
                        }
                    }
                    Change::Continued => {}
                },
                Some(answer) = self.ready.answers.recv() => self.answered(answer),
                Some(registered) = self.ready.registrations.recv() => self.registered(registered),
                Some(page) = self.ready.resolved.recv() => self.resolved(&page),
                () = until(timer), if timer.is_some() => {
                    self.timer = None;
                    self.tell(Event::Tick);
                }
                guard = self.events.readable_mut() => {
                    if let Ok(mut guard) = guard {
                        guard.clear_ready();
                    }
                    self.kernel_events();
                }
                // After the events: what is wanted now goes before what may be wanted next.
                Some(rows) = self.ready.rows.recv() => self.rows_read(&rows),
                () = tokio::time::sleep_until(look) => {
                    let fresh = self.look_up();
                    self.may_ask_again();
                    self.look_again();
                    self.look_for_members();
                    self.look_for_points();
                    self.look_at_load();
                    self.show_status();
                    self.print_log();
                    look = Instant::now() + if fresh { BUSY } else { QUIET };
                }
                () = &mut over, if !over_seen => {
                    over_seen = true;
                    self.tell(Event::DurationOver);
                    self.over();
                }
                // The terminal has sent these two to the program too: what it does with them is its own affair.
                Some(()) = self.signals.interrupt.recv() => self.interrupted(None),
                Some(()) = self.signals.quit.recv() => self.interrupted(None),
                Some(()) = self.signals.terminate.recv() => self.interrupted(Some(libc::SIGTERM)),
                Some(()) = self.signals.hangup.recv() => self.interrupted(Some(libc::SIGHUP)),
            }
        };
        Ok(self.finish(end))
    }

    /// A signal to us. A program of ours gets the one that is to be passed on; with programs of others it is the end of the profile.
    fn interrupted(&mut self, pass_on: Option<i32>) {
        match (&self.subject, pass_on) {
            (Subject::Attached(_), _) => self.ending = Some(End::Interrupted),
            (Subject::Launched(_), signal) if self.is_between_runs() => {
                self.interrupted_between_runs(signal.unwrap_or(libc::SIGINT));
            }
            (Subject::Launched(_), None) => self.tell(Event::Interrupted),
            (Subject::Launched(running), Some(signal)) => drop(running.send(signal)),
        }
    }

    /// No more experiments: programs of others are let go at once.
    pub(super) fn over(&mut self) {
        if self.subject.is_attached() {
            self.ending.get_or_insert(End::Over);
        }
    }

    /// coz.h points appear when the program first passes them.
    pub(super) fn look_for_points(&mut self) {
        if self.points_known || !self.can_delay {
            return;
        }
        match self.ready.points.visits(&self.ready.kernel) {
            Ok(visits) if visits.is_empty() => {}
            Ok(_) => {
                self.points_known = true;
                self.tell(Event::PointsKnown);
            }
            Err(error) => self.fail(error),
        }
    }
}

async fn until(at: Option<Nanos>) {
    let left = at.map_or(Duration::MAX, |at| Duration::from_nanos(at.since(now()).0));
    tokio::time::sleep(left).await;
}

fn far() -> Instant {
    Instant::now() + Duration::from_secs(365 * 24 * 3600)
}
