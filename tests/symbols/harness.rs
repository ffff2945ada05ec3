//! Compiles the small programs beside this file, and looks lines up by the remarks in them.

use coz_common::lookup::{line_at, page_of};
use coz_common::units::LineId;
use coz_user::symbols::{Granularity, Lines, Module, Scope, demangle};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the programs' sources are.
pub fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("symbols")
}

/// Runs a tool to its end.
///
/// # Panics
/// When it is not there or fails: these tests need gcc, g++, rustc, binutils and dwz.
pub fn run(tool: &str, arguments: &[&str]) {
    let output = Command::new(tool).args(arguments).output();
    let output = output.unwrap_or_else(|e| {
        panic!("cannot run {tool} ({e}): these tests need it (apt install gcc g++ binutils dwz)")
    });
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{tool} {arguments:?} failed: {words}");
}

/// A folder for the results of one test, and what is compiled into it.
pub struct Workshop(tempfile::TempDir);

impl Workshop {
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Compiles `source` with the compiler that its ending asks for.
    pub fn compile(&self, source: &str, name: &str, flags: &[&str]) -> PathBuf {
        let (input, output) = (sources().join(source), self.path(name));
        let tool = match source.rsplit('.').next() {
            Some("c") => "gcc",
            Some("cpp") => "g++",
            _ => "rustc",
        };
        let mut arguments = flags.to_vec();
        let (input, out) = (input.to_str().expect("UTF-8"), output.to_str().expect("UTF-8"));
        if tool == "rustc" {
            arguments.extend(["--edition", "2024"]);
        }
        arguments.extend([input, "-o", out]);
        run(tool, &arguments);
        output
    }
}

/// Opens a module in the default scope.
pub fn open(path: &Path) -> Module {
    Module::open(path, &Scope::default(), &[]).expect("an ELF file")
}

/// The number of the line of `source` that carries the remark `line: NAME`.
pub fn remark(source: &str, name: &str) -> u32 {
    let text = std::fs::read_to_string(sources().join(source)).expect("the source");
    let marked =
        |line: &str| line.split("line: ").nth(1).is_some_and(|r| r.trim_end_matches("*/").trim() == name);
    let at = text.lines().position(marked).unwrap_or_else(|| panic!("no remark '{name}' in {source}"));
    at as u32 + 1
}

/// Line ids of addresses, page by page as the kernel has them.
pub struct Table<'a> {
    module: &'a Module,
    granularity: Granularity,
    pub lines: Lines,
    page: Option<(u32, Vec<coz_common::abi::LineEntry>)>,
}

impl<'a> Table<'a> {
    pub fn new(module: &'a Module, granularity: Granularity) -> Self {
        Self { module, granularity, lines: Lines::new(), page: None }
    }

    pub fn id(&mut self, address: u64) -> LineId {
        let (page, offset) = page_of(address);
        if self.page.as_ref().is_none_or(|(number, _)| *number != page) {
            let entries = self.module.page(page, self.granularity, &mut self.lines);
            assert!(entries.first().is_some_and(|e| e.start == 0), "the first entry starts at 0");
            assert!(entries.windows(2).all(|w| w[0].start < w[1].start), "entries are sorted");
            assert!(entries.iter().all(|e| e.start < 4096));
            self.page = Some((page, entries));
        }
        let entries = &self.page.as_ref().expect("just made").1;
        line_at(entries.len() as u32, offset, |i| entries.get(i as usize).copied())
    }

    /// `FILE:LINE` (file without folders) and the function, of the line at an address.
    pub fn at(&mut self, address: u64) -> Option<(String, String)> {
        let id = self.id(address);
        let line = self.lines.get(id)?;
        let location = line.location();
        Some((location.rsplit('/').next().unwrap_or_default().to_owned(), line.function.to_string()))
    }

    /// The lines of all addresses of a function of the symbol table, in order of address.
    pub fn of_function(&mut self, name: &str) -> Vec<Option<(String, String)>> {
        let symbols = self.module.symbols();
        let functions = symbols.functions().iter();
        let function = functions
            .filter(|f| coz_user::symbols::short_name(&f.symbol).ends_with(name))
            .find(|f| !f.symbol.contains(".cold"))
            .unwrap_or_else(|| panic!("a function {name}"));
        (function.address..function.address + function.size).map(|address| self.at(address)).collect()
    }
}

/// All that is said of the code of these functions, address by address within each: the line and its function, and the
/// function that it belongs to at function granularity; then what was inlined where.
pub fn everything(module: &Module, functions: &[&str]) -> Vec<String> {
    let mut all = Vec::new();
    for granularity in [Granularity::Line, Granularity::Function] {
        let mut table = Table::new(module, granularity);
        for function in functions {
            let said = table.of_function(function);
            for (from, line) in said.iter().enumerate().filter(|(i, line)| *i == 0 || said[i - 1] != **line) {
                all.push(format!("{granularity:?} {function}+{from}: {line:?}"));
            }
        }
    }
    let mut starts = std::collections::HashMap::new();
    for function in module.symbols().functions() {
        starts.entry(demangle(&function.symbol)).or_insert(function.address);
    }
    let copies = module.inlined(|_| true).expect("debug information").into_iter().filter_map(|copy| {
        let wanted = functions.iter().any(|function| copy.within.ends_with(function));
        let offset = copy.address.wrapping_sub(*starts.get(&copy.within).filter(|_| wanted)?);
        Some(format!("{} within {}+{offset}", demangle(&copy.symbol), copy.within))
    });
    let copies: std::collections::BTreeSet<String> = copies.collect();
    all.into_iter().chain(copies).collect()
}
