//! A page of the line table: for each byte of code, the innermost line in scope.

use super::Granularity;
use super::debug::Debug;
use super::demangle::demangle;
use super::dwarf::Dwarf;
use super::index::UnitRange;
use super::lines::Lines;
use super::names::Names;
use super::scope::Scope;
use super::table::SymbolTable;
use super::unit::Unit;
use coz_common::abi::LineEntry;
use coz_common::lookup::PAGE_SIZE;
use coz_common::units::LineId;
use std::collections::HashMap;
use std::sync::Arc;

/// Which line each byte of a stretch of at most a page belongs to.
pub(crate) struct Painting {
    begin: u64,
    ids: Vec<u32>,
}

impl Painting {
    /// A stretch without lines.
    pub(crate) fn new(begin: u64, end: u64) -> Self {
        let length = end.saturating_sub(begin).min(PAGE_SIZE);
        Self { begin, ids: vec![0; length as usize] }
    }

    /// Gives the bytes from `from` to `to` to a line, or a nest of lines, except those that have one.
    fn paint(&mut self, from: u64, to: u64, line: u32) {
        let index = |address: u64| (address.saturating_sub(self.begin) as usize).min(self.ids.len());
        let (from, to) = (index(from), index(to));
        if let Some(bytes) = self.ids.get_mut(from..to) {
            bytes.iter_mut().filter(|id| **id == 0).for_each(|id| *id = line);
        }
    }

    /// The stretches of equal lines: sorted, the first at 0, at least one.
    pub(crate) fn entries(&self) -> Vec<LineEntry> {
        let mut entries = vec![LineEntry { start: 0, line: self.ids.first().copied().unwrap_or(0) }];
        for (start, pair) in (1..).zip(self.ids.windows(2)) {
            if let [before, line] = *pair
                && before != line
            {
                entries.push(LineEntry { start, line });
            }
        }
        entries
    }
}

/// Fills a painting from the symbol table. `module` tells functions without a name from those of other files.
pub(crate) fn paint_symbols(
    painting: &mut Painting,
    table: &SymbolTable,
    module: &str,
    scope: &Scope,
    lines: &mut Lines,
) {
    let (begin, end) = (painting.begin, painting.begin.saturating_add(painting.ids.len() as u64));
    for (from, to, function) in table.overlapping(begin, end) {
        let name = match function.nameless {
            true => format!("{} ({module})", function.symbol),
            false => demangle(&function.symbol),
        };
        if scope.function(&name)
            && let Some(line) = lines.function(&name.into())
        {
            painting.paint(from, to, line.0);
        }
    }
}

/// Fills paintings from debug information.
pub(crate) struct Attribution<'a> {
    scope: &'a Scope,
    granularity: Granularity,
    names: Names<'a>,
    /// The symbol table's name of the function at an address.
    symbol: &'a dyn Fn(u64) -> Option<Arc<str>>,
    /// Whether a file (number of its unit, its own number there) is in scope.
    files: HashMap<(u32, u32), bool>,
}

/// Number of a file in its unit, and a line.
type Place = (u32, u32);

/// An address, and the unit that describes it.
#[derive(Clone, Copy)]
struct Code<'a> {
    number: u32,
    unit: &'a Unit,
    address: u64,
}

impl<'a> Attribution<'a> {
    pub(crate) fn new(
        dwarf: &'a Dwarf<'a>,
        debug: &'a Debug,
        scope: &'a Scope,
        granularity: Granularity,
        symbol: &'a dyn Fn(u64) -> Option<Arc<str>>,
    ) -> Self {
        Self { scope, granularity, names: Names::new(dwarf, debug), symbol, files: HashMap::new() }
    }

    /// Fills in the part that a unit describes.
    pub(crate) fn paint(
        &mut self,
        painting: &mut Painting,
        range: UnitRange,
        unit: &Unit,
        lines: &mut Lines,
    ) {
        let mut bounds = bounds(range, unit);
        bounds.push(range.end);
        let mut frames = Vec::new();
        for pair in bounds.windows(2) {
            let [from, to] = *pair else { continue };
            unit.frames_at(from, &mut frames);
            let at = Code { number: range.unit, unit, address: from };
            let found = match self.granularity {
                Granularity::Line => self.lines(at, &frames, lines),
                Granularity::Function => self.functions(at, &frames, lines),
            };
            let number = lines.number(&found);
            if number != 0 {
                painting.paint(from, to, number);
            }
        }
    }

    /// The lines of an address, the innermost first; only that where the table is not nested. See [`super::Module::page`].
    fn lines(&mut self, at: Code<'_>, frames: &[u32], lines: &mut Lines) -> Vec<LineId> {
        let count = if lines.are_nested() { usize::MAX } else { 1 };
        let mut places = self.places(at, frames, count);
        if places.is_empty() {
            places.extend(self.line_before(at, frames));
        }
        let line = |(place, frame): (Place, Option<u32>)| {
            lines.place(at.unit.file(place.0)?, place.1, || self.name(at, frame))
        };
        places.into_iter().filter_map(line).collect()
    }

    /// The innermost places in scope (number of the file, line), and the frames that they stand in: the line
    /// table's, then, going outwards, those of the inlined calls.
    fn places(&mut self, at: Code<'_>, frames: &[u32], count: usize) -> Vec<(Place, Option<u32>)> {
        let mut found = Vec::new();
        let row = at.unit.row_at(at.address).map(|row| (row.file, row.line));
        // Each call stands in the function around the inlined one.
        let calls = frames.iter().enumerate().skip(1).rev().map(|(depth, frame)| {
            let frame = at.unit.frames.get(*frame as usize);
            (depth, frame.map(|frame| (frame.call_file, frame.call_line)))
        });
        for (depth, place) in std::iter::once((frames.len(), row)).chain(calls) {
            let Some(place) = place.filter(|(_, line)| *line != 0) else { continue };
            if found.len() < count && self.is_in_scope(at, place.0) {
                found.push((place, depth.checked_sub(1).and_then(|i| frames.get(i)).copied()));
            }
        }
        found
    }

    /// The last place in scope before an address that has none itself, in a function that is declared in
    /// scope. Optimised code loses track of what was inlined; a function's own code must not count for its caller.
    fn line_before(&mut self, mut at: Code<'_>, frames: &[u32]) -> Option<(Place, Option<u32>)> {
        const MAX_ROWS: usize = 64;
        let function = *frames.first()?;
        let frame = at.unit.frames.get(function as usize)?;
        // Line tables alone do not say where a function is declared.
        let own = || at.unit.file(at.unit.own_file(function)?).cloned();
        let declared = self.names.describe(at.number as usize, frame.entry).file.or_else(own)?;
        if !self.scope.source(declared.as_ref().as_ref()) {
            return None;
        }
        let mut before = Vec::new();
        for _ in 0..MAX_ROWS {
            at.address = at.unit.row_at(at.address)?.address.checked_sub(1)?;
            at.unit.frames_at(at.address, &mut before);
            if before.first() != Some(&function) {
                break;
            }
            if let Some(found) = self.places(at, &before, 1).pop() {
                return Some(found);
            }
        }
        None
    }

    fn is_in_scope(&mut self, at: Code<'_>, file: u32) -> bool {
        let Some(path) = at.unit.file(file) else { return false };
        let scope = self.scope;
        *self.files.entry((at.number, file)).or_insert_with(|| scope.source(path.as_ref().as_ref()))
    }

    /// The functions around an address that are declared in scope, inlined or not, the innermost first; only that where the table is
    /// not nested. Where nothing says where one is declared (line tables only), it is in scope if the source of its own code is.
    fn functions(&mut self, at: Code<'_>, frames: &[u32], lines: &mut Lines) -> Vec<LineId> {
        let mut found = Vec::new();
        for (depth, &number) in frames.iter().enumerate().rev() {
            if !found.is_empty() && !lines.are_nested() {
                break;
            }
            let Some(frame) = at.unit.frames.get(number as usize) else { continue };
            let known = self.names.describe(at.number as usize, frame.entry);
            let source = source(at, frames, depth);
            let inside = match (&known.file, source) {
                (Some(file), _) => self.scope.source(file.as_ref().as_ref()),
                (None, _) if depth == 0 && self.has_own_code_in_scope(at, number) => true,
                (None, Some(file)) => self.is_in_scope(at, file),
                (None, None) => !known.symbol.is_empty() && self.scope.function(&known.name()),
            };
            found.extend(match &known.file {
                _ if !inside => None,
                Some(file) if known.line != 0 => lines.place(file, known.line, || known.name().into()),
                Some(_) => lines.function(&known.name().into()),
                None => {
                    let name = self.told_apart(at, number, &known.name(), source);
                    if name.is_empty() { None } else { lines.function(&name) }
                }
            });
        }
        found
    }

    /// Whether a function's own code, up to an address, has a source in scope: that of a row without inlined copies, or of a
    /// call that was inlined into it. A single row can be of a library, where the compiler lost track of what it inlined.
    fn has_own_code_in_scope(&mut self, mut at: Code<'_>, function: u32) -> bool {
        const MAX_ROWS: usize = 256;
        let mut frames = Vec::new();
        for _ in 0..MAX_ROWS {
            at.unit.frames_at(at.address, &mut frames);
            if frames.first() != Some(&function) {
                return false;
            }
            let inner = frames.get(1).and_then(|inner| at.unit.frames.get(*inner as usize));
            let row = at.unit.row_at(at.address);
            let file = inner.map(|inner| inner.call_file).or(row.map(|row| row.file));
            if file.is_some_and(|file| self.is_in_scope(at, file)) {
                return true;
            }
            match row.and_then(|row| row.address.checked_sub(1)) {
                Some(before) => at.address = before,
                None => return false,
            }
        }
        false
    }

    /// The name of a function of which nothing says where it is declared. Line tables alone name inlined functions without
    /// their modules: their file tells them apart.
    fn told_apart(&mut self, at: Code<'_>, frame: u32, name: &str, source: Option<u32>) -> Arc<str> {
        let is_inlined = at.unit.frames.get(frame as usize).is_some_and(|frame| frame.level > 0);
        let linked = if is_inlined { None } else { (self.symbol)(at.address) };
        let file = source.and_then(|file| at.unit.file(file)).and_then(|path| path.rsplit('/').next());
        match (linked, file) {
            (Some(linked), _) => linked,
            (None, Some(file)) if is_inlined && !name.is_empty() => format!("{name} ({file})").into(),
            _ => name.into(),
        }
    }

    fn name(&mut self, at: Code<'_>, frame: Option<u32>) -> Arc<str> {
        let frame = frame.and_then(|frame| at.unit.frames.get(frame as usize));
        let name = frame
            .map(|frame| self.names.describe(at.number as usize, frame.entry).name())
            .unwrap_or_default();
        // Of a function that is not inlined the linker knows the name, too.
        match name.is_empty() && frame.is_none_or(|frame| frame.level == 0) {
            true => (self.symbol)(at.address).unwrap_or_default(),
            false => name.into(),
        }
    }
}

/// The file that the code of a frame itself stands in: of a function, that of its first instruction; of an inlined copy, that
/// of the line table if it is the innermost one, else that of the call of the next one.
fn source(at: Code<'_>, frames: &[u32], depth: usize) -> Option<u32> {
    let frame = |depth: usize| at.unit.frames.get(*frames.get(depth)? as usize);
    let row = |address| at.unit.row_at(address).map(|row| row.file);
    let file = match (depth, frame(depth + 1)) {
        (0, _) => row(frame(0)?.address),
        (_, Some(inner)) => Some(inner.call_file),
        (_, None) => row(at.address),
    };
    file.filter(|&file| at.unit.file(file).is_some())
}

/// The addresses within a range at which the line or the frames change: sorted, the first is its begin.
fn bounds(range: UnitRange, unit: &Unit) -> Vec<u64> {
    let inside = |address: &u64| range.begin < *address && *address < range.end;
    let first = unit.rows.partition_point(|row| row.address <= range.begin);
    let rows = unit.rows.get(first..).unwrap_or_default().iter().map(|row| row.address).take_while(inside);
    let mut bounds = vec![range.begin];
    bounds.extend(rows);
    for level in &unit.levels {
        // Spans of a level do not overlap: the one before the first that begins inside may still end inside.
        let first = level.partition_point(|span| span.begin <= range.begin).saturating_sub(1);
        for span in level.get(first..).unwrap_or_default().iter().take_while(|span| span.begin < range.end) {
            bounds.extend([span.begin, span.end].into_iter().filter(inside));
        }
    }
    bounds.sort_unstable();
    bounds.dedup();
    bounds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_painting_becomes_sorted_entries_that_cover_it() {
        let mut painting = Painting::new(0x1000, 0x2000);
        painting.paint(0x1010, 0x1020, 3);
        painting.paint(0x1018, 0x1030, 4);
        painting.paint(0x1ff0, 0x9000, 5);
        let entry = |start, line| LineEntry { start, line };
        let expected = [entry(0, 0), entry(0x10, 3), entry(0x20, 4), entry(0x30, 0), entry(0xff0, 5)];
        assert_eq!(painting.entries(), expected, "who comes first keeps the byte");
    }

    #[test]
    fn an_empty_painting_is_one_stretch_without_a_line() {
        assert_eq!(Painting::new(0, 4096).entries(), [LineEntry { start: 0, line: 0 }]);
    }
}
