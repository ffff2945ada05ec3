//! `--fixed-line` and `--fixed-function`: which line they mean is known before the program starts, so that a wrong one
//! is an error, and a right one is tried from the first moment, however seldom it is sampled.

use std::{collections::BTreeSet, path::Path, sync::Arc};

use anyhow::{Result, bail};
use coz_common::units::LineId;

use super::attribution::{Attribution, ResolvedPage};
use crate::{
    cli::Fixed,
    points,
    symbols::{Granularity, Line, Lines, Module},
};

/// What the user has fixed, and where its code is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// The line.
    pub line: LineId,
    /// Module-relative addresses of its code, one in each function that has some.
    pub addresses: Vec<u64>,
}

/// Finds it in the program.
///
/// # Errors
/// When there is no such line or function (with the nearest), it is not in scope, or it means several.
pub fn locate(fixed: &Fixed, module: &Arc<Module>, attribution: &Attribution) -> Result<Located> {
    let (found, granularity) = match fixed {
        Fixed::Line { file, line } => (points::by_line(module, file, *line)?, Granularity::Line),
        Fixed::Function(name) => (points::by_symbol(module, name)?, Granularity::Function),
    };
    choose(fixed, module, granularity, &found, &mut attribution.lines())
}

fn choose(
    fixed: &Fixed,
    module: &Module,
    granularity: Granularity,
    found: &[u64],
    lines: &mut Lines,
) -> Result<Located> {
    let mut all = BTreeSet::new();
    for &address in found {
        let mut at = module.lines_at(address, granularity, lines);
        if matches!(fixed, Fixed::Function(_)) {
            // Of functions within each other one is at the address that was found, the innermost unless another one has the name.
            let named = |id: &LineId| lines.get(*id).is_some_and(|line| is_called(fixed, line));
            let own = at.iter().position(named).unwrap_or(0);
            at = at.get(own).copied().into_iter().collect();
        }
        all.extend(at.into_iter().map(|id| id.0));
    }
    let meant = |&id: &u32| lines.get(LineId(id)).is_some_and(|line| is_meant(fixed, line));
    let ids: Vec<u32> = all.iter().copied().filter(meant).collect();
    match ids[..] {
        [line] => Ok(Located { line: LineId(line), addresses: found.to_vec() }),
        [] => {
            let instead = all.first().and_then(|&id| lines.get(LineId(id)));
            let instead = instead
                .map_or_else(String::new, |line| format!(": its samples count for {}", line.location()));
            if !lines.are_nested() && is_around(fixed, module, granularity, found) {
                bail!("all that it calls was inlined there{instead}; with --inclusive they count for it, too")
            }
            bail!("it is not in scope{instead}; --scope-source widens the scope")
        }
        ref several => {
            let lines = several.iter().filter_map(|&id| lines.get(LineId(id)));
            let names: Vec<_> = lines.map(Line::location).collect();
            bail!("it means several: {}; write more of the name", names.join(", "))
        }
    }
}

/// Whether the line would be found if code that was inlined counted for it.
fn is_around(fixed: &Fixed, module: &Module, granularity: Granularity, found: &[u64]) -> bool {
    let mut lines = Lines::nested();
    let around: Vec<LineId> =
        found.iter().flat_map(|&address| module.lines_at(address, granularity, &mut lines)).collect();
    around.into_iter().any(|id| lines.get(id).is_some_and(|line| is_meant(fixed, line)))
}

/// Whether a line is the one that the user has named.
fn is_meant(fixed: &Fixed, line: &Line) -> bool {
    match fixed {
        Fixed::Line { file, line: number } => {
            let same_file = |path: &str| Path::new(path).ends_with(file.trim_start_matches("./"));
            line.line == *number && line.file.as_deref().is_some_and(same_file)
        }
        // Whatever name the user gave: the search by symbol has matched it already.
        Fixed::Function(_) => true,
    }
}

/// The fixed line in a page of a library, which is known only when the program has loaded it.
pub fn in_page(fixed: &Fixed, attribution: &Attribution, page: &ResolvedPage) -> Option<LineId> {
    let lines = attribution.lines();
    page.entries.iter().flat_map(|entry| lines.each(entry.line)).find(|&id| {
        let Some(line) = lines.get(id) else { return false };
        is_called(fixed, line)
    })
}

/// Whether a line, or a function, is called as the user has named it.
fn is_called(fixed: &Fixed, line: &Line) -> bool {
    match fixed {
        Fixed::Line { .. } => is_meant(fixed, line),
        Fixed::Function(name) => *line.function == **name || line.function.ends_with(&format!("::{name}")),
    }
}
