//! From an address to its line: the search that the kernel runs for every sample.
//!
//! The table is cut into 4 KiB pages of a module's own address space. A page's entries are sorted by
//! where they start and the first starts at 0, so every offset lies in exactly one of them.

use crate::abi::LineEntry;
use crate::units::LineId;

/// Bytes of code that one page of the line table covers.
pub const PAGE_SIZE: u64 = 4096;
/// Enough steps to search [`PAGE_SIZE`] entries, one a byte: the most that a page can have.
pub const SEARCH_STEPS: u32 = 13;

/// The page of a module-relative address, and the offset in it (0 to 4095).
///
/// Addresses beyond 2^44 bytes, which no module has, wrap.
#[must_use]
#[inline(always)]
pub const fn page_of(address: u64) -> (u32, u32) {
    ((address / PAGE_SIZE) as u32, (address % PAGE_SIZE) as u32)
}

/// A search under way: for the last entry that starts at or before an offset. One [`Search::step`] at a time, so
/// that the kernel's verifier sees one step, and not every way through all of them.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Search {
    low: u32,
    high: u32,
    offset: u32,
    line: u32,
}

impl Search {
    /// A search for `offset` among `len` entries; at most a page's worth of them is looked at.
    #[must_use]
    #[inline(always)]
    pub const fn new(len: u32, offset: u32) -> Self {
        Self { low: 0, high: if len < PAGE_SIZE as u32 { len } else { PAGE_SIZE as u32 }, offset, line: 0 }
    }

    /// Looks at one entry; `false` when there is nothing more to look at. [`SEARCH_STEPS`] steps are always enough.
    #[inline(always)]
    pub fn step(&mut self, get: impl FnOnce(u32) -> Option<LineEntry>) -> bool {
        if self.low >= self.high {
            return false;
        }
        let middle = self.low + (self.high - self.low) / 2;
        let Some(entry) = get(middle) else {
            self.line = 0;
            return false;
        };
        if entry.start <= self.offset {
            self.line = entry.line;
            self.low = middle + 1;
        } else {
            self.high = middle;
        }
        true
    }

    /// What has been found.
    #[must_use]
    #[inline(always)]
    pub const fn line(&self) -> LineId {
        LineId(self.line)
    }
}

/// The line at `offset` of a page: that of the last of its `len` entries that starts at or before it.
///
/// `get(i)` reads the `i`-th entry. [`LineId::NONE`] where the page has no such entry, or where
/// an entry could not be read. At most [`SEARCH_STEPS`] entries are read, whatever `len` says.
#[must_use]
pub fn line_at(len: u32, offset: u32, get: impl Fn(u32) -> Option<LineEntry>) -> LineId {
    let mut search = Search::new(len, offset);
    for _ in 0..SEARCH_STEPS {
        if !search.step(&get) {
            break;
        }
    }
    search.line()
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::Cell;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn naive(entries: &[LineEntry], offset: u32) -> LineId {
        LineId(entries.iter().rev().find(|e| e.start <= offset).map_or(0, |e| e.line))
    }

    fn page() -> impl Strategy<Value = Vec<LineEntry>> {
        prop::collection::btree_map(0u32..4096, 0u32..1000, 0..300).prop_map(|mut map: BTreeMap<_, _>| {
            map.entry(0).or_insert(7);
            map.into_iter().map(|(start, line)| LineEntry { start, line }).collect()
        })
    }

    proptest! {
        #[test]
        fn finds_what_a_linear_search_finds(entries in page(), offset in 0u32..4096) {
            let steps = Cell::new(0);
            let found = line_at(entries.len() as u32, offset, |i| {
                steps.set(steps.get() + 1);
                entries.get(i as usize).copied()
            });
            prop_assert_eq!(found, naive(&entries, offset));
            prop_assert!(steps.get() <= SEARCH_STEPS);
        }

        #[test]
        fn never_reads_outside_the_page(len in any::<u32>(), offset in any::<u32>(), start in any::<u32>()) {
            let _ = line_at(len, offset, |i| {
                assert!(i < len && i < 4096);
                Some(LineEntry { start, line: 1 })
            });
        }

        #[test]
        fn page_and_offset_make_up_the_address(address in 0u64..1 << 44) {
            let (page, offset) = page_of(address);
            prop_assert_eq!(u64::from(page) * PAGE_SIZE + u64::from(offset), address);
        }
    }

    #[test]
    fn a_full_page_is_searched_to_the_last_byte() {
        let get = |i| Some(LineEntry { start: i, line: i + 1 });
        for offset in 0..4096 {
            assert_eq!(line_at(4096, offset, get), LineId(offset + 1));
        }
    }

    #[test]
    fn a_page_without_entries_has_no_lines() {
        assert_eq!(line_at(0, 12, |_| None), LineId::NONE);
        assert_eq!(line_at(5, 12, |_| None), LineId::NONE, "an unreadable entry is no line");
    }
}
