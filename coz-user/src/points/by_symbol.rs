//! Points by symbol: which functions, and which inlined copies of them, a name means.

use super::candidates::candidates;
use super::code::{self, Body, Boundary};
use super::resolve::{Found, nearest};
use crate::symbols::{Function, Inlined, Module, demangle, short_name, split_clone};
use anyhow::{Result, bail};

/// How a name can fit a symbol: the first way that fits anything decides. Copies that a compiler has made for some callers
/// (`.isra.0`, `.constprop.0`) are called by the name of the original.
const WAYS: [fn(&str, &str) -> bool; 4] = [
    |name, symbol| symbol == name || split_clone(symbol).0 == name,
    |name, symbol| is_end(&demangle(symbol), name),
    |name, symbol| is_end(&short_name(symbol), name),
    |name, symbol| {
        !name.contains('<') && plain_names(&demangle(symbol)).iter().any(|plain| is_end(plain, name))
    },
];

/// What was found, and what is to be said about it.
pub(crate) type Sites = (Vec<Found>, Option<String>);

/// What a name means in a module.
pub(crate) struct Meant<'a> {
    /// Functions, one for each entry.
    pub(crate) functions: Vec<&'a Function>,
    /// Copies of them within others.
    pub(crate) copies: Vec<Inlined>,
    /// What is to be said about it.
    pub(crate) note: Option<String>,
}

/// The functions that a name means: their entries and those of their inlined copies, or the places `offset` bytes
/// after their entries.
///
/// # Errors
/// When no function is meant (with the nearest names), or no probe can stand there.
pub(crate) fn find(module: &Module, name: &str, offset: u64) -> Result<Sites> {
    let meant = meant(module, name, offset == 0)?;
    let mut found =
        meant.functions.into_iter().map(|f| entry(module, f, offset)).collect::<Result<Vec<_>>>()?;
    found.extend(meant.copies.iter().map(inlined));
    Ok((found, meant.note))
}

/// What a name means. `copies`: inlined ones are looked for too.
///
/// # Errors
/// When it means nothing, with the nearest names.
pub(crate) fn meant<'a>(module: &'a Module, name: &str, copies: bool) -> Result<Meant<'a>> {
    let name = without_file(name);
    if let Some(whole) = cold_part_of(name) {
        bail!(
            "'{name}' is no function: it is where the compiler has put what is hardly ever run of '{whole}', which enters it \
             by a jump; name '{whole}'"
        );
    }
    let part = literal_part(name);
    let fits_somehow = |symbol: &str| symbol.contains(part) && WAYS.iter().any(|fits| fits(name, symbol));
    let functions = module.symbols().functions().iter().filter(|f| cold_part_of(&f.symbol).is_none());
    let functions: Vec<&Function> = functions.filter(|f| fits_somehow(&f.symbol)).collect();
    let found = if copies { module.inlined(fits_somehow) } else { Some(Vec::new()) };
    let unsearched = found.is_none() && module.has_debug_information();
    let note = unsearched.then(|| {
        format!(
            "'{name}': inlined copies are not counted, there is too much debug information to search for them"
        )
    });
    let found = found.unwrap_or_default();
    for fits in WAYS {
        let mut functions: Vec<&Function> =
            functions.iter().filter(|f| fits(name, &f.symbol)).copied().collect();
        let copies: Vec<Inlined> = found.iter().filter(|copy| fits(name, &copy.symbol)).cloned().collect();
        // A part that was split off (`.part.0`) is called by what is left of the function wherever that stands, so it
        // counts only where that is not known.
        let is_rest = |f: &&Function| f.symbol == name || !split_clone(&f.symbol).1.contains(".part.");
        let known = !copies.is_empty() || functions.iter().any(is_rest);
        if known {
            functions.retain(is_rest);
        }
        if functions.is_empty() && copies.is_empty() {
            continue;
        }
        functions.dedup_by_key(|f| f.address);
        let parts = (!known).then(|| {
            format!(
                "'{name}' was inlined but for a part of it, which is what is counted: calls that do not get that far are not"
            )
        });
        let notes: Vec<String> = note.into_iter().chain(parts).collect();
        let note = (!notes.is_empty()).then(|| notes.join("; "));
        return Ok(Meant { functions, copies, note });
    }
    unknown(module, name)
}

/// Of a symbol of hardly run code that was moved away: the function's own.
fn cold_part_of(symbol: &str) -> Option<&str> {
    symbol
        .find(".cold")
        .filter(|at| *at > 0 && !symbol[*at + 5..].contains(|c: char| c != '.' && !c.is_ascii_digit()))
        .map(|at| &symbol[..at])
}

/// The readable name of a function, with the suffix that tells a copy from the original.
pub(crate) fn full_name(symbol: &str) -> String {
    match split_clone(symbol).1 {
        "" => demangle(symbol),
        suffix => format!("{} ({suffix})", demangle(symbol)),
    }
}

/// # Errors
/// Where calls of it can not be seen.
pub(crate) fn check_direct(module: &Module, function: &Function) -> Result<()> {
    let what = demangle(&function.symbol);
    if function.indirect {
        bail!(
            "'{what}' in {} is chosen when the program starts (an indirect function, ifunc): a probe would count \
             the choice, not the calls; name the variant that is used instead",
            module.path().display()
        );
    }
    Ok(())
}

fn entry(module: &Module, function: &Function, offset: u64) -> Result<Found> {
    check_direct(module, function)?;
    let what = full_name(&function.symbol);
    if offset > 0 && function.size > 0 && offset >= function.size {
        bail!("'{what}' has only {} bytes: there is no +{offset}", function.size);
    }
    if offset > 0
        && let Boundary::Within(before, after) = body(module, function).boundary(offset)
    {
        let ends = if after < function.size { format!(" and +{after}") } else { String::new() };
        bail!(
            "'{what}+{offset}' is in the middle of an instruction, where a probe would destroy it: the nearest places are \
             +{before}{ends}"
        );
    }
    if offset == 0 {
        return Ok(Found { address: begin(module, function), what });
    }
    Ok(Found { address: function.address.wrapping_add(offset), what: format!("{what}+{offset}") })
}

/// Where a function is passed once a call: its entry, or in a Go program where its stack is known to be large enough.
pub(crate) fn begin(module: &Module, function: &Function) -> u64 {
    let behind = if module.elf().is_go() { code::behind_stack_check(&body(module, function)) } else { 0 };
    function.address.wrapping_add(behind)
}

fn inlined(copy: &Inlined) -> Found {
    Found { address: copy.address, what: format!("{} inlined into {}", demangle(&copy.symbol), copy.within) }
}

/// The machine code of a function, as far as its size says.
pub(crate) fn body<'a>(module: &'a Module, function: &Function) -> Body<'a> {
    let bytes = module.elf().file_offset(function.address).and_then(|offset| {
        let from = usize::try_from(offset).ok()?;
        let to = from.checked_add(usize::try_from(function.size).ok()?)?;
        module.elf().bytes().get(from..to)
    });
    Body { address: function.address, bytes: bytes.unwrap_or_default() }
}

fn unknown<T>(module: &Module, name: &str) -> Result<T> {
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
    let is_nameless = !table.is_empty() && table.functions().iter().all(|f| f.nameless);
    if is_nameless && !name.starts_with("sub_") {
        bail!(
            "no function '{name}' in {path}: it is stripped, its functions have no names but their addresses, as in \
             sub_1a2b0; `coz-bpf points {path}` lists them"
        );
    }
    let own = candidates(module, "");
    let mut near = nearest(name, own.into_iter().map(|candidate| short_name(&candidate.symbol)));
    if near.is_empty() {
        near = nearest(name, table.functions().iter().map(|f| short_name(&f.symbol)));
    }
    let hint = match near.is_empty() {
        true if name.contains(',') => {
            "; what takes time from one place to another is a latency: -L BEGIN,END".to_owned()
        }
        true => format!("; `coz-bpf points {path}` lists what can serve"),
        false => format!("; did you mean {}?", near.join(", ")),
    };
    bail!("no function '{name}' in {path}{hint}")
}

/// A nameless function as reports call it, `sub_8f20 (app)`: the file's name is no part of the symbol.
fn without_file(name: &str) -> &str {
    match name.split_once(" (") {
        Some((symbol, file)) if symbol.starts_with("sub_") && file.ends_with(')') => symbol,
        _ => name,
    }
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

/// A function's name without template and generic arguments: `a::B<i32>::f` is `a::B::f`, and `<a::B as c::D>::f`, a method of
/// a trait, goes by both `a::B::f` and `c::D::f`.
fn plain_names(full: &str) -> Vec<String> {
    let squeezed = full.replace("->", "");
    let (head, rest) = match squeezed.strip_prefix('<').and_then(|inner| split_closing(inner)) {
        Some((head, rest)) => (head, rest),
        None => return vec![without_brackets(&squeezed)],
    };
    head.split(" as ").map(|part| without_brackets(part) + &without_brackets(rest)).collect()
}

/// What stands before the bracket that closes what was opened before, and behind it.
fn split_closing(text: &str) -> Option<(&str, &str)> {
    let mut depth = 1;
    for (at, c) in text.char_indices() {
        depth += match c {
            '<' => 1,
            '>' => -1,
            _ => 0,
        };
        if depth == 0 {
            return Some((&text[..at], &text[at + 1..]));
        }
    }
    None
}

fn without_brackets(text: &str) -> String {
    let mut depth = 0_i32;
    let mut plain = String::new();
    for c in text.chars() {
        match c {
            '<' => depth += 1,
            '>' => depth -= 1,
            _ if depth == 0 => plain.push(c),
            _ => {}
        }
    }
    // `f::<i32>` has left `f::`, and `a::<i32>::f` has left `a::::f`.
    plain.replace("::::", "::").trim_end_matches("::").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_of_generics_may_be_left_out() {
        assert_eq!(plain_names("alloc::vec::Vec<T,A>::push"), ["alloc::vec::Vec::push"]);
        assert_eq!(plain_names("<a::B<i32> as c::D<u8>>::f::<u64>"), ["a::B::f", "c::D::f"]);
        assert_eq!(plain_names("app::f::<fn(i32) -> i32>"), ["app::f"]);
        assert_eq!(plain_names("app::f"), ["app::f"]);
    }

    #[test]
    fn nameless_functions_go_by_the_name_that_reports_give_them() {
        assert_eq!(without_file("sub_8f20 (app)"), "sub_8f20");
        assert_eq!(without_file("sub_8f20"), "sub_8f20");
        assert_eq!(without_file("sum (int)"), "sum (int)");
    }

    #[test]
    fn parts_that_were_moved_away_are_known_by_their_names() {
        assert_eq!(cold_part_of("f.cold"), Some("f"));
        assert_eq!(cold_part_of("f.isra.0.cold.3"), Some("f.isra.0"));
        for other in ["f", "f.isra.0", "f.part.1", ".cold", "f.colder", "cold"] {
            assert_eq!(cold_part_of(other), None, "{other}");
        }
        assert_eq!(full_name("_ZN3app4workEi.constprop.0"), "app::work(int) (.constprop.0)");
    }

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
