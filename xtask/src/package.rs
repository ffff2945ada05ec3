//! `cargo xtask deb`: a Debian package of the profiler, with manual pages and completions.

use std::fs;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::sh;

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
    sh::run(sh::cargo().args(["deb", "--no-build", "--package", "coz-user"]))
}
