//! Running other programs: every failure names the command and the way it ended.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};

/// The repository's top folder.
#[must_use]
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// The folder that the normal builds write to.
#[must_use]
pub fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// `cargo`, in the repository's top folder.
#[must_use]
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// The command as a person would type it.
#[must_use]
pub fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}

/// Runs it with our own terminal.
///
/// # Errors
/// When it cannot be started or ends with anything but 0.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot start `{}`", shown(command)))?;
    ensure!(status.success(), "`{}` failed: {status}", shown(command));
    Ok(())
}

/// Runs it and returns what it printed.
///
/// # Errors
/// When it cannot be started, ends with anything but 0 (its last words are in the error), or prints no UTF-8.
pub fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot start `{}`", shown(command)))?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        bail!("`{}` failed: {}\n{}", shown(command), output.status, words.trim_end());
    }
    String::from_utf8(output.stdout).with_context(|| format!("`{}` printed no UTF-8", shown(command)))
}

/// Where a program is found on `PATH`, if it is.
#[must_use]
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// Whether we are root.
#[must_use]
pub fn is_root() -> bool {
    // SAFETY: geteuid has no preconditions and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_the_command_and_its_last_words() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo lost >&2; exit 3"]);
        let error = format!("{:#}", output(&mut command).expect_err("it exits with 3"));
        assert!(
            error.contains("exit 3") && error.contains("exit status: 3") && error.contains("lost"),
            "{error}"
        );
        let error = format!("{:#}", run(&mut Command::new("/nowhere/x")).expect_err("it does not exist"));
        assert!(error.contains("cannot start `/nowhere/x`"), "{error}");
    }
}
