//! A run of ours with `--until`, ended when that is reached.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context as _, Result};

use crate::programs::{PROGRESS, Program};
use crate::sh;

/// Seconds from the program's release until the first line was known to within so many points; `None` where it was
/// not when the program ended, after `limit` seconds.
///
/// # Errors
/// When the profiler cannot be run or writes no profile.
pub fn enough(
    program: &Program,
    profiler: &Path,
    points: f64,
    limit: f64,
    random: bool,
    profile: &Path,
) -> Result<Option<f64>> {
    let _ = fs::remove_file(profile);
    let mut command = program.command(profiler);
    command.args(["run", "-P", PROGRESS, "--until", &points.to_string(), "-o"]).arg(profile);
    command.args(random.then_some("--random-lines")).arg("--").arg(&program.path);
    command.args(["--seconds", &limit.to_string()]).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("cannot start `{}`", sh::shown(&command)))?;
    let words = child.stderr.take().context("what it says was to be read")?;
    for line in BufReader::new(words).lines() {
        if line.is_ok_and(|line| line.contains("enough after")) {
            // The program need not run on: it gets the signal from the profiler.
            // SAFETY: kill has no preconditions; the child has not been waited for.
            unsafe { libc::kill(child.id().cast_signed(), libc::SIGTERM) };
        }
    }
    child.wait()?;
    let text = fs::read_to_string(profile).with_context(|| format!("cannot read {}", profile.display()))?;
    let end = text.lines().rfind(|line| line.starts_with(r#"{"type":"runtime""#));
    let end: serde_json::Value = serde_json::from_str(end.context("the profile has no end")?)?;
    Ok(end["enough_ns"].as_u64().map(|ns| ns as f64 / 1e9))
}
