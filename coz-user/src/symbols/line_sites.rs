//! Where a line of source has its code: what a breakpoint or a probe on `FILE:LINE` needs.

use super::debug::Debug;
use super::dwarf::{Dwarf, RawUnit};
use super::inlined::FORGET_EVERY;
use super::module::Module;
use super::names::Names;
use super::paths;
use super::unit::Unit;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The first instruction of a line, in one function or one inlined copy of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineSite {
    /// ELF virtual address.
    pub address: u64,
    /// The source file, in full.
    pub file: String,
    /// The function that the line is in, demangled; empty where not known.
    pub function: String,
    /// For an inlined copy: the function around it all; else empty.
    pub within: String,
    /// How many rows of the line table the line has there.
    pub rows: usize,
}

/// What a search for a line has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineSearch {
    /// The places, by address.
    pub sites: Vec<LineSite>,
    /// The source files that fit the name and have code.
    pub files: BTreeSet<String>,
    /// All lines of these files that have code, sorted.
    pub lines: Vec<u32>,
    /// If no file fits: those that there are.
    pub other_files: BTreeSet<String>,
}

/// The best row so far of a frame: how bad it is, the row, and the outermost function there.
type Best<'a> = ((bool, bool, u64), &'a Hit, Option<u32>);

/// A row of the line that was asked for.
struct Hit {
    address: u64,
    file: u32,
    is_stmt: bool,
}

impl Module {
    /// Searches all units for a line; `file` is the end of a path, in whole components.
    ///
    /// In each function, and in each inlined copy of one, that has code of the line, its first address counts:
    /// the lowest that is recommended for breakpoints (`is_stmt`), outside of parts that were moved away as cold. Of a line that has
    /// no code of its own left, since all that it calls was inlined there, the first address of that counts.
    ///
    /// # Errors
    /// Why there is no debug information.
    pub fn line_sites(&self, file: &str, line: u32) -> Result<LineSearch, String> {
        let debug = self.any_debug()?;
        let dwarf = debug.view();
        let mut names = Names::new(&dwarf, debug);
        let mut search = LineSearch::default();
        let mut lines = BTreeSet::new();
        let mut fitting = Vec::new();
        for (number, slot) in debug.index.units.iter().enumerate() {
            if !debug.index.has_code(number) {
                continue;
            }
            if number.is_multiple_of(FORGET_EVERY) {
                self.forget();
            }
            let raw = dwarf.unit_header(slot.offset).and_then(|header| dwarf.unit(header));
            let Ok(raw) = raw else { continue };
            let files = paths::all_files(raw.unit_ref(&dwarf));
            let wanted: Vec<bool> = files.iter().map(|name| is_end_of_path(name, file)).collect();
            if !wanted.contains(&true) {
                search.other_files.extend(files.iter().map(ToString::to_string));
                continue;
            }
            let is_code = |address| self.elf().is_code(address);
            let (hits, seen) = hits(&raw, &wanted, line, is_code);
            lines.extend(seen.iter().map(|(_, line)| *line));
            search
                .files
                .extend(seen.iter().filter_map(|(file, _)| files.get(*file as usize)).map(|f| f.to_string()));
            search.sites.extend(self.pick(debug, &dwarf, number, &hits, &files, &mut names, line));
            fitting.push((number, wanted, files));
        }
        if search.sites.is_empty() {
            for (number, wanted, files) in &fitting {
                search.sites.extend(self.calls(debug, &dwarf, *number, (wanted, line), files, &mut names));
            }
        }
        search.sites.sort_by_key(|site| site.address);
        search.sites.dedup_by_key(|site| site.address);
        search.lines = lines.into_iter().collect();
        self.forget();
        Ok(search)
    }

    #[allow(clippy::too_many_arguments)]
    fn pick(
        &self,
        debug: &Debug,
        dwarf: &Dwarf<'_>,
        number: usize,
        hits: &[Hit],
        files: &[Arc<str>],
        names: &mut Names<'_>,
        line: u32,
    ) -> Vec<LineSite> {
        if hits.is_empty() {
            return Vec::new();
        }
        let unit = debug.unit(number as u32, dwarf, self.elf());
        let mut best: BTreeMap<Option<u32>, Best<'_>> = BTreeMap::new();
        let mut rows: BTreeMap<Option<u32>, usize> = BTreeMap::new();
        let mut around = Vec::new();
        for hit in hits {
            unit.frames_at(hit.address, &mut around);
            let owner = owner(&unit, &around, (hit.file, line));
            *rows.entry(owner).or_default() += 1;
            let outermost = around.first().copied();
            let rank = (is_cold(&unit, outermost, hit.address), !hit.is_stmt, hit.address);
            match best.get(&owner) {
                Some((known, ..)) if *known <= rank => {}
                _ => drop(best.insert(owner, (rank, hit, outermost))),
            }
        }
        let mut name = |frame| name_of(names, number, &unit, frame);
        best.into_iter()
            .map(|(owner, (_, hit, outermost))| LineSite {
                address: hit.address,
                file: files.get(hit.file as usize).map(ToString::to_string).unwrap_or_default(),
                function: name(owner),
                within: if owner == outermost { String::new() } else { name(outermost) },
                rows: rows.get(&owner).copied().unwrap_or_default(),
            })
            .collect()
    }

    /// Where what was inlined at a line of a unit begins, in each function, and in each inlined copy of one, that the line is in.
    fn calls(
        &self,
        debug: &Debug,
        dwarf: &Dwarf<'_>,
        number: usize,
        (wanted, line): (&[bool], u32),
        files: &[Arc<str>],
        names: &mut Names<'_>,
    ) -> Vec<LineSite> {
        let unit = debug.unit(number as u32, dwarf, self.elf());
        let mut first: BTreeMap<Option<u32>, FirstCall> = BTreeMap::new();
        let mut around = Vec::new();
        let is_wanted = |file: u32| wanted.get(file as usize) == Some(&true);
        for frame in unit.frames.iter().filter(|frame| frame.call_line == line && is_wanted(frame.call_file))
        {
            unit.frames_at(frame.address, &mut around);
            let owner = (frame.level as usize).checked_sub(1).and_then(|i| around.get(i)).copied();
            let outermost = around.first().copied();
            let rank = (is_cold(&unit, outermost, frame.address), frame.address);
            match first.get(&owner) {
                Some(known) if known.rank <= rank => {}
                _ => drop(first.insert(owner, FirstCall { rank, file: frame.call_file, outermost })),
            }
        }
        let mut name = |frame| name_of(names, number, &unit, frame);
        first
            .into_iter()
            .map(|(owner, FirstCall { rank: (_, address), file, outermost })| LineSite {
                address,
                file: files.get(file as usize).map(ToString::to_string).unwrap_or_default(),
                function: name(owner),
                within: if owner == outermost { String::new() } else { name(outermost) },
                rows: 0,
            })
            .collect()
    }
}

/// The first place in one frame where something was inlined at a line.
struct FirstCall {
    /// Whether it is in a cold part, and its address: the least is first.
    rank: (bool, u64),
    /// Number of the line's file.
    file: u32,
    /// The function that it is all within.
    outermost: Option<u32>,
}

/// What a frame is called; empty where not known.
fn name_of(names: &mut Names<'_>, number: usize, unit: &Unit, frame: Option<u32>) -> String {
    match frame.and_then(|frame| unit.frames.get(frame as usize)) {
        Some(frame) => names.describe(number, frame.entry).name(),
        None => String::new(),
    }
}

/// The frame that a line belongs to: around the call if something was inlined from this very line,
/// else the innermost.
fn owner(unit: &Unit, around: &[u32], (file, line): (u32, u32)) -> Option<u32> {
    let called_here = |frame: &u32| {
        unit.frames
            .get(*frame as usize)
            .is_some_and(|f| f.call_file == file && f.call_line == line && f.level > 0)
    };
    match around.iter().position(called_here) {
        Some(depth) => depth.checked_sub(1).and_then(|i| around.get(i)).copied(),
        None => around.last().copied(),
    }
}

/// Whether an address is in another part of its function than the entry.
fn is_cold(unit: &Unit, function: Option<u32>, address: u64) -> bool {
    let Some(frame) = function.and_then(|function| unit.frames.get(function as usize)) else { return false };
    let Some(spans) = unit.levels.first() else { return false };
    let own = |at: u64| {
        let after = spans.partition_point(|span| span.begin <= at);
        after.checked_sub(1).and_then(|i| spans.get(i)).filter(|span| at < span.end).map(|span| span.begin)
    };
    own(address) != own(frame.address)
}

/// The rows of a line in the wanted files, and all (file, line) pairs of these files that have code.
fn hits(
    raw: &RawUnit<'_>,
    wanted: &[bool],
    line: u32,
    is_code: impl Fn(u64) -> bool,
) -> (Vec<Hit>, BTreeSet<(u32, u32)>) {
    let (mut hits, mut seen) = (Vec::new(), BTreeSet::new());
    let Some(program) = raw.line_program.clone() else { return (hits, seen) };
    let mut rows = program.rows();
    let mut first = None;
    // What cannot be read has no lines.
    while let Ok(Some((_, row))) = rows.next_row() {
        let start = *first.get_or_insert(row.address());
        if row.end_sequence() {
            first = None;
            continue;
        }
        let is_wanted = usize::try_from(row.file_index()).is_ok_and(|i| wanted.get(i) == Some(&true));
        let Some(number) = row.line().and_then(|line| u32::try_from(line.get()).ok()) else { continue };
        if is_wanted && is_code(start) {
            let file = row.file_index() as u32;
            seen.insert((file, number));
            if number == line {
                hits.push(Hit { address: row.address(), file, is_stmt: row.is_stmt() });
            }
        }
    }
    (hits, seen)
}

/// Whether `path` ends with the components of `end`.
fn is_end_of_path(path: &str, end: &str) -> bool {
    let end = end.strip_prefix("./").unwrap_or(end);
    match path.strip_suffix(end) {
        Some(head) if !end.is_empty() => head.is_empty() || head.ends_with('/'),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_end_in_whole_components() {
        assert!(is_end_of_path("/src/a.c", "a.c") && is_end_of_path("/src/a.c", "src/a.c"));
        assert!(is_end_of_path("/src/a.c", "/src/a.c") && is_end_of_path("/src/a.c", "./a.c"));
        assert!(is_end_of_path("a.c", "a.c"));
        assert!(!is_end_of_path("/src/aa.c", "a.c") && !is_end_of_path("/src/a.c", ""));
    }
}
