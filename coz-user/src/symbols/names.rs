//! What a function is called and where it is declared: followed from an inlined copy to its origin.

use super::demangle::demangle;
use super::dwarf::{Dwarf, RawUnit};
use super::index::Index;
use super::paths;
use super::rows::NO_FILE;
use super::unit::file_number;
use gimli::{AttributeValue, DebugInfoOffset, UnitOffset};
use std::collections::HashMap;
use std::sync::Arc;

/// What is known of a function.
#[derive(Clone, Debug, Default)]
pub(crate) struct Description {
    /// As the linker knows it, else as the source does; empty where not known.
    pub(crate) symbol: Arc<str>,
    /// Where it is declared.
    pub(crate) file: Option<Arc<str>>,
    /// 0: not known.
    pub(crate) line: u32,
}

impl Description {
    /// Readable; empty where not known.
    pub(crate) fn name(&self) -> String {
        demangle(&self.symbol)
    }
}

/// References from one entry to the next are followed this far.
const MAX_STEPS: usize = 16;

/// Looks names up, and keeps the units that it needed for as long as it lives.
pub(crate) struct Names<'a> {
    dwarf: &'a Dwarf<'a>,
    index: &'a Index,
    units: HashMap<(bool, usize), Option<RawUnit<'a>>>,
    known: HashMap<(usize, usize), Description>,
    shared_offsets: Option<Vec<usize>>,
}

/// An entry: whether it is in the shared file, the offset of its unit, and its own in there.
type Place = (bool, usize, UnitOffset);

impl<'a> Names<'a> {
    pub(crate) fn new(dwarf: &'a Dwarf<'a>, index: &'a Index) -> Self {
        Self { dwarf, index, units: HashMap::new(), known: HashMap::new(), shared_offsets: None }
    }

    /// Forgets what is known: where all functions of a program are asked for once, it would be too much.
    pub(crate) fn forget(&mut self) {
        self.known.clear();
    }

    /// Describes the function (or inlined copy) at `entry` of a unit (index in `Index::units`).
    pub(crate) fn describe(&mut self, unit: usize, entry: usize) -> Description {
        if let Some(known) = self.known.get(&(unit, entry)) {
            return known.clone();
        }
        let mut found = Found::default();
        let mut place = self.index.units.get(unit).map(|slot| (false, slot.offset.0, UnitOffset(entry)));
        for _ in 0..MAX_STEPS {
            let Some(at) = place.take() else { break };
            // What cannot be read is not known.
            place = self.step(at, &mut found).ok().flatten();
        }
        let symbol = found.linkage.or(found.plain).unwrap_or_default();
        let description = Description { symbol: symbol.into(), file: found.file, line: found.line };
        self.known.insert((unit, entry), description.clone());
        description
    }

    fn step(
        &mut self,
        (shared, unit_offset, entry): Place,
        found: &mut Found,
    ) -> gimli::Result<Option<Place>> {
        let Some(dwarf) = self.file(shared) else { return Ok(None) };
        let Some(raw) = self.unit(shared, unit_offset) else { return Ok(None) };
        let unit = raw.unit_ref(dwarf);
        let mut entries = unit.entries_raw(Some(entry))?;
        let Some(abbreviation) = entries.read_abbreviation()? else { return Ok(None) };
        let text = |value| unit.attr_string(value).ok().map(|s| s.to_string_lossy().into_owned());
        let (mut next, mut file, mut line) = (None, NO_FILE, 0);
        for spec in abbreviation.attributes() {
            let attr = entries.read_attribute(*spec)?;
            match attr.name() {
                gimli::DW_AT_linkage_name | gimli::DW_AT_MIPS_linkage_name if found.linkage.is_none() => {
                    found.linkage = text(attr.value());
                }
                gimli::DW_AT_name if found.plain.is_none() => found.plain = text(attr.value()),
                gimli::DW_AT_decl_file => file = file_number(&attr.value(), unit),
                gimli::DW_AT_decl_line => line = attr.udata_value().unwrap_or(0),
                gimli::DW_AT_abstract_origin | gimli::DW_AT_specification => next = Some(attr.value()),
                _ => {}
            }
        }
        if found.line == 0 {
            found.line = u32::try_from(line).unwrap_or(0);
        }
        if found.file.is_none()
            && file != NO_FILE
            && let Some(program) = &unit.line_program
            && let Some(entry) = program.header().file(u64::from(file))
        {
            found.file = Some(paths::file_name(unit, program.header(), entry));
        }
        Ok(match next {
            Some(AttributeValue::UnitRef(offset)) => Some((shared, unit_offset, offset)),
            Some(AttributeValue::DebugInfoRef(offset)) => self.resolve(shared, offset),
            Some(AttributeValue::DebugInfoRefSup(offset)) => self.resolve(true, offset),
            _ => None,
        })
    }

    fn file(&self, shared: bool) -> Option<&'a Dwarf<'a>> {
        if shared { self.dwarf.sup() } else { Some(self.dwarf) }
    }

    fn unit(&mut self, shared: bool, offset: usize) -> Option<&RawUnit<'a>> {
        let dwarf = self.file(shared)?;
        let read = || dwarf.unit(dwarf.unit_header(DebugInfoOffset(offset)).ok()?).ok();
        self.units.entry((shared, offset)).or_insert_with(read).as_ref()
    }

    fn resolve(&mut self, shared: bool, offset: DebugInfoOffset) -> Option<Place> {
        let unit_offset = if shared {
            let dwarf = self.file(true)?;
            let offsets = self.shared_offsets.get_or_insert_with(|| unit_offsets(dwarf));
            *offsets.get(offsets.partition_point(|at| *at <= offset.0).checked_sub(1)?)?
        } else {
            self.index.units.get(self.index.unit_at(offset)?)?.offset.0
        };
        let entry = offset.to_unit_offset(&self.unit(shared, unit_offset)?.header)?;
        Some((shared, unit_offset, entry))
    }
}

fn unit_offsets(dwarf: &Dwarf<'_>) -> Vec<usize> {
    let mut headers = dwarf.units();
    let mut offsets: Vec<usize> = Vec::new();
    while let Ok(Some(header)) = headers.next() {
        offsets.extend(header.debug_info_offset().map(|offset| offset.0));
    }
    offsets
}

#[derive(Default)]
struct Found {
    linkage: Option<String>,
    plain: Option<String>,
    file: Option<Arc<str>>,
    line: u32,
}
