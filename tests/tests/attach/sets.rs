//! Who belongs to the profile.

use std::fs;
use std::process::Stdio;

use coz_tests::program;
use coz_tests::run::{Place, wait_until};
use xtask::group::Group;

use crate::target::{LONG, Target, attach, children, runtime};

#[test]
fn two_processes_are_one_set() {
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
    // A name of this test's own: others may run the bundled programs, too.
    let place = Place::new();
    let name = format!("coz{}", std::process::id());
    let file = place.path().join(&name);
    fs::copy(program("single"), &file).expect("a copy can be made");
    let mut profiler = place.start(attach(&place, &["--comm", &name, "-P", "progress", "-d", "6"]));
    wait_until("it waits", || {
        profiler.words_so_far().contains("waiting for every process called").then_some(())
    });
    let start = || {
        let outside = Place::new();
        (outside.start(outside.plain(&file, ["--seconds", "4"])), outside)
    };
    let (mut first, _one) = start();
    wait_until("it is attached", || profiler.words_so_far().contains("attached to").then_some(()));
    let (mut second, _other) = start();
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

#[test]
fn a_control_group_is_the_set() {
    let place = Place::new();
    let target = Target::start("single", LONG);
    // A container may not make groups: then the one that we are in is there to be named.
    let (group, path) = match Group::new() {
        Ok(group) => {
            group.add(target.running.pid()).expect("a process can be moved into it");
            let path = group.path().display().to_string();
            (Some(group), path)
        }
        Err(_) => {
            let own = fs::read_to_string("/proc/self/cgroup").expect("it is there");
            let path = own.lines().last().and_then(|line| line.splitn(3, ':').nth(2)).expect("a group");
            (None, path.to_owned())
        }
    };
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
