//! The functions of a module's symbol tables.

use super::elf::Elf;
use super::unwind::UnwindTable;
use object::{Object, ObjectSymbol, SymbolFlags, SymbolKind};

/// A function as a symbol table knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// ELF virtual address.
    pub address: u64,
    /// Bytes; 0 where the table does not say.
    pub size: u64,
    /// As the linker knows it.
    pub symbol: String,
    /// Whether calling it gives the address of the real function (`STT_GNU_IFUNC`).
    pub indirect: bool,
    /// Whether other files can see it.
    pub global: bool,
    /// No symbol table names it: it is known by its frame description, and called `sub_` and its address.
    pub nameless: bool,
}

/// All functions of a module that symbol tables name.
#[derive(Debug, Default)]
pub struct SymbolTable {
    /// Sorted by address; aliases of one address follow each other, the best name first.
    functions: Vec<Function>,
    /// Names that the module uses from elsewhere.
    undefined: Vec<String>,
}

impl SymbolTable {
    /// Reads `.symtab` and `.dynsym` of the program, and `.symtab` of its separate debug file. Where there is no `.symtab`
    /// at all, frame descriptions say where the functions are that `.dynsym` does not name.
    pub(crate) fn read(program: &Elf, separate: Option<&Elf>) -> Self {
        let mut table = Self::default();
        let mut is_stripped = true;
        for elf in separate.into_iter().chain([program]) {
            let Ok(object) = elf.object() else { continue };
            is_stripped &= object.symbol_table().is_none();
            for symbol in object.symbols().chain(object.dynamic_symbols()) {
                table.add(&symbol, program);
            }
        }
        let rank =
            |f: &Function| (f.address, f.indirect, !f.global, f.symbol.starts_with('_'), f.symbol.len());
        table.functions.sort_by(|a, b| rank(a).cmp(&rank(b)).then_with(|| a.symbol.cmp(&b.symbol)));
        table.functions.dedup_by(|a, b| a.address == b.address && a.symbol == b.symbol);
        if is_stripped {
            table.add_nameless(&UnwindTable::of(program).functions(), program);
        }
        table.undefined.sort_unstable();
        table.undefined.dedup();
        table
    }

    fn add(&mut self, symbol: &object::Symbol<'_, '_>, program: &Elf) {
        let Ok(name) = symbol.name() else { return };
        let SymbolFlags::Elf { st_info, .. } = symbol.flags() else { return };
        let indirect = st_info.st_type() == object::elf::STT_GNU_IFUNC;
        if name.is_empty() {
        } else if symbol.is_undefined() {
            if symbol.kind() != SymbolKind::Data {
                self.undefined.push(name.to_owned());
            }
        } else if (symbol.kind() == SymbolKind::Text
            || (symbol.kind() == SymbolKind::Unknown && symbol.size() > 0))
            && program.is_code(symbol.address())
        {
            self.functions.push(Function {
                address: symbol.address(),
                size: symbol.size(),
                symbol: name.to_owned(),
                indirect,
                global: symbol.is_global(),
                nameless: false,
            });
        }
    }

    /// Adds stretches of code that begin in no function so far.
    fn add_nameless(&mut self, stretches: &[(u64, u64)], program: &Elf) {
        let is_new = |&&(begin, _): &&(u64, u64)| program.is_code(begin) && self.containing(begin).is_none();
        let function = |&(begin, end): &(u64, u64)| Function {
            address: begin,
            size: end - begin,
            symbol: format!("sub_{begin:x}"),
            indirect: false,
            global: false,
            nameless: true,
        };
        let new: Vec<Function> = stretches.iter().filter(is_new).map(function).collect();
        self.functions.extend(new);
        self.functions.sort_by_key(|f| f.address);
    }

    /// All functions, by address.
    #[must_use]
    pub fn functions(&self) -> &[Function] {
        &self.functions
    }

    /// Whether the module uses a function of this (mangled) name from another file, and has none itself.
    #[must_use]
    pub fn is_undefined(&self, symbol: &str) -> bool {
        self.undefined.binary_search_by(|name| name.as_str().cmp(symbol)).is_ok()
    }

    /// Whether no function is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    /// The function that an address belongs to.
    #[must_use]
    pub fn containing(&self, address: u64) -> Option<&Function> {
        self.overlapping(address, address.checked_add(1)?).next().map(|(_, _, function)| function)
    }

    /// The functions between two addresses, with the part of `begin..end` that is theirs; aliases are left out.
    pub(crate) fn overlapping(&self, begin: u64, end: u64) -> impl Iterator<Item = (u64, u64, &Function)> {
        // A function that begins before `begin` may reach into it: the last one there.
        let at = self.functions.partition_point(|f| f.address < begin);
        let before = at.checked_sub(1).and_then(|i| self.functions.get(i)).map_or(begin, |f| f.address);
        let first = self.functions.partition_point(|f| f.address < before);
        let mut last = None;
        self.functions[first..].iter().enumerate().take_while(move |(_, f)| f.address < end).filter_map(
            move |(i, function)| {
                if last.replace(function.address) == Some(function.address) {
                    return None;
                }
                let next =
                    self.functions[first + i..].iter().map(|f| f.address).find(|a| *a > function.address);
                let stop = match function.size {
                    0 => next.unwrap_or(u64::MAX),
                    size => function.address.saturating_add(size).min(next.unwrap_or(u64::MAX)),
                };
                let (from, to) = (function.address.max(begin), stop.min(end));
                (from < to).then_some((from, to, function))
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(functions: &[(u64, u64, &str)]) -> SymbolTable {
        let function = |&(address, size, symbol): &(u64, u64, &str)| Function {
            address,
            size,
            symbol: symbol.into(),
            indirect: false,
            global: true,
            nameless: false,
        };
        SymbolTable { functions: functions.iter().map(function).collect(), undefined: vec!["read".into()] }
    }

    fn at(table: &SymbolTable, address: u64) -> Option<&str> {
        table.containing(address).map(|f| f.symbol.as_str())
    }

    #[test]
    fn an_address_belongs_to_the_function_around_it() {
        let table = table(&[(16, 8, "a"), (16, 8, "alias"), (32, 0, "b"), (64, 4, "c")]);
        assert_eq!(at(&table, 15), None);
        assert_eq!(at(&table, 16), Some("a"));
        assert_eq!(at(&table, 23), Some("a"));
        assert_eq!(at(&table, 24), None, "after the end of a function there is none");
        assert_eq!(at(&table, 63), Some("b"), "a function of unknown size reaches to the next");
        assert_eq!(at(&table, 68), None);
        assert!(table.is_undefined("read") && !table.is_undefined("a"));
    }

    #[test]
    fn parts_are_cut_to_what_was_asked() {
        let table = table(&[(0, 100, "a"), (100, 100, "b"), (300, 10, "c")]);
        let parts: Vec<_> = table.overlapping(50, 150).map(|(b, e, f)| (b, e, f.symbol.as_str())).collect();
        assert_eq!(parts, [(50, 100, "a"), (100, 150, "b")]);
    }
}
