//! Where the code of each process is: which address spaces the kernel knows, and when a process is looked at again.

use std::collections::HashMap;

use coz_common::{
    abi::Process,
    units::Nanos,
    unwind::{Range, Wanted},
};

/// How soon a process can be looked at again whose mappings have changed.
const SOON: Nanos = Nanos(20_000_000);
/// And one whose unknown code (made at run time, most likely) does not become known by looking.
const LATE: Nanos = Nanos(5_000_000_000);
/// So many address spaces are kept before those that no process has any more are looked for.
const KEPT: usize = 1024;

/// The address spaces that the kernel knows.
#[derive(Debug, Default)]
pub struct Spaces {
    newest: u32,
    known: HashMap<u32, Vec<Range>>,
    /// When the kernel may ask about a process again, and how long that took.
    patience: HashMap<u32, (Nanos, Nanos)>,
}

impl Spaces {
    /// The number of a new address space, unless the process has this one already.
    pub fn new_for(&mut self, process: &Process, sorted: &[Range]) -> Option<u32> {
        if self.known.get(&process.space).is_some_and(|known| known == sorted) {
            return None;
        }
        // 0 is none; after four billion of them the first are long gone.
        self.newest = self.newest.checked_add(1).unwrap_or(1);
        self.known.insert(self.newest, sorted.to_vec());
        Some(self.newest)
    }

    /// Whether it is time to remove those that are not in use.
    #[must_use]
    pub fn are_many(&self) -> bool {
        self.known.len() > KEPT
    }

    /// These are gone.
    pub fn forget(&mut self, gone: &[u32]) {
        for number in gone {
            self.known.remove(number);
        }
    }

    /// A process with unknown code has been looked at: when the kernel may ask again.
    pub fn looked_at(&mut self, pid: u32, changed: bool, now: Nanos) {
        let before = self.patience.get(&pid).map_or(SOON, |(_, wait)| *wait);
        let wait = if changed { SOON } else { Nanos(before.0.saturating_mul(2).min(LATE.0)) };
        self.patience.insert(pid, (Nanos(now.0.saturating_add(wait.0)), wait));
    }

    /// What the kernel may ask again from now on.
    pub fn due(&mut self, now: Nanos) -> Vec<Wanted> {
        let due = self.patience.iter_mut().filter(|(_, (at, _))| *at <= now);
        due.map(|(pid, (at, _))| {
            *at = Nanos(u64::MAX);
            Wanted { module: 0, what: *pid }
        })
        .collect()
    }

    /// A process has ended, or has another program now.
    pub fn ended(&mut self, pid: u32) -> Wanted {
        self.patience.remove(&pid);
        Wanted { module: 0, what: pid }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: u64) -> Range {
        Range { start, end: start + 0x1000, bias: start, module: 1, scope: 1 }
    }

    #[test]
    fn a_process_that_has_not_changed_keeps_its_address_space() {
        let mut spaces = Spaces::default();
        let mut process = Process::default();
        let first = spaces.new_for(&process, &[range(0x1000)]);
        assert_eq!(first, Some(1));
        process.space = 1;
        assert_eq!(spaces.new_for(&process, &[range(0x1000)]), None, "a fork's child has its parent's");
        assert_eq!(spaces.new_for(&process, &[range(0x1000), range(0x5000)]), Some(2));
        spaces.forget(&[1]);
        assert_eq!(
            spaces.new_for(&process, &[range(0x1000)]),
            Some(3),
            "the kernel does not have it any more"
        );
    }

    #[test]
    fn code_that_stays_unknown_is_looked_for_less_and_less_often() {
        let mut spaces = Spaces::default();
        let asks = |spaces: &mut Spaces, at| !spaces.due(Nanos(at)).is_empty();
        spaces.looked_at(7, false, Nanos(0));
        assert!(!asks(&mut spaces, 39_000_000) && asks(&mut spaces, 40_000_000));
        assert!(!asks(&mut spaces, 1 << 60), "once, until it is asked for");
        let mut now = 0;
        for _ in 0..20 {
            spaces.looked_at(7, false, Nanos(now));
            now += 1 << 40;
        }
        spaces.looked_at(7, false, Nanos(0));
        assert!(!asks(&mut spaces, 4_999_999_999) && asks(&mut spaces, 5_000_000_000), "but not never");
        spaces.looked_at(7, true, Nanos(0));
        assert!(asks(&mut spaces, 20_000_000), "one that loads libraries is looked at soon");
        spaces.looked_at(7, false, Nanos(0));
        spaces.ended(7);
        assert!(!asks(&mut spaces, u64::MAX - 1));
    }
}
