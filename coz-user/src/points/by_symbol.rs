//! Points by symbol: which functions, and which inlined copies of them, a name means.

use super::candidates::candidates;
use super::resolve::{Found, nearest};
use crate::symbols::{Function, Inlined, Module, demangle, short_name, split_clone};
use anyhow::{Result, bail};

/// How a name can fit a symbol: the first way that fits anything decides.
const WAYS: [fn(&str, &str) -> bool; 4] = [
    |name, symbol| symbol == name,
    |name, symbol| split_clone(symbol).0 == name,
    |name, symbol| is_end(&demangle(symbol), name),
    |name, symbol| is_end(&short_name(symbol), name),
];

/// What was found, and what is to be said about it.
pub(crate) type Sites = (Vec<Found>, Option<String>);

/// The functions that a name means: their entries and those of their inlined copies, or the places `offset` bytes
/// after their entries.
///
/// # Errors
/// When no function is meant (with the nearest names), or no probe can stand there.
pub(crate) fn find(module: &Module, name: &str, offset: u64) -> Result<Sites> {
    let part = literal_part(name);
    let fits_somehow = |symbol: &str| symbol.contains(part) && WAYS.iter().any(|fits| fits(name, symbol));
    // Pieces that were cut out of a function are not its entry.
    let whole = |symbol: &str| {
        let suffix = split_clone(symbol).1;
        symbol == name || !(suffix.contains(".cold") || suffix.contains(".part."))
    };
    let functions = module.symbols().functions().iter().filter(|f| whole(&f.symbol));
    let functions: Vec<&Function> = functions.filter(|f| fits_somehow(&f.symbol)).collect();
    let copies = if offset == 0 { module.inlined(fits_somehow) } else { Some(Vec::new()) };
    let unsearched = copies.is_none() && module.has_debug_information();
    let note = unsearched.then(|| {
        format!(
            "'{name}': inlined copies are not counted, there is too much debug information to search for them"
        )
    });
    let copies = copies.unwrap_or_default();
    for fits in WAYS {
        let functions = functions.iter().filter(|f| fits(name, &f.symbol)).copied();
        let copies = copies.iter().filter(|copy| fits(name, &copy.symbol));
        let (mut functions, copies): (Vec<&Function>, Vec<&Inlined>) =
            (functions.collect(), copies.collect());
        if functions.is_empty() && copies.is_empty() {
            continue;
        }
        functions.dedup_by_key(|f| f.address);
        let mut found =
            functions.into_iter().map(|f| entry(module, f, offset)).collect::<Result<Vec<_>>>()?;
        found.extend(copies.into_iter().map(inlined));
        return Ok((found, note));
    }
    unknown(module, name)
}

fn entry(module: &Module, function: &Function, offset: u64) -> Result<Found> {
    let what = demangle(&function.symbol);
    if function.indirect {
        bail!(
            "'{what}' in {} is chosen when the program starts (an indirect function, ifunc): a probe would count \
             the choice, not the calls; name the variant that is used instead",
            module.path().display()
        );
    }
    if offset > 0 && function.size > 0 && offset >= function.size {
        bail!("'{what}' has only {} bytes: there is no +{offset}", function.size);
    }
    let what = if offset == 0 { what } else { format!("{what}+{offset}") };
    Ok(Found { address: function.address.wrapping_add(offset), what })
}

fn inlined(copy: &Inlined) -> Found {
    Found { address: copy.address, what: format!("{} inlined into {}", demangle(&copy.symbol), copy.within) }
}

fn unknown(module: &Module, name: &str) -> Result<Sites> {
    let path = module.path().display();
    let table = module.symbols();
    if table.is_undefined(name) {
        bail!(
            "'{name}' is not in {path}, which only calls it: name the library that has it, as in LIBRARY@{name}"
        );
    }
    if table.is_empty() {
        bail!("no function '{name}' in {path}: it is stripped, its functions have no names");
    }
    let own = candidates(module, "");
    let mut near = nearest(name, own.into_iter().map(|candidate| short_name(&candidate.symbol)));
    if near.is_empty() {
        near = nearest(name, table.functions().iter().map(|f| short_name(&f.symbol)));
    }
    let hint = if near.is_empty() { String::new() } else { format!("; did you mean {}?", near.join(", ")) };
    bail!("no function '{name}' in {path}{hint}")
}

/// A part of a name that stands in the mangled symbol as it is: demangling them all takes long.
fn literal_part(name: &str) -> &str {
    let is_identifier = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    match name.rsplit("::").next() {
        Some(last) if is_identifier(last) && !last.starts_with("operator") => last,
        _ => "",
    }
}

/// Whether `name` is a function's whole name or the end of it, from a `::` on. Blanks do not tell names apart.
fn is_end(full: &str, name: &str) -> bool {
    let squeeze = |name: &str| name.chars().filter(|c| !c.is_whitespace()).collect::<String>();
    let (full, name) = (squeeze(full), squeeze(name));
    full == name || is_tail(&full, &name)
}

/// Whether `tail` is the end of a qualified name, from a `::` on that is not within `<>` or `()`.
fn is_tail(full: &str, tail: &str) -> bool {
    let tail = tail.strip_prefix("::").unwrap_or(tail);
    let Some(head) = full.strip_suffix(tail).filter(|_| !tail.is_empty()) else { return false };
    let Some(head) = head.strip_suffix("::") else { return head.is_empty() };
    let count = |c: char| head.matches(c).count();
    count('<') + head.matches("->").count() == count('>') && count('(') == count(')')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_begins_after_a_double_colon_outside_of_brackets() {
        assert!(is_tail("a::b::c", "c") && is_tail("a::b::c", "b::c") && is_tail("a::b::c", "::c"));
        assert!(is_tail("a<x::y>::c", "c") && is_tail("<a::Basu64>::run", "run"));
        assert!(is_tail("c", "::c"), "a name without any namespace");
        assert!(!is_tail("a::bc", "c"), "a part of a component is no tail");
        assert!(!is_tail("a::f<x::c", "c"), "within brackets there is no tail");
        assert!(!is_tail("a::c", ""));
    }

    #[test]
    fn mangling_keeps_the_last_identifier() {
        assert_eq!(literal_part("app::work"), "work");
        for other in ["app::work(int)", "V::operator==", "a::{closure#0}", "a::~a", "_ZN3foo", ""] {
            let part = literal_part(other);
            assert!(part.is_empty() || part == other, "{other}: {part}");
        }
    }

    #[test]
    fn blanks_do_not_matter() {
        assert!(is_end("app::f(int, char const*)", "f( int,char const * )"));
        assert!(is_end("f", "f") && !is_end("f", "g"));
    }
}
