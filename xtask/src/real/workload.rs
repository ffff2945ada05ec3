//! What each of the programs is given to do.

use std::fmt::Write as _;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};

use super::load::Bound;
use super::{build, folder, load};
use crate::programs::Debug;
use crate::sh;

/// All of them.
pub const NAMES: [&str; 3] = ["pbzip2", "sqlite3", "memcached"];

/// What a run has left: all of its standard output, and its exit code (none after a signal).
pub struct Outcome {
    pub output: Vec<u8>,
    pub code: Option<i32>,
}

/// What memcached answers on one CPU, roughly.
const REQUESTS_A_MS: u64 = 20;

/// A program and its work.
pub struct Workload {
    /// One of [`NAMES`].
    pub name: &'static str,
    /// A sentence for the reader.
    pub about: &'static str,
    /// The symbol that serves as the progress point.
    pub point: &'static str,
    /// The executable.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// A file that it reads from standard input.
    input: Option<PathBuf>,
    /// How long it is kept busy from outside, for a server.
    served: Option<Bound>,
}

impl Workload {
    /// Builds the program and makes its input.
    ///
    /// # Errors
    /// When either fails.
    pub fn prepare(name: &str, seconds: u32) -> Result<Self> {
        let folder = folder();
        match name {
            "pbzip2" => Self::pbzip2(&folder, seconds),
            "sqlite3" => Self::sqlite3(&folder, seconds),
            _ => Self::memcached(&folder, seconds),
        }
    }

    /// Compresses a source file of 8 MB again and again; a block is done when it is added to the output.
    fn pbzip2(folder: &Path, seconds: u32) -> Result<Self> {
        let program = build::program("pbzip2", folder, Debug::Default)?;
        // Text of the kind that people compress: the library's own sources, repeated beyond a block's length.
        let text = folder.join("text");
        let mut part = Vec::new();
        for source in ["blocksort.c", "compress.c", "decompress.c", "bzip2.c", "manual.html", "CHANGES"] {
            part.extend(fs::read(super::source::unpacked("bzip2", folder)?.join(source))?);
        }
        // One worker compresses about 9 MB a second.
        let wanted = 18_000_000 * seconds as usize;
        fs::write(&text, part.repeat(wanted.div_ceil(part.len())))?;
        let args =
            ["-c", "-k", "-p2", "-b1"].map(str::to_owned).into_iter().chain([text.display().to_string()]);
        Ok(Self {
            name: "pbzip2",
            about: "Compresses text on two threads, in blocks of 100 kB. A visit of the point is the begin of a block. \
                Debian's pbzip2 and bzip2 sources, compiled into one program.",
            point: "BZ2_bzBuffToBuffCompress",
            program,
            args: args.collect(),
            input: None,
            served: None,
        })
    }

    /// The shell reads statements that each scan a table; a visit is the end of a statement.
    fn sqlite3(folder: &Path, seconds: u32) -> Result<Self> {
        let program = build::program("sqlite3", folder, Debug::Default)?;
        let script = folder.join("statements.sql");
        fs::write(&script, statements(seconds * 450))?;
        Ok(Self {
            name: "sqlite3",
            about: "The shell runs statements that each scan a table of 20,000 rows in memory. A visit of the point is \
                the end of a statement.",
            point: "sqlite3_finalize",
            program,
            args: vec![":memory:".into()],
            input: Some(script),
            served: None,
        })
    }

    /// One worker thread answers requests for many keys at once, from clients on the loopback interface.
    fn memcached(folder: &Path, seconds: u32) -> Result<Self> {
        let program = build::program("memcached", folder, Debug::Default)?;
        let args = ["-u", "root", "-t", "1", "-l", "127.0.0.1", "-m", "64", "-p", load::PORT];
        Ok(Self {
            name: "memcached",
            about: "One worker thread answers requests for 50 keys at once over the loopback interface, four \
                connections. A visit of the point is a request.",
            point: "process_command_ascii",
            program,
            args: args.map(str::to_owned).into(),
            input: None,
            served: Some(Bound::Time(Duration::from_secs(seconds.into()))),
        })
    }

    /// The same with a fixed amount of work, also for a server: about as much as it does in its time.
    pub fn fixed(mut self) -> Self {
        if let Some(Bound::Time(time)) = self.served {
            self.served = Some(Bound::Requests(time.as_millis() as u64 * REQUESTS_A_MS));
        }
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
        ensure!(status.success(), "`{}` failed: {status}", sh::shown(command));
        Ok(served)
    }

    /// Runs a command that ends with program and arguments, and keeps what the program says. What was started is
    /// killed after `killed`; the program itself, if that was not it, runs on to its end.
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
            let pid = child.id();
            std::thread::spawn(move || {
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

    fn start(&self, command: &mut Command) -> Result<Child> {
        let input = self
            .input
            .as_deref()
            .map_or_else(|| Ok(Stdio::null()), |path| fs::File::open(path).map(Stdio::from))?;
        command.stdin(input).spawn().with_context(|| format!("cannot start `{}`", sh::shown(command)))
    }

    /// A server gets its requests, and is told to end; another program has all its work already.
    fn keep_busy(&self, child: &mut Child) -> Result<Option<Duration>> {
        let Some(bound) = self.served else { return Ok(None) };
        let served = load::serve(bound).and_then(|time| load::end_server().map(|()| time));
        if served.is_err() {
            let _ = child.kill();
        }
        served.map(Some)
    }
}

/// A table and this many statements that scan it.
pub fn statements(count: u32) -> String {
    let mut sql = String::from(
        "CREATE TABLE t(a INTEGER PRIMARY KEY, b INTEGER, c TEXT);\n\
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<20000)\n\
         INSERT INTO t SELECT i, (i*7919)%10007, hex(i*2654435761) FROM n;\n",
    );
    for number in 0..count {
        let _ = writeln!(
            sql,
            "SELECT count(*), sum(b) FROM t WHERE c LIKE '%4{}%' AND b > {};",
            number % 10,
            number % 1000 * 3
        );
    }
    sql
}
