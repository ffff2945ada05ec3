//! The repository's own commands, as a library, so that the integration tests can use the same pieces:
//! how the kernel side's object is made and checked, how the programs with a known answer are built and run.

use std::path::PathBuf;

use anyhow::Result;

pub mod demo;
pub mod ebpf;
pub mod group;
pub mod kernel;
pub mod latency;
pub mod overhead;
pub mod package;
pub mod picture;
pub mod programs;
pub mod race;
pub mod real;
pub mod servers;
pub mod sh;
pub mod startup;
pub mod symbols;
pub mod test;
pub mod truth;

/// Path of the profiler: the one that `COZ_BPF_BIN` names, or a fresh build.
///
/// # Errors
/// When it cannot be built.
pub fn profiler(release: bool) -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("COZ_BPF_BIN") {
        return Ok(sh::root().join(path));
    }
    let mut cargo = sh::cargo();
    cargo.args(["build", "--quiet", "-p", "coz-user", "--bin", "coz-bpf"]);
    if release {
        cargo.arg("--release");
    }
    sh::run(&mut cargo)?;
    Ok(sh::target_dir().join(if release { "release" } else { "debug" }).join("coz-bpf"))
}
