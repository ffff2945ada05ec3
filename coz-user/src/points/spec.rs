//! The grammar of progress points: `[NAME=][BINARY@]WHERE`.
//!
//! WHERE is `SYMBOL`, `SYMBOL+OFFSET`, `FILE:LINE`, `SYMBOL%return`, `usdt:PROVIDER:NAME`, `syscall:NAME` or
//! `sampled:FILE:LINE`. Inside single or double quotes every character stands for itself; this is how a C++ name with `=`,
//! `@`, `%`, `+` or a `:` before digits is written.

use std::fmt;
use std::str::FromStr;

/// A progress point as the user wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// What the reports call it: NAME, or the rest of the spec without quotes.
    pub name: String,
    /// The binary that it is in: a path or a library's name; `None` for the program itself.
    pub binary: Option<String>,
    /// Where in it.
    pub place: Place,
}

/// The WHERE of a [`Spec`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A function's entry, or so many bytes after it.
    Symbol {
        /// As the linker or as people know it.
        symbol: String,
        /// Bytes; 0 is the entry.
        offset: u64,
    },
    /// A line's first instruction.
    Line {
        /// The end of a path, in whole components.
        file: String,
        /// From 1 on.
        line: u32,
    },
    /// A function's return.
    Return {
        /// As the linker or as people know it.
        symbol: String,
    },
    /// A probe that the program declares itself.
    Usdt {
        /// Provider.
        provider: String,
        /// Name.
        name: String,
    },
    /// A completed system call.
    Syscall {
        /// Without `sys_`.
        name: String,
    },
    /// A line, counted by its samples.
    Sampled {
        /// The end of a path, in whole components.
        file: String,
        /// From 1 on.
        line: u32,
    },
}

/// A spec that cannot be read: shows where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecError {
    text: String,
    /// Characters before the place that is meant.
    at: usize,
    what: String,
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "this progress point cannot be read: {}", self.what)?;
        writeln!(f, "    {}", self.text)?;
        write!(f, "    {:at$}^", "", at = self.at)
    }
}

impl std::error::Error for SpecError {}

/// A character of a spec, where it stands, and whether it was quoted.
#[derive(Clone, Copy)]
struct Mark {
    c: char,
    at: usize,
    quoted: bool,
}

impl Mark {
    fn is(self, c: char) -> bool {
        self.c == c && !self.quoted
    }
}

impl FromStr for Spec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let fail = |at: usize, what: &str| SpecError { text: text.to_owned(), at, what: what.to_owned() };
        let end = text.chars().count();
        let marks = unquote(text).map_err(|at| fail(at, "this quote is never closed"))?;
        let (name, rest) = cut(&marks, '=');
        let (binary, place) = cut(rest, '@');
        for (part, what) in
            [(name, "a name is expected before '='"), (binary, "a binary is expected before '@'")]
        {
            if part.is_some_and(|part| literal(part).is_empty()) {
                return Err(fail(
                    if what.contains('=') { 0 } else { rest.first().map_or(end, |m| m.at) },
                    what,
                ));
            }
        }
        let default_name = literal(rest);
        let place = parse_place(place, end).map_err(|(at, what)| fail(at, &what))?;
        Ok(Self { name: name.map_or(default_name, literal), binary: binary.map(literal), place })
    }
}

/// Splits two specs at the first comma that is not quoted: `BEGIN,END`.
///
/// # Errors
/// When a quote is never closed.
pub fn split_pair(text: &str) -> Result<(&str, Option<&str>), SpecError> {
    let marks = unquote(text).map_err(|at| SpecError {
        text: text.to_owned(),
        at,
        what: "this quote is never closed".to_owned(),
    })?;
    let comma = marks.iter().find(|mark| mark.is(',')).map(|mark| mark.at);
    Ok(match comma.and_then(|at| text.char_indices().nth(at)) {
        Some((byte, comma)) => (&text[..byte], Some(&text[byte + comma.len_utf8()..])),
        None => (text, None),
    })
}

type Failure = (usize, String);

fn parse_place(marks: &[Mark], end: usize) -> Result<Place, Failure> {
    let start = marks.first().map_or(end, |mark| mark.at);
    let empty = |what: &str| (start, format!("{what} is expected here"));
    if literal(marks).is_empty() {
        return Err(empty("a symbol or FILE:LINE"));
    }
    if let Some(rest) = after(marks, "usdt:") {
        let (provider, name) = cut(rest, ':');
        let (provider, name) = (provider.map(literal).unwrap_or_default(), literal(name));
        if provider.is_empty() || name.is_empty() {
            return Err((start, "a probe is written usdt:PROVIDER:NAME".to_owned()));
        }
        return Ok(Place::Usdt { provider, name });
    }
    if let Some(rest) = after(marks, "syscall:") {
        let name = literal(rest);
        if name.is_empty() {
            return Err((start, "a system call is written syscall:NAME".to_owned()));
        }
        return Ok(Place::Syscall { name });
    }
    if let Some(rest) = after(marks, "sampled:") {
        return match file_line(rest, end)? {
            Some((file, line)) => Ok(Place::Sampled { file, line }),
            None => Err((start, "a sampled point is written sampled:FILE:LINE".to_owned())),
        };
    }
    if let Some(at) = marks.iter().rposition(|mark| mark.is('%')) {
        let (symbol, suffix) = marks.split_at(at);
        if literal(suffix) != "%return" {
            let what = format!(
                "'{}' is not known; there is %return (quote a '%' that is part of a name)",
                literal(suffix)
            );
            return Err((marks[at].at, what));
        }
        if literal(symbol).is_empty() {
            return Err(empty("a symbol"));
        }
        return Ok(Place::Return { symbol: literal(symbol) });
    }
    if let Some((file, line)) = file_line(marks, end)? {
        return Ok(Place::Line { file, line });
    }
    symbol(marks)
}

/// `FILE:LINE`: digits after a single colon.
fn file_line(marks: &[Mark], end: usize) -> Result<Option<(String, u32)>, Failure> {
    let Some(at) = marks.iter().rposition(|mark| mark.is(':')) else { return Ok(None) };
    let (file, line) = (&marks[..at], &marks[at + 1..]);
    if file.last().is_some_and(|mark| mark.is(':')) || line.iter().any(|mark| mark.quoted) {
        return Ok(None);
    }
    let place = line.first().map_or(end, |mark| mark.at);
    let (file, line) = (literal(file), literal(line));
    if line.is_empty() {
        return Err((place, "a line number is expected after ':'".to_owned()));
    }
    if !line.bytes().all(|b| b.is_ascii_digit()) {
        let what = "after ':' a line number is expected, as in FILE:LINE (C++ and Rust names have '::')";
        return Err((place, what.to_owned()));
    }
    if file.is_empty() {
        return Err((place, "a file is expected before ':'".to_owned()));
    }
    match line.parse() {
        Ok(0) | Err(_) => Err((place, format!("there is no line {line}"))),
        Ok(line) => Ok(Some((file, line))),
    }
}

fn symbol(marks: &[Mark]) -> Result<Place, Failure> {
    let plain = Place::Symbol { symbol: literal(marks), offset: 0 };
    let Some(at) = marks.iter().rposition(|mark| mark.is('+')) else { return Ok(plain) };
    let offset = literal(&marks[at + 1..]);
    if !offset.starts_with(|c: char| c.is_ascii_digit()) {
        // `operator+`, `operator+=` and the like.
        return Ok(plain);
    }
    let parsed = match offset.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => offset.parse(),
    };
    let symbol = literal(&marks[..at]);
    match parsed {
        _ if symbol.is_empty() => Err((marks[at].at, "a symbol is expected before '+'".to_owned())),
        Ok(offset) => Ok(Place::Symbol { symbol, offset }),
        Err(_) => {
            Err((marks[at].at, format!("'{offset}' is no offset: bytes are expected, as in +16 or +0x10")))
        }
    }
}

/// The characters without their quotes; fails with the place of a quote that is never closed.
fn unquote(text: &str) -> Result<Vec<Mark>, usize> {
    let mut marks = Vec::new();
    let mut open: Option<(char, usize)> = None;
    for (at, c) in text.chars().enumerate() {
        match open {
            Some((quote, _)) if c == quote => open = None,
            None if c == '\'' || c == '"' => open = Some((c, at)),
            _ => marks.push(Mark { c, at, quoted: open.is_some() }),
        }
    }
    match open {
        Some((_, at)) => Err(at),
        None => Ok(marks),
    }
}

/// What stands before the first unquoted `separator`, if there is one, and the rest.
fn cut(marks: &[Mark], separator: char) -> (Option<&[Mark]>, &[Mark]) {
    match marks.iter().position(|mark| mark.is(separator)) {
        Some(at) => (Some(&marks[..at]), &marks[at + 1..]),
        None => (None, marks),
    }
}

fn after<'a>(marks: &'a [Mark], prefix: &str) -> Option<&'a [Mark]> {
    let length = prefix.chars().count();
    let head = marks.get(..length)?;
    head.iter().zip(prefix.chars()).all(|(mark, c)| mark.is(c)).then(|| &marks[length..])
}

fn literal(marks: &[Mark]) -> String {
    marks.iter().map(|mark| mark.c).collect::<String>().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Spec {
        text.parse().unwrap_or_else(|e| panic!("{e}"))
    }

    fn symbol_at(symbol: &str, offset: u64) -> Place {
        Place::Symbol { symbol: symbol.into(), offset }
    }

    #[test]
    fn every_kind_of_place() {
        let line = |file: &str, line| Place::Line { file: file.into(), line };
        for (text, place) in [
            ("work", symbol_at("work", 0)),
            ("app::work", symbol_at("app::work", 0)),
            ("::work", symbol_at("::work", 0)),
            ("app::work(int, char const*)", symbol_at("app::work(int, char const*)", 0)),
            ("work+16", symbol_at("work", 16)),
            ("work+0x1f", symbol_at("work", 31)),
            ("V::operator+", symbol_at("V::operator+", 0)),
            ("V::operator+ (int)", symbol_at("V::operator+ (int)", 0)),
            ("a.c:12", line("a.c", 12)),
            ("/src/my app/a.c:12", line("/src/my app/a.c", 12)),
            ("work%return", Place::Return { symbol: "work".into() }),
            ("usdt:libc:setjmp", Place::Usdt { provider: "libc".into(), name: "setjmp".into() }),
            ("syscall:write", Place::Syscall { name: "write".into() }),
            ("sampled:a.c:3", Place::Sampled { file: "a.c".into(), line: 3 }),
        ] {
            assert_eq!(parse(text), Spec { name: text.into(), binary: None, place }, "{text}");
        }
    }

    #[test]
    fn name_and_binary_come_first() {
        let spec = parse("jobs=/usr/lib/libx.so@work+4");
        assert_eq!((spec.name.as_str(), spec.binary.as_deref()), ("jobs", Some("/usr/lib/libx.so")));
        assert_eq!(spec.place, symbol_at("work", 4));
        assert_eq!(parse("libx@work").name, "libx@work");
    }

    #[test]
    fn quotes_make_everything_literal() {
        assert_eq!(parse("'V::operator=='").place, symbol_at("V::operator==", 0));
        assert_eq!(parse("eq=\"V::operator==(V, V)\"").name, "eq");
        assert_eq!(parse("'memcpy@@GLIBC_2.14'").place, symbol_at("memcpy@@GLIBC_2.14", 0));
        assert_eq!(parse("'operator%'%return").place, Place::Return { symbol: "operator%".into() });
        assert_eq!(parse("'a:12'").place, symbol_at("a:12", 0));
        assert_eq!(parse("\"it's\"").place, symbol_at("it's", 0));
    }

    #[test]
    fn mistakes_are_pointed_at() {
        for (text, at, what) in [
            ("", 0, "a symbol or FILE:LINE"),
            ("x=", 2, "a symbol or FILE:LINE"),
            ("=work", 0, "a name"),
            ("x=@work", 2, "a binary"),
            ("x='work", 2, "never closed"),
            ("a.c:", 4, "line number"),
            ("a.c:0", 4, "no line 0"),
            ("a.c:99999999999", 4, "no line"),
            ("a.c:x", 4, "FILE:LINE"),
            (":12", 1, "a file"),
            ("work%exit", 4, "%return"),
            ("%return", 0, "a symbol"),
            ("usdt:x", 0, "usdt:PROVIDER:NAME"),
            ("syscall:", 0, "syscall:NAME"),
            ("sampled:work", 0, "sampled:FILE:LINE"),
            ("work+0xzz", 4, "no offset"),
            ("+4", 0, "a symbol"),
        ] {
            let error = text.parse::<Spec>().expect_err(text);
            assert_eq!(error.at, at, "{text}: {error}");
            assert!(error.what.contains(what), "{text}: {error}");
        }
    }

    #[test]
    fn the_explanation_has_a_caret_below_the_place() {
        let error = "jobs=a.c:x".parse::<Spec>().expect_err("no number").to_string();
        let lines: Vec<&str> = error.lines().collect();
        assert_eq!(lines[1], "    jobs=a.c:x");
        assert_eq!(lines[2], "             ^");
    }

    #[test]
    fn pairs_are_split_outside_quotes() {
        assert_eq!(split_pair("a,b").expect("fine"), ("a", Some("b")));
        assert_eq!(split_pair("'f(int, int)',b").expect("fine"), ("'f(int, int)'", Some("b")));
        assert_eq!(split_pair("a").expect("fine"), ("a", None));
        assert!(split_pair("'a,b").is_err());
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_parsed_or_refused(text in "[-a-z0-9:=@%+'\" é,]{0,24}") {
            if let Err(error) = text.parse::<Spec>() {
                proptest::prop_assert!(error.at <= text.chars().count());
            }
        }

        #[test]
        fn a_quoted_symbol_is_taken_as_it_is(symbol in "[a-z][-a-z0-9:=@%+ ,]{0,20}[a-z]") {
            let spec: Spec = format!("'{symbol}'").parse().expect("quoted");
            proptest::prop_assert_eq!(spec.place, symbol_at(&symbol, 0));
        }
    }
}
