//! Points by line: the first instruction of a line, in each function that has code of it.

use super::by_symbol::Sites;
use super::resolve::{Found, nearest};
use crate::symbols::{LineSite, Module};
use anyhow::{Result, bail};

/// The places that `FILE:LINE` means.
///
/// # Errors
/// When there is no debug information, no such file (with the nearest names), or no code on that line (with
/// the nearest lines that have some).
pub(crate) fn find(module: &Module, file: &str, line: u32) -> Result<Sites> {
    let path = module.path().display();
    let search = match module.line_sites(file, line) {
        Ok(search) => search,
        Err(why) => {
            bail!("{path} {why}, so its lines are not known: name a function instead, or build it with -g")
        }
    };
    if search.files.is_empty() {
        let base = |name: &str| name.rsplit('/').next().unwrap_or(name).to_owned();
        let near = nearest(&base(file), search.other_files.iter().map(|name| base(name)));
        let hint =
            if near.is_empty() { String::new() } else { format!("; did you mean {}?", near.join(", ")) };
        bail!("no source file '{file}' in {path}{hint}");
    }
    if search.sites.is_empty() {
        bail!("no code on line {line} of {file} in {path}: {}", nearest_lines(&search.lines, line));
    }
    let several = search.files.len() > 1;
    let what = |site: &LineSite| {
        let file =
            if several { site.file.as_str() } else { site.file.rsplit('/').next().unwrap_or(&site.file) };
        let within = match (site.function.as_str(), site.within.as_str()) {
            ("", _) => String::new(),
            (function, "") => format!(" in {function}"),
            (function, within) => format!(" in {function} inlined into {within}"),
        };
        format!("{file}:{line}{within}")
    };
    let sites = search.sites.iter().filter(|site| !is_strayed(site, &search.sites));
    Ok((sites.map(|site| Found { address: site.address, what: what(site) }).collect(), None))
}

/// Whether a place is of a line that belongs to another function: where one was inlined, compilers let some instructions of the
/// copy stray among those of the function around it, and the other way round. The one that has more of the line is
/// meant; both would be twice.
fn is_strayed(site: &LineSite, all: &[LineSite]) -> bool {
    let is_copy_in = |copy: &LineSite, around: &LineSite| {
        around.within.is_empty()
            && !around.function.is_empty()
            && copy.within == around.function
            && copy.file == around.file
    };
    all.iter().any(|other| {
        (is_copy_in(other, site) && other.rows >= site.rows)
            || (is_copy_in(site, other) && other.rows > site.rows)
    })
}

fn nearest_lines(lines: &[u32], line: u32) -> String {
    const SHOWN: usize = 2;
    let at = lines.partition_point(|other| *other < line);
    let around =
        lines[at.saturating_sub(SHOWN)..].iter().take(lines.len().min(at + SHOWN) - at.saturating_sub(SHOWN));
    match around.map(u32::to_string).collect::<Vec<_>>().as_slice() {
        [] => "no line of this file has code".to_owned(),
        [one] => format!("the nearest line that has code is {one}"),
        some => format!("the nearest lines that have code are {}", some.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_on_both_sides_are_offered() {
        assert_eq!(
            nearest_lines(&[3, 5, 9, 12, 40], 10),
            "the nearest lines that have code are 5, 9, 12, 40"
        );
        assert_eq!(nearest_lines(&[3, 5, 9], 1), "the nearest lines that have code are 3, 5");
        assert_eq!(nearest_lines(&[3], 7), "the nearest line that has code is 3");
        assert_eq!(nearest_lines(&[], 7), "no line of this file has code");
    }
}
