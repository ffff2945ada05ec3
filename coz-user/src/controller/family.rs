//! The processes of the profiled set, as the kernel tells of their births and deaths.

use std::collections::BTreeSet;

use coz_common::abi::{EVENT_EXEC, EVENT_EXIT, EVENT_FORK, EVENT_LEFT, Event};

use crate::target::process;

/// So many process ids are named.
const NAMED: usize = 5;

/// Who is alive.
#[derive(Debug, Default)]
pub struct Family {
    alive: BTreeSet<u32>,
}

impl Family {
    /// Takes note of an event.
    pub fn heard(&mut self, event: &Event) {
        match event.kind {
            EVENT_FORK | EVENT_EXEC => drop(self.alive.insert(event.tgid)),
            EVENT_EXIT | EVENT_LEFT => drop(self.alive.remove(&event.tgid)),
            _ => {}
        }
    }

    /// A process that ran already has joined; whether it is new.
    pub fn joined(&mut self, pid: u32) -> bool {
        self.alive.insert(pid)
    }

    /// Those of whose end nobody has told, which happens when it comes while they join: they are forgotten.
    pub fn bury(&mut self) -> Vec<u32> {
        let is_gone = |pid: &u32| {
            process::status(*pid as i32)
                .ok()
                .is_some_and(|status| status.is_none_or(|status| status.is_over()))
        };
        let gone: Vec<u32> = self.alive.iter().copied().filter(is_gone).collect();
        self.alive.retain(|pid| !gone.contains(pid));
        gone
    }

    /// Those that are alive, in the order of their ids.
    pub fn alive(&self) -> impl Iterator<Item = u32> + Clone {
        self.alive.iter().copied()
    }

    /// Those that outlive the process that was started.
    #[must_use]
    pub fn left_by(&self, root: u32) -> Vec<u32> {
        // What has ended a moment ago, the kernel may not have told yet.
        let lives =
            |&pid: &u32| process::status(pid as i32).ok().flatten().is_some_and(|status| !status.is_over());
        self.alive.iter().copied().filter(|&pid| pid != root).filter(lives).collect()
    }
}

/// What is said of processes that run on.
#[must_use]
pub fn left_behind(pids: &[u32]) -> Option<String> {
    let named: Vec<String> = pids.iter().take(NAMED).map(u32::to_string).collect();
    let more = if pids.len() > NAMED { ", ..." } else { "" };
    match pids {
        [] => None,
        [_] => Some(format!(
            "1 process of the program runs on, unprofiled and undelayed (PID {}): a profile ends with the process that \
             was started",
            named.join(", ")
        )),
        _ => Some(format!(
            "{} processes of the program run on, unprofiled and undelayed (PIDs {}{more}): a profile ends with the \
             process that was started",
            pids.len(),
            named.join(", ")
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: u32, tgid: u32) -> Event {
        Event { kind, tgid, tid: tgid, other: 0, time: 0 }
    }

    #[test]
    fn who_has_been_born_and_has_not_died_is_alive() {
        let (me, root) = (std::process::id(), 1);
        let mut family = Family::default();
        for (kind, pid) in [(EVENT_EXEC, root), (EVENT_FORK, me), (EVENT_FORK, u32::MAX >> 1)] {
            family.heard(&event(kind, pid));
        }
        assert_eq!(family.left_by(root), [me], "neither the root nor who is not there");
        family.heard(&event(EVENT_EXIT, me));
        assert!(family.left_by(root).is_empty());
    }

    #[test]
    fn they_are_counted_and_named() {
        assert_eq!(left_behind(&[]), None);
        assert!(left_behind(&[7]).unwrap().starts_with("1 process of the program runs on"));
        let many = left_behind(&[1, 2, 3, 4, 5, 6]).unwrap();
        assert!(many.contains("6 processes") && many.contains("(PIDs 1, 2, 3, 4, 5, ...)"), "{many}");
    }
}
