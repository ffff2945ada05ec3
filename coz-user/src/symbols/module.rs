//! An executable or a library on disk, and what can be known of its code.

use super::debug::{Debug, UNREADABLE};
use super::debuginfod::Network;
use super::demangle::demangle;
use super::elf::Elf;
use super::index::UnitRange;
use super::lines::Lines;
use super::page::{Attribution, Painting, paint_symbols};
use super::separate::{self, Found};
use super::table::{Function, SymbolTable};
use super::{Granularity, Scope, dwarf};
use anyhow::Result;
use coz_common::abi::LineEntry;
use coz_common::lookup::PAGE_SIZE;
use coz_common::units::LineId;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// What can be told apart in a module. The reasons are ends of sentences that begin with the module's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Lines.
    Lines,
    /// Functions only.
    Functions {
        /// Why no lines.
        why: String,
        /// Whether most have no name, only an address.
        nameless: bool,
    },
    /// Nothing: every sample in it counts for its caller, or for no one.
    Nothing {
        /// Why no lines and no functions.
        why: String,
    },
}

/// An executable mapping of a file, as `/proc/PID/maps` shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// One past the last address.
    pub end: u64,
    /// Where the first byte stands in the file.
    pub file_offset: u64,
}

/// An executable or a library on disk. `Send` and `Sync`: what is slow can be asked for on another thread.
#[derive(Debug)]
pub struct Module {
    elf: Elf,
    /// What tells its nameless functions from those of other files.
    name: String,
    scope: Scope,
    debug_dirs: Vec<PathBuf>,
    separate: OnceLock<Found>,
    debug: OnceLock<Result<Debug, String>>,
    in_scope: OnceLock<bool>,
    symbols: OnceLock<SymbolTable>,
}

impl Module {
    /// Opens a file. Reads its ELF headers only: fast, whatever its size.
    ///
    /// `debug_dirs` are searched for separate debug information before `/usr/lib/debug`.
    ///
    /// # Errors
    /// When the file cannot be opened or is no ELF file.
    pub fn open(path: &Path, scope: &Scope, debug_dirs: &[PathBuf]) -> Result<Self> {
        Ok(Self {
            elf: Elf::open(path)?,
            name: file_name(path),
            scope: scope.clone(),
            debug_dirs: debug_dirs.to_vec(),
            separate: OnceLock::new(),
            debug: OnceLock::new(),
            in_scope: OnceLock::new(),
            symbols: OnceLock::new(),
        })
    }

    /// The same, by the name that its users know it by: not by that of the place in `/proc` through which a removed file, or one
    /// in a container, was opened. A link is no other name of it: whoever attaches to the program sees the file, and so do
    /// other links, and all of them are to be called alike.
    #[must_use]
    pub fn called(mut self, path: &Path) -> Self {
        let real = |path: &Path| path.canonicalize().ok();
        let leads_here = real(path).is_some_and(|there| Some(there) == real(self.path()));
        if !leads_here {
            self.name = file_name(path);
        }
        self
    }

    /// The path that it was opened by.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.elf.path()
    }

    /// The ELF file.
    #[must_use]
    pub fn elf(&self) -> &Elf {
        &self.elf
    }

    /// The functions of its symbol tables. The first call reads them.
    pub fn symbols(&self) -> &SymbolTable {
        self.symbols.get_or_init(|| {
            let table = SymbolTable::read(&self.elf, self.separate().elf.as_ref());
            self.forget();
            table
        })
    }

    /// What can be told apart in it. The first call indexes the debug information: up to about a second
    /// for hundreds of megabytes.
    pub fn detail(&self) -> Detail {
        let Err(why) = self.debug() else { return Detail::Lines };
        let functions = self.symbols().functions();
        let in_scope = |f: &&Function| self.scope.function(&demangle(&f.symbol));
        let nameless = functions.iter().filter(|f| f.nameless).count();
        if functions.iter().any(|f| in_scope(&f)) {
            Detail::Functions { why: why.to_owned(), nameless: 2 * nameless > functions.len() }
        } else {
            let stripped = if self.symbols().functions().is_empty() { "is stripped: it " } else { "" };
            Detail::Nothing { why: format!("{stripped}{why}, and names no functions") }
        }
    }

    /// One line on what is missing and how to get it; `None` when nothing is. Also tells of damage
    /// in what has been read so far.
    pub fn advice(&self) -> Option<String> {
        let name = self.path().display();
        let (why, instead) = match self.detail() {
            Detail::Lines => {
                let debug = self.debug().ok()?;
                let damaged = debug.damage().map(|damage| {
                    format!(
                        "{name} has damaged debug information ({damage}): some lines or names are missing; build it anew"
                    )
                });
                let split = debug.missing_parts().map(|(count, why)| {
                    let more = if count > 1 { format!(" (and {} more like it)", count - 1) } else { String::new() };
                    format!(
                        "{name} {why}{more}: of this code the line tables are used, but library code that was inlined \
                         counts for no line; keep the .dwo files, or put them into a .dwp beside the program, or name \
                         their folder with --debug-dir"
                    )
                });
                return damaged.or(split);
            }
            Detail::Functions { why, nameless: false } => (why, "functions are shown instead of lines"),
            Detail::Functions { why, nameless: true } => (
                format!("is stripped and {why}"),
                "functions are shown instead of lines, and those without a name by their addresses",
            ),
            Detail::Nothing { why } => (why, "nothing in it can be told apart"),
        };
        let way_out = if why.contains(UNREADABLE) {
            "build it anew, or name the folder of its separate debug files with --debug-dir"
        } else if self.path().starts_with("/usr") {
            "install its debug symbols (Debian: apt install PACKAGE-dbgsym), or name their folder with --debug-dir"
        } else {
            "for lines, compile with -g (gcc, clang) or set `debug = \"line-tables-only\"` in its Cargo profile and \
             do not strip it, or name the folder of its separate debug files with --debug-dir"
        };
        Some(format!("{name} {why}: {instead}; {way_out}"))
    }

    /// What to subtract (wrapping) from an address of a process to get the module-relative one
    /// (ELF virtual address), from the executable mappings of this file in it. `None` where none fits.
    #[must_use]
    pub fn load_bias(&self, maps: &[Mapping]) -> Option<u64> {
        maps.iter().find_map(|map| {
            let length = map.end.checked_sub(map.start)?;
            let inside = |offset: u64, begin: u64, size: u64| offset >= begin && offset - begin < size;
            let segment = self.elf.segments().iter().filter(|s| s.executable).find(|s| {
                inside(s.file_offset, map.file_offset, length)
                    || inside(map.file_offset, s.file_offset, s.file_size)
            })?;
            let in_segment = map.file_offset.wrapping_sub(segment.file_offset);
            Some(map.start.wrapping_sub(segment.address.wrapping_add(in_segment)))
        })
    }

    /// Reads what [`Module::page`] will need for this page: the slow part, without the table of lines.
    pub fn prepare(&self, page: u32) {
        let begin = u64::from(page) * PAGE_SIZE;
        match self.debug() {
            Ok(debug) => {
                let dwarf = debug.view();
                for range in debug.index.overlapping(begin, begin + PAGE_SIZE) {
                    debug.unit(range.unit, &dwarf, &self.elf);
                }
                self.forget();
            }
            Err(_) => drop(self.symbols()),
        }
    }

    /// The entries of the line table for the addresses from `page * 4096` on: sorted, the first starts at 0.
    ///
    /// Each stretch of code belongs to its innermost line in scope: that of the line table, else, going
    /// outwards, that of the first call in scope that was inlined around it, else, in a function declared in
    /// scope, the one before. Where `lines` are nested it belongs to all of these calls in scope besides. Without usable debug
    /// information, it belongs to its function, whatever the granularity.
    pub fn page(&self, page: u32, granularity: Granularity, lines: &mut Lines) -> Vec<LineEntry> {
        let begin = u64::from(page) * PAGE_SIZE;
        self.paint(begin, begin + PAGE_SIZE, granularity, lines).entries()
    }

    /// The line of a single module-relative address: the same as its page would say. Where `lines` are nested, the innermost.
    pub fn resolve(&self, address: u64, granularity: Granularity, lines: &mut Lines) -> Option<LineId> {
        self.lines_at(address, granularity, lines).first().copied()
    }

    /// The lines of a single module-relative address, the innermost first; more than one only where `lines` are nested.
    pub fn lines_at(&self, address: u64, granularity: Granularity, lines: &mut Lines) -> Vec<LineId> {
        let entries = self.paint(address, address.saturating_add(1), granularity, lines).entries();
        let number = entries.first().map_or(0, |entry| entry.line);
        lines.each(number).collect()
    }

    /// Whether there is debug information that can be used, in scope or not.
    pub fn has_debug_information(&self) -> bool {
        self.any_debug().is_ok()
    }

    /// The debug information of code in scope; the reason where there is none.
    pub(crate) fn debug(&self) -> Result<&Debug, &str> {
        let debug = self.any_debug()?;
        match self.in_scope.get_or_init(|| debug.has_source_in_scope(&self.scope)) {
            true => Ok(debug),
            false => Err("has debug information for no source in scope"),
        }
    }

    /// The debug information, whatever the scope: loaded and indexed at the first call.
    pub(crate) fn any_debug(&self) -> Result<&Debug, &str> {
        let load = || {
            let debug =
                Debug::load(&self.elf, self.separate(), &self.debug_dirs, &Network::from_environment());
            self.forget();
            debug
        };
        self.debug.get_or_init(load).as_ref().map_err(String::as_str)
    }

    /// The scope that it was opened with.
    #[must_use]
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// Lets go of what has been read of the files so far: hundreds of megabytes, of which little is needed again.
    pub(crate) fn forget(&self) {
        self.elf.forget();
        if let Some(separate) = self.separate.get().and_then(|found| found.elf.as_ref()) {
            separate.forget();
        }
    }

    fn separate(&self) -> &Found {
        self.separate.get_or_init(|| match dwarf::has_dwarf(&self.elf) {
            true => Found::default(),
            false => separate::locate(&self.elf, &self.debug_dirs, &Network::from_environment()),
        })
    }

    fn paint(&self, begin: u64, end: u64, granularity: Granularity, lines: &mut Lines) -> Painting {
        let mut painting = Painting::new(begin, end);
        let Ok(debug) = self.debug() else {
            paint_symbols(&mut painting, self.symbols(), &self.name, &self.scope, lines);
            return painting;
        };
        let dwarf = debug.view();
        let symbol = |address| self.symbols().containing(address).map(|f| Arc::from(demangle(&f.symbol)));
        let mut attribution = Attribution::new(&dwarf, debug, &self.scope, granularity, &symbol);
        let ranges: Vec<UnitRange> = debug.index.overlapping(begin, end).collect();
        for range in ranges {
            let unit = debug.unit(range.unit, &dwarf, &self.elf);
            attribution.paint(&mut painting, range, &unit, lines);
        }
        painting
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_can_be_asked_on_any_thread() {
        fn check<T: Send + Sync>() {}
        check::<Module>();
        check::<Lines>();
    }
}
