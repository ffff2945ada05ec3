//! The text around profiled lines, as far as its files are at hand.

use super::super::source::{Sources, around};
use crate::experiment::record::Excerpt;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Longer lines are cut: generated code has lines of megabytes.
const LONGEST: usize = 400;
/// A page holds no more lines of source than this: what has most samples comes first.
const MOST: usize = 60_000;

/// Which lines of which files are wanted.
#[derive(Debug, Default)]
pub(super) struct Excerpts<'a> {
    files: BTreeMap<&'a str, BTreeSet<u32>>,
    wanted: usize,
}

/// What is there of a file.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct File {
    file: String,
    parts: Vec<Excerpt>,
}

impl<'a> Excerpts<'a> {
    /// This line, and those around it.
    pub(super) fn want(&mut self, (file, number): (&'a str, u32)) {
        if self.wanted >= MOST {
            return;
        }
        let lines = self.files.entry(file).or_default();
        for near in around(number) {
            self.wanted += usize::from(lines.insert(near));
        }
    }

    /// Reads them.
    pub(super) fn read(self, mut sources: Sources) -> Vec<File> {
        let short = |text: &str| text.trim_end().chars().take(LONGEST).collect();
        let files = self.files.into_iter().map(|(file, lines)| File {
            file: file.to_owned(),
            parts: sources.excerpts(file, &lines, short),
        });
        files.filter(|file| !file.parts.is_empty()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write as _;

    #[test]
    fn what_lies_near_stands_together_and_the_rest_apart() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut text = String::new();
        (1..=100).for_each(|n| writeln!(text, "  line {n}").unwrap());
        std::fs::write(file.path(), text).unwrap();
        let path = file.path().to_str().unwrap();
        let mut excerpts = Excerpts::default();
        for number in [3, 20, 70, 100, 4_000_000_000] {
            excerpts.want((path, number));
        }
        excerpts.want(("/no/such/file", 1));
        let read = excerpts.read(Sources::default());
        assert_eq!(read.len(), 1, "a file that is not there is left out");
        let ranges: Vec<_> = read[0].parts.iter().map(|p| (p.first, p.lines.len())).collect();
        assert_eq!(ranges, [(1, 28), (62, 17), (92, 9)]);
        assert_eq!(read[0].parts[0].lines[2], "  line 3", "indented as it is");
    }

    #[test]
    fn lines_of_any_length_and_number_are_cut() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "é".repeat(100_000)).unwrap();
        let path = file.path().to_str().unwrap();
        let mut excerpts = Excerpts::default();
        (1..1_000_000).step_by(17).for_each(|number| excerpts.want((path, number)));
        assert!(excerpts.wanted < MOST + 20);
        assert_eq!(excerpts.read(Sources::default())[0].parts[0].lines[0].chars().count(), LONGEST);
    }
}
