//! Programs that are entered: compiled, started, talked to, and looked at.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};

use coz_tests::entering::Files;
use coz_user::target::inject::{self, Entered, Left};
use coz_user::target::process;

pub const SIGNAL: u32 = 62;
pub const MILLI: u64 = 1_000_000;

/// How a program is linked.
pub const KINDS: [(&str, &[&str]); 3] = [("gcc", &[]), ("gcc", &["-static"]), ("musl-gcc", &["-static"])];

pub fn folder() -> &'static Path {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    FOLDER.get_or_init(|| tempfile::tempdir().expect("a temporary folder can be made")).path()
}

/// Compiles `enter/NAME.c`; the program's path.
pub fn compile(name: &str, (compiler, options): (&str, &[&str])) -> PathBuf {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let program = folder().join(format!("{name}-{compiler}{}", options.concat()));
    if !program.exists() {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("enter").join(name).with_extension("c");
        let fresh = program.with_extension("new");
        let status = Command::new(compiler)
            .args(["-O1", "-Wall", "-Wextra", "-pthread", "-o"])
            .args([&fresh, &source])
            .args(options)
            .status()
            .unwrap_or_else(|error| panic!("{compiler}: {error}: apt-get install gcc libc6-dev musl-tools"));
        assert!(status.success(), "{name}.c does not compile");
        fs::rename(fresh, &program).expect("it is ours");
    }
    program
}

/// A program that runs, and can be talked to.
pub struct Target {
    pub child: Child,
    pub input: Option<ChildStdin>,
    pub output: BufReader<ChildStdout>,
}

impl Target {
    pub fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let (input, output) = (child.stdin.take(), child.stdout.take().expect("it is piped"));
        Self { child, input, output: BufReader::new(output) }
    }

    /// Starts it and waits until it has begun.
    pub fn begin<S: AsRef<std::ffi::OsStr>>(program: &Path, arguments: impl IntoIterator<Item = S>) -> Self {
        let mut target = Self::start(Command::new(program).args(arguments));
        assert_eq!(target.line(), "begun");
        target
    }

    pub fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("it writes text");
        line.trim_end().to_owned()
    }

    pub fn say(&mut self, byte: u8) {
        self.input.as_mut().expect("it is open").write_all(&[byte]).expect("it reads");
    }

    /// Ends its input; what it still writes, and that it ended well.
    pub fn finish(mut self) -> String {
        drop(self.input.take());
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).expect("it writes text");
        let status = self.child.wait().expect("it is our child");
        assert!(status.success(), "{status}: {rest}");
        rest
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What entering changes and leaving must put back: mappings, descriptors, and what is done with signals, in every thread.
pub fn surroundings(pid: i32) -> (String, BTreeSet<(String, PathBuf)>, Vec<String>) {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("it lives");
    let fds = fs::read_dir(format!("/proc/{pid}/fd")).expect("it lives").flatten();
    let fds = fds.map(|fd| {
        let to = fs::read_link(fd.path()).unwrap_or_default();
        (fd.file_name().to_string_lossy().into_owned(), to)
    });
    let signals = |tid| {
        let status = fs::read_to_string(format!("/proc/{pid}/task/{tid}/status")).unwrap_or_default();
        let wanted = ["SigPnd", "ShdPnd", "SigBlk", "SigIgn", "SigCgt", "TracerPid"];
        let lines = status.lines().filter(|line| wanted.iter().any(|name| line.starts_with(name)));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let threads = process::threads(pid).unwrap().unwrap_or_default();
    (maps, fds.collect(), threads.into_iter().flat_map(signals).collect())
}

pub fn enter(pid: i32, files: &Files) -> Entered {
    inject::enter(pid, &files.maps(), SIGNAL).unwrap_or_else(|why| panic!("{pid} is not entered: {why}"))
}

pub fn leave(entered: &Entered) {
    let left = entered.leave().unwrap_or_else(|why| panic!("{} is not left: {why}", entered.pid()));
    assert!(matches!(left, Left::Undone { .. }), "{left:?}");
}

pub fn namespace(pid: i32) -> u32 {
    process::pid_namespace(pid).unwrap().expect("it lives")
}
