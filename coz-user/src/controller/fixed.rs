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
    let all: BTreeSet<u32> = found
        .iter()
        .filter_map(|&address| module.resolve(address, granularity, lines))
        .map(|id| id.0)
        .collect();
    let meant = |&id: &u32| lines.get(LineId(id)).is_some_and(|line| is_meant(fixed, line));
    let ids: Vec<u32> = all.iter().copied().filter(meant).collect();
    match ids[..] {
        [line] => Ok(Located { line: LineId(line), addresses: found.to_vec() }),
        [] => {
            let instead = all.first().and_then(|&id| lines.get(LineId(id)));
            let instead = instead
                .map_or_else(String::new, |line| format!(": its samples count for {}", line.location()));
            bail!("it is not in scope{instead}; --scope-source widens the scope")
        }
        ref several => {
            let lines = several.iter().filter_map(|&id| lines.get(LineId(id)));
            let names: Vec<_> = lines.map(Line::location).collect();
            bail!("it means several: {}; write more of the name", names.join(", "))
        }
    }
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
    page.entries.iter().map(|entry| LineId(entry.line)).filter(|line| line.is_some()).find(|&id| {
        let Some(line) = lines.get(id) else { return false };
        match fixed {
            Fixed::Line { .. } => is_meant(fixed, line),
            Fixed::Function(name) => {
                *line.function == **name || line.function.ends_with(&format!("::{name}"))
            }
        }
    })
}
