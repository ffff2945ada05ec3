//! Symbols: from an address of the program to the line of source that the user knows.
//!
//! A [`Module`] is an executable or a library on disk. Opening one reads its ELF headers and nothing else; its debug
//! information is indexed when something first asks for it, and each unit is read when an address in it is
//! first seen. Debug information may be inside the file or apart from it (build id, `.gnu_debuglink`, `dwz`),
//! compressed or not, DWARF 2 to 5, split or not (`.dwo` and `.dwp` files). Debug information that is damaged
//! is used as far as it can be read; where there is none, functions come from the symbol table.

mod debug;
mod debuginfod;
mod demangle;
mod dwarf;
pub mod elf;
mod index;
mod inlined;
mod jit;
mod line_sites;
mod lines;
mod module;
mod names;
mod page;
mod parallel;
mod paths;
mod ranges;
mod rows;
mod scope;
mod separate;
mod split;
mod stack;
mod table;
mod unit;
mod unwind;
mod variables;

pub use demangle::{demangle, short_name, split_clone};
pub use inlined::{Declaration, Inlined};
pub use jit::{ANONYMOUS, JitMap};
pub use line_sites::{LineSearch, LineSite};
pub use lines::{Line, Lines};
pub use module::{Detail, Mapping, Module};
pub use parallel::shares;
pub use scope::Scope;
pub use stack::Frame;
pub use table::{Function, SymbolTable};
pub use unwind::UnwindTable;

/// What is selected: a line or a function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Granularity {
    /// Single lines.
    #[default]
    Line,
    /// Whole functions.
    Function,
}
