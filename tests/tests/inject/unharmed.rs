//! Who was entered and left is as it was, and has not noticed.

use std::io::Read;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use coz_tests::entering::Files;
use coz_tests::turn;
use coz_user::target::inject::{self, Left, Refused};
use coz_user::target::process;

use crate::target::{KINDS, SIGNAL, Target, compile, enter, leave, surroundings};

#[test]
fn entered_and_left_twenty_times_a_process_is_as_it_was() {
    let _turn = turn::beside_others();
    for kind in KINDS {
        let target = Target::begin(&compile("refuses", (kind.0, kind.1)), ["nothing"]);
        let pid = target.pid();
        let before = surroundings(pid);
        for round in 0..20 {
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
    let _turn = turn::beside_others();
    const HOW: [&str; 10] = [
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
    ];
    let crowds = KINDS.map(|kind| (kind, compile("crowd", kind)));
    let all: Vec<_> = HOW.iter().flat_map(|how| crowds.iter().map(move |crowd| (how, crowd))).collect();
    let next = AtomicUsize::new(0);
    let each = || {
        while let Some((how, (kind, crowd))) = all.get(next.fetch_add(1, Relaxed)) {
            // Alone: then there is no better thread to stop.
            let target = Target::begin(crowd, [how, "1", "1200"]);
            let stops = molest(target.pid(), &Files::default());
            assert!(!stops.is_empty(), "{kind:?} {how}");
            assert_eq!(target.finish(), "interrupted 0 wrong 0 alive 1\n", "{kind:?} {how}");
        }
    };
    // Most of the time is waiting for a good moment.
    std::thread::scope(|scope| (0..6).for_each(|_| drop(scope.spawn(each))));
}

#[test]
fn three_hundred_threads_in_all_kinds_of_calls_notice_nothing() {
    let _turn = turn::alone();
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
    let _turn = turn::beside_others();
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
fn a_runtime_that_handles_every_signal_keeps_its_handlers() {
    let _turn = turn::beside_others();
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
    let _turn = turn::beside_others();
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
    let _turn = turn::beside_others();
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
    let _turn = turn::beside_others();
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
