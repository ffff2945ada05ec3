//! `cargo xtask deb`: a Debian package of the profiler, with manual pages and completions. `cargo xtask static`: the profiler as one
//! file that runs on any Linux distribution.

use std::fs;
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use object::read::elf::{ElfFile64, ProgramHeader as _};

use crate::sh;

/// What the static profiler is compiled for. The shim that it carries is compiled for the machine that builds it: programs with
/// glibc load that one, whatever the profiler itself is linked with.
const STATIC: &str = "x86_64-unknown-linux-musl";

/// Shells, and what their completions are called.
const SHELLS: [(&str, &str); 3] = [("bash", "coz-bpf.bash"), ("zsh", "_coz-bpf"), ("fish", "coz-bpf.fish")];

/// Builds the profiler, has it write its manual pages and completions to `target/package`, and packs everything; prints where
/// the package is.
///
/// # Errors
/// When something cannot be built, or `cargo-deb` is not there.
pub fn deb() -> Result<()> {
    if sh::find("cargo-deb").is_none() {
        bail!("cargo-deb is not there: `cargo install cargo-deb --locked`");
    }
    let profiler = crate::profiler(true)?;
    let folder = sh::target_dir().join("package");
    // What an earlier version wrote must not get in.
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    sh::run(Command::new(&profiler).arg("man").arg(folder.join("man")))?;
    for (shell, name) in SHELLS {
        let script = sh::output(Command::new(&profiler).args(["completions", shell]))?;
        let path = folder.join(name);
        fs::write(&path, script).with_context(|| format!("cannot write {}", path.display()))?;
    }
    sh::run(sh::cargo().args(["deb", "--no-build", "--strip", "--package", "coz-user"]))
}

/// Builds the profiler without any need of shared libraries, makes sure of that, and prints where it is.
///
/// # Errors
/// When it cannot be built, or is not static after all.
pub fn statically() -> Result<()> {
    let mut cargo = sh::cargo();
    sh::run(cargo.args(["build", "--release", "-p", "coz-user", "--target", STATIC]))
        .with_context(|| format!("the standard library for it is there? `rustup target add {STATIC}`"))?;
    let folder = sh::target_dir().join(STATIC);
    let (built, path) = (folder.join("release/coz-bpf"), folder.join("coz-bpf"));
    // Four parts of five are debug information.
    sh::run(Command::new("strip").arg("--strip-debug").arg("-o").arg(&path).arg(&built))?;
    let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    ensure!(!has_interpreter(&bytes)?, "{} needs shared libraries", path.display());
    print!("{}: {}", path.display(), sh::output(Command::new(&path).arg("--version"))?);
    Ok(())
}

/// Whether a program is started through a dynamic loader.
fn has_interpreter(bytes: &[u8]) -> Result<bool> {
    let file = ElfFile64::<object::Endianness>::parse(bytes).context("it is no ELF file")?;
    let endian = file.endian();
    Ok(file.elf_program_headers().iter().any(|header| header.p_type(endian) == object::elf::PT_INTERP))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_of_this_machine_has_an_interpreter() {
        let ourselves = fs::read("/proc/self/exe").expect("it is there");
        assert!(has_interpreter(&ourselves).expect("it is ELF"));
        assert!(has_interpreter(b"text").is_err());
    }
}
