//! What differs, by kind.

use std::fmt::{self, Write as _};

use super::answers::{Answer, Frame};

/// How our answer stands to those of the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// All places are those of both.
    Both,
    /// Those of `addr2line`; `llvm-symbolizer` says otherwise.
    Gnu,
    /// Those of `llvm-symbolizer`; `addr2line` says otherwise.
    Llvm,
    /// One says that the code has no line (line 0, which belongs to the line before here); else the same.
    NoLine,
    /// The innermost line is the same, the calls around it are not.
    Callers,
    /// They know a line, we do not.
    Missing,
    /// We know a line, they do not.
    More,
    /// Another line than both say.
    Other,
}

impl Kind {
    pub(super) const ALL: [Self; 8] = [
        Self::Both,
        Self::Gnu,
        Self::Llvm,
        Self::NoLine,
        Self::Callers,
        Self::Missing,
        Self::More,
        Self::Other,
    ];
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Both => "the same as both",
            Self::Gnu => "as addr2line only",
            Self::Llvm => "as llvm-symbolizer only",
            Self::NoLine => "line 0",
            Self::Callers => "other callers",
            Self::Missing => "no line here",
            Self::More => "a line here only",
            Self::Other => "another line",
        })
    }
}

/// The kinds of a binary's addresses.
#[derive(Debug, Default)]
pub(super) struct Tally {
    kinds: Vec<(usize, Kind)>,
    asked: usize,
    other_names: Vec<usize>,
}

impl Tally {
    pub(super) fn of(ours: &[Answer], gnu: &[Answer], llvm: &[Answer]) -> Self {
        let mut tally = Self { asked: ours.len(), ..Self::default() };
        for (at, ((our, gnu), llvm)) in ours.iter().zip(gnu).zip(llvm).enumerate() {
            if our.0.is_empty() && gnu.0.is_empty() && llvm.0.is_empty() {
                continue;
            }
            tally.kinds.push((at, kind(our, gnu, llvm)));
            let named = |other: &Answer| our.0.iter().zip(&other.0).all(|(a, b)| same_name(a, b));
            if same(our, llvm) && !named(llvm) || same(our, gnu) && !named(gnu) {
                tally.other_names.push(at);
            }
        }
        tally
    }

    pub(super) fn examples(&self, kind: Kind) -> Vec<usize> {
        if kind == Kind::Both {
            return self.other_names.clone();
        }
        self.kinds.iter().filter(|(_, other)| *other == kind).map(|(at, _)| *at).collect()
    }

    fn count(&self, kind: Kind) -> usize {
        self.kinds.iter().filter(|(_, other)| *other == kind).count()
    }
}

fn kind(our: &Answer, gnu: &Answer, llvm: &Answer) -> Kind {
    match (same(our, gnu), same(our, llvm)) {
        (true, true) => return Kind::Both,
        (true, false) => return Kind::Gnu,
        (false, true) => return Kind::Llvm,
        (false, false) => {}
    }
    let others = [gnu, llvm];
    if our.0.is_empty() {
        return Kind::Missing;
    }
    if others.iter().all(|other| other.0.is_empty()) {
        return Kind::More;
    }
    if others.iter().any(|other| same_but_line_0(our, other)) {
        return Kind::NoLine;
    }
    let first = |answer: &Answer| answer.0.first().map(|frame| (frame.file.clone(), frame.line));
    match others.iter().any(|other| first(our) == first(other)) {
        true => Kind::Callers,
        false => Kind::Other,
    }
}

fn same(a: &Answer, b: &Answer) -> bool {
    a.0.len() == b.0.len() && a.0.iter().zip(&b.0).all(|(a, b)| (&a.file, a.line) == (&b.file, b.line))
}

/// Whether the other one says line 0 of the innermost function, and else the same.
fn same_but_line_0(our: &Answer, other: &Answer) -> bool {
    let zero = other.0.first().is_none_or(|frame| frame.line == 0);
    let rest = |answer: &Answer| Answer(answer.0.iter().skip(1).cloned().collect());
    zero && (other.0.is_empty() || same(&rest(our), &rest(other)))
}

/// A symbol (with what the compiler appends to copies of a function), or the name in the source: which is given is a matter
/// of taste.
fn same_name(a: &Frame, b: &Frame) -> bool {
    fn bare(name: &str) -> &str {
        name.split_once('.').map_or(name, |(name, _)| name)
    }
    let (a, b) = (bare(&a.symbol), bare(&b.symbol));
    a == b
        || a.is_empty()
        || b.is_empty()
        || (a.starts_with('_') && a.contains(b))
        || (b.starts_with('_') && b.contains(a))
}

/// A table in Markdown.
pub(super) fn table(rows: &[(String, Tally)]) -> String {
    let mut text = String::from("| binary | addresses with a line |");
    for kind in Kind::ALL {
        let _ = write!(text, " {kind} |");
    }
    text.push_str(" other names |\n");
    text.push_str(&"| --- ".repeat(Kind::ALL.len() + 3));
    text.push_str("|\n");
    for (name, tally) in rows {
        let _ = write!(text, "| {name} | {} of {} |", tally.kinds.len(), tally.asked);
        for kind in Kind::ALL {
            let _ = write!(text, " {} |", tally.count(kind));
        }
        let _ = writeln!(text, " {} |", tally.other_names.len());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(places: &[(&str, u64)]) -> Answer {
        let frame = |(file, line): &(&str, u64)| Frame {
            symbol: String::new(),
            file: (*file).to_owned(),
            line: *line,
        };
        Answer(places.iter().map(frame).collect())
    }

    #[test]
    fn differences_are_told_apart() {
        let our = answer(&[("b.h", 3), ("a.c", 15)]);
        let none = answer(&[]);
        for (gnu, llvm, expected) in [
            (&our, &our, Kind::Both),
            (&our, &none, Kind::Gnu),
            (&none, &our, Kind::Llvm),
            (&answer(&[("b.h", 0), ("a.c", 15)]), &answer(&[("b.h", 0), ("a.c", 15)]), Kind::NoLine),
            (&answer(&[("b.h", 3)]), &answer(&[("b.h", 3), ("a.c", 16)]), Kind::Callers),
            (&none, &none, Kind::More),
            (&answer(&[("b.h", 4), ("a.c", 15)]), &answer(&[("b.h", 4)]), Kind::Other),
        ] {
            assert_eq!(kind(&our, gnu, llvm), expected, "{gnu} and {llvm}");
        }
        assert_eq!(kind(&none, &our, &our), Kind::Missing);
    }

    #[test]
    fn addresses_of_which_nobody_knows_anything_do_not_count() {
        let tally = Tally::of(&[answer(&[])], &[answer(&[])], &[answer(&[])]);
        assert!(table(&[("x".into(), tally)]).contains("| x | 0 of 1 |"));
    }
}
