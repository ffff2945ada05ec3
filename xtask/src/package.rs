//! `cargo xtask deb`: a Debian package of the profiler, with manual pages and completions. `cargo xtask static`: the profiler as one
//! file that runs on any Linux distribution.

use std::fs;
use std::path::{Path, PathBuf};
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
    let built = static_build(&["--release"], "release")?;
    let path = sh::target_dir().join(STATIC).join("coz-bpf");
    // Four parts of five are debug information.
    sh::run(Command::new("strip").arg("--strip-debug").arg("-o").arg(&path).arg(&built))?;
    print!("{}: {}", path.display(), sh::output(Command::new(&path).arg("--version"))?);
    Ok(())
}

/// The check of `cargo xtask test`: the same without optimisation, which takes minutes. `false` where the standard library for it
/// is not installed.
///
/// # Errors
/// When it cannot be built, is not static after all, or does not run.
pub fn check_static() -> Result<bool> {
    let library = sh::output(Command::new("rustc").args(["--print", "target-libdir", "--target", STATIC]))?;
    if !Path::new(library.trim()).is_dir() {
        return Ok(false);
    }
    // Nobody looks for anything in it.
    let path = static_build(&["--locked", "--config", "profile.dev.debug=false"], "debug")?;
    // Something that it does by itself, without any library of the machine and without its environment.
    let coz = sh::root().join("tests/page/fixture.coz");
    let report = sh::output(Command::new(&path).env_clear().args(["report", "--json"]).arg(&coz))?;
    ensure!(report.contains("\"app.c:12\""), "{} does not read {}: {report}", path.display(), coz.display());
    Ok(true)
}

/// How the missing standard library is had.
pub const STATIC_MEND: &str = "rustup target add x86_64-unknown-linux-musl";

fn static_build(options: &[&str], folder: &str) -> Result<PathBuf> {
    let mut cargo = sh::cargo();
    sh::run(cargo.args(["build", "-p", "coz-user", "--target", STATIC]).args(options))
        .with_context(|| format!("the standard library for it is there? `{STATIC_MEND}`"))?;
    let path = sh::target_dir().join(STATIC).join(folder).join("coz-bpf");
    let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    ensure!(!has_interpreter(&bytes)?, "{} needs shared libraries", path.display());
    Ok(path)
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
