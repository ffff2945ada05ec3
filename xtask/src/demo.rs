//! A first look: the bundled job server, profiled.

use std::process::Command;

use anyhow::{Result, ensure};

use crate::programs::{PROGRESS, Program};
use crate::sh;

/// How long the job server runs, seconds.
const SECONDS: &str = "35";

/// Builds the profiler and the job server, runs one under the other, prints what to make of the report.
///
/// # Errors
/// When something does not build, or the profiler fails.
pub fn run() -> Result<()> {
    println!("Building the profiler and a job server: minutes the first time.");
    let profiler = crate::profiler(true)?;
    let server = Program::build("jobserver")?;
    let folder = tempfile::tempdir()?;
    let (bottleneck, decoy) = (server.marked("line")?, server.marked("decoy")?);
    println!(
        "A job server: one thread decodes jobs and encodes answers ({bottleneck}), and is what clients wait for; an \
         auditor beside it goes over the books again and again ({decoy})."
    );
    println!(
        "An ordinary profiler ranks the auditor's line first. Now {SECONDS} seconds of causal profiling.\n"
    );
    let mut command = as_root(server.command(&profiler))?;
    command.args(["run", "-P", PROGRESS, "-o"]).arg(folder.path().join("profile.jsonl"));
    command.arg("--").arg(&server.path).args(["--seconds", SECONDS]);
    println!("$ {}\n", sh::shown(&command));
    sh::run(&mut command)?;
    println!("\nThe answer known beforehand: {bottleneck} made faster by 25, 50, 100 % gives 15, 30, 60 %;");
    println!("{decoy}, where most samples fall, gives nothing: nobody waits for the auditor.");
    Ok(())
}

/// The same command through sudo, if we are not root.
fn as_root(command: Command) -> Result<Command> {
    if sh::is_root() {
        return Ok(command);
    }
    ensure!(sh::find("sudo").is_some(), "the profiler needs root, and there is no sudo: run this as root");
    let mut sudo = Command::new("sudo");
    // Not `-E`: policies often forbid it; what we set ourselves is passed by name.
    for (key, value) in command.get_envs() {
        let (key, value) = (key.to_string_lossy(), value.unwrap_or_default().to_string_lossy());
        sudo.arg(format!("{key}={value}"));
    }
    sudo.arg(command.get_program());
    Ok(sudo)
}
