//! The interner: lines (or functions) of the program, and the small numbers that the kernel knows them by.

use coz_common::abi::MAX_LINES;
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
}

impl Lines {
    /// An empty table.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
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
