//! Filters of system calls.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use coz_tests::entering::Files;
use coz_tests::turn;
use coz_user::target::inject::{self, Refused};
use coz_user::target::process;

use crate::paying::payments;
use crate::target::{KINDS, MILLI, SIGNAL, Target, compile, enter, folder, leave, namespace, surroundings};

/// A filter that does this with calls of this number, and lets all others pass.
pub fn filter(call: i64, action: u32) -> Vec<u8> {
    let steps = [(0x20u16, 0u8, 0u32), (0x15, 1, call as u32), (6, 0, action), (6, 0, ALLOW)];
    let bytes =
        |(code, jf, k): (u16, u8, u32)| [&code.to_ne_bytes()[..], &[0, jf], &k.to_ne_bytes()].concat();
    steps.into_iter().flat_map(bytes).collect()
}

const ALLOW: u32 = 0x7fff_0000;
pub const KILL: u32 = 0x8000_0000;

/// Starts a program behind a filter.
fn behind<S: AsRef<std::ffi::OsStr>>(filter: &Path, program: &Path, arguments: &[S]) -> Target {
    let mut target =
        Target::start(Command::new(compile("behind", KINDS[0])).arg(filter).arg(program).args(arguments));
    assert_eq!(target.line(), "begun", "behind {}", filter.display());
    target
}

#[test]
fn behind_the_filters_of_containers_and_services_threads_pay() {
    let _turn = turn::alone();
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
    let _turn = turn::beside_others();
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
    let _turn = turn::beside_others();
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
