//! A program and its work: how it is run, kept busy, and what came of it.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use super::server::Served;
use super::{build, folder};
use crate::programs::Debug;
use crate::sh;

/// What a run has left: all of its standard output, and its exit code (none after a signal).
pub struct Outcome {
    pub output: Vec<u8>,
    pub code: Option<i32>,
}

/// Whether a program prints the same again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeats {
    /// Byte for byte.
    Exactly,
    /// The same lines, in an order that depends on its threads.
    InAnyOrder,
    /// It prints times.
    No,
}

impl Repeats {
    /// Whether one output is as good as the other.
    pub fn agree(self, one: &[u8], other: &[u8]) -> bool {
        let lines = |text: &[u8]| {
            let mut lines: Vec<Vec<u8>> = text.split(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect();
            lines.sort_unstable();
            lines
        };
        match self {
            Self::Exactly => one == other,
            Self::InAnyOrder => lines(one) == lines(other),
            Self::No => true,
        }
    }
}

/// A program and its work.
pub struct Workload {
    /// One of [`super::NAMES`].
    pub name: &'static str,
    /// A sentence for the reader.
    pub about: &'static str,
    /// The symbol that serves as the progress point.
    pub point: &'static str,
    /// The executable.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// Whether it prints the same again each time.
    pub repeats: Repeats,
    /// Options of ours beside the progress point.
    pub options: Vec<String>,
    /// A file that it reads from standard input.
    pub(super) input: Option<PathBuf>,
    /// How long it is kept busy from outside, for a server.
    pub(super) served: Option<Served>,
}

impl Workload {
    /// The same with a fixed amount of work, also for a server: about as much as it does in its time.
    pub fn fixed(mut self) -> Self {
        self.served = self.served.map(Served::fixed);
        self
    }

    /// The same program built so that coz can read it.
    ///
    /// # Errors
    /// When it does not compile.
    pub fn for_coz(&self) -> Result<PathBuf> {
        build::program(self.name, &folder(), Debug::Dwarf3)
    }

    /// Little work, two seconds or so, of a fixed amount.
    ///
    /// # Errors
    /// When the program cannot be built, or its input not made.
    pub fn small(name: &str) -> Result<Self> {
        Ok(Self::prepare(name, 2)?.fixed())
    }

    /// The command of a plain run.
    pub fn plain(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.args);
        command
    }

    /// Where a server listens on 127.0.0.1.
    pub fn port(&self) -> Option<u16> {
        self.served.map(|served| served.port)
    }

    /// The arguments without paths, for a document.
    pub fn shown_args(&self) -> String {
        let name = |arg: &String| {
            Path::new(arg).file_name().map_or_else(String::new, |name| name.to_string_lossy().into())
        };
        let args = self.args.iter().map(name).collect::<Vec<_>>().join(" ");
        match &self.input {
            Some(_) => format!("{args} < statements.sql"),
            None => args,
        }
    }

    /// Runs a command that ends with program and arguments, keeps the program busy, and throws its output away. For a
    /// server, the time in which it was served; what it takes to start and end is not its work.
    ///
    /// # Errors
    /// When it fails.
    pub fn run(&self, command: &mut Command) -> Result<Option<Duration>> {
        let mut child = self.start(command.stdout(Stdio::null()))?;
        let served = self.keep_busy(&mut child)?;
        let status = child.wait()?;
        ensure!(
            status.success(),
            "`{}` failed: {status}; what it said is in {}",
            sh::shown(command),
            words_file().display()
        );
        Ok(served)
    }

    /// Runs a command that ends with program and arguments, and keeps what the program says. What was started is
    /// killed when its child has been this program for the time `killed`; the program runs on to its end.
    ///
    /// # Errors
    /// When it cannot be started or served.
    pub fn outcome(&self, mut command: Command, killed: Option<Duration>) -> Result<Outcome> {
        let mut child = self.start(command.stdout(Stdio::piped()))?;
        let mut pipe = child.stdout.take().context("its output was to be kept")?;
        // Read beside everything else: who waits for room in a pipe does not end.
        let reader = std::thread::spawn(move || {
            let mut output = Vec::new();
            pipe.read_to_end(&mut output).map(|_| output)
        });
        let killer = killed.map(|after| {
            let (pid, program) = (child.id(), self.program.clone());
            std::thread::spawn(move || {
                let deadline = Instant::now() + Duration::from_secs(20);
                while !has_child(pid, &program) && Instant::now() < deadline {
                    std::thread::sleep(Duration::from_millis(5));
                }
                std::thread::sleep(after);
                // SAFETY: kill has no preconditions; the child is not waited for before this thread has ended.
                unsafe { libc::kill(pid.cast_signed(), libc::SIGKILL) };
            })
        });
        let served = self.keep_busy(&mut child);
        if let Some(killer) = killer {
            ensure!(killer.join().is_ok(), "the thread that kills has failed");
        }
        let status = child.wait()?;
        served?;
        let Ok(output) = reader.join() else { bail!("the thread that reads the output has failed") };
        Ok(Outcome { output: output?, code: status.code() })
    }

    fn words(&self) -> Result<fs::File> {
        fs::File::create(words_file()).with_context(|| format!("{}: its words cannot be kept", self.name))
    }

    fn start(&self, command: &mut Command) -> Result<Child> {
        let input = self
            .input
            .as_deref()
            .map_or_else(|| Ok(Stdio::null()), |path| fs::File::open(path).map(Stdio::from))?;
        // What they say while they work is of no interest as long as they end well.
        command
            .stdin(input)
            .stderr(self.words()?)
            .spawn()
            .with_context(|| format!("cannot start `{}`", sh::shown(command)))
    }

    /// A server gets its requests, and is told to end; another program has all its work already.
    fn keep_busy(&self, child: &mut Child) -> Result<Option<Duration>> {
        let Some(served) = self.served else { return Ok(None) };
        let served = served.serve();
        if served.is_err() {
            let _ = child.kill();
        }
        served.map(Some)
    }
}

/// Where the standard error of the last run is.
fn words_file() -> PathBuf {
    folder().join("said")
}

/// Whether this process has a child that executes the program.
fn has_child(pid: u32, program: &Path) -> bool {
    let Ok(program) = fs::canonicalize(program) else { return false };
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    children
        .split_whitespace()
        .any(|child| fs::read_link(format!("/proc/{child}/exe")).is_ok_and(|exe| exe == program))
}
