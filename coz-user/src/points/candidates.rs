//! What can serve as a progress point in a program: its functions in scope.

use crate::symbols::{Declaration, Function, Module, demangle, split_clone};

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
/// case; empty: all), by name.
pub fn candidates(module: &Module, filter: &str) -> Vec<Candidate> {
    let mut functions: Vec<&Function> = module.symbols().functions().iter().collect();
    functions.retain(|f| !f.indirect && split_clone(&f.symbol).1.is_empty());
    functions.dedup_by_key(|f| f.address);
    let declarations = module.declarations(functions.iter().map(|f| f.address));
    let filter = filter.to_lowercase();
    let mut found: Vec<Candidate> = functions
        .into_iter()
        .zip(declarations)
        .filter_map(|(function, declaration)| candidate(module, function, declaration))
        .filter(|c| {
            [&c.name, &c.spec].into_iter().chain(&c.location).any(|t| t.to_lowercase().contains(&filter))
        })
        .collect();
    found.sort_by(|a, b| (&a.name, a.address).cmp(&(&b.name, b.address)));
    found
}

fn candidate(module: &Module, function: &Function, declaration: Option<Declaration>) -> Option<Candidate> {
    let name = demangle(&function.symbol);
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
fn spec(name: &str) -> String {
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
    fn specs_are_quoted_where_they_must_be() {
        assert_eq!(spec("app::work(int)"), "app::work(int)");
        assert_eq!(spec("app::V::operator==(V)"), "'app::V::operator==(V)'");
        assert_eq!(spec("f<'a=b'>"), "\"f<'a=b'>\"");
    }
}
