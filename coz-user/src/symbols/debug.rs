//! The debug information of a module: found, decompressed, indexed, and read unit by unit.

use super::dwarf::{self, Dwarf, RawUnit, Sections};
use super::elf::Elf;
use super::index::Index;
use super::paths;
use super::scope::Scope;
use super::separate::{self, Found};
use super::unit::Unit;
use gimli::DebugInfoOffset;
use std::path::PathBuf;
use std::sync::Arc;

/// How damage that leaves nothing is told of.
pub(crate) const UNREADABLE: &str = "debug information that cannot be read";

/// Debug information that can be used.
#[derive(Debug)]
pub(crate) struct Debug {
    sections: Sections,
    pub(crate) index: Index,
}

impl Debug {
    /// Loads and indexes the debug information of a program.
    ///
    /// # Errors
    /// Why there is none that could be used, as the end of a sentence about the program.
    pub(crate) fn load(program: &Elf, found: &Found, dirs: &[PathBuf]) -> Result<Self, String> {
        let carrier = match &found.elf {
            Some(elf) if dwarf::has_dwarf(elf) => elf,
            _ if dwarf::has_dwarf(program) => program,
            _ => match &found.rejected {
                Some(why) => return Err(format!("has no debug information of its own, and {why}")),
                None => return Err("has no debug information".to_owned()),
            },
        };
        let shared = separate::locate_shared(carrier, dirs);
        let damaged = |why: String| format!("has {UNREADABLE}: {why}");
        let sections = Sections::load(carrier, shared.as_ref()).map_err(|e| damaged(format!("{e:#}")))?;
        let index = Index::build(&sections.view(), program);
        let debug = Self { sections, index };
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
        let read =
            || Arc::new(read(dwarf, slot.offset, |raw| Unit::parse(dwarf, raw, |a| program.is_code(a))));
        Arc::clone(slot.parsed.get_or_init(read))
    }

    /// A unit's functions and inlined copies. Not kept: for those who go through all units.
    pub(crate) fn frames(&self, number: u32, dwarf: &Dwarf<'_>, program: &Elf) -> Arc<Unit> {
        let Some(slot) = self.index.units.get(number as usize) else { return Arc::default() };
        let read = || {
            Arc::new(read(dwarf, slot.offset, |raw| Unit::frames_only(dwarf, raw, |a| program.is_code(a))))
        };
        slot.parsed.get().map_or_else(read, Arc::clone)
    }

    /// How many bytes the entries take: a measure of the work to read them all.
    pub(crate) fn size(&self) -> usize {
        self.sections.info_size()
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

fn read(dwarf: &Dwarf<'_>, offset: DebugInfoOffset, parse: impl FnOnce(&RawUnit<'_>) -> Unit) -> Unit {
    match dwarf.unit_header(offset).and_then(|header| dwarf.unit(header)) {
        Ok(raw) => parse(&raw),
        Err(e) => Unit { damage: Some(e.to_string()), ..Unit::default() },
    }
}
