//! The target is killed, or whoever enters it.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use coz_tests::entering::Files;
use coz_tests::turn;
use coz_user::target::inject::{self, LeaveError, Refused};
use rand::{RngExt as _, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::target::{KINDS, SIGNAL, Target, compile, enter, folder, leave, surroundings};

#[test]
fn a_process_that_is_killed_meanwhile_is_gone_and_nothing_else() {
    let _turn = turn::beside_others();
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
    let _turn = turn::beside_others();
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

const NOTHING: &[&str] = &[];

/// A library that kills the process that loads it at one of its steps (`enter/dies.c`).
fn dies() -> PathBuf {
    let library = folder().join("dies.so");
    if !library.exists() {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("enter/dies.c");
        let mut gcc = Command::new("gcc");
        gcc.args(["-O1", "-Wall", "-Wextra", "-shared", "-fPIC", "-o"]).args([&library, &source]);
        assert!(gcc.status().expect("apt-get install gcc").success(), "dies.c compiles");
    }
    library
}

/// Enters a process and leaves it, and dies at this step of it; whether that came to be.
fn enter_and_die(pid: i32, moment: usize) -> bool {
    let mut injector = Command::new(env!("CARGO_BIN_EXE_coz-test-enter"));
    injector.arg(pid.to_string()).env("LD_PRELOAD", dies()).env("DIES_AT", moment.to_string());
    let ended = injector.stdin(Stdio::null()).output().expect("it starts");
    let words = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(
        ended.status.success() || ended.status.signal() == Some(libc::SIGKILL),
        "{}: {words}",
        ended.status
    );
    !ended.status.success()
}

/// How many steps there are: calls of `ptrace` and writes into the process, and the moments before and after each.
fn moments() -> usize {
    let (counted, target) = (folder().join("steps"), Target::begin(&compile("keeps", KINDS[0]), NOTHING));
    let mut injector = Command::new(env!("CARGO_BIN_EXE_coz-test-enter"));
    injector.arg(target.pid().to_string()).env("LD_PRELOAD", dies()).env("DIES_COUNT", &counted);
    assert!(injector.stdin(Stdio::null()).status().expect("it starts").success());
    let steps: usize = fs::read_to_string(counted).expect("it was written").trim().parse().expect("a number");
    2 * steps
}

/// `kill -9` at every single step on the way in and out: the target has all its registers, its mask, its priority, and no call of it was
/// broken off.
#[test]
fn whenever_the_profiler_is_killed_its_target_goes_on_as_it_was() {
    let _turn = turn::alone();
    let moments = moments();
    assert!(moments > 150, "{moments}: it takes some steps");
    KINDS.iter().for_each(|kind| drop(compile("keeps", *kind)));
    let next = AtomicUsize::new(0);
    let (died, more) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let each = || {
        loop {
            let moment = next.fetch_add(1, Relaxed);
            if moment >= moments {
                return;
            }
            let program = compile("keeps", KINDS[moment % KINDS.len()]);
            let target =
                Target::begin(&program, if moment.is_multiple_of(5) { &["alarms"] } else { NOTHING });
            died.fetch_add(usize::from(enter_and_die(target.pid(), moment)), Relaxed);
            std::thread::sleep(Duration::from_millis(10));
            let said = target.finish();
            let kept = said
                .trim_end()
                .strip_prefix("kept, ")
                .and_then(|rest| rest.strip_suffix(" descriptors more"));
            let open: usize = kept
                .and_then(|open| open.parse().ok())
                .unwrap_or_else(|| panic!("killed at {moment}: {said}"));
            more.fetch_add(usize::from(open > 0), Relaxed);
        }
    };
    std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(each))));
    let (died, more) = (died.into_inner(), more.into_inner());
    println!("killed {died} times of {moments}, {more} times a descriptor has stayed");
    assert!(died + 10 > moments, "{died} of {moments}");
    assert!(more <= 45, "only where the profiler did not live to see which they are: {more}");
}

/// The same at random, while a process is entered and left all the time.
#[test]
fn killed_at_random_sixty_times_no_target_is_harmed() {
    let _turn = turn::beside_others();
    let mut random = ChaCha8Rng::seed_from_u64(1);
    for round in 0..60 {
        let target = Target::begin(&compile("keeps", KINDS[round % KINDS.len()]), NOTHING);
        let mut injector = Command::new(env!("CARGO_BIN_EXE_coz-test-enter"));
        injector.args([target.pid().to_string(), "1000".into()]).stdin(Stdio::piped());
        let mut injector = injector.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        std::thread::sleep(Duration::from_micros(random.random_range(3_000..40_000)));
        injector.kill().expect("it is our child");
        injector.wait().expect("it is our child");
        std::thread::sleep(Duration::from_millis(10));
        let said = target.finish();
        assert!(said.starts_with("kept, "), "round {round}: {said}");
    }
}
