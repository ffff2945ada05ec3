//! Programs that are several processes: whichever way they come to be, they belong to the set, points count over all of them, and they
//! are delayed.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use coz_tests::profiler;
use coz_tests::run::{Place, Running, wait_until};
use serde_json::Value;

/// A place with the program in it.
fn place() -> Place {
    let place = Place::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("enter/trees.c");
    let compiled =
        Command::new("cc").args(["-O1", "-g", "-o"]).args([&place.path().join("trees"), &source]).status();
    assert!(compiled.expect("a compiler").success(), "it compiles");
    place
}

fn runtime(place: &Place) -> Value {
    let text = fs::read_to_string(place.profile()).expect("a profile is written");
    let line = text.lines().rfind(|line| line.starts_with(r#"{"type":"runtime""#));
    serde_json::from_str(line.expect("the profile has an end")).expect("it is JSON")
}

/// How often it is tried: on a busy machine a few seconds may see no delay at all.
const ATTEMPTS: usize = 3;

/// Every round of every process is counted; in one of some attempts somebody is delayed. An attempt gives its place and the program's output.
fn assert_followed(attempt: impl Fn() -> (Place, String)) {
    let mut last = Value::Null;
    for _ in 0..ATTEMPTS {
        let (place, output) = attempt();
        let rounds = output.lines().find_map(|line| line.strip_prefix("rounds ")).expect("it says so");
        let rounds: u64 = rounds.parse().expect("a number");
        last = runtime(&place);
        assert!(rounds > 0, "{output}");
        assert_eq!(last["points"][0]["visits"].as_u64(), Some(rounds), "{last}");
        if ["signals_sent", "paid_ns"].iter().all(|what| last[what].as_u64() > Some(0)) {
            return;
        }
    }
    panic!("nobody was delayed: {last}");
}

fn run(how: &str) {
    assert_followed(|| {
        let place = place();
        let ended = place.run(place.profiled(["-P", "progress", "--", "./trees", how, "1.5"]));
        ended.assert_says(0, &[]);
        (place, ended.output())
    });
}

#[test]
fn a_server_that_forks_and_replaces_its_workers() {
    run("prefork");
}

#[test]
fn children_by_vfork() {
    run("vfork");
}

#[test]
fn children_by_posix_spawn() {
    run("spawn");
}

/// Starts the program apart, attaches to it, and lets it begin.
fn attached(how: &str) -> (Place, Place, Running, Running) {
    let (ours, outside) = (place(), place());
    let mut command = outside.plain(outside.path().join("trees"), [how, "2.5"]);
    command.stdin(Stdio::piped());
    let mut target = outside.start(command);
    target.wait_for_output("begun");
    let mut command = ours.plain(profiler(), ["attach", "-P", "progress", "--max-overhead", "100"]);
    command.args(["-p", &target.pid().to_string()]).stdin(Stdio::null());
    let attached = ours.start(command);
    wait_until("it is attached", || attached.words_so_far().contains("attached to").then_some(()));
    target.end_input();
    (ours, outside, target, attached)
}

#[test]
fn attached_to_a_server_its_later_workers_belong_to_it() {
    assert_followed(|| {
        let (place, _outside, mut target, mut profiler) = attached("prefork");
        let ended = target.wait();
        ended.assert_says(0, &[]);
        profiler.wait().assert_says(0, &["the profiled processes have ended"]);
        (place, ended.output())
    });
}

#[test]
fn attached_to_what_becomes_a_daemon_that_is_followed() {
    assert_followed(|| {
        let (place, _outside, mut target, mut profiler) = attached("daemon");
        target.wait().assert_says(0, &[]);
        assert!(!target.output_so_far().contains("rounds"), "the daemon has only begun");
        profiler.wait().assert_says(0, &["the profiled processes have ended"]);
        (place, target.output_so_far())
    });
}
