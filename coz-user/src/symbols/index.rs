//! Which unit of the debug information describes which addresses. Built once, from the units' first entries.

use super::dwarf::{Dwarf, RawUnit};
use super::elf::Elf;
use super::paths;
use super::ranges::RangeAttributes;
use super::rows;
use super::split;
use super::unit::Unit;
use gimli::{DebugInfoOffset, DwoId, Section as _, UnitType};
use std::sync::{Arc, OnceLock};

/// A unit: where it stands, and its contents once someone has asked for them.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) offset: DebugInfoOffset,
    /// The source file that the unit was compiled from.
    pub(crate) source: Arc<str>,
    /// Whether any address belongs to it.
    has_code: bool,
    /// The number that it shares with its other part in a split file (`-gsplit-dwarf`).
    pub(crate) dwo: Option<DwoId>,
    /// Where that is.
    pub(crate) split: OnceLock<split::Place>,
    pub(crate) parsed: OnceLock<Arc<Unit>>,
}

/// A stretch of code and the unit (index in `Index::units`) that describes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnitRange {
    pub(crate) begin: u64,
    pub(crate) end: u64,
    pub(crate) unit: u32,
}

/// All units of a module.
#[derive(Debug, Default)]
pub(crate) struct Index {
    /// Sorted by offset.
    pub(crate) units: Vec<Slot>,
    /// Sorted by `begin`.
    ranges: Vec<UnitRange>,
    /// The longest range, so that a search knows how far back to look.
    longest: u64,
    /// What kept units from being read, if anything did.
    pub(crate) damage: Option<String>,
}

impl Index {
    /// Reads the first entry of every unit. Units that cannot be read are left out and named in `damage`.
    pub(crate) fn build(dwarf: &Dwarf<'_>, elf: &Elf) -> Self {
        let mut index = Self::default();
        let mut headers = dwarf.units();
        loop {
            let header = match headers.next() {
                Ok(Some(header)) => header,
                Ok(None) => break,
                Err(e) => {
                    index.note_damage(&format!("unit headers end early: {e}"));
                    break;
                }
            };
            let Some(offset) = header.debug_info_offset() else { continue };
            let has_code = match header.type_() {
                UnitType::Type { .. } | UnitType::SplitType { .. } => continue,
                UnitType::Partial => false,
                _ => true,
            };
            let added = dwarf.unit(header).and_then(|unit| index.add(dwarf, &unit, offset, has_code, elf));
            if let Err(e) = added {
                index.note_damage(&format!("the unit at {:#x} cannot be read: {e}", offset.0));
            }
        }
        for strings in [dwarf.debug_str.reader(), dwarf.debug_line_str.reader()] {
            if strings.last().is_some_and(|&last| last != 0) {
                index.note_damage("names end early");
            }
        }
        index.ranges.sort_unstable_by_key(|range| (range.begin, range.end));
        index.longest = index.ranges.iter().map(|range| range.end - range.begin).max().unwrap_or(0);
        index
    }

    /// The parts of `begin..end` that units describe, cut to it: in the order of their first address.
    pub(crate) fn overlapping(&self, begin: u64, end: u64) -> impl Iterator<Item = UnitRange> + '_ {
        let earliest = begin.saturating_sub(self.longest);
        let first = self.ranges.partition_point(|range| range.begin < earliest);
        self.ranges[first..].iter().take_while(move |range| range.begin < end).filter_map(move |range| {
            let cut = UnitRange { begin: range.begin.max(begin), end: range.end.min(end), ..*range };
            (cut.begin < cut.end).then_some(cut)
        })
    }

    /// The number of the unit whose entries include this offset.
    pub(crate) fn unit_at(&self, offset: DebugInfoOffset) -> Option<usize> {
        self.units.partition_point(|unit| unit.offset.0 <= offset.0).checked_sub(1)
    }

    /// The units that describe code.
    pub(crate) fn with_code(&self) -> impl Iterator<Item = &Slot> {
        self.units.iter().filter(|slot| slot.has_code)
    }

    /// Whether a unit (index in `units`) describes code.
    pub(crate) fn has_code(&self, number: usize) -> bool {
        self.units.get(number).is_some_and(|slot| slot.has_code)
    }

    /// Whether no code is described.
    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    fn add(
        &mut self,
        dwarf: &Dwarf<'_>,
        raw: &RawUnit<'_>,
        offset: DebugInfoOffset,
        has_code: bool,
        elf: &Elf,
    ) -> gimli::Result<()> {
        let number = self.units.len() as u32;
        self.units.push(Slot {
            offset,
            source: paths::unit_source(raw),
            has_code: false,
            dwo: raw.dwo_id,
            split: OnceLock::new(),
            parsed: OnceLock::new(),
        });
        if !has_code {
            return Ok(());
        }
        let unit = raw.unit_ref(dwarf);
        let mut attributes = RangeAttributes::default();
        let mut entries = unit.entries_raw(None)?;
        if let Some(abbreviation) = entries.read_abbreviation()? {
            // Up to DWARF 4, the header does not tell a unit that others share from one with code.
            if matches!(abbreviation.tag(), gimli::DW_TAG_partial_unit | gimli::DW_TAG_type_unit) {
                return Ok(());
            }
            for spec in abbreviation.attributes() {
                attributes.note(unit, &entries.read_attribute(*spec)?)?;
            }
        }
        let before = self.ranges.len();
        // Code that the linker threw away is still described, at addresses where no code is.
        let mut push = |begin, end| {
            if elf.is_code(begin) {
                self.ranges.push(UnitRange { begin, end, unit: number });
            }
        };
        attributes.each(unit, |range| push(range.begin, range.end))?;
        // DWARF 2 cannot say that a unit has its code in several places.
        if self.ranges.len() == before || unit.header.version() < 3 {
            self.ranges.truncate(before);
            let mut push = |begin, end| self.ranges.push(UnitRange { begin, end, unit: number });
            rows::read(raw, |begin| elf.is_code(begin)).sequences.iter().for_each(|s| push(s.0, s.1));
        }
        if let Some(slot) = self.units.last_mut() {
            slot.has_code = self.ranges.len() > before;
        }
        Ok(())
    }

    fn note_damage(&mut self, what: &str) {
        self.damage.get_or_insert_with(|| what.to_owned());
    }
}
