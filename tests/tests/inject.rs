//! Processes that run already are entered and left: they pay in between, and neither what they compute nor what their system
//! calls say shows that anybody was there.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use coz_tests::entering::Files;
use coz_tests::run::Place;
use coz_user::target::inject::{self, Entered, LeaveError, Left, Refused};
use coz_user::target::process;

#[path = "bad_input/elf32.rs"]
mod elf32;

const SIGNAL: u32 = 62;
const MILLI: u64 = 1_000_000;

/// How a program is linked.
const KINDS: [(&str, &[&str]); 3] = [("gcc", &[]), ("gcc", &["-static"]), ("musl-gcc", &["-static"])];

fn folder() -> &'static Path {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    FOLDER.get_or_init(|| tempfile::tempdir().expect("a temporary folder can be made")).path()
}

/// Compiles `enter/NAME.c`; the program's path.
fn compile(name: &str, (compiler, options): (&str, &[&str])) -> PathBuf {
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
struct Target {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Target {
    fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let (input, output) = (child.stdin.take(), child.stdout.take().expect("it is piped"));
        Self { child, input, output: BufReader::new(output) }
    }

    /// Starts it and waits until it has begun.
    fn begin<S: AsRef<std::ffi::OsStr>>(program: &Path, arguments: impl IntoIterator<Item = S>) -> Self {
        let mut target = Self::start(Command::new(program).args(arguments));
        assert_eq!(target.line(), "begun");
        target
    }

    fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("it writes text");
        line.trim_end().to_owned()
    }

    fn say(&mut self, byte: u8) {
        self.input.as_mut().expect("it is open").write_all(&[byte]).expect("it reads");
    }

    /// Ends its input; what it still writes, and that it ended well.
    fn finish(mut self) -> String {
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
fn surroundings(pid: i32) -> (String, BTreeSet<(String, PathBuf)>, Vec<String>) {
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

fn enter(pid: i32, files: &Files) -> Entered {
    inject::enter(pid, &files.maps(), SIGNAL).unwrap_or_else(|why| panic!("{pid} is not entered: {why}"))
}

fn leave(entered: &Entered) {
    let left = entered.leave().unwrap_or_else(|why| panic!("{} is not left: {why}", entered.pid()));
    assert!(matches!(left, Left::Undone { .. }), "{left:?}");
}

fn namespace(pid: i32) -> u32 {
    process::pid_namespace(pid).unwrap().expect("it lives")
}

/// Lets every thread ask itself once; thread, milliseconds and errno of each.
fn payments(target: &mut Target, threads: usize) -> Vec<(u32, f64, i32)> {
    target.say(b'g');
    let found = (0..threads).map(|_| payment(&target.line())).collect();
    assert_eq!(target.line(), "done");
    found
}

fn payment(line: &str) -> (u32, f64, i32) {
    let words: Vec<&str> = line.split(' ').collect();
    let [tid, spent, errno] = words[..] else { panic!("not a payment: {line}") };
    (tid.parse().unwrap(), spent.parse().unwrap(), errno.parse().unwrap())
}

#[test]
fn every_thread_of_an_entered_process_pays_what_it_owes_and_no_more() {
    for kind in KINDS {
        let mut target = Target::begin(&compile("asks", kind), [SIGNAL.to_string(), "4".into()]);
        let pid = target.pid();
        let files = Files::default();
        let entered = enter(pid, &files);
        let threads = process::threads(pid).unwrap().expect("it lives");
        assert_eq!(threads.len(), 4);
        files.owe(namespace(pid), &threads, 200 * MILLI);
        for (tid, spent, errno) in payments(&mut target, 4) {
            assert!((199.0..400.0).contains(&spent), "{kind:?}: {tid} pays {spent} ms of 200");
            assert_eq!(errno, 1234, "errno is the program's");
        }
        assert_eq!(files.answered(), (4, 4), "and says so");
        assert!((800 * MILLI..1600 * MILLI).contains(&files.paid()), "{}", files.paid());
        for (_, spent, _) in payments(&mut target, 4) {
            assert!(spent < 100.0, "{kind:?}: nothing is owed any more, {spent} ms");
        }
        files.rest();
        leave(&entered);
        assert_eq!(target.finish(), "");
    }
}

#[test]
fn a_forked_child_pays_and_is_left_too() {
    let mut target = Target::begin(&compile("asks", KINDS[0]), [SIGNAL.to_string(), "1".into()]);
    let files = Files::default();
    let entered = enter(target.pid(), &files);
    target.say(b'f');
    let child: i32 = target.line().strip_prefix("child ").and_then(|pid| pid.parse().ok()).expect("a child");
    files.owe(namespace(child), &[child], 100 * MILLI);
    let in_child = entered.inherited_by(child).expect("it has the parent's mappings");
    assert_eq!((in_child.pid(), in_child.handler()), (child, entered.handler()));
    assert!(entered.inherited_by(std::process::id().cast_signed()).is_none(), "we have not");
    target.say(b'g');
    let (_, spent, errno) = payment(&target.line());
    assert!((99.0..300.0).contains(&spent) && errno == 1234, "{spent} ms");
    leave(&entered);
    assert_eq!(in_child.leave().expect("nothing is left to do"), Left::Gone);
    target.finish();
}

#[test]
fn entered_and_left_fifty_times_a_process_is_as_it_was() {
    for kind in KINDS {
        let target = Target::begin(&compile("refuses", (kind.0, kind.1)), ["nothing"]);
        let pid = target.pid();
        let before = surroundings(pid);
        for round in 0..50 {
            let files = Files::default();
            let entered = enter(pid, &files);
            let within = surroundings(pid);
            assert_eq!(within.1, before.1, "no descriptor stays");
            assert_ne!(within, before);
            assert!(entered.inherited_by(pid).is_some());
            leave(&entered);
            assert_eq!(surroundings(pid), before, "{kind:?}, round {round}");
            assert_eq!(entered.leave().expect("nothing to do"), Left::Gone, "a second time");
        }
        assert_eq!(target.finish(), "ended\n");
    }
}

/// Enters and leaves until the process has ended; how often, and the longest stops.
fn molest(pid: i32, files: &Files) -> Vec<Duration> {
    let mut stops = Vec::new();
    loop {
        let entered = match inject::enter(pid, &files.maps(), SIGNAL) {
            Ok(entered) => entered,
            Err(Refused::Gone) => return stops,
            Err(why) => panic!("not entered: {why}"),
        };
        stops.push(Duration::from_nanos(entered.stopped_for().0));
        match entered.leave() {
            Ok(Left::Undone { .. }) => {}
            Ok(Left::Gone) => return stops,
            // It ended meanwhile.
            Err(why) => assert!(!process::executable(pid).is_ok_and(|exe| exe.is_some()), "not left: {why}"),
        }
    }
}

#[test]
fn no_system_call_says_that_it_was_interrupted() {
    for kind in KINDS {
        let crowd = compile("crowd", kind);
        for how in [
            "futex",
            "nanosleep",
            "poll",
            "select",
            "epoll",
            "read",
            "recv",
            "sigtimedwait",
            "condition",
            "computes",
        ] {
            // Alone: then there is no better thread to stop.
            let target = Target::begin(&crowd, [how, "1", "1200"]);
            let stops = molest(target.pid(), &Files::default());
            assert!(!stops.is_empty(), "{kind:?} {how}");
            assert_eq!(target.finish(), "interrupted 0 wrong 0 alive 1\n", "{kind:?} {how}");
        }
    }
}

#[test]
fn three_hundred_threads_in_all_kinds_of_calls_notice_nothing() {
    for kind in KINDS {
        let target = Target::begin(&compile("crowd", kind), ["all", "300", "3000"]);
        let mut stops = molest(target.pid(), &Files::default());
        stops.sort_unstable();
        assert!(stops.len() > 5, "{kind:?}: {}", stops.len());
        let median = stops[stops.len() / 2];
        println!("{kind:?}: {} times, stopped for {median:?}, at most {:?}", stops.len(), stops.last());
        assert!(median < Duration::from_millis(50), "{median:?}");
        assert_eq!(target.finish(), "interrupted 0 wrong 0 alive 1\n", "{kind:?}");
    }
}

#[test]
fn an_interpreter_computes_the_same() {
    let script = "import hashlib, sys\nprint('begun', flush=True)\nx = b'x'\n\
                  for i in range(150000):\n    x = hashlib.sha256(x + str(i).encode()).digest()\n\
                  sys.stdin.read()\nprint(x.hex())";
    let run = |molested: bool| {
        let mut target = Target::start(Command::new("python3").args(["-c", script]));
        assert_eq!(target.line(), "begun");
        if molested {
            let files = Files::default();
            for _ in 0..20 {
                leave(&enter(target.pid(), &files));
            }
        }
        target.finish()
    };
    assert_eq!(run(true), run(false));
}

#[test]
fn who_is_not_to_be_entered_is_refused_with_words_and_unharmed() {
    let files = Files::default();
    let refused = |pid| inject::enter(pid, &files.maps(), SIGNAL).expect_err("it is refused");
    for (how, words) in [
        ("apart", "does not allow clock_nanosleep"),
        ("strict", "none but four"),
        ("handler", "uses signal 62"),
        ("descriptors", "no room for"),
        ("memory", "no room for"),
    ] {
        let target = Target::begin(&compile("refuses", KINDS[0]), [how]);
        let before = surroundings(target.pid());
        let why = refused(target.pid()).to_string();
        assert!(why.contains(words), "{how}: {why}");
        assert_eq!(surroundings(target.pid()), before);
        assert_eq!(target.finish(), "ended\n");
    }

    let target = Target::begin(&compile("refuses", KINDS[0]), ["nothing"]);
    let pid = target.pid();
    // SAFETY: takes over a child of ours, by number.
    assert_eq!(unsafe { libc::ptrace(libc::PTRACE_SEIZE, pid, 0, 0) }, 0);
    assert!(matches!(refused(pid), Refused::Traced { .. }));
    assert!(refused(pid).to_string().contains("traces it"));
    // SAFETY: as above; it must stop to be let go of.
    unsafe {
        assert_eq!(libc::ptrace(libc::PTRACE_INTERRUPT, pid, 0, 0), 0);
        let mut status = 0;
        assert_eq!(libc::waitpid(pid, &raw mut status, libc::__WALL), pid);
        assert_eq!(libc::ptrace(libc::PTRACE_DETACH, pid, 0, 0), 0);
    }
    let entered = enter(pid, &files);
    assert!(matches!(refused(pid), Refused::AlreadyProfiled), "twice");
    leave(&entered);
    assert_eq!(target.finish(), "ended\n");

    let gone = Target::begin(&compile("refuses", KINDS[0]), ["nothing"]);
    let pid = gone.pid();
    gone.finish();
    assert!(matches!(refused(pid), Refused::Gone));
    assert!(matches!(refused(2), Refused::KernelThread), "kthreadd");
}

/// A filter that does this with calls of this number, and lets all others pass.
fn filter(call: i64, action: u32) -> Vec<u8> {
    let steps = [(0x20u16, 0u8, 0u32), (0x15, 1, call as u32), (6, 0, action), (6, 0, ALLOW)];
    let bytes =
        |(code, jf, k): (u16, u8, u32)| [&code.to_ne_bytes()[..], &[0, jf], &k.to_ne_bytes()].concat();
    steps.into_iter().flat_map(bytes).collect()
}

const ALLOW: u32 = 0x7fff_0000;
const KILL: u32 = 0x8000_0000;

/// Starts a program behind a filter.
fn behind<S: AsRef<std::ffi::OsStr>>(filter: &Path, program: &Path, arguments: &[S]) -> Target {
    let mut target =
        Target::start(Command::new(compile("behind", KINDS[0])).arg(filter).arg(program).args(arguments));
    assert_eq!(target.line(), "begun", "behind {}", filter.display());
    target
}

#[test]
fn behind_the_filters_of_containers_and_services_threads_pay() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus/seccomp");
    for name in ["docker", "system-service", "no-exec"] {
        let mut target =
            behind(&folder.join(name), &compile("asks", KINDS[0]), &[SIGNAL.to_string(), "3".into()]);
        let pid = target.pid();
        let before = surroundings(pid);
        let files = Files::default();
        let entered = enter(pid, &files);
        assert_eq!(entered.seccomp_filters(), 1, "{name}: more, and no signal is sent");
        files.owe(namespace(pid), &process::threads(pid).unwrap().expect("it lives"), 50 * MILLI);
        for (tid, spent, _) in payments(&mut target, 3) {
            assert!((49.0..200.0).contains(&spent), "{name}: {tid} pays {spent} ms of 50");
        }
        files.rest();
        leave(&entered);
        assert_eq!(surroundings(pid), before);
        target.finish();
    }
}

/// The calls that a program makes by itself while it is entered: of them nothing can be learnt here.
#[test]
fn each_call_that_is_needed_is_asked_for_and_its_lack_harms_nobody() {
    let files = Files::default();
    let (file, program) = (folder().join("filter"), compile("refuses", KINDS[0]));
    for (call, name) in [
        (libc::SYS_socketpair, "socketpair"),
        (libc::SYS_recvmsg, "recvmsg"),
        (libc::SYS_madvise, "madvise"),
        (libc::SYS_gettid, "gettid"),
        (libc::SYS_clock_gettime, "clock_gettime"),
        (libc::SYS_clock_nanosleep, "clock_nanosleep"),
        (libc::SYS_rt_sigreturn, "rt_sigreturn"),
        (libc::SYS_rt_sigaction, "rt_sigaction"),
        (libc::SYS_restart_syscall, "restart_syscall"),
    ] {
        fs::write(&file, filter(call, KILL)).expect("it is ours");
        let target = behind(&file, &program, &["nothing"]);
        let before = surroundings(target.pid());
        let why = inject::enter(target.pid(), &files.maps(), SIGNAL).expect_err("it is refused").to_string();
        assert!(why.contains(&format!("does not allow {name},")), "{why}");
        assert_eq!(surroundings(target.pid()), before);
        assert_eq!(target.finish(), "ended\n", "{name}");
    }
    // To fail is not allowed either; to be logged is.
    fs::write(&file, filter(libc::SYS_gettid, 0x0005_0001)).expect("it is ours");
    let target = behind(&file, &program, &["nothing"]);
    assert!(inject::enter(target.pid(), &files.maps(), SIGNAL).is_err());
    assert_eq!(target.finish(), "ended\n");
    fs::write(&file, filter(libc::SYS_gettid, 0x7ffc_0000)).expect("it is ours");
    let target = behind(&file, &program, &["nothing"]);
    leave(&enter(target.pid(), &files));
    assert_eq!(target.finish(), "ended\n");
}

#[test]
fn who_may_not_continue_its_sleep_sleeps_again() {
    let file = folder().join("no-restart");
    fs::write(&file, filter(libc::SYS_restart_syscall, KILL)).expect("it is ours");
    for how in ["nanosleep", "poll", "futex"] {
        let target = behind(&file, &compile("crowd", KINDS[0]), &[how, "1", "700"]);
        let (mut refused, files) = (0, Files::default());
        while let Err(Refused::Filtered(_)) = inject::enter(target.pid(), &files.maps(), SIGNAL) {
            refused += 1;
            // Its sleep, which has begun anew, is to come to an end.
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(refused > 10, "{how}: {refused}");
        assert_eq!(target.finish(), "interrupted 0 wrong 0 alive 1\n", "{how}");
    }
}

#[test]
fn a_process_in_namespaces_of_its_own_pays() {
    let asks = compile("asks", KINDS[0]);
    let mut target = Target::start(
        Command::new("unshare").args(["-Urpmf", "--mount-proc"]).arg(asks).args([&SIGNAL.to_string(), "2"]),
    );
    assert_eq!(target.line(), "begun");
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", target.pid())).expect("it runs");
    let pid: i32 = children.trim().parse().expect("it has one");
    let before = surroundings(pid);
    let files = Files::default();
    let entered = enter(pid, &files);
    // In there they have other numbers.
    let inner = |tid: i32| {
        let status = fs::read_to_string(format!("/proc/{pid}/task/{tid}/status")).expect("it lives");
        let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:")).expect("it is said").to_owned();
        ids.split_ascii_whitespace().next_back().and_then(|id| id.parse().ok()).expect("a number")
    };
    let threads: Vec<i32> =
        process::threads(pid).unwrap().expect("it lives").into_iter().map(inner).collect();
    assert_eq!(threads, [1, 2]);
    files.owe(namespace(pid), &threads, 50 * MILLI);
    for (tid, spent, _) in payments(&mut target, 2) {
        assert!((49.0..200.0).contains(&spent), "{tid} pays {spent} ms of 50");
    }
    files.rest();
    leave(&entered);
    assert_eq!(surroundings(pid), before);
    target.finish();
}

#[test]
fn a_32_bit_program_is_refused() {
    // Without a compiler for it: one that waits for a signal.
    let file = folder().join("bits32");
    fs::write(&file, elf32::waits()).expect("it is ours");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&file, mode).expect("it is ours");
    let target = Target::start(&mut Command::new(&file));
    let deadline = Instant::now() + Duration::from_secs(10);
    while process::executable(target.pid()).unwrap().is_none_or(|exe| exe != file) {
        assert!(Instant::now() < deadline, "it starts");
    }
    let why = inject::enter(target.pid(), &Files::default().maps(), SIGNAL).expect_err("it is refused");
    assert!(matches!(why, Refused::NotX86), "{why}");
    let status = process::status(target.pid()).unwrap().expect("it lives");
    assert!(!status.is_over());
}

#[test]
fn a_runtime_that_handles_every_signal_keeps_its_handlers() {
    let target = Target::begin(&compile("refuses", KINDS[0]), ["everything"]);
    let pid = target.pid();
    let before = surroundings(pid);
    let entered = enter(pid, &Files::default());
    // From somebody else: its own handler's business, and it goes on.
    for _ in 0..100 {
        // SAFETY: a signal to a child of ours.
        assert_eq!(unsafe { libc::kill(pid, SIGNAL as i32) }, 0);
    }
    leave(&entered);
    assert_eq!(surroundings(pid), before);
    assert_eq!(target.finish(), "ended\n");
}

#[test]
fn a_signal_from_somebody_else_does_what_it_did() {
    use std::os::unix::process::ExitStatusExt;
    let mut target = Target::begin(&compile("refuses", KINDS[0]), ["nothing"]);
    let _entered = enter(target.pid(), &Files::default());
    // SAFETY: a signal to a child of ours.
    assert_eq!(unsafe { libc::kill(target.pid(), SIGNAL as i32) }, 0);
    let status = target.child.wait().expect("it is our child");
    assert_eq!(status.signal(), Some(SIGNAL as i32), "without a handler it ends the process");
}

#[test]
fn a_stopped_process_is_not_entered_but_left_and_stays_stopped() {
    let target = Target::begin(&compile("refuses", KINDS[0]), ["nothing"]);
    let pid = target.pid();
    let state = || process::status(pid).unwrap().expect("it lives").state;
    // SAFETY: a signal to a child of ours.
    let send = |signal| assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
    let wait_for = |wanted: char| {
        let deadline = Instant::now() + Duration::from_secs(10);
        while state() != wanted {
            assert!(Instant::now() < deadline, "its state is {} and not {wanted}", state());
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    let before = surroundings(pid);
    let files = Files::default();
    let entered = enter(pid, &files);
    send(libc::SIGSTOP);
    wait_for('T');
    leave(&entered);
    wait_for('T');
    assert!(matches!(inject::enter(pid, &files.maps(), SIGNAL), Err(Refused::Stopped)));
    send(libc::SIGCONT);
    wait_for('S');
    assert_eq!(surroundings(pid), before);
    assert_eq!(target.finish(), "ended\n");
}

#[test]
fn a_process_that_has_executed_another_program_is_let_be() {
    let mut target = Target::start(Command::new("sh").args(["-c", "echo begun; read x; exec cat"]));
    assert_eq!(target.line(), "begun");
    let pid = target.pid();
    let entered = enter(pid, &Files::default());
    target.say(b'\n');
    target.say(b'x');
    let mut echo = [0];
    target.output.read_exact(&mut echo).expect("the new program answers");
    let before = surroundings(pid);
    assert_eq!(entered.leave().expect("nothing to do"), Left::Gone);
    assert_eq!(surroundings(pid), before);
    assert_eq!(target.finish(), "");
}

#[test]
fn a_process_that_is_killed_meanwhile_is_gone_and_nothing_else() {
    let program = compile("crowd", KINDS[0]);
    for round in 0..40u64 {
        let target = Target::begin(&program, ["all", "20", "60000"]);
        let pid = target.pid();
        let killer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_micros(round * 250));
            // SAFETY: a signal to a child of ours, which is not waited for before this thread has ended.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        });
        let files = Files::default();
        match inject::enter(pid, &files.maps(), SIGNAL) {
            Ok(entered) => match entered.leave() {
                Ok(_) | Err(LeaveError::Unstoppable | LeaveError::Failed { .. }) => {}
                Err(why) => panic!("round {round}: {why}"),
            },
            Err(Refused::Gone | Refused::Unstoppable | Refused::Failed { .. }) => {}
            Err(why) => panic!("round {round}: {why}"),
        }
        killer.join().expect("it only kills");
    }
}

#[test]
fn when_the_profiler_is_killed_its_target_runs_on_and_can_be_entered_again() {
    let target = Target::begin(&compile("crowd", KINDS[0]), ["all", "50", "3000"]);
    let pid = target.pid();
    let mut injector = Target::start(Command::new(env!("CARGO_BIN_EXE_coz-test-enter")).arg(pid.to_string()));
    assert!(injector.line().starts_with("entered"));
    injector.child.kill().expect("it is our child");
    injector.child.wait().expect("it is our child");
    let files = Files::default();
    let before = surroundings(pid);
    assert!(before.0.contains("coz-bpf-control"), "it keeps the mappings");
    let entered = enter(pid, &files);
    leave(&entered);
    assert_eq!(surroundings(pid).0, before.0);
    assert_eq!(target.finish(), "interrupted 0 wrong 0 alive 1\n");
}

/// Compiles a program that makes progress until its time is over, in this place.
fn works(place: &Place, source: &str, (compiler, options): (&str, &[&str])) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
    let mut command = Command::new(compiler);
    command.args(["-O2", "-g", "-pthread", "-o"]).args([&place.path().join("works"), &source]).args(options);
    assert!(command.status().expect("a compiler").success(), "it compiles");
}

/// `coz-bpf run` of that program by this command; the last record of its profile.
fn run(place: &Place, words: &[&str]) -> serde_json::Value {
    let mut command = place.profiled(["-P", "./works@progress", "--scope-binary", "works", "--"]);
    command.args(words);
    let ended = place.run(command);
    ended.assert_says(0, &[]);
    assert!(ended.output().starts_with("rounds "), "{}", ended.output());
    assert!(!ended.words().contains("no delays"), "{}", ended.words());
    last_record(place)
}

fn last_record(place: &Place) -> serde_json::Value {
    let profile = fs::read_to_string(place.profile()).expect("a profile is written");
    let record = profile.lines().rfind(|line| line.starts_with(r#"{"type":"runtime""#));
    serde_json::from_str(record.expect("the profile has an end")).expect("it is JSON")
}

fn assert_delayed(runtime: &serde_json::Value) {
    for what in ["signals_sent", "paid_ns"] {
        assert!(runtime[what].as_u64() > Some(0), "{what}: {runtime}");
    }
}

#[test]
fn a_static_program_is_delayed_when_it_is_run() {
    for kind in &KINDS[1..] {
        let place = Place::new();
        works(&place, "programs/independent.c", *kind);
        assert_delayed(&run(&place, &["./works", "--seconds", "4"]));
    }
}

#[test]
fn a_static_program_that_a_dynamic_one_executes_is_delayed_too() {
    let place = Place::new();
    works(&place, "programs/independent.c", KINDS[1]);
    assert_delayed(&run(&place, &["sh", "-c", "./works --seconds 4; true"]));
}

#[test]
fn what_libc_starts_by_itself_is_delayed_too() {
    let place = Place::new();
    works(&place, "programs/independent.c", KINDS[0]);
    let script = "import os; os.system('./works --seconds 4')";
    assert_delayed(&run(&place, &["python3", "-c", script]));
}

#[test]
fn threads_whose_alternate_stack_has_no_room_are_left_alone() {
    let place = Place::new();
    works(&place, "enter/tiny.c", KINDS[1]);
    let runtime = run(&place, &["./works", "--seconds", "4"]);
    assert_eq!(runtime["signals_sent"].as_u64(), Some(0), "{runtime}");
}

/// `coz-bpf run` of a program that filters its own system calls, or begins behind a filter: whether it is delayed, and what is said if not.
fn assert_filtered(place: &Place, variable: &str, words: &[&str], delayed: bool) {
    let mut command = place.profiled(["-P", "./works@progress", "--scope-binary", "works", "--"]);
    command.env(variable, "1").args(words);
    let ended = place.run(command);
    ended.assert_says(0, &[]);
    assert!(ended.output().starts_with("rounds "), "{}", ended.output());
    let runtime = last_record(place);
    if delayed {
        assert_delayed(&runtime);
    } else {
        assert_eq!(runtime["signals_sent"].as_u64(), Some(0), "{runtime}");
    }
    assert_eq!(ended.words().contains("does not allow clock_nanosleep"), !delayed, "{}", ended.words());
}

#[test]
fn a_program_that_filters_its_own_calls_is_delayed_if_they_allow_it() {
    for (variable, delayed) in [("NOTHING", true), ("KILLS", false)] {
        let place = Place::new();
        works(&place, "enter/sandboxed.c", KINDS[0]);
        assert_filtered(&place, variable, &["./works", "--seconds", "2"], delayed);
    }
}

#[test]
fn a_program_that_begins_behind_a_filter_is_delayed_if_that_allows_it() {
    let docker = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus/seccomp/docker");
    let no_sleep = folder().join("no-sleep");
    fs::write(&no_sleep, filter(libc::SYS_clock_nanosleep, KILL)).expect("it is ours");
    let first = compile("behind", KINDS[0]);
    for (filter, kind, delayed) in
        [(&docker, KINDS[0], true), (&docker, KINDS[1], true), (&no_sleep, KINDS[0], false)]
    {
        let place = Place::new();
        works(&place, "programs/independent.c", kind);
        let words = [first.to_str(), filter.to_str(), Some("./works"), Some("--seconds"), Some("2")];
        let words = words.map(|word| word.expect("it is text"));
        assert_filtered(&place, "NOTHING", &words, delayed);
    }
}
