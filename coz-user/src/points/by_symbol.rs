//! Points by symbol: which functions a name means.

use super::resolve::{Found, nearest};
use crate::symbols::{Function, Module, demangle, short_name, split_clone};
use anyhow::{Result, bail};

/// How a name fits a function: the first kind that fits anything decides.
const KINDS: [fn(&str, &Function) -> bool; 4] = [
    |name, function| function.symbol == name,
    |name, function| split_clone(&function.symbol).0 == name,
    |name, function| {
        let full = demangle(&function.symbol);
        squeeze(&full) == squeeze(name) || is_tail(&squeeze(&full), &squeeze(name))
    },
    |name, function| {
        let short = short_name(&function.symbol);
        squeeze(&short) == squeeze(name) || is_tail(&squeeze(&short), &squeeze(name))
    },
];

/// The functions that a name means, as sites at `offset` bytes after their entries.
///
/// # Errors
/// When no function is meant (with the nearest names), or no probe can stand there.
pub(crate) fn find(module: &Module, name: &str, offset: u64) -> Result<Vec<Found>> {
    let table = module.symbols();
    // Pieces that were cut out of a function are not its entry.
    let whole = |f: &&Function| {
        let suffix = split_clone(&f.symbol).1;
        f.symbol == name || !(suffix.contains(".cold") || suffix.contains(".part."))
    };
    let candidates: Vec<&Function> = table.functions().iter().filter(whole).collect();
    let fitting =
        KINDS.iter().map(|fits| candidates.iter().filter(|f| fits(name, f)).copied().collect::<Vec<_>>());
    let Some(mut functions) = fitting.into_iter().find(|found| !found.is_empty()) else {
        return unknown(module, name);
    };
    functions.dedup_by_key(|f| f.address);
    if let Some(function) = functions.iter().find(|f| f.indirect) {
        bail!(
            "'{name}' in {} is chosen when the program starts (an indirect function, ifunc): a probe would count \
             the choice, not the calls; name the variant that is used instead",
            module.path().display(),
            name = demangle(&function.symbol)
        );
    }
    functions.into_iter().map(|function| site(function, offset)).collect()
}

fn site(function: &Function, offset: u64) -> Result<Found> {
    let what = demangle(&function.symbol);
    if offset > 0 && function.size > 0 && offset >= function.size {
        bail!("'{what}' has only {} bytes: there is no +{offset}", function.size);
    }
    let what = if offset == 0 { what } else { format!("{what}+{offset}") };
    Ok(Found { address: function.address.wrapping_add(offset), what })
}

fn unknown(module: &Module, name: &str) -> Result<Vec<Found>> {
    let path = module.path().display();
    let table = module.symbols();
    if table.is_undefined(name) {
        bail!(
            "'{name}' is only used by {path}, not defined in it: name the library that defines it, as in LIBRARY@{name}"
        );
    }
    if table.is_empty() {
        bail!("no function '{name}' in {path}: it names no functions at all (it is stripped)");
    }
    let names = table.functions().iter().map(|f| short_name(&f.symbol));
    let near = nearest(name, names);
    let hint = if near.is_empty() { String::new() } else { format!("; did you mean {}?", near.join(", ")) };
    bail!("no function '{name}' in {path}{hint}")
}

/// Blanks do not tell names apart.
fn squeeze(name: &str) -> String {
    name.chars().filter(|c| !c.is_whitespace()).collect()
}

/// Whether `tail` is the end of a qualified name, from a `::` on that is not within `<>` or `()`.
fn is_tail(full: &str, tail: &str) -> bool {
    let tail = tail.strip_prefix("::").unwrap_or(tail);
    let Some(head) = full.strip_suffix(tail).filter(|_| !tail.is_empty()) else { return false };
    let Some(head) = head.strip_suffix("::") else { return false };
    let count = |c: char| head.matches(c).count();
    count('<') == count('>') - head.matches("->").count() && count('(') == count(')')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_begins_after_a_double_colon_outside_of_brackets() {
        assert!(is_tail("a::b::c", "c") && is_tail("a::b::c", "b::c") && is_tail("a::b::c", "::c"));
        assert!(is_tail("a<x::y>::c", "c") && is_tail("<a::B as t::T>::run", "run"));
        assert!(!is_tail("a::bc", "c"), "a part of a component is no tail");
        assert!(!is_tail("a::f<x::c", "c"), "within brackets there is no tail");
        assert!(!is_tail("c", "c") && !is_tail("a::c", ""));
    }

    #[test]
    fn blanks_do_not_matter() {
        assert_eq!(squeeze("f(int, char const *)"), squeeze("f( int,char const*)"));
    }
}
