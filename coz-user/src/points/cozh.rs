//! What a program that is instrumented with coz.h counts, where its counters cannot be had.
//!
//! coz.h asks for its counters once: each file of the program looks for `_coz_get_counter` when it first passes one of its points, and keeps
//! the answer, also that there is none. So a program that runs already cannot be made to count. But the lines of its points are in its debug
//! information, where coz.h has a variable on each, and probes can stand on them.

use std::fs;

use super::binaries::Binaries;
use super::latency::{Latency, resolve_latency};
use super::resolve::{Resolved, resolve};
use super::spec::Spec;
use crate::symbols::{Declaration, Module};

/// What coz.h, and the Rust crate `coz`, look for.
const LOOKED_FOR: &[u8] = b"_coz_get_counter";
/// The variable on each line that has a point.
const VARIABLE: &str = "_counter";

/// The points of an instrumented program, in the grammar of the command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Instrumented {
    /// Throughput: `NAME=FILE:LINE`.
    pub progress: Vec<String>,
    /// Latency: `NAME=FILE:LINE,FILE:LINE`.
    pub latency: Vec<String>,
}

/// The points of a program that is instrumented; `None`: it is not. None in it: they cannot be found.
#[must_use]
pub fn instrumented(module: &Module) -> Option<Instrumented> {
    let is = module.elf().bytes().split(|&byte| byte == 0).any(|text| text.ends_with(LOOKED_FOR));
    is.then(|| arrange(&module.variables(VARIABLE), line))
}

impl Instrumented {
    /// Finds where they are; those that no probe can stand on are left out.
    #[must_use]
    pub fn resolve(&self, binaries: &Binaries) -> (Vec<Resolved>, Vec<Latency>) {
        let spec = |text: &String| text.parse::<Spec>().ok();
        let progress = self.progress.iter().filter_map(spec).filter_map(|spec| resolve(&spec, binaries).ok());
        let latency = self.latency.iter().filter_map(|text| resolve_latency(text, binaries).ok());
        (progress.collect(), latency.collect())
    }
}

/// A line's text, if its file is there.
fn line(place: &Declaration) -> Option<String> {
    let text = fs::read(&place.file).ok()?;
    let line = text.split(|&byte| byte == b'\n').nth(place.line as usize - 1)?;
    Some(String::from_utf8_lossy(line).into_owned())
}

/// What stands on a line.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Macro {
    Progress(Option<String>),
    Begin(String),
    End(String),
}

impl Macro {
    /// Of a line's text. What cannot be told is taken for progress: that is what most points are.
    fn of(text: &str) -> Self {
        let name = || text.split('"').nth(1).map(str::to_owned).filter(|name| is_plain(name));
        match (text.contains("COZ_BEGIN"), text.contains("COZ_END"), name()) {
            (true, false, Some(name)) => Self::Begin(name),
            (false, true, Some(name)) => Self::End(name),
            (_, _, name) => Self::Progress(name.filter(|_| text.contains("COZ_PROGRESS_NAMED"))),
        }
    }
}

/// A name that means nothing else in the grammar.
fn is_plain(name: &str) -> bool {
    let allowed = |c: char| c.is_alphanumeric() || "_-. ".contains(c);
    !name.is_empty() && name.chars().all(allowed)
}

fn arrange(places: &[Declaration], text: impl Fn(&Declaration) -> Option<String>) -> Instrumented {
    let at = |place: &Declaration| format!("'{}':{}", place.file, place.line);
    let kinds: Vec<(Macro, String)> =
        places.iter().map(|place| (Macro::of(&text(place).unwrap_or_default()), at(place))).collect();
    let mut found = Instrumented::default();
    for (kind, place) in &kinds {
        match kind {
            Macro::Progress(Some(name)) => found.progress.push(format!("{name}={place}")),
            Macro::Progress(None) => found.progress.push(place.clone()),
            Macro::Begin(name) => {
                // Several begins or ends of one name are not told apart: the first of each.
                let latency = format!("{name}=");
                let end = kinds.iter().find(|(kind, _)| *kind == Macro::End(name.clone()));
                if let Some((_, end)) = end
                    && !found.latency.iter().any(|known| known.starts_with(&latency))
                {
                    found.latency.push(format!("{latency}{place},{end}"));
                }
            }
            Macro::End(_) => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(texts: &[&'static str]) -> Instrumented {
        let places: Vec<Declaration> =
            (1..=texts.len() as u32).map(|line| Declaration { file: "a.c".into(), line }).collect();
        arrange(&places, |place| Some(texts[place.line as usize - 1].to_owned()))
    }

    #[test]
    fn each_point_has_the_name_that_coz_h_gives_it() {
        let found = places(&[
            r#"    COZ_BEGIN("job");"#,
            "work();",
            r#"    COZ_END("job");"#,
            r#"COZ_PROGRESS_NAMED("step");"#,
            "COZ_PROGRESS;",
            r#"COZ_BEGIN("never ends")"#,
        ]);
        assert_eq!(found.progress, ["'a.c':2", "step='a.c':4", "'a.c':5"]);
        assert_eq!(found.latency, ["job='a.c':1,'a.c':3"]);
    }

    #[test]
    fn a_name_that_would_mean_something_else_is_left_out() {
        assert_eq!(places(&[r#"COZ_PROGRESS_NAMED("a=b@c:9")"#]).progress, ["'a.c':1"]);
        assert_eq!(places(&[r#"COZ_PROGRESS_NAMED(NAME)"#]).progress, ["'a.c':1"]);
    }

    #[test]
    fn without_its_source_every_point_is_progress() {
        let place = Declaration { file: "a.c".into(), line: 7 };
        assert_eq!(arrange(&[place], |_| None).progress, ["'a.c':7"]);
    }
}
