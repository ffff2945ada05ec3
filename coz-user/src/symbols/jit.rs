//! Code that a program makes while it runs, as its perf map (`/tmp/perf-PID.map`) names it: `START SIZE NAME`, a function a
//! line, the numbers hexadecimal. What comes later in the file stands for what was there before.

use super::lines::Lines;
use coz_common::abi::LineEntry;
use coz_common::lookup::PAGE_SIZE;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What `/proc/PID/maps` shows without a file is called like this here, as by perf.
pub const ANONYMOUS: &str = "//anon";
/// No program has more functions than this; what comes after is not kept.
const MAX_FUNCTIONS: usize = 1 << 20;
/// The longest line that is believed; names are cut to [`MAX_NAME`].
const MAX_LINE: usize = 1 << 16;
const MAX_NAME: usize = 512;
/// The largest function that is believed, bytes.
const MAX_SIZE: u64 = 1 << 30;

/// The functions of a perf map, as far as it has been read.
#[derive(Debug, Default)]
pub struct JitMap {
    /// By first address: one past the last, and the name. They do not overlap.
    functions: BTreeMap<u64, (u64, Arc<str>)>,
    /// The beginning of a line that is not complete yet.
    rest: Vec<u8>,
    /// Whether `rest` belongs to a line that is too long.
    skipping: bool,
    refused: u64,
}

impl JitMap {
    /// Takes the next piece of the file, wherever it is cut; the functions in it (first address, one past the last).
    pub fn add(&mut self, piece: &[u8]) -> Vec<(u64, u64)> {
        let mut added = Vec::new();
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            if self.rest.len() + part.len() > MAX_LINE {
                self.rest.clear();
                self.skipping = true;
            }
            if !self.skipping {
                self.rest.extend_from_slice(part);
            }
            if part.ends_with(b"\n") {
                let line = std::mem::take(&mut self.rest);
                if !std::mem::take(&mut self.skipping)
                    && let Some((start, end, name)) = parse(&line)
                {
                    self.insert(start, end, name);
                    added.push((start, end));
                }
            }
        }
        added
    }

    /// How many functions there was no room for.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.functions.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    /// The function at an address.
    #[must_use]
    pub fn at(&self, address: u64) -> Option<&str> {
        let (_, (end, name)) = self.functions.range(..=address).next_back()?;
        (address < *end).then_some(name)
    }

    /// The entries of the line table for the page that begins at this address: sorted, the first starts at 0.
    pub fn page(&self, begin: u64, lines: &mut Lines) -> Vec<LineEntry> {
        let end = begin.saturating_add(PAGE_SIZE);
        let mut entries = vec![LineEntry { start: 0, line: 0 }];
        let before = self.functions.range(..begin).next_back();
        for (start, (stop, name)) in before.into_iter().chain(self.functions.range(begin..end)) {
            let (from, to) = ((*start).max(begin), (*stop).min(end));
            if from >= to {
                continue;
            }
            let line = lines.function(name).map_or(0, |line| line.0);
            push(&mut entries, (from - begin) as u32, line);
            if to < end {
                push(&mut entries, (to - begin) as u32, 0);
            }
        }
        entries
    }

    fn insert(&mut self, start: u64, end: u64, name: Arc<str>) {
        if self.functions.len() >= MAX_FUNCTIONS {
            self.refused += 1;
            return;
        }
        // Of an older function that overlaps, what is outside stays.
        let before = self
            .functions
            .range(..start)
            .next_back()
            .map(|(at, (stop, name))| (*at, *stop, Arc::clone(name)));
        if let Some((at, stop, old)) = before.filter(|(_, stop, _)| *stop > start) {
            self.functions.insert(at, (start, Arc::clone(&old)));
            if stop > end {
                self.functions.insert(end, (stop, old));
            }
        }
        let within: Vec<u64> = self.functions.range(start..end).map(|(at, _)| *at).collect();
        for at in within {
            if let Some((stop, old)) = self.functions.remove(&at).filter(|(stop, _)| *stop > end) {
                self.functions.insert(end, (stop, old));
            }
        }
        self.functions.insert(start, (end, name));
    }
}

fn push(entries: &mut Vec<LineEntry>, start: u32, line: u32) {
    match entries.last_mut() {
        Some(last) if last.start == start => last.line = line,
        Some(last) if last.line == line => {}
        _ => entries.push(LineEntry { start, line }),
    }
}

fn parse(line: &[u8]) -> Option<(u64, u64, Arc<str>)> {
    let text = String::from_utf8_lossy(line);
    let (start, rest) = text.trim_end().split_once(' ')?;
    let (size, name) = rest.split_once(' ')?;
    let hex = |digits: &str| u64::from_str_radix(digits.trim_start_matches("0x"), 16).ok();
    let (start, size, name) = (hex(start)?, hex(size)?, name.trim());
    let end = start.checked_add(size)?;
    if size == 0 || size > MAX_SIZE || name.is_empty() {
        return None;
    }
    let cut = name.char_indices().nth(MAX_NAME).map_or(name.len(), |(at, _)| at);
    Some((start, end, name[..cut].into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn map(text: &str) -> JitMap {
        let mut map = JitMap::default();
        map.add(text.as_bytes());
        map
    }

    #[test]
    fn functions_are_found_by_their_addresses() {
        let map = map("1000 20 LazyCompile:~f /x/a.js:3:1\n0x1040 0x10 py::g\nnonsense\n1050 0 empty\n");
        assert_eq!(map.at(0x1000), Some("LazyCompile:~f /x/a.js:3:1"));
        assert_eq!((map.at(0x1020), map.at(0x104f), map.at(0x1050)), (None, Some("py::g"), None));
        assert_eq!(map.len(), 2);
    }

    #[test]
    fn what_comes_later_stands_for_what_was_there() {
        let map = map("1000 100 old\n1040 20 new\n1050 8 newest\n2000 10 a\n1ff0 100 over\n");
        let said = [0x1000, 0x1040, 0x1050, 0x1058, 0x1060, 0x2004].map(|at| map.at(at).unwrap_or("none"));
        assert_eq!(said, ["old", "new", "newest", "new", "old", "over"]);
    }

    #[test]
    fn a_line_may_come_in_pieces_and_what_is_new_is_told() {
        let mut map = JitMap::default();
        assert!(map.add(b"1ff0 2").is_empty());
        assert_eq!(map.add(b"0 name\n30"), [(0x1ff0, 0x2010)]);
        assert_eq!(map.add(b"00 4 x\n"), [(0x3000, 0x3004)]);
        assert_eq!(map.at(0x2000), Some("name"));
    }

    #[test]
    fn pages_are_sorted_and_begin_at_0() {
        let (map, mut lines) = (map("ff0 20 a\n1010 10 b\n1fff 10 c\n"), Lines::new());
        let names: Vec<_> = map.page(0x1000, &mut lines).iter().map(|e| (e.start, e.line)).collect();
        assert_eq!(names, [(0, 1), (0x10, 2), (0x20, 0), (0xfff, 3)]);
        assert_eq!(map.page(0x5000, &mut lines).len(), 1);
    }

    #[test]
    fn a_line_without_an_end_takes_no_memory() {
        let mut map = JitMap::default();
        for _ in 0..100 {
            map.add(&[b'x'; 5000]);
        }
        assert!(map.rest.len() <= MAX_LINE);
        map.add(b"\n1000 10 f\n");
        assert_eq!(map.at(0x1000), Some("f"), "the next line counts again");
    }

    proptest! {
        #[test]
        fn every_address_has_the_last_function_that_covers_it(functions in prop::collection::vec((0u64..64, 1u64..16), 1..20)) {
            let mut map = JitMap::default();
            for (number, (start, size)) in functions.iter().enumerate() {
                map.add(format!("{start:x} {size:x} f{number}\n").as_bytes());
            }
            for address in 0..80 {
                let last = functions.iter().rposition(|(start, size)| (*start..start + size).contains(&address));
                prop_assert_eq!(map.at(address).map(str::to_owned), last.map(|number| format!("f{number}")));
            }
        }
    }
}
