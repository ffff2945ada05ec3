//! A program with a fixed amount of work.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use crate::programs::{Debug, Outcome, PROGRESS, Program};
use crate::real::{MEASURED, Workload};
use crate::sh;

/// One of ours, or one that no one here wrote.
pub enum Subject {
    /// From `tests/programs`, for this many rounds.
    Ours(Program, u64),
    /// From Debian's sources.
    Foreign(Workload),
}

/// How long a command took.
#[derive(Clone, Copy, Debug)]
pub struct Took {
    /// From its start to its end.
    pub whole: Duration,
    /// The program's work alone, where that is known: our programs say it, a server's clients measure it.
    pub work: Option<Duration>,
}

impl Subject {
    /// Builds it; a plain run is to take about so many seconds.
    ///
    /// # Errors
    /// When it cannot be built or run.
    pub fn build(name: &str, seconds: f64) -> Result<Self> {
        if MEASURED.contains(&name) {
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

    /// The command of a run under the profiler, with its progress point or without any.
    pub fn profiled(&self, profiler: &Path, point: bool, options: &[String], profile: &Path) -> Command {
        let symbol = match self {
            Self::Ours(..) => PROGRESS,
            Self::Foreign(workload) => workload.point,
        };
        let mut command = Command::new(profiler);
        command.args(["run", "-q"]);
        if point {
            command.args(["-P", symbol]);
        }
        command.args(options).arg("-o").arg(profile).arg("--").arg(self.path());
        self.work(&mut command);
        command
    }

    /// Builds the program once more, so that Debian's coz can read it.
    ///
    /// # Errors
    /// When it cannot be built.
    pub fn for_coz(&self) -> Result<UnderCoz> {
        let path = match self {
            Self::Ours(program, _) => program.with(Debug::Dwarf3)?.path,
            Self::Foreign(workload) => workload.for_coz()?,
        };
        Ok(UnderCoz { path })
    }

    /// Runs such a command to its end.
    ///
    /// # Errors
    /// When it fails.
    pub fn run(&self, mut command: Command) -> Result<Took> {
        let start = Instant::now();
        let work = match self {
            Self::Ours(..) => {
                let said = sh::output(command.stderr(Stdio::null()))?;
                let shown = || format!("`{}`", sh::shown(&command));
                Some(Duration::from_nanos(Outcome::parse(&said).with_context(shown)?.ns))
            }
            Self::Foreign(workload) => workload.run(command.stderr(Stdio::null()))?,
        };
        Ok(Took { whole: start.elapsed(), work })
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

/// The program, built so that coz can read it.
pub struct UnderCoz {
    path: PathBuf,
}

impl UnderCoz {
    /// The command of the same work under coz. Its profile is thrown away. A program from Debian has no point that coz
    /// knows, and without one it would only sample: there the run as a whole is its experiment.
    pub fn command(&self, subject: &Subject, options: &[&str]) -> Command {
        let mut command = Command::new("coz");
        command.args(["run", "-o", "/dev/null"]).args(options);
        if matches!(subject, Subject::Foreign(_)) {
            command.arg("--end-to-end");
        }
        command.arg("---").arg(&self.path);
        subject.work(&mut command);
        command
    }
}
