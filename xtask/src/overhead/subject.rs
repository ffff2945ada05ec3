//! A program with a fixed amount of work.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Result;

use crate::programs::{Debug, PROGRESS, Program};
use crate::real::{NAMES, Workload};
use crate::sh;

/// One of ours, or one that no one here wrote.
pub enum Subject {
    /// From `tests/programs`, for this many rounds.
    Ours(Program, u64),
    /// From Debian's sources.
    Foreign(Workload),
}

impl Subject {
    /// Builds it; a plain run is to take about so many seconds.
    ///
    /// # Errors
    /// When it cannot be built or run.
    pub fn build(name: &str, seconds: f64) -> Result<Self> {
        if NAMES.contains(&name) {
            return Ok(Self::Foreign(Workload::prepare(name, seconds.ceil() as u32)?.fixed()));
        }
        let program = Program::build(name)?;
        let rounds = program.run(0, 1.0)?.rounds as f64 * seconds;
        Ok(Self::Ours(program, rounds as u64))
    }

    /// The command of a plain run.
    pub fn plain(&self) -> Command {
        let mut command = Command::new(self.path());
        self.work(&mut command);
        command
    }

    /// The command of a run under the profiler.
    pub fn profiled(&self, profiler: &Path, options: &[&str], profile: &Path) -> Command {
        let point = match self {
            Self::Ours(..) => PROGRESS,
            Self::Foreign(workload) => workload.point,
        };
        let mut command = Command::new(profiler);
        command
            .args(["run", "-q", "-P", point])
            .args(options)
            .arg("-o")
            .arg(profile)
            .arg("--")
            .arg(self.path());
        self.work(&mut command);
        command
    }

    /// The same work under Debian's coz; `None` for a program that it has no debug information of its kind for.
    ///
    /// # Errors
    /// When it cannot be built.
    pub fn under_coz(&self) -> Result<Option<UnderCoz>> {
        let Self::Ours(program, rounds) = self else { return Ok(None) };
        Ok(Some(UnderCoz(program.with(Debug::Dwarf3)?, *rounds)))
    }

    /// Runs such a command to its end. For a server, the time in which it was served.
    ///
    /// # Errors
    /// When it fails.
    pub fn run(&self, mut command: Command) -> Result<Option<Duration>> {
        match self {
            Self::Ours(..) => sh::run(command.stdout(Stdio::null()).stderr(Stdio::null())).map(|()| None),
            Self::Foreign(workload) => workload.run(&mut command),
        }
    }

    fn path(&self) -> &PathBuf {
        match self {
            Self::Ours(program, _) => &program.path,
            Self::Foreign(workload) => &workload.program,
        }
    }

    fn work(&self, command: &mut Command) {
        match self {
            Self::Ours(program, rounds) => {
                program.keep_speed(command);
                command.args(["--rounds", &rounds.to_string()]);
            }
            Self::Foreign(workload) => {
                command.args(&workload.args);
            }
        }
    }
}

/// One of our programs, built so that coz can read it, and its rounds.
pub struct UnderCoz(Program, u64);

impl UnderCoz {
    /// The command of a default run. Its profile is thrown away.
    pub fn command(&self) -> Command {
        let Self(program, rounds) = self;
        let mut command = program.command(Path::new("coz"));
        command.args(["run", "-o", "/dev/null", "---"]).arg(&program.path);
        command.args(["--rounds", &rounds.to_string()]);
        command
    }
}
