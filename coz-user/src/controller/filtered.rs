//! Programs whose system calls are filtered (seccomp): they are asked to pay when their filters allow what the handler does.

use super::session::Session;
use crate::target::{
    inject::Refused,
    process::{self, Status},
};

impl Session {
    /// A process's first thread, if its system calls are filtered.
    fn filtered(pid: u32) -> Option<Status> {
        let status = process::status(pid.cast_signed()).ok().flatten()?;
        (status.seccomp_mode != 0).then_some(status)
    }

    /// A program with the shim in it has started. Whether it waits for an answer of its filters: until that comes no signal is sent.
    pub(super) fn asks_filters(&mut self, pid: u32, handler: u64) -> bool {
        if Self::filtered(pid).is_none() {
            return false;
        }
        self.filters.insert(pid, (handler, 0));
        if let Some(guests) = &self.ready.guests {
            guests.ask_filters(pid, handler);
        }
        true
    }

    /// Has a process installed filters since? The kernel side sends nothing to threads that have; unless the filters allow it.
    pub(super) fn look_at_filters(&mut self, pid: u32) {
        let Some(guests) = &self.ready.guests else { return };
        let Ok(Some(known)) = self.ready.kernel.process(pid) else { return };
        let now = Self::filtered(pid).map_or(0, |status| status.seccomp_filters.unwrap_or(0));
        if known.handler == 0 || now <= known.seccomp_filters {
            return;
        }
        let asked = (known.handler, now);
        if self.filters.insert(pid, asked) != Some(asked) {
            guests.ask_filters(pid, known.handler);
        }
    }

    /// What a process's filters say to this handler.
    pub(super) fn filters_answered(&mut self, pid: u32, handler: u64, result: Result<u32, Refused>) {
        // It executes something else by now.
        if self.filters.get(&pid).is_none_or(|(asked, _)| *asked != handler) {
            return;
        }
        match result {
            Ok(count) => {
                self.describe(pid, |process| {
                    process.handler = handler;
                    process.seccomp_filters = count;
                });
            }
            Err(why) => {
                if !matches!(why, Refused::Gone) {
                    self.voice.mention(&format!("process {pid} is not delayed: {why}"));
                }
                if let Some(guests) = &mut self.ready.guests {
                    guests.refused(pid, &why);
                }
            }
        }
    }
}
