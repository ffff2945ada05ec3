//! What can serve as a progress point in a program: its functions in scope.

use crate::symbols::{Declaration, Function, Module, demangle, shares, split_clone};
use std::collections::HashSet;

/// A function that can be a progress point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its readable name.
    pub name: String,
    /// As the linker knows it.
    pub symbol: String,
    /// What to give to `--progress`.
    pub spec: String,
    /// `FILE:LINE` of its declaration, where known.
    pub location: Option<String>,
    /// ELF virtual address of its entry.
    pub address: u64,
    /// Bytes of code; 0 where not known.
    pub size: u64,
}

/// The functions of a module that are in scope and whose name, symbol or location contains `filter` (in any
/// case; empty: all), by name. On all CPUs; debug information is read only as far as the filter needs it.
pub fn candidates(module: &Module, filter: &str) -> Vec<Candidate> {
    let filter = filter.to_lowercase();
    let fits = |text: &str| filter.is_empty() || text.to_lowercase().contains(&filter);
    let mut functions: Vec<&Function> = module.symbols().functions().iter().collect();
    functions.retain(|f| !f.indirect && stands_for_function(&f.symbol));
    functions.dedup_by_key(|f| f.address);
    without_copies(&mut functions);
    // Readable names of those that fit by them; of the others, if their source may.
    let named = shares(&functions, |share| {
        let name = |f: &&Function| Some(demangle(&f.symbol)).filter(|name| fits(name) || fits(&spec(name)));
        share.iter().map(name).collect()
    });
    let elsewhere = if filter.is_empty() { Vec::new() } else { module.code_of_sources(fits) };
    let may_be_there = |address: u64| {
        let after = elsewhere.partition_point(|(begin, _)| *begin <= address);
        elsewhere[..after].iter().rev().take(LOOKED_BACK).any(|(_, end)| address < *end)
    };
    let (wanted, names): (Vec<&Function>, Vec<Option<String>>) = functions
        .into_iter()
        .zip(named)
        .filter(|(function, name)| name.is_some() || may_be_there(function.address))
        .unzip();
    let addresses: Vec<u64> = wanted.iter().map(|function| function.address).collect();
    let declarations = module.declarations(&addresses);
    let mut found: Vec<Candidate> = wanted
        .into_iter()
        .zip(names)
        .zip(declarations)
        .filter_map(|((function, name), declaration)| {
            let by_name = name.is_some();
            let name = name.unwrap_or_else(|| demangle(&function.symbol));
            candidate(module, function, name, declaration)
                .filter(|c| by_name || c.location.as_deref().is_some_and(fits))
        })
        .collect();
    found.sort_by(|a, b| (&a.name, a.address).cmp(&(&b.name, b.address)));
    found
}

/// Whether a point that is called as this symbol without its suffix counts all calls: not where it is hardly run code that was
/// moved away, or the rest of what was inlined.
fn stands_for_function(symbol: &str) -> bool {
    !split_clone(symbol).1.split('.').any(|part| matches!(part, "cold" | "part"))
}

/// Of a function and the copies that compilers make of it (`.isra.0`, `.constprop.1`, `.lto_priv.0`), all of one name, leaves one.
fn without_copies(functions: &mut Vec<&Function>) {
    let is_copy = |f: &Function| !split_clone(&f.symbol).1.is_empty();
    if !functions.iter().any(|f| is_copy(f)) {
        return;
    }
    let mut seen: HashSet<&str> =
        functions.iter().filter(|f| !is_copy(f)).map(|f| f.symbol.as_str()).collect();
    functions.retain(|f| !is_copy(f) || seen.insert(split_clone(&f.symbol).0));
}

/// Units of which one is within another are rare, and never many.
const LOOKED_BACK: usize = 8;

fn candidate(
    module: &Module,
    function: &Function,
    name: String,
    declaration: Option<Declaration>,
) -> Option<Candidate> {
    let inside = match &declaration {
        Some(declaration) => module.scope().source(declaration.file.as_ref()),
        // Code without debug information in a program that has some is the runtime's.
        None => !module.has_debug_information() && module.scope().function(&name),
    };
    inside.then(|| Candidate {
        symbol: function.symbol.clone(),
        spec: spec(&name),
        name,
        location: declaration.map(|d| format!("{}:{}", d.file, d.line)),
        address: function.address,
        size: function.size,
    })
}

/// A name as a spec: quoted if the grammar would read anything into it.
pub(super) fn spec(name: &str) -> String {
    let plain = |text: &str| matches!(text.parse::<super::Spec>(), Ok(super::Spec { binary: None, place: super::Place::Symbol { symbol, offset: 0 }, name }) if symbol == text && name == text);
    match (plain(name), name.contains('\'')) {
        (true, _) => name.to_owned(),
        (false, false) => format!("'{name}'"),
        (false, true) => format!("\"{name}\""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_of_which_only_a_copy_is_left_is_listed_once() {
        let function = |symbol: &str| Function {
            symbol: symbol.into(),
            address: 0,
            size: 1,
            indirect: false,
            global: true,
            nameless: false,
        };
        let all = [
            "split.isra.0",
            "split.isra.0.cold",
            "hash",
            "hash.constprop.0",
            "f.lto_priv.0",
            "f.lto_priv.1",
            "g.part.0",
        ]
        .map(function);
        let mut left: Vec<&Function> = all.iter().filter(|f| stands_for_function(&f.symbol)).collect();
        without_copies(&mut left);
        let left: Vec<&str> = left.iter().map(|f| f.symbol.as_str()).collect();
        assert_eq!(left, ["split.isra.0", "hash", "f.lto_priv.0"]);
    }

    #[test]
    fn specs_are_quoted_where_they_must_be() {
        assert_eq!(spec("app::work(int)"), "app::work(int)");
        assert_eq!(spec("app::V::operator==(V)"), "'app::V::operator==(V)'");
        assert_eq!(spec("f<'a=b'>"), "\"f<'a=b'>\"");
    }
}
