//! What `coz-bpf points` shows: functions, lines, declared probes and points of coz.h.

use super::candidates::{Candidate, candidates};
use super::usdt::{self, Usdt};
use crate::symbols::Module;
use object::{Object as _, ObjectSection as _};
use std::collections::BTreeMap;

/// A point that can be had: what to give to `--progress`, and what is known of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The spec.
    pub spec: String,
    /// Where it is, or how often; may be empty.
    pub about: String,
}

/// Everything that fits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// Functions in scope, by name.
    pub functions: Vec<Entry>,
    /// Lines of the source file that the filter names, if it does.
    pub lines: Vec<Entry>,
    /// Probes that the program declares.
    pub probes: Vec<Entry>,
    /// Whether the program is instrumented for coz: points that need no `--progress`.
    pub coz_h: bool,
}

/// What coz.h looks for in the process at run time.
const COZ_H: &[u8] = b"_coz_get_counter";

impl Listing {
    /// Of a module. `filter` as in [`super::candidates()`]; if it is the end of a source file's path, in whole components, with or without
    /// `:LINE`, the lines of that file are listed, too.
    #[must_use]
    pub fn of(module: &Module, filter: &str) -> Self {
        let functions = candidates(module, filter).into_iter();
        let functions = functions.map(|c| Entry { about: about(&c), spec: c.spec }).collect();
        let coz_h = filter.is_empty() && mentions(module, COZ_H);
        Self { functions, lines: lines(module, filter), probes: probes(usdt::probes(module), filter), coz_h }
    }

    /// Whether there is nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.functions.is_empty() && self.lines.is_empty() && self.probes.is_empty() && !self.coz_h
    }
}

/// Where it is declared; of a function without a name its length, for nothing else tells it from others.
fn about(candidate: &Candidate) -> String {
    let nameless = candidate.symbol.starts_with("sub_") && candidate.size > 0;
    let length = || nameless.then(|| format!("{} bytes of code", candidate.size));
    candidate.location.clone().or_else(length).unwrap_or_default()
}

fn lines(module: &Module, filter: &str) -> Vec<Entry> {
    let (file, wanted) = match filter.rsplit_once(':') {
        Some((file, line)) if line.bytes().all(|b| b.is_ascii_digit()) => (file, line),
        _ => (filter, ""),
    };
    // A word that is no file's name costs a look at the names of all files only.
    if file.is_empty() || file.ends_with(':') {
        return Vec::new();
    }
    let Ok(search) = module.line_sites(file, 0) else { return Vec::new() };
    let about = search.files.into_iter().collect::<Vec<_>>().join(", ");
    let fits = |line: &String| line.starts_with(wanted);
    let lines = search.lines.iter().filter(|line| **line > 0).map(u32::to_string).filter(fits);
    lines.map(|line| Entry { spec: format!("{file}:{line}"), about: about.clone() }).collect()
}

fn probes(all: Vec<Usdt>, filter: &str) -> Vec<Entry> {
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    for probe in all {
        *places.entry(format!("usdt:{}:{}", probe.provider, probe.name)).or_default() += 1;
    }
    let filter = filter.to_lowercase();
    let fitting = places.into_iter().filter(|(spec, _)| spec.to_lowercase().contains(&filter));
    let about = |count| if count == 1 { "1 place".to_owned() } else { format!("{count} places") };
    fitting.map(|(spec, count)| Entry { spec, about: about(count) }).collect()
}

fn mentions(module: &Module, word: &[u8]) -> bool {
    let Ok(object) = module.elf().object() else { return false };
    let constants = object.sections().filter(|section| section.name() == Ok(".rodata"));
    constants
        .filter_map(|section| section.data().ok())
        .any(|data| data.windows(word.len()).any(|w| w == word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_are_listed_once_with_the_number_of_their_places() {
        let probe = |provider: &str, name: &str| Usdt {
            provider: provider.into(),
            name: name.into(),
            address: 0,
            semaphore: None,
        };
        let all = vec![probe("app", "begin"), probe("app", "end"), probe("app", "begin")];
        let listed = probes(all.clone(), "APP:BEG");
        assert_eq!(listed, [Entry { spec: "usdt:app:begin".into(), about: "2 places".into() }]);
        assert_eq!(probes(all, "").len(), 2);
    }
}
