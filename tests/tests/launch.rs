//! A program that we start behaves as one that was started plainly. Run as root: some tests become other users.

use std::{
    ffi::OsStr,
    io::{self, BufRead, BufReader},
    os::unix::{
        fs::PermissionsExt,
        process::{CommandExt, ExitStatusExt},
    },
    path::Path,
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

use coz_user::target::process;

const LAUNCH: &str = env!("CARGO_BIN_EXE_coz-test-launch");

/// The program, plainly and as we start it; `prepare` sets up both.
fn both(words: &[&str], prepare: impl Fn(&mut Command)) -> (Output, Output) {
    let mut plain = Command::new(words[0]);
    plain.args(&words[1..]);
    let mut ours = Command::new(LAUNCH);
    ours.args(words);
    let run = |mut command: Command| {
        prepare(&mut command);
        command.output().expect("starts")
    };
    (run(plain), run(ours))
}

fn launch(words: &[&str]) -> Output {
    Command::new(LAUNCH).args(words).output().expect("starts")
}

fn text(bytes: &[u8]) -> &str {
    str::from_utf8(bytes).expect("UTF-8")
}

/// Everything that a caller can give to a program and that Rust or Tokio may have changed in us.
fn unusual(command: &mut Command) {
    let setup = || {
        // SAFETY: async-signal-safe calls in the child of a fork, each checked below.
        let results = unsafe {
            let mut mask = std::mem::zeroed();
            libc::sigemptyset(&raw mut mask);
            libc::sigaddset(&raw mut mask, libc::SIGUSR1);
            libc::sigaddset(&raw mut mask, 40);
            let limit = libc::rlimit { rlim_cur: 300, rlim_max: 400 };
            libc::signal(libc::SIGPIPE, libc::SIG_IGN);
            libc::signal(libc::SIGHUP, libc::SIG_IGN);
            libc::signal(libc::SIGINT, libc::SIG_IGN);
            libc::signal(libc::SIGCHLD, libc::SIG_IGN);
            libc::signal(libc::SIGRTMAX(), libc::SIG_IGN);
            libc::umask(0o027);
            [
                libc::sigprocmask(libc::SIG_SETMASK, &raw const mask, std::ptr::null_mut()),
                libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit),
                libc::setpriority(libc::PRIO_PROCESS, 0, 7),
                libc::dup2(2, 9),
                libc::chdir(c"/usr".as_ptr()),
                libc::close(0),
            ]
        };
        if results.contains(&-1) { Err(io::Error::last_os_error()) } else { Ok(()) }
    };
    // SAFETY: `setup` keeps to async-signal-safe calls.
    unsafe { command.pre_exec(setup) };
}

#[test]
fn exit_codes_and_signals_are_the_programs_own() {
    for (script, code) in [("true", 0), ("false", 1), ("exit 77", 77), ("exit 255", 255)] {
        assert_eq!(launch(&["sh", "-c", script]).status.code(), Some(code), "{script}");
    }
    for (signal, code) in [("KILL", 137), ("TERM", 143), ("PIPE", 141), ("40", 168)] {
        let script = format!("kill -{signal} $$");
        let (plain, ours) = both(&["sh", "-c", &script], |_| {});
        assert_eq!(ours.status.code(), Some(code), "{script}");
        assert_eq!(plain.status.signal().map(|number| number + 128), Some(code), "{script}");
    }
}

#[test]
fn signals_ids_and_capabilities_are_those_of_a_plain_run() {
    let probe = &[
        "grep",
        "-E",
        "^(Umask|Uid|Gid|Groups|SigPnd|ShdPnd|SigBlk|SigIgn|SigCgt|Cap|NoNew|Seccomp|Cpus_allowed:|Mems)",
        "/proc/self/status",
    ];
    let (plain, ours) = both(probe, |_| {});
    assert_eq!(text(&ours.stdout), text(&plain.stdout));
    let (plain, ours) = both(probe, unusual);
    assert_eq!(text(&ours.stdout), text(&plain.stdout));
    // The setup did reach the program: otherwise the comparison says nothing.
    let seen = process::Status::parse(text(&plain.stdout));
    let set = |signals: &[i32]| signals.iter().fold(0u64, |set, number| set | 1 << (number - 1));
    assert_eq!(seen.blocked, set(&[libc::SIGUSR1, 40]));
    let ignored = set(&[libc::SIGPIPE, libc::SIGHUP, libc::SIGINT, libc::SIGCHLD, 64]);
    assert_eq!(seen.ignored & ignored, ignored);
}

#[test]
fn descriptors_limits_and_places_are_those_of_a_plain_run() {
    // `ls` itself has one more open, for the folder: the lowest free one, so that a leaked one would move it.
    for prepare in [unusual as fn(&mut Command), |_: &mut Command| {}] {
        let (plain, ours) = both(&["ls", "/proc/self/fd"], prepare);
        assert_eq!(text(&ours.stdout), text(&plain.stdout));
    }
    let script = "pwd; umask; ulimit -a; nice; ps -o pgid=,sid=,tty=,tpgid= -p $$; cat /proc/self/oom_score_adj \
                  /proc/self/timerslack_ns /proc/self/cgroup /proc/self/cmdline";
    let (plain, ours) = both(&["sh", "-c", script], unusual);
    assert_eq!(text(&ours.stdout), text(&plain.stdout));
    assert!(text(&plain.stdout).starts_with("/usr\n0027\n"), "{}", text(&plain.stdout));
}

#[test]
fn the_environment_and_the_name_are_those_of_a_plain_run() {
    let (plain, ours) = both(&["env", "-0"], |command| {
        command.env_clear().env("PATH", "/bin:/usr/bin").env("B", "x=y").env("A", "").env("LD_PRELOAD", "");
    });
    assert_eq!(text(&ours.stdout), text(&plain.stdout));
    assert_eq!(text(&launch(&["sh", "-c", "echo $0 $1", "zero", "one"]).stdout), "zero one\n");
    // argv[0] is what was typed, not the file that was found.
    let (plain, ours) = both(&["cat", "/proc/self/cmdline"], |_| {});
    assert_eq!(text(&ours.stdout), "cat\0/proc/self/cmdline\0");
    assert_eq!(ours.stdout, plain.stdout);
}

#[test]
fn input_and_output_pass_through() {
    let mut child = Command::new(LAUNCH)
        .args(["sh", "-c", "cat; echo err >&2"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    io::Write::write_all(child.stdin.as_mut().unwrap(), b"in\xff\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.stdout.as_slice(), output.stderr.as_slice()), (&b"in\xff\n"[..], &b"err\n"[..]));
}

#[test]
fn a_descriptor_is_handed_over_at_a_high_number() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("shim");
    std::fs::write(&file, "the shim").unwrap();
    let file = file.to_str().unwrap();
    let script = "ls /proc/self/fd | sort -n | tail -1; cat /proc/self/fd/1023";
    assert_eq!(text(&launch(&["--inherit", file, "sh", "-c", script]).stdout), "1023\nthe shim");
    // A low limit is respected.
    let script = format!("ulimit -n 64; exec {LAUNCH} --inherit {file} cat /proc/self/fd/63");
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    assert_eq!(text(&output.stdout), "the shim");
}

#[test]
fn it_becomes_another_user_wholly() {
    let probe = ["grep", "-E", "^(Uid|Gid|Groups|Cap(Prm|Eff|Amb))", "/proc/self/status"];
    let output = launch(&[&["--ids", "12345:54321:54321,7,65000"], &probe[..]].concat());
    let expected = "Uid:\t12345\t12345\t12345\t12345\nGid:\t54321\t54321\t54321\t54321\nGroups:\t7 54321 65000 \n\
                    CapPrm:\t0000000000000000\nCapEff:\t0000000000000000\nCapAmb:\t0000000000000000\n";
    assert_eq!(text(&output.stdout), expected, "{}", text(&output.stderr));
}

#[test]
fn under_sudo_the_caller_gets_the_own_user_and_environment() {
    // Something named sudo, holding the caller's environment, that starts us with root's.
    let folder = tempfile::tempdir().unwrap();
    let sudo = folder.path().join("sudo");
    std::fs::copy("/bin/dash", &sudo).expect("dash, Debian's /bin/sh");
    let script = format!(
        "env -i PATH=/usr/sbin:/usr/bin:/bin HOME=/root USER=root SUDO_UID=65534 SUDO_GID=65534 SUDO_USER=nobody \
         {LAUNCH} sh -c 'id -u; id -G; env | sort | grep -v ^PWD='; exit $?"
    );
    let output = Command::new(&sudo)
        .args(["-c", &script])
        .env_clear()
        .envs([("PATH", "/opt/x:/usr/bin:/bin"), ("HOME", "/home/ann"), ("LD_LIBRARY_PATH", "/opt/lib")])
        .output()
        .unwrap();
    let expected = "65534\n65534\nHOME=/home/ann\nLD_LIBRARY_PATH=/opt/lib\nPATH=/opt/x:/usr/bin:/bin\n";
    assert_eq!(text(&output.stdout), expected, "{}", text(&output.stderr));
}

#[test]
fn what_cannot_be_started_has_the_shells_codes_and_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, content: &[u8], mode: u32| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let elf = std::fs::read("/bin/true").unwrap();
    for (program, code, word) in [
        ("no-such-program".to_owned(), 127, "no such program in PATH"),
        ("./no-such-program".to_owned(), 127, "no such file"),
        ("/".to_owned(), 126, "is a folder"),
        (write("plain", b"#!/bin/sh\n", 0o644), 126, "chmod +x"),
        (write("interpreter", b"#!/no/such/thing\n", 0o755), 127, "interpreter is not there"),
        (write("cut", elf.get(..100).unwrap(), 0o755), 126, "cannot be executed"),
        (write("garbage", b"\0\0\0\0", 0o755), 126, "Exec format error"),
    ] {
        let output = launch(&[&program]);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{program}: {message}");
        assert!(message.contains(word), "{program}: {message}");
    }
}

#[test]
fn scripts_run_as_a_shell_would_run_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("script");
    for content in ["#!/bin/sh\necho $0 $1; exit 4\n", "echo $0 $1; exit 4\n"] {
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        let output = launch(&[path.to_str().unwrap(), "a"]);
        assert_eq!(output.status.code(), Some(4));
        assert_eq!(text(&output.stdout), format!("{} a\n", path.display()));
    }
}

#[test]
fn parents_death_before_the_release_leaves_no_child() {
    let (mut parent, pid) = held("--hold");
    assert!(alive(pid));
    parent.kill().unwrap();
    parent.wait().unwrap();
    wait_until_gone(pid);
}

#[test]
fn a_suspended_child_has_not_begun_and_begins_when_released() {
    let (mut parent, pid) = held("--hold");
    let exe = process::executable(pid).unwrap().unwrap();
    assert_eq!(exe.file_name(), Path::new(LAUNCH).file_name());
    drop(parent.stdin.take());
    assert_eq!(parent.wait().unwrap().code(), Some(3));
    wait_until_gone(pid);
}

#[test]
fn a_dropped_child_is_killed_and_reaped() {
    let (mut parent, pid) = held("--drop");
    assert!(alive(pid));
    drop(parent.stdin.take());
    assert_eq!(parent.wait().unwrap().code(), Some(0));
    assert!(!alive(pid));
}

#[test]
fn a_signal_to_a_suspended_child_acts_at_its_start() {
    let (mut parent, pid) = held("--hold");
    // SAFETY: kill has no preconditions; the child is held, so the number is still its own.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGTERM) }, 0);
    drop(parent.stdin.take());
    assert_eq!(parent.wait().unwrap().code(), Some(143));
}

#[test]
fn stopping_and_going_on_is_not_the_end() {
    let script = "(sleep 0.3; kill -CONT $$) & kill -STOP $$; echo on; exit 6";
    let output = launch(&["sh", "-c", script]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(6), "on\n"));
}

/// A launcher that holds its child suspended until its input is closed, and the child's process id.
fn held(how: &str) -> (std::process::Child, i32) {
    let mut parent = Command::new(LAUNCH)
        .args([OsStr::new(how), OsStr::new("sh"), OsStr::new("-c"), OsStr::new("exit 3")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(parent.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    (parent, line.trim().parse().expect("a process id"))
}

fn alive(pid: i32) -> bool {
    process::status(pid).unwrap().is_some_and(|status| !status.is_over())
}

fn wait_until_gone(pid: i32) {
    let start = Instant::now();
    while alive(pid) {
        assert!(start.elapsed() < Duration::from_secs(10), "process {pid} is still there");
        std::thread::sleep(Duration::from_millis(5));
    }
}
