//! Programs run to their end, with a limit, and what came of them.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// No run of a test takes longer.
pub const LIMIT: Duration = Duration::from_secs(60);

/// How a program ended.
#[derive(Debug)]
pub struct Ended {
    /// Its exit status.
    pub status: ExitStatus,
    /// What it wrote to standard output.
    pub stdout: Vec<u8>,
    /// What it wrote to standard error.
    pub stderr: Vec<u8>,
}

impl Ended {
    /// Its exit code; 128 + n when it died of signal n.
    #[must_use]
    pub fn code(&self) -> i32 {
        self.status.code().or_else(|| Some(128 + self.status.signal()?)).unwrap_or(-1)
    }

    /// Standard output as text.
    #[must_use]
    pub fn output(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Standard error as text.
    #[must_use]
    pub fn words(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// Fails unless it ended with this code and its standard error has each of these phrases, in any case and however
    /// its lines are broken.
    ///
    /// # Panics
    /// When not, or when it panicked.
    pub fn assert_says(&self, code: i32, phrases: &[&str]) {
        let words = self.words();
        assert!(!words.contains("panicked"), "a panic:\n{words}");
        assert_eq!(self.code(), code, "stderr:\n{words}\nstdout:\n{}", self.output());
        let text = words.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
        for phrase in phrases {
            assert!(text.contains(&phrase.to_lowercase()), "no `{phrase}` in:\n{words}");
        }
    }
}

/// A folder of its own, in which the profiler is run.
#[derive(Debug)]
pub struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    /// An empty one.
    ///
    /// # Panics
    /// When it cannot be made.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "it makes a folder")]
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        fs::create_dir(folder.path().join("tmp")).expect("it is writable");
        fs::create_dir(folder.path().join("streams")).expect("it is writable");
        Self { folder }
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The profile that a run without `-o` writes here.
    #[must_use]
    pub fn profile(&self) -> PathBuf {
        self.path().join("profile.jsonl")
    }

    /// A copy of a program, here, under this name. Another process writes it: a file that this one has open for writing while
    /// another test starts something can be open in that, too, and is not executed then.
    ///
    /// # Panics
    /// When it cannot be made.
    pub fn copy(&self, program: &Path, name: &str) -> PathBuf {
        let copy = self.path().join(name);
        let status = Command::new("cp").args([program, &copy]).status();
        assert!(status.is_ok_and(|status| status.success()), "{} can be copied", program.display());
        copy
    }

    /// `coz-bpf run ARGS...`, here, with a folder of its own for temporary files.
    pub fn profiled<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = self.plain(crate::profiler(), ["run"]);
        // To test on this kernel what is done on an older one.
        if let Some(without) = std::env::var_os("COZ_BPF_WITHOUT") {
            command.env("COZ_BPF_WITHOUT", without);
        }
        command.args(args);
        command
    }

    /// Any program, run here in the same way.
    pub fn plain<S: AsRef<OsStr>>(
        &self,
        program: impl AsRef<OsStr>,
        args: impl IntoIterator<Item = S>,
    ) -> Command {
        let mut command = Command::new(program);
        // What cargo sets for the test must not reach the program: both kinds of runs see the same little.
        command
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", "/root")
            .env("TMPDIR", self.path().join("tmp"));
        command.args(args).current_dir(self.path());
        command
    }

    /// Starts it; its output goes to files here.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn start(&self, mut command: Command) -> Running {
        let file = |name: &str| File::create(self.path().join("streams").join(name)).expect("it is writable");
        command.stdout(file("out")).stderr(file("err"));
        let child = command.spawn().unwrap_or_else(|error| panic!("{command:?} cannot be started: {error}"));
        Running { child, streams: self.path().join("streams") }
    }

    /// Runs it to its end, without input.
    pub fn run(&self, mut command: Command) -> Ended {
        command.stdin(Stdio::null());
        self.start(command).wait()
    }

    /// Runs it to its end with this input.
    ///
    /// # Panics
    /// When it takes no input.
    pub fn run_with(&self, mut command: Command, input: &[u8]) -> Ended {
        let mut running = self.start({
            command.stdin(Stdio::piped());
            command
        });
        let mut pipe = running.child.stdin.take().expect("it is piped");
        pipe.write_all(input).expect("the program reads its input");
        drop(pipe);
        running.wait()
    }

    /// Fails unless the folder for temporary files is empty.
    ///
    /// # Panics
    /// When it is not.
    pub fn assert_nothing_left(&self) {
        let left: Vec<_> = fs::read_dir(self.path().join("tmp")).expect("it is there").flatten().collect();
        assert!(left.is_empty(), "temporary files left: {left:?}");
    }
}

/// A program that runs.
#[derive(Debug)]
pub struct Running {
    child: Child,
    streams: PathBuf,
}

impl Running {
    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> libc::pid_t {
        self.child.id().cast_signed()
    }

    /// Sends it a signal.
    ///
    /// # Panics
    /// When it is gone.
    pub fn signal(&self, signal: libc::c_int) {
        // SAFETY: the process is a child that has not been waited for: its id is its own.
        let result = unsafe { libc::kill(self.pid(), signal) };
        assert_eq!(result, 0, "signal {signal} cannot be sent");
    }

    /// Ends its standard input, which was piped.
    pub fn end_input(&mut self) {
        self.child.stdin.take();
    }

    /// What its standard output holds so far.
    #[must_use]
    pub fn output_so_far(&self) -> String {
        fs::read_to_string(self.streams.join("out")).unwrap_or_default()
    }

    /// What its standard error holds so far.
    #[must_use]
    pub fn words_so_far(&self) -> String {
        fs::read_to_string(self.streams.join("err")).unwrap_or_default()
    }

    /// Waits until its standard output, which others may still write to, has this phrase.
    ///
    /// # Panics
    /// When that takes longer than [`LIMIT`].
    pub fn wait_for_output(&self, phrase: &str) -> String {
        wait_until(phrase, || Some(self.output_so_far()).filter(|output| output.contains(phrase)))
    }

    /// Its own memory (`RssAnon`) now, kilobytes; `None` when it has ended.
    #[must_use]
    pub fn private_kb(&self) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).ok()?;
        let field = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
        field.trim().strip_suffix(" kB")?.parse().ok()
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// When that takes longer than [`LIMIT`]: it is killed then.
    pub fn wait(&mut self) -> Ended {
        let deadline = Instant::now() + LIMIT;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("it is our child") {
                break status;
            }
            if Instant::now() > deadline {
                let _ = self.child.kill();
                let words = fs::read_to_string(self.streams.join("err")).unwrap_or_default();
                panic!("still there after {LIMIT:?}; stderr:\n{words}");
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let read = |name| fs::read(self.streams.join(name)).expect("it was written");
        Ended { status, stdout: read("out"), stderr: read("err") }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Asks again and again until there is an answer.
///
/// # Panics
/// When there is none within [`LIMIT`].
pub fn wait_until<T>(what: &str, mut answer: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + LIMIT;
    loop {
        if let Some(answer) = answer() {
            return answer;
        }
        assert!(Instant::now() < deadline, "waited too long for: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
