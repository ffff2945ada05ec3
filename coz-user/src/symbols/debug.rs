//! The debug information of a module: found, decompressed, indexed, and read unit by unit.

use super::debuginfod::Network;
use super::dwarf::{self, Dwarf, RawUnit, Sections, Slice};
use super::elf::Elf;
use super::index::{Index, Slot};
use super::paths;
use super::scope::Scope;
use super::separate::{self, Found};
use super::split::{self, SplitFiles, SplitUnit};
use super::unit::Unit;
use gimli::UnitRef;
use std::path::PathBuf;
use std::sync::Arc;

/// How damage that leaves nothing is told of.
pub(crate) const UNREADABLE: &str = "debug information that cannot be read";

/// Debug information that can be used.
#[derive(Debug)]
pub(crate) struct Debug {
    sections: Sections,
    pub(crate) index: Index,
    split: SplitFiles,
}

impl Debug {
    /// Loads and indexes the debug information of a program.
    ///
    /// # Errors
    /// Why there is none that could be used, as the end of a sentence about the program.
    pub(crate) fn load(
        program: &Elf,
        found: &Found,
        dirs: &[PathBuf],
        network: &Network,
    ) -> Result<Self, String> {
        let carrier = match &found.elf {
            Some(elf) if dwarf::has_dwarf(elf) => elf,
            _ if dwarf::has_dwarf(program) => program,
            _ => match &found.rejected {
                Some(why) => return Err(format!("has no debug information of its own, and {why}")),
                None => return Err("has no debug information".to_owned()),
            },
        };
        let shared = separate::locate_shared(carrier, dirs, network);
        let damaged = |why: String| format!("has {UNREADABLE}: {why}");
        let sections = Sections::load(carrier, shared.as_ref()).map_err(|e| damaged(format!("{e:#}")))?;
        let index = Index::build(&sections.view(), program);
        let debug = Self { sections, index, split: SplitFiles::new(program, carrier, dirs) };
        match &debug.index.damage {
            Some(why) if debug.index.is_empty() => Err(damaged(why.clone())),
            _ if debug.index.is_empty() => Err("has debug information that describes no code".to_owned()),
            _ => Ok(debug),
        }
    }

    /// A view of the sections.
    pub(crate) fn view(&self) -> Dwarf<'_> {
        self.sections.view()
    }

    /// A unit's contents (index in `Index::units`), read now if need be, and kept.
    pub(crate) fn unit(&self, number: u32, dwarf: &Dwarf<'_>, program: &Elf) -> Arc<Unit> {
        let Some(slot) = self.index.units.get(number as usize) else { return Arc::default() };
        let read = || {
            let is_code = |address| program.is_code(address);
            Arc::new(self.read(dwarf, slot, |raw, frames| Unit::parse(dwarf, raw, frames, is_code)))
        };
        Arc::clone(slot.parsed.get_or_init(read))
    }

    /// A unit's functions and inlined copies. Not kept: for those who go through all units.
    pub(crate) fn frames(&self, number: u32, dwarf: &Dwarf<'_>, program: &Elf) -> Arc<Unit> {
        let Some(slot) = self.index.units.get(number as usize) else { return Arc::default() };
        let read = || {
            let is_code = |address| program.is_code(address);
            Arc::new(self.read(dwarf, slot, |_, frames| Unit::frames_only(frames, is_code)))
        };
        slot.parsed.get().map_or_else(read, Arc::clone)
    }

    fn read(
        &self,
        dwarf: &Dwarf<'_>,
        slot: &Slot,
        parse: impl FnOnce(&RawUnit<'_>, UnitRef<'_, Slice<'_>>) -> Unit,
    ) -> Unit {
        let raw = match split::skeleton(dwarf, slot.offset) {
            Ok(raw) => raw,
            Err(e) => return Unit { damage: Some(e.to_string()), ..Unit::default() },
        };
        match self.split_unit(slot, dwarf, &raw) {
            Ok(Some(split)) => parse(&raw, split.raw.unit_ref(&split.dwarf)),
            Ok(None) => parse(&raw, raw.unit_ref(dwarf)),
            Err(e) => {
                let mut unit = parse(&raw, raw.unit_ref(dwarf));
                unit.damage.get_or_insert(e.to_string());
                unit
            }
        }
    }

    /// The other part of a unit that was compiled with `-gsplit-dwarf`, where it can be found.
    ///
    /// # Errors
    /// When it is damaged.
    pub(crate) fn split_unit<'a>(
        &'a self,
        slot: &'a Slot,
        dwarf: &Dwarf<'a>,
        skeleton: &RawUnit<'a>,
    ) -> gimli::Result<Option<SplitUnit<'a>>> {
        let Some(id) = slot.dwo else { return Ok(None) };
        match slot.split.get_or_init(|| self.split.locate(id, dwarf, skeleton)) {
            Ok(carrier) => carrier.unit(id, dwarf, skeleton),
            Err(_) => Ok(None),
        }
    }

    /// Whether a unit (index in `Index::units`) has another part, which is not missing as far as is known.
    pub(crate) fn is_split(&self, number: usize) -> bool {
        let slot = self.index.units.get(number).filter(|slot| slot.dwo.is_some());
        slot.is_some_and(|slot| !matches!(slot.split.get(), Some(Err(_))))
    }

    /// How many units there are whose other part cannot be had, and why that is so for the first of them.
    pub(crate) fn missing_parts(&self) -> Option<(usize, String)> {
        let dwarf = self.view();
        let mut reasons = self.index.with_code().filter_map(|slot| {
            let id = slot.dwo?;
            let raw = split::skeleton(&dwarf, slot.offset).ok()?;
            slot.split.get_or_init(|| self.split.locate(id, &dwarf, &raw)).as_ref().err()
        });
        let first = reasons.next()?.clone();
        Some((1 + reasons.count(), first))
    }

    /// How many bytes the entries take: a measure of the work to read them all.
    pub(crate) fn size(&self) -> usize {
        self.sections.info_size() + self.split.packages_size()
    }

    /// What could not be read so far.
    pub(crate) fn damage(&self) -> Option<&str> {
        let units = self.index.units.iter().filter_map(|slot| slot.parsed.get()?.damage.as_deref());
        self.index.damage.as_deref().into_iter().chain(units).next()
    }

    /// Whether any unit was compiled from a source in scope, or includes one.
    pub(crate) fn has_source_in_scope(&self, scope: &Scope) -> bool {
        let inside = |name: &str| !name.is_empty() && scope.source(name.as_ref());
        if self.index.with_code().any(|slot| inside(&slot.source)) {
            return true;
        }
        let dwarf = self.view();
        self.index.with_code().any(|slot| {
            let raw = dwarf.unit_header(slot.offset).and_then(|header| dwarf.unit(header));
            raw.is_ok_and(|raw| paths::all_files(raw.unit_ref(&dwarf)).iter().any(|name| inside(name)))
        })
    }
}
