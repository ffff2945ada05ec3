//! What the integration tests share: running programs plain and under the profiler, and what the kernel holds.

pub mod entering;
pub mod kernel;
pub mod run;
#[path = "../sim/mod.rs"]
pub mod sim;
pub mod table;
pub mod turn;

use std::path::PathBuf;
use std::sync::OnceLock;

/// Path of the profiler: the one that `COZ_BPF_BIN` names, or a fresh build.
///
/// # Panics
/// When it cannot be built.
pub fn profiler() -> PathBuf {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| xtask::profiler(false).expect("the profiler can be built")).clone()
}

/// Path of a bundled program, compiled.
///
/// # Panics
/// When it does not compile.
pub fn program(name: &str) -> PathBuf {
    xtask::programs::compile(name).expect("the program compiles")
}
