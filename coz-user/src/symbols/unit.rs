//! A unit of debug information, reduced to what attribution needs: rows, and the functions around them.

use super::dwarf::{Dwarf, RawUnit, Slice};
use super::paths;
use super::ranges::RangeAttributes;
use super::rows::{self, NO_FILE, Row};
use gimli::{AttributeValue, UnitRef};
use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::sync::Arc;

/// A function, or an inlined copy of one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    /// Offset of its entry in the unit.
    pub(crate) entry: usize,
    /// Offset in `.debug_info` of the entry that it is a copy of, if that is in the same file.
    pub(crate) origin: Option<NonZeroUsize>,
    /// How many functions are around it.
    pub(crate) level: u32,
    /// Where it is entered.
    pub(crate) address: u64,
    /// From where it was inlined: number of the file in the unit ([`NO_FILE`]: not known).
    pub(crate) call_file: u32,
    /// From where it was inlined: line, 0 if not known.
    pub(crate) call_line: u32,
}

/// A stretch of code of a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) begin: u64,
    pub(crate) end: u64,
    /// Index in `Unit::frames`.
    pub(crate) frame: u32,
}

/// What is known of a unit's code.
#[derive(Debug, Default)]
pub(crate) struct Unit {
    /// Source files, by the numbers that rows and frames use.
    pub(crate) files: Vec<Arc<str>>,
    /// Sorted by address.
    pub(crate) rows: Vec<Row>,
    /// Functions and inlined copies, outer ones before those within.
    pub(crate) frames: Vec<Frame>,
    /// By depth (0: functions, 1: inlined into them, ...), each sorted by address.
    pub(crate) levels: Vec<Vec<Span>>,
    /// Why it is not complete.
    pub(crate) damage: Option<String>,
}

/// Inlining deeper than this is damage, not code.
const MAX_DEPTH: usize = 200;

impl Unit {
    /// Reads a unit as far as it goes: its rows from `raw`, functions and inlined copies from `frames`, which is the same unit
    /// or the other part of it in a split file.
    pub(crate) fn parse(
        dwarf: &Dwarf<'_>,
        raw: &RawUnit<'_>,
        frames: UnitRef<'_, Slice<'_>>,
        is_code: impl Fn(u64) -> bool,
    ) -> Self {
        let mut unit = Self::frames_only(frames, &is_code);
        let rows = rows::read(raw, is_code);
        unit.damage = unit.damage.or(rows.damage);
        unit.rows = rows.rows;
        let mut used: HashSet<u64> = unit.rows.iter().map(|row| u64::from(row.file)).collect();
        used.extend(unit.frames.iter().map(|frame| u64::from(frame.call_file)));
        unit.files = paths::files(raw.unit_ref(dwarf), |number| used.contains(&number));
        unit
    }

    /// Reads functions and inlined copies, but no rows and files.
    pub(crate) fn frames_only(frames: UnitRef<'_, Slice<'_>>, is_code: impl Fn(u64) -> bool) -> Self {
        let mut unit = Self::default();
        if let Err(e) = unit.read_frames(frames, is_code) {
            unit.damage = Some(format!("its functions end early: {e}"));
        }
        for level in &mut unit.levels {
            level.sort_unstable_by_key(|span| (span.begin, span.end));
        }
        unit
    }

    /// The row that an address belongs to.
    pub(crate) fn row_at(&self, address: u64) -> Option<&Row> {
        let after = self.rows.partition_point(|row| row.address <= address);
        self.rows.get(after.checked_sub(1)?).filter(|row| row.file != NO_FILE)
    }

    /// The frames around an address, outermost first, as indices in `frames`.
    pub(crate) fn frames_at(&self, address: u64, found: &mut Vec<u32>) {
        found.clear();
        for level in &self.levels {
            let after = level.partition_point(|span| span.begin <= address);
            match after.checked_sub(1).and_then(|i| level.get(i)).filter(|span| address < span.end) {
                Some(span) => found.push(span.frame),
                None => break,
            }
        }
    }

    /// The file (its number) that a function's own code is in, going by the code: from where something was inlined into it, else
    /// the line that it begins with.
    pub(crate) fn own_file(&self, function: u32) -> Option<u32> {
        let spans = self.levels.first()?.iter().filter(|span| span.frame == function);
        let inner = self.levels.get(1).map(Vec::as_slice).unwrap_or_default();
        let call = spans.clone().find_map(|span| {
            let first = inner.partition_point(|other| other.begin < span.begin);
            let other = inner.get(first).filter(|other| other.begin < span.end)?;
            self.frames.get(other.frame as usize).map(|frame| frame.call_file)
        });
        let begin = || self.row_at(self.frames.get(function as usize)?.address).map(|row| row.file);
        call.filter(|file| *file != NO_FILE).or_else(begin)
    }

    /// A file's name by its number; `None` where there is none or it is empty.
    pub(crate) fn file(&self, number: u32) -> Option<&Arc<str>> {
        self.files.get(number as usize).filter(|name| !name.is_empty())
    }

    fn read_frames(
        &mut self,
        unit: UnitRef<'_, Slice<'_>>,
        is_code: impl Fn(u64) -> bool,
    ) -> gimli::Result<()> {
        let mut entries = unit.entries_raw(None)?;
        // For each frame that is open: at which depth of the tree, and its own depth of inlining.
        let mut open: Vec<(isize, usize)> = Vec::new();
        while !entries.is_empty() {
            let offset = entries.next_offset();
            let depth = entries.next_depth();
            while open.last().is_some_and(|(at, _)| *at >= depth) {
                open.pop();
            }
            let Some(abbreviation) = entries.read_abbreviation()? else { continue };
            let level = match abbreviation.tag() {
                gimli::DW_TAG_subprogram => 0,
                gimli::DW_TAG_inlined_subroutine => open.last().map_or(0, |(_, level)| level + 1),
                _ => {
                    entries.skip_attributes(abbreviation.attributes())?;
                    continue;
                }
            };
            let mut ranges = RangeAttributes::default();
            let mut frame = Frame {
                entry: offset.0,
                origin: None,
                level: level as u32,
                address: 0,
                call_file: NO_FILE,
                call_line: 0,
            };
            for spec in abbreviation.attributes() {
                let attr = entries.read_attribute(*spec)?;
                match attr.name() {
                    gimli::DW_AT_call_file => frame.call_file = file_number(&attr.value(), unit),
                    gimli::DW_AT_abstract_origin => frame.origin = origin(&attr.value(), unit),
                    gimli::DW_AT_call_line => {
                        frame.call_line =
                            attr.udata_value().and_then(|line| u32::try_from(line).ok()).unwrap_or(0);
                    }
                    _ => ranges.note(unit, &attr)?,
                }
            }
            if level < MAX_DEPTH {
                self.add(frame, level, &ranges, unit, &is_code)?;
                open.push((depth, level));
            }
        }
        Ok(())
    }

    fn add(
        &mut self,
        mut frame: Frame,
        level: usize,
        ranges: &RangeAttributes,
        unit: UnitRef<'_, Slice<'_>>,
        is_code: impl Fn(u64) -> bool,
    ) -> gimli::Result<()> {
        let number = self.frames.len() as u32;
        if self.levels.len() <= level {
            self.levels.resize_with(level + 1, Vec::new);
        }
        let spans = &mut self.levels[level];
        let before = spans.len();
        ranges.each(unit, |range| {
            if is_code(range.begin) {
                spans.push(Span { begin: range.begin, end: range.end, frame: number });
            }
        })?;
        let own = spans.get(before..).unwrap_or_default();
        let Some(first) = own.first() else { return Ok(()) };
        let entered = ranges.entry().filter(|at| own.iter().any(|span| (span.begin..span.end).contains(at)));
        frame.address = entered.unwrap_or(first.begin);
        self.frames.push(frame);
        Ok(())
    }
}

fn origin<'d>(value: &AttributeValue<Slice<'d>>, unit: UnitRef<'_, Slice<'d>>) -> Option<NonZeroUsize> {
    let offset = match value {
        AttributeValue::UnitRef(offset) => offset.to_debug_info_offset(&unit.header)?,
        AttributeValue::DebugInfoRef(offset) => *offset,
        _ => return None,
    };
    NonZeroUsize::new(offset.0)
}

/// The number of a file in the attribute; up to DWARF 4, 0 means none.
pub(crate) fn file_number<'d>(value: &AttributeValue<Slice<'d>>, unit: UnitRef<'_, Slice<'d>>) -> u32 {
    let number = match value {
        AttributeValue::FileIndex(number) => Some(*number),
        other => other.udata_value(),
    };
    let number = number.filter(|number| *number > 0 || unit.header.version() >= 5);
    number.and_then(|number| u32::try_from(number).ok()).unwrap_or(NO_FILE)
}
