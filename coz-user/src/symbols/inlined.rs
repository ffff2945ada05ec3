//! Where functions were inlined, and where they are declared.

use super::debug::Debug;
use super::module::Module;
use super::names::{Description, Names};
use super::parallel::shares;
use super::paths;
use super::split;
use super::unit::Unit;
use std::collections::HashMap;
use std::sync::Arc;
use std::thread;

/// A copy of a function within another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inlined {
    /// The function, as the linker knows it, else as the source does.
    pub symbol: String,
    /// The function around it all, demangled.
    pub within: String,
    /// Where the copy is entered: ELF virtual address.
    pub address: u64,
}

/// Where a function is declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declaration {
    /// The source file.
    pub file: String,
    /// From 1 on.
    pub line: u32,
}

/// Reading every unit of debug information larger than this takes longer than anyone waits.
const MAX_SEARCHED: usize = 256 << 20;
/// After so many units, one who goes through all of them lets go of what has been read.
pub(crate) const FORGET_EVERY: usize = 8;
/// At most so many threads read the debug information at once: each needs memory.
const MAX_WORKERS: usize = 8;

impl Module {
    /// The inlined copies of those functions whose symbol `fits`, of all units. Reads the whole debug
    /// information, on all CPUs; `None` where there is none, or so much that it was not searched.
    pub fn inlined(&self, fits: impl Fn(&str) -> bool + Sync) -> Option<Vec<Inlined>> {
        let debug = self.any_debug().ok().filter(|debug| debug.size() <= MAX_SEARCHED)?;
        let workers = thread::available_parallelism().map_or(1, usize::from).min(MAX_WORKERS);
        let share =
            |first: usize| self.inlined_in((first..debug.index.units.len()).step_by(workers), debug, &fits);
        let mut found = thread::scope(|scope| {
            let others: Vec<_> =
                (1..workers).map(|first| (first, scope.spawn(move || share(first)))).collect();
            let mut found = share(0);
            for (first, other) in others {
                found.extend(other.join().unwrap_or_else(|_| share(first)));
            }
            found
        });
        self.forget();
        found.sort_by_key(|copy| copy.address);
        Some(found)
    }

    fn inlined_in(
        &self,
        units: impl Iterator<Item = usize>,
        debug: &Debug,
        fits: impl Fn(&str) -> bool,
    ) -> Vec<Inlined> {
        let dwarf = debug.view();
        let mut names = Names::new(&dwarf, debug);
        // By the entry that they are copies of: the same few functions are inlined over and over.
        let mut fitting: HashMap<(Option<usize>, usize), Option<Description>> = HashMap::new();
        let mut found = Vec::new();
        let mut around = Vec::new();
        for (done, number) in units.filter(|&number| debug.index.has_code(number)).enumerate() {
            if done.is_multiple_of(FORGET_EVERY) {
                self.forget();
            }
            names.forget();
            let unit = debug.frames(number as u32, &dwarf, self.elf());
            // Entries of a split unit are counted in a file of its own.
            let file = debug.is_split(number).then_some(number);
            let mut outside: Option<(u32, String)> = None;
            for frame in unit.frames.iter().filter(|frame| frame.level > 0) {
                let mut describe = || Some(names.describe(number, frame.entry)).filter(|d| fits(&d.symbol));
                let description = match frame.origin {
                    Some(origin) => fitting.entry((file, origin.get())).or_insert_with(describe).clone(),
                    None => describe(),
                };
                let Some(description) = description else { continue };
                unit.frames_at(frame.address, &mut around);
                // Copies that follow each other are in one function.
                let within = around.first().and_then(|outer| match &outside {
                    Some((known, name)) if known == outer => Some(name.clone()),
                    _ => {
                        let frame = unit.frames.get(*outer as usize)?;
                        let name = names.describe(number, frame.entry).name();
                        outside = Some((*outer, name.clone()));
                        Some(name)
                    }
                });
                found.push(Inlined {
                    symbol: description.symbol.to_string(),
                    within: within.unwrap_or_default(),
                    address: frame.address,
                });
            }
        }
        found
    }

    /// Where the functions at these addresses are declared, in the order of the addresses, which should be sorted. On all CPUs.
    pub fn declarations(&self, addresses: &[u64]) -> Vec<Option<Declaration>> {
        match self.any_debug() {
            Ok(debug) => shares(addresses, |share| self.declarations_in(share, debug)),
            Err(_) => vec![None; addresses.len()],
        }
    }

    fn declarations_in(&self, addresses: &[u64], debug: &Debug) -> Vec<Option<Declaration>> {
        let dwarf = debug.view();
        let mut names = Names::new(&dwarf, debug);
        let mut around = Vec::new();
        let mut last: Option<(u32, Arc<Unit>)> = None;
        let mut find = |address: &u64| {
            let range = debug.index.overlapping(*address, address.checked_add(1)?).next()?;
            // Functions that follow each other are of one unit.
            if last.as_ref().is_none_or(|(number, _)| *number != range.unit) {
                names.forget();
                last = Some((range.unit, debug.frames(range.unit, &dwarf, self.elf())));
            }
            let (_, unit) = last.as_ref()?;
            unit.frames_at(*address, &mut around);
            let known = around
                .first()
                .and_then(|first| unit.frames.get(*first as usize))
                .map(|frame| names.describe(range.unit as usize, frame.entry));
            match known.and_then(|known| Some((known.file?, known.line))) {
                Some((file, line)) if line > 0 => Some(Declaration { file: file.to_string(), line }),
                // Line tables only, or Go's: the line of its first instruction.
                _ => {
                    let rows = debug.unit(range.unit, &dwarf, self.elf());
                    let row = rows.row_at(*address).filter(|row| row.line > 0)?;
                    Some(Declaration { file: rows.file(row.file)?.to_string(), line: row.line })
                }
            }
        };
        addresses.iter().map(&mut find).collect()
    }

    /// The stretches of code (first address, one past the last; by address) of units that have a source file which `fits`.
    pub fn code_of_sources(&self, fits: impl Fn(&str) -> bool + Sync) -> Vec<(u64, u64)> {
        let Ok(debug) = self.any_debug() else { return Vec::new() };
        let numbers: Vec<usize> = (0..debug.index.units.len()).collect();
        let fitting: Vec<bool> = shares(&numbers, |share| {
            let dwarf = debug.view();
            let has = |number: &usize| {
                let Some(slot) = debug.index.units.get(*number) else { return false };
                if !debug.index.has_code(*number) {
                    return false;
                }
                let raw = split::skeleton(&dwarf, slot.offset);
                fits(&slot.source)
                    || raw
                        .is_ok_and(|raw| paths::all_files(raw.unit_ref(&dwarf)).iter().any(|name| fits(name)))
            };
            share.iter().map(has).collect()
        });
        let all = debug.index.overlapping(0, u64::MAX);
        let fitting = all.filter(|range| fitting.get(range.unit as usize) == Some(&true));
        fitting.map(|range| (range.begin, range.end)).collect()
    }
}
