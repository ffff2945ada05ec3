//! The lines of a profile, with what tells them apart.

use crate::{
    estimate::Estimate,
    report::source::{self, Sources},
};

/// A line, or a function.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Place {
    /// As the profile calls it: `FILE:LINE`, or the function's name.
    pub location: String,
    /// The function around it, without what a compiler adds to the name.
    pub function: String,
    /// File and number; `None` for functions.
    pub source: Option<(String, u32)>,
    /// What stands there, each blank once; `None` where that is not known.
    pub text: Option<String>,
    /// Its share of the samples, 0.0 to 1.0.
    pub share: f64,
}

/// All lines with samples or experiments. `sources`: whether the files, as they are now, may tell what a line says that the
/// profile itself does not.
#[must_use]
pub fn of(estimate: &Estimate, mut sources: Option<&mut Sources>) -> Vec<Place> {
    let mut places: Vec<Place> = Vec::new();
    let sampled = estimate.samples.iter().map(|s| {
        let source = s.samples.file.clone().zip(s.samples.line);
        (&s.samples.location, s.samples.function.as_deref(), source, s.samples.text.as_deref(), s.share)
    });
    let tried =
        estimate.lines.iter().map(|l| (&l.location, l.function.as_deref(), l.source.clone(), None, l.share));
    for (location, function, source, text, share) in sampled.chain(tried) {
        if location.is_empty() || places.iter().any(|place| place.location == *location) {
            continue;
        }
        let split = || source::split(location).map(|(file, line)| (file.to_owned(), line));
        let source = source.or_else(split);
        let text = match (text, &source, &mut sources) {
            (Some(text), _, _) => Some(plain(text)),
            (None, Some((file, line)), Some(sources)) => sources.line(file, *line).map(plain),
            _ => None,
        };
        places.push(Place {
            location: location.clone(),
            function: undecorated(function.unwrap_or_default()).to_owned(),
            source,
            text,
            share,
        });
    }
    places
}

/// Each blank once, and none at the ends: indentation is no change.
fn plain(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The name without what differs from build to build: Rust's hash, and what GCC appends to copies of a function.
#[must_use]
pub fn undecorated(name: &str) -> &str {
    let mut name = name;
    if let Some((head, hash)) = name.rsplit_once("::h")
        && hash.len() == 16
        && hash.bytes().all(|b| b.is_ascii_hexdigit())
    {
        name = head;
    }
    for mark in [".isra.", ".constprop.", ".part.", ".cold", ".lto_priv."] {
        if let Some((head, _)) = name.split_once(mark) {
            name = head;
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ_by_what_people_wrote_alone() {
        assert_eq!(undecorated("app::run::h0123456789abcdef"), "app::run");
        assert_eq!(undecorated("hash.isra.0.cold"), "hash");
        assert_eq!(undecorated("std::vec<int>::h"), "std::vec<int>::h");
    }
}
