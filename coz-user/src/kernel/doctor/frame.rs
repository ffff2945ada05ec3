//! Can a call chain be followed through a program's functions? By their unwind tables, which compilers write unless they
//! are told not to; else by frame pointers: an estimate from the first instructions.

use std::{fs::File, io::BufReader};

use object::{Object, ObjectSection, ObjectSymbol, ReadCache, SymbolKind};

/// Functions shorter than this often need no frame whatever the compiler was told.
const SHORTEST: u64 = 48;
/// How many functions are looked at.
const MOST: usize = 4000;
/// How far into a function its frame is set up.
const PROLOGUE: usize = 32;

/// A program of which only what is looked at is read: with debug information it can be gigabytes long.
pub(super) type Image<'a> = object::File<'a, &'a ReadCache<BufReader<File>>>;

/// How many functions set up a frame, of how many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Estimate {
    pub(super) framed: usize,
    pub(super) seen: usize,
}

impl Estimate {
    /// Share of framed functions, per cent; `None` where too few were seen to say.
    pub(super) fn percent(self) -> Option<usize> {
        (self.seen >= 5).then(|| self.framed * 100 / self.seen)
    }
}

/// Whether there are unwind tables for about as many functions as there are: startup code has some in any case.
pub(super) fn has_unwind_tables(file: &Image<'_>) -> bool {
    /// The shortest description of a function.
    const DESCRIPTION: u64 = 24;
    let size = |name| file.section_by_name(name).map_or(0, |section| section.size());
    let described = (size(".eh_frame") + size(".debug_frame")) / DESCRIPTION;
    described > 0 && described >= from_symbols(file).len() as u64
}

/// Estimates over the functions of the symbol table.
pub(super) fn estimate(file: &Image<'_>) -> Estimate {
    let functions = from_symbols(file);
    // Evenly over the program, not its beginning only.
    let step = functions.len().div_ceil(MOST).max(1);
    let mut estimate = Estimate::default();
    for (start, _) in functions.into_iter().step_by(step) {
        let Some(code) = code_at(file, start) else { continue };
        estimate.seen += 1;
        estimate.framed += usize::from(sets_up_frame(code));
    }
    estimate
}

fn from_symbols(file: &Image<'_>) -> Vec<(u64, u64)> {
    let mut functions: Vec<(u64, u64)> = file
        .symbols()
        .filter(|symbol| {
            symbol.kind() == SymbolKind::Text && symbol.is_definition() && symbol.size() >= SHORTEST
        })
        .filter(|symbol| !symbol.name().is_ok_and(is_rust_library))
        .map(|symbol| (symbol.address(), symbol.size()))
        .collect();
    functions.sort_unstable();
    functions.dedup();
    functions
}

/// Rust's own libraries come compiled, with frame pointers, whatever the program's flags are.
fn is_rust_library(name: &str) -> bool {
    let name = format!("{:#}", rustc_demangle::demangle(name));
    let name = name.trim_start_matches(['<', '&']);
    ["std::", "core::", "alloc::"].iter().any(|library| name.starts_with(library))
}

fn code_at<'a>(file: &Image<'a>, address: u64) -> Option<&'a [u8]> {
    file.sections().find_map(|section| {
        let within = address.checked_sub(section.address()).filter(|&offset| offset < section.size())?;
        let code = section.data().ok()?.get(usize::try_from(within).ok()?..)?;
        Some(code.get(..PROLOGUE).unwrap_or(code))
    })
}

/// `push %rbp` at the start, `mov %rsp,%rbp` soon after: compilers put other pushes and moves between.
fn sets_up_frame(code: &[u8]) -> bool {
    const LANDING: &[u8] = b"\xf3\x0f\x1e\xfa";
    const PUSH: u8 = 0x55;
    // Two encodings of the same instruction.
    const MOVES: [&[u8]; 2] = [b"\x48\x89\xe5", b"\x48\x8b\xec"];
    let code = code.strip_prefix(LANDING).unwrap_or(code);
    let Some(push) = code.iter().take(8).position(|&byte| byte == PUSH) else { return false };
    let after = code.get(push + 1..).unwrap_or_default();
    after.windows(3).any(|window| MOVES.contains(&window))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prologues_as_compilers_write_them() {
        // gcc -O0: endbr64; push %rbp; mov %rsp,%rbp
        assert!(sets_up_frame(b"\xf3\x0f\x1e\xfa\x55\x48\x89\xe5\x48\x83\xec\x10"));
        // clang: push %rbp; mov %rsp,%rbp; push %r15
        assert!(sets_up_frame(b"\x55\x48\x89\xe5\x41\x57"));
        // gcc -O2: push %rbp; mov %edi,%eax; mov %rsp,%rbp
        assert!(sets_up_frame(b"\x55\x89\xf8\x48\x89\xe5"));
        // -fomit-frame-pointer: rbp is saved as any register and holds something else.
        assert!(!sets_up_frame(b"\xf3\x0f\x1e\xfa\x41\x54\x55\x48\x89\xfd\x53\x48\x83\xec\x10"));
        assert!(!sets_up_frame(b"\x48\x83\xec\x08\xc3"));
        assert!(!sets_up_frame(b""));
    }

    #[test]
    fn rusts_own_libraries_say_nothing_of_the_program() {
        assert!(is_rust_library("_ZN4core3fmt9Formatter9write_fmt17h0123456789abcdefE"));
        assert!(is_rust_library("_RNvNtCs1234_3std2rt10lang_start"));
        assert!(!is_rust_library("_ZN3app4main17h0123456789abcdefE"));
        assert!(!is_rust_library("main"));
    }

    #[test]
    fn few_functions_say_nothing() {
        assert_eq!(Estimate { framed: 4, seen: 4 }.percent(), None);
        assert_eq!(Estimate { framed: 5, seen: 10 }.percent(), Some(50));
    }
}
