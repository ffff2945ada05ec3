//! The interner: lines (or functions) of the program, and the small numbers that the kernel knows them by.

use coz_common::abi::{MAX_LINES, MAX_NESTS, Nest};
use coz_common::units::LineId;
use std::collections::HashMap;
use std::sync::Arc;

/// A place in the program that can be selected.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Line {
    /// The source file; `None` where only a symbol is known.
    pub file: Option<Arc<str>>,
    /// The line, from 1 on; 0 where not known. At function granularity, where the function is declared.
    pub line: u32,
    /// The function that it belongs to, demangled (inlined copies: the inlined function); empty where not
    /// known. Where several share a line, the first that was seen.
    pub function: Arc<str>,
}

impl Line {
    /// `FILE:LINE`, or the function's name where there is no file.
    #[must_use]
    pub fn location(&self) -> String {
        match &self.file {
            Some(file) => format!("{file}:{}", self.line),
            None => self.function.to_string(),
        }
    }
}

#[derive(PartialEq, Eq, Hash)]
enum Key {
    Place(Arc<str>, u32),
    Function(Arc<str>),
}

/// All lines of a profile. Ids begin at 1 and stay below `abi::MAX_LINES`.
#[derive(Default)]
pub struct Lines {
    ids: HashMap<Key, LineId>,
    lines: Vec<Line>,
    refused: u64,
    /// `None`: of code that was inlined only the innermost line counts.
    nests: Option<Nests>,
}

/// Lines within others.
#[derive(Default)]
struct Nests {
    numbers: HashMap<Nest, u32>,
    all: Vec<Nest>,
    /// How many of them have been handed out by [`Lines::new_nests`].
    told: usize,
}

impl Lines {
    /// An empty table.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty table in which code that was inlined also belongs to the lines that it was inlined at.
    #[must_use]
    pub fn nested() -> Self {
        Self { nests: Some(Nests::default()), ..Self::default() }
    }

    /// Whether code that was inlined also belongs to the lines that it was inlined at.
    #[must_use]
    pub fn are_nested(&self) -> bool {
        self.nests.is_some()
    }

    /// The number of these lines, the innermost first, for an entry of the line table: a line's id where it is one alone or
    /// the table is not nested; 0 where there is none.
    pub fn number(&mut self, innermost_first: &[LineId]) -> u32 {
        if self.nests.is_none() {
            return innermost_first.first().map_or(0, |line| line.0);
        }
        let mut number = 0;
        for line in innermost_first.iter().rev() {
            number = match number {
                0 => line.0,
                outer if self.each(outer).any(|known| known == *line) => outer,
                outer => self.nest(Nest { line: line.0, outer }),
            };
        }
        number
    }

    fn nest(&mut self, nest: Nest) -> u32 {
        let Some(nests) = &mut self.nests else { return nest.line };
        if let Some(number) = nests.numbers.get(&nest) {
            return *number;
        }
        let index = u32::try_from(nests.all.len()).ok().filter(|index| *index < MAX_NESTS);
        let Some(index) = index else {
            self.refused += 1;
            return nest.line;
        };
        nests.all.push(nest);
        nests.numbers.insert(nest, MAX_LINES + index);
        MAX_LINES + index
    }

    /// The lines that a number of the line table stands for, the innermost first.
    pub fn each(&self, number: u32) -> impl Iterator<Item = LineId> {
        let nest =
            |number: u32| self.nests.as_ref()?.all.get(number.checked_sub(MAX_LINES)? as usize).copied();
        // An outer number is always that of an older nest, or a line: the way ends.
        let mut number = Some(number).filter(|number| *number != 0);
        std::iter::from_fn(move || {
            let this = number.take()?;
            match nest(this) {
                Some(nest) => {
                    number = Some(nest.outer);
                    Some(LineId(nest.line))
                }
                None => Some(LineId(this)),
            }
        })
    }

    /// The nests that have come since this was last asked, in the order of their numbers.
    pub fn new_nests(&mut self) -> Vec<Nest> {
        let Some(nests) = &mut self.nests else { return Vec::new() };
        let new = nests.all.get(nests.told..).unwrap_or_default().to_vec();
        nests.told = nests.all.len();
        new
    }

    /// The line with this id.
    #[must_use]
    pub fn get(&self, id: LineId) -> Option<&Line> {
        self.lines.get((id.0 as usize).checked_sub(1)?)
    }

    /// All lines with their ids, in the order of the ids.
    pub fn iter(&self) -> impl Iterator<Item = (LineId, &Line)> {
        (1..).map(LineId).zip(&self.lines)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// How often a line found no place because the table was full: samples there count for no line.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// The id of the line `file:line`; `function` names it if it is new. `None` when the table is full.
    pub fn place(
        &mut self,
        file: &Arc<str>,
        line: u32,
        function: impl FnOnce() -> Arc<str>,
    ) -> Option<LineId> {
        self.intern(Key::Place(Arc::clone(file), line), || Line {
            file: Some(Arc::clone(file)),
            line,
            function: function(),
        })
    }

    /// The id of a function of which only the name is known. `None` when the table is full.
    pub fn function(&mut self, name: &Arc<str>) -> Option<LineId> {
        self.intern(Key::Function(Arc::clone(name)), || Line {
            file: None,
            line: 0,
            function: Arc::clone(name),
        })
    }

    fn intern(&mut self, key: Key, line: impl FnOnce() -> Line) -> Option<LineId> {
        if let Some(id) = self.ids.get(&key) {
            return Some(*id);
        }
        let id = u32::try_from(self.lines.len() + 1).ok().filter(|id| *id < MAX_LINES);
        let Some(id) = id.map(LineId) else {
            self.refused += 1;
            return None;
        };
        self.lines.push(line());
        self.ids.insert(key, id);
        Some(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_has_one_id_whatever_the_function() {
        let mut lines = Lines::new();
        let file: Arc<str> = "/src/a.c".into();
        let first = lines.place(&file, 12, || "f".into()).expect("room");
        let again = lines.place(&"/src/a.c".into(), 12, || "g".into()).expect("room");
        let other = lines.place(&file, 13, || "f".into()).expect("room");
        assert_eq!((first, again, other), (LineId(1), LineId(1), LineId(2)));
        assert_eq!(lines.get(first).map(Line::location).as_deref(), Some("/src/a.c:12"));
        assert_eq!(lines.get(LineId::NONE), None);
    }

    #[test]
    fn lines_within_others_have_numbers_of_their_own() {
        let mut lines = Lines::nested();
        let file: Arc<str> = "a.c".into();
        let [a, b, c] = [1, 2, 3].map(|line| lines.place(&file, line, || "".into()).expect("room"));
        assert_eq!((lines.number(&[]), lines.number(&[b])), (0, b.0), "one alone is itself");
        let (two, three) = (lines.number(&[b, c]), lines.number(&[a, b, c]));
        assert_eq!((two, three), (MAX_LINES, MAX_LINES + 1));
        assert_eq!(lines.number(&[b, c]), two, "the same again");
        assert_eq!(lines.each(three).collect::<Vec<_>>(), [a, b, c]);
        assert_eq!(lines.number(&[c, b, c]), two, "recursion: each line once");
        assert_eq!(lines.each(0).count(), 0);
        let new = lines.new_nests();
        assert_eq!(new, [Nest { line: b.0, outer: c.0 }, Nest { line: a.0, outer: two }]);
        assert!(lines.new_nests().is_empty(), "they are told once");
    }

    #[test]
    fn where_only_the_innermost_line_counts_there_are_no_nests() {
        let mut lines = Lines::new();
        assert_eq!(lines.number(&[LineId(7), LineId(8)]), 7);
        assert_eq!((lines.each(7).collect::<Vec<_>>(), lines.new_nests().len()), (vec![LineId(7)], 0));
    }

    #[test]
    fn where_there_is_no_room_for_a_nest_its_innermost_line_counts() {
        let mut lines = Lines::nested();
        let mut outer = 1;
        for _ in 0..MAX_NESTS {
            outer = lines.nest(Nest { line: 2, outer });
        }
        assert_eq!((outer, lines.refused()), (MAX_LINES + MAX_NESTS - 1, 0));
        assert_eq!((lines.number(&[LineId(5), LineId(6)]), lines.refused()), (5, 1));
    }

    #[test]
    fn a_function_without_a_file_is_called_by_its_name() {
        let mut lines = Lines::new();
        let id = lines.function(&"work".into()).expect("room");
        assert_eq!(lines.get(id).map(Line::location).as_deref(), Some("work"));
    }

    #[test]
    fn a_full_table_refuses_and_says_so() {
        let mut lines = Lines::new();
        let file: Arc<str> = "a".into();
        for line in 1..MAX_LINES {
            assert!(lines.place(&file, line, || "".into()).is_some_and(|id| id.0 < MAX_LINES));
        }
        assert_eq!(lines.place(&file, MAX_LINES, || "".into()), None);
        assert!(lines.place(&file, 5, || "".into()).is_some(), "what is there is still found");
        assert_eq!(lines.refused(), 1);
    }
}
