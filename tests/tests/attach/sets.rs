//! Who belongs to the profile.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use coz_tests::program;
use coz_tests::run::{Place, Running, wait_until};
use coz_tests::turn;
use xtask::group::Group;

use crate::target::{LONG, Target, attach, children, runtime};

#[test]
fn two_processes_are_one_set() {
    let _turn = turn::beside_others();
    let (place, one, other) = (Place::new(), Target::start("single", LONG), Target::start("mutex", LONG));
    let pids = format!("{},{}", one.pid(), other.pid());
    let ended = place.run(attach(&place, &["-p", &pids, "-d", "2"]));
    ended.assert_says(
        0,
        &["2 processes", "single.c:", "mutex.c:", "no progress point", "nothing is put into them"],
    );
    one.ends_as_it_should();
    other.ends_as_it_should();
}

#[test]
fn children_that_run_already_belong_to_those_that_were_named() {
    let _turn = turn::beside_others();
    let place = Place::new();
    let file = program("single").display().to_string();
    let script = format!("{file} --seconds 4 & wait");
    let outside = Place::new();
    let mut shell = outside.start(outside.plain("/bin/sh", ["-c", &script]));
    wait_until("the child works", || children(shell.pid()).first().copied());
    let ended = place.run(attach(&place, &["-p", &shell.pid().to_string(), "-d", "2"]));
    ended.assert_says(0, &["2 processes", "single.c:"]);
    shell.wait().assert_says(0, &[]);
}

#[test]
fn children_that_a_supervisor_starts_again_and_again_join() {
    let _turn = turn::alone();
    let (place, outside) = (Place::new(), Place::new());
    let file = program("pipeline_condvar").display().to_string();
    let script = format!("n=0; while [ $n -lt 6 ]; do {file} --seconds 1.5; n=$((n + 1)); done");
    let mut supervisor = outside.start(outside.plain("/bin/sh", ["-c", &script]));
    wait_until("a child works", || children(supervisor.pid()).first().copied());
    let point = format!("{file}@progress");
    let options = ["-p", &supervisor.pid().to_string(), "-P", &point, "--max-overhead", "100"];
    place.run(attach(&place, &options)).assert_says(0, &["the profiled processes have ended"]);
    let ended = supervisor.wait();
    ended.assert_says(0, &[]);
    assert_eq!(ended.output().matches("rounds ").count(), 6, "{}", ended.output());
    // They were entered, each anew, and paid.
    let runtime = runtime(&place);
    let figure = |key: &str| runtime[key].as_u64().unwrap_or(0);
    assert!(figure("signals_sent") > 0 && figure("paid_ns") > 0, "{runtime}");
}

#[test]
fn processes_of_a_name_join_when_they_are_started_later() {
    let _turn = turn::beside_others();
    // A name of this test's own: others may run the bundled programs, too.
    let place = Place::new();
    let name = format!("coz{}", std::process::id());
    let file = place.copy(&program("single"), &name);
    let mut profiler = place.start(attach(&place, &["--comm", &name, "-P", "progress", "-d", "6"]));
    wait_until("it waits", || {
        profiler.words_so_far().contains("waiting for every process called").then_some(())
    });
    let (mut first, _one) = start(&file, "4");
    wait_until("it is attached", || profiler.words_so_far().contains("attached to").then_some(()));
    let (mut second, _other) = start(&file, "4");
    profiler.wait().assert_says(0, &["visits of progress"]);
    first.wait().assert_says(0, &[]);
    second.wait().assert_says(0, &[]);
    // One of them runs for a second or more of the time: two threads of CPU time are seen.
    let cpu = runtime(&place)["cpu_ns"].as_u64().expect("it is recorded");
    let visits = runtime(&place)["points"][0]["visits"].as_u64().expect("it is recorded");
    assert!(cpu > 0 && visits > 100, "{cpu} ns, {visits} visits");
    let text = fs::read_to_string(place.profile()).expect("it is written");
    assert!(text.contains(r#""attached":true"#));
}

/// Starts it; it ends by itself after so many seconds, or when it is told to.
fn start(file: &Path, seconds: &str) -> (Running, Place) {
    let outside = Place::new();
    (outside.start(outside.plain(file, ["--seconds", seconds])), outside)
}

/// A control group with this process in it, and its path. A container may not make groups: then the one that we are in is there to be
/// named.
fn within(pid: i32) -> (Option<Group>, String) {
    match Group::new() {
        Ok(group) => {
            group.add(pid).expect("a process can be moved into it");
            let path = group.path().display().to_string();
            (Some(group), path)
        }
        Err(_) => {
            let own = fs::read_to_string("/proc/self/cgroup").expect("it is there");
            let path = own.lines().last().and_then(|line| line.splitn(3, ':').nth(2)).expect("a group");
            (None, path.to_owned())
        }
    }
}

#[test]
fn several_names_are_one_set() {
    let _turn = turn::beside_others();
    let place = Place::new();
    let names = ["a", "b", "c"].map(|letter| format!("coz{}{letter}", std::process::id()));
    let [one, two, other] =
        [(0, "single"), (1, "mutex"), (2, "barrier")].map(|(n, of)| place.copy(&program(of), &names[n]));
    let (mut first, _first) = start(&one, LONG);
    let (mut bystander, _bystander) = start(&other, LONG);
    wait_until("they run", || {
        let runs = |running: &Running, file: &Path| {
            fs::read_link(format!("/proc/{}/exe", running.pid())).is_ok_and(|exe| exe == file)
        };
        (runs(&first, &one) && runs(&bystander, &other)).then_some(())
    });
    let both = format!("{},{}", names[0], names[1]);
    let mut profiler = place.start(attach(&place, &["--comm", &both, "-d", "5"]));
    wait_until("it is attached", || profiler.words_so_far().contains("attached to").then_some(()));
    // The first one is there; of the second name one comes now.
    let (mut second, _second) = start(&two, LONG);
    let ended = profiler.wait();
    ended.assert_says(
        0,
        &[&format!("every process called {}, {}: 1 process", names[0], names[1]), "single.c:", "mutex.c:"],
    );
    assert!(!ended.words().contains("barrier.c:"), "{}", ended.words());
    for running in [&mut first, &mut second, &mut bystander] {
        running.signal(libc::SIGUSR1);
        running.wait().assert_says(0, &[]);
    }
}

#[test]
fn control_groups_and_names_are_one_set() {
    let _turn = turn::beside_others();
    let place = Place::new();
    let name = format!("coz{}g", std::process::id());
    let named = place.copy(&program("single"), &name);
    let (mut single, _single) = start(&named, LONG);
    let (mutex, barrier) = (Target::start("mutex", LONG), Target::start("barrier", LONG));
    let groups = [&mutex, &barrier].map(|target| within(target.running.pid()));
    let [(_, one), (_, other)] = &groups;
    let options = ["--cgroup", one, "--cgroup", other, "--comm", &name, "-d", "3"];
    let ended = place.run(attach(&place, &options));
    ended.assert_says(
        0,
        &[&format!("called {name} or of the control group"), "single.c:", "mutex.c:", "barrier.c:"],
    );
    if let [(Some(_), _), (Some(_), _)] = &groups {
        ended.assert_says(0, &["control groups", ": 3 processes"]);
    }
    single.signal(libc::SIGUSR1);
    single.wait().assert_says(0, &[]);
    mutex.ends_as_it_should();
    barrier.ends_as_it_should();
}

#[test]
fn a_control_group_is_the_set() {
    let _turn = turn::beside_others();
    let place = Place::new();
    let target = Target::start("single", LONG);
    let (group, path) = within(target.running.pid());
    let mut profiler = place.start(attach(&place, &["--cgroup", &path, "-d", "4"]));
    wait_until("it is attached", || profiler.words_so_far().contains("attached to").then_some(()));
    // One that is started in it joins.
    let outside = Place::new();
    let script = format!("read go; exec {} --seconds 4", program("mutex").display());
    let mut command = outside.plain("/bin/sh", ["-c", &script]);
    command.stdin(Stdio::piped());
    let mut later = command.stdout(Stdio::null()).spawn().expect("a shell");
    if let Some(group) = &group {
        group.add(later.id().cast_signed()).expect("a process can be moved into it");
    }
    drop(later.stdin.take());
    profiler.wait().assert_says(0, &["control group", "single.c:", "mutex.c:"]);
    assert!(later.wait().expect("it ends").success());
    target.ends_as_it_should();
}
