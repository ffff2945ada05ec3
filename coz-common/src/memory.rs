//! What a CPU remembers while it follows call chains: what is known of the places that it met before, and which lines the
//! sample has counted for already.
//!
//! Both are tables that a hash leads into, without a list behind any place: what finds its place taken is looked up anew, or
//! not counted, which is what a search takes too long for.

use crate::{abi::MAX_LINES, unwind::Row};

/// How many places of code are remembered. A power of two.
const PLACES: usize = 512;
/// Multiplied with this (2^32 by the golden ratio), numbers that lie close together get far apart.
const SPREAD: u32 = 0x9E37_79B1;

/// What is known of a place of code.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// `LineEntry::line`: its line, or a number for several; 0 where no line in scope is.
    pub line: u32,
    /// The number of the address space that the place is in; 0: nothing is known here.
    space: u32,
    place: u64,
    /// How its caller is found; left out where the chain ends at the line.
    pub row: Row,
}

impl Known {
    /// Of this place of an address space.
    #[must_use]
    #[inline(always)]
    pub const fn new(space: u32, place: u64, line: u32, row: Row) -> Self {
        Self { line, space, place, row }
    }
}

/// Places that were met before. An address space never changes (another one has another number), nor does what is known of code in
/// a file; so what stands here stays true.
#[repr(C)]
#[derive(Debug)]
pub struct Memory {
    known: [Known; PLACES],
}

impl Memory {
    /// Of nothing.
    pub const EMPTY: Self =
        Self { known: [Known { line: 0, space: 0, place: 0, row: Row::UNKNOWN }; PLACES] };

    /// What is known of a place.
    #[must_use]
    #[inline(always)]
    pub fn get(&self, space: u32, place: u64) -> Option<Known> {
        let known = &self.known[home(space, place)];
        if known.place == place && known.space == space { Some(*known) } else { None }
    }

    /// Remembers it, in place of what was there.
    #[inline(always)]
    pub fn set(&mut self, known: Known) {
        self.known[home(known.space, known.place)] = known;
    }
}

#[inline(always)]
const fn home(space: u32, place: u64) -> usize {
    let mixed = (place as u32) ^ ((place >> 32) as u32) ^ space.wrapping_mul(SPREAD).rotate_left(7);
    (mixed.wrapping_mul(SPREAD) >> (32 - PLACES.trailing_zeros())) as usize & (PLACES - 1)
}

/// How many places a line can be in. With 128 different lines in a chain, all are taken by others for about one line in 10,000.
const TRIES: u32 = 8;
const LINE_BITS: u32 = MAX_LINES.trailing_zeros();

/// The lines that a sample has counted for.
#[repr(C)]
#[derive(Debug)]
pub struct Counted {
    /// Number of the sample: what another one has left counts as empty, so nothing has to be cleared.
    sample: u64,
    lines: [u64; PLACES],
}

impl Counted {
    /// Before the first sample.
    pub const EMPTY: Self = Self { sample: 0, lines: [0; PLACES] };

    /// Another sample: none has counted.
    #[inline(always)]
    pub fn begin(&mut self) {
        self.sample = self.sample.wrapping_add(1);
    }

    /// Whether the line (a `LineId`) has not counted yet. From now on it has.
    #[inline(always)]
    pub fn is_new(&mut self, line: u32) -> bool {
        let mark = self.sample << LINE_BITS | (line & (MAX_LINES - 1)) as u64;
        let home = line.wrapping_mul(SPREAD) >> (32 - PLACES.trailing_zeros());
        let mut tries = 0;
        while tries < TRIES {
            let place = &mut self.lines[home.wrapping_add(tries) as usize & (PLACES - 1)];
            if *place == mark {
                return false;
            }
            if *place >> LINE_BITS != mark >> LINE_BITS {
                *place = mark;
                return true;
            }
            tries += 1;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unwind::{CallerBp, kind};
    use proptest::prelude::*;
    use std::collections::{HashMap, HashSet};

    #[test]
    fn what_is_remembered_is_of_that_place_and_address_space() {
        let mut memory = Memory::EMPTY;
        let row = Row::new(0x10, kind::SP, 16, CallerBp::Kept);
        assert_eq!(memory.get(1, 0x1000), None);
        memory.set(Known::new(1, 0x1000, 7, row));
        assert_eq!(memory.get(1, 0x1000).map(|known| (known.line, known.row)), Some((7, row)));
        assert_eq!((memory.get(2, 0x1000), memory.get(1, 0x1001)), (None, None));
        assert_eq!(memory.get(0, 0), Some(Known::default()), "space 0 is none: nobody asks");
    }

    proptest! {
        #[test]
        fn it_forgets_but_never_errs(places in prop::collection::vec((1u32..4, 0u64..5000, 1u32..100), 1..2000)) {
            let (mut memory, mut truth) = (Memory::EMPTY, HashMap::new());
            for (space, place, line) in places {
                memory.set(Known::new(space, place, line, Row::UNKNOWN));
                truth.insert((space, place), line);
                prop_assert_eq!(memory.get(space, place).map(|known| known.line), Some(line));
            }
            for ((space, place), line) in truth {
                prop_assert!(memory.get(space, place).is_none_or(|known| known.line == line));
            }
        }

        #[test]
        fn a_line_counts_once_a_sample(samples in prop::collection::vec(prop::collection::vec(1u32..MAX_LINES, 0..200), 1..20)) {
            let mut counted = Counted::EMPTY;
            for lines in samples {
                counted.begin();
                let mut seen = HashSet::new();
                for line in &lines {
                    prop_assert!(!counted.is_new(*line) || seen.insert(*line), "{} twice", line);
                }
                let different = lines.iter().collect::<HashSet<_>>().len();
                prop_assert!(seen.len() * 100 >= different * 95, "{} of {different} counted", seen.len());
            }
        }
    }

    #[test]
    fn the_lines_of_a_deep_chain_nearly_all_count() {
        let (mut counted, mut new) = (Counted::EMPTY, 0);
        for sample in 0..1000u32 {
            counted.begin();
            new += (0..128)
                .filter(|line| counted.is_new((sample * 7919 + line * line * 31) % MAX_LINES))
                .count();
        }
        assert!(new > 127_900, "{new} of 128,000");
    }
}
