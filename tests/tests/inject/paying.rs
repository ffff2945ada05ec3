//! Who was entered pays, wherever it lives.

use std::fs;
use std::process::Command;

use coz_tests::entering::Files;
use coz_tests::turn;
use coz_user::target::inject::Left;
use coz_user::target::process;

use crate::target::{KINDS, MILLI, SIGNAL, Target, compile, enter, leave, namespace, surroundings};

/// Lets every thread ask itself once; thread, milliseconds and errno of each.
pub fn payments(target: &mut Target, threads: usize) -> Vec<(u32, f64, i32)> {
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
    let _turn = turn::alone();
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
    let _turn = turn::alone();
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
fn a_process_in_namespaces_of_its_own_pays() {
    let _turn = turn::alone();
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
