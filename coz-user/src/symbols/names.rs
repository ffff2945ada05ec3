//! What a function is called and where it is declared: followed from an inlined copy to its origin.

use super::debug::Debug;
use super::demangle::demangle;
use super::dwarf::{Dwarf, RawUnit};
use super::paths;
use super::rows::NO_FILE;
use super::split::SplitUnit;
use super::unit::file_number;
use gimli::{AttributeValue, DebugInfoOffset, UnitOffset};
use std::collections::HashMap;
use std::rc::Rc;
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
    debug: &'a Debug,
    /// By file, and offset of the unit there.
    units: HashMap<(File, usize), Option<Rc<RawUnit<'a>>>>,
    /// The split parts of units, by number; `None` where there is none.
    split: HashMap<usize, Option<Rc<SplitUnit<'a>>>>,
    known: HashMap<(usize, usize), Description>,
    /// Where the units of other files than the program begin.
    offsets: HashMap<File, Rc<Vec<usize>>>,
}

/// A file that entries are in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum File {
    /// The one that carries the debug information.
    Main,
    /// The one that `dwz` moved shared information into.
    Shared,
    /// The one with the split part of this unit (index in `Index::units`).
    Split(usize),
}

/// An entry: its file, the offset of its unit, and its own in there.
type Place = (File, usize, UnitOffset);

impl<'a> Names<'a> {
    pub(crate) fn new(dwarf: &'a Dwarf<'a>, debug: &'a Debug) -> Self {
        Self {
            dwarf,
            debug,
            units: HashMap::new(),
            split: HashMap::new(),
            known: HashMap::new(),
            offsets: HashMap::new(),
        }
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
        let mut place = self.first(unit, UnitOffset(entry));
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

    /// Where an entry of a unit is: in its split part, if it has one.
    fn first(&mut self, number: usize, entry: UnitOffset) -> Option<Place> {
        let slot = self.debug.index.units.get(number)?;
        Some(match self.split(number) {
            Some(split) => (File::Split(number), split.raw.debug_info_offset()?.0, entry),
            None => (File::Main, slot.offset.0, entry),
        })
    }

    fn split(&mut self, number: usize) -> Option<Rc<SplitUnit<'a>>> {
        let slot = self.debug.index.units.get(number).filter(|slot| slot.dwo.is_some())?;
        if let Some(known) = self.split.get(&number) {
            return known.clone();
        }
        let skeleton = self.unit(File::Main, slot.offset.0);
        let found = skeleton.and_then(|raw| self.debug.split_unit(slot, self.dwarf, &raw).ok().flatten());
        self.split.entry(number).or_insert(found.map(Rc::new)).clone()
    }

    fn step(&mut self, (file, unit_offset, entry): Place, found: &mut Found) -> gimli::Result<Option<Place>> {
        let Some(raw) = self.unit(file, unit_offset) else { return Ok(None) };
        let split = if let File::Split(number) = file { self.split(number) } else { None };
        let dwarf = match file {
            File::Main => Some(self.dwarf),
            File::Shared => self.dwarf.sup(),
            File::Split(_) => split.as_ref().map(|split| &split.dwarf),
        };
        let Some(dwarf) = dwarf else { return Ok(None) };
        let unit = raw.unit_ref(dwarf);
        let mut entries = unit.entries_raw(Some(entry))?;
        let Some(abbreviation) = entries.read_abbreviation()? else { return Ok(None) };
        let text = |value| unit.attr_string(value).ok().map(|s| s.to_string_lossy().into_owned());
        let (mut next, mut declared_in, mut line) = (None, NO_FILE, 0);
        for spec in abbreviation.attributes() {
            let attr = entries.read_attribute(*spec)?;
            match attr.name() {
                gimli::DW_AT_linkage_name | gimli::DW_AT_MIPS_linkage_name if found.linkage.is_none() => {
                    found.linkage = text(attr.value());
                }
                gimli::DW_AT_name if found.plain.is_none() => found.plain = text(attr.value()),
                gimli::DW_AT_decl_file => declared_in = file_number(&attr.value(), unit),
                gimli::DW_AT_decl_line => line = attr.udata_value().unwrap_or(0),
                gimli::DW_AT_abstract_origin | gimli::DW_AT_specification => next = Some(attr.value()),
                _ => {}
            }
        }
        if found.line == 0 {
            found.line = u32::try_from(line).unwrap_or(0);
        }
        if found.file.is_none() && declared_in != NO_FILE {
            found.file = match file {
                // The files of a split unit are those of its skeleton.
                File::Split(number) => self.skeleton_of(number).and_then(|raw| {
                    let unit = raw.unit_ref(self.dwarf);
                    paths::numbered(unit, declared_in)
                }),
                _ => paths::numbered(unit, declared_in),
            };
        }
        Ok(match next {
            Some(AttributeValue::UnitRef(offset)) => Some((file, unit_offset, offset)),
            Some(AttributeValue::DebugInfoRef(offset)) => self.resolve(file, offset),
            Some(AttributeValue::DebugInfoRefSup(offset)) => self.resolve(File::Shared, offset),
            _ => None,
        })
    }

    fn skeleton_of(&mut self, number: usize) -> Option<Rc<RawUnit<'a>>> {
        let offset = self.debug.index.units.get(number)?.offset.0;
        self.unit(File::Main, offset)
    }

    fn unit(&mut self, file: File, offset: usize) -> Option<Rc<RawUnit<'a>>> {
        if let Some(known) = self.units.get(&(file, offset)) {
            return known.clone();
        }
        let read = |dwarf: &Dwarf<'a>| {
            let raw = dwarf.unit(dwarf.unit_header(DebugInfoOffset(offset)).ok()?).ok()?;
            Some(Rc::new(raw))
        };
        let unit = match file {
            File::Main => read(self.dwarf),
            File::Shared => self.dwarf.sup().and_then(read),
            File::Split(number) => self.split(number).and_then(|split| read(&split.dwarf)),
        };
        self.units.entry((file, offset)).or_insert(unit).clone()
    }

    fn resolve(&mut self, file: File, offset: DebugInfoOffset) -> Option<Place> {
        let unit_offset = if file == File::Main {
            let index = &self.debug.index;
            index.units.get(index.unit_at(offset)?)?.offset.0
        } else {
            let offsets = self.unit_offsets(file)?;
            *offsets.get(offsets.partition_point(|at| *at <= offset.0).checked_sub(1)?)?
        };
        let entry = offset.to_unit_offset(&self.unit(file, unit_offset)?.header)?;
        Some((file, unit_offset, entry))
    }

    fn unit_offsets(&mut self, file: File) -> Option<Rc<Vec<usize>>> {
        if let Some(known) = self.offsets.get(&file) {
            return Some(Rc::clone(known));
        }
        let offsets = match file {
            File::Main => unit_offsets(self.dwarf),
            File::Shared => unit_offsets(self.dwarf.sup()?),
            File::Split(number) => unit_offsets(&self.split(number)?.dwarf),
        };
        Some(Rc::clone(self.offsets.entry(file).or_insert(Rc::new(offsets))))
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
