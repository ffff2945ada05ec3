//! Programs that are entered because `coz-bpf run` cannot reach them in another way.

use std::fs;
use std::path::Path;
use std::process::Command;

use coz_tests::run::Place;
use coz_tests::turn;

use crate::filtered::{KILL, filter};
use crate::target::{KINDS, compile, folder};

/// Threads that are all in the line owe each other little, at a low speedup too little to be asked.
const PROFILED: [&str; 7] =
    ["-P", "./works@progress", "--scope-binary", "works", "--speedups", "0,100", "--"];

/// Compiles a program that makes progress until its time is over, in this place.
fn works(place: &Place, source: &str, (compiler, options): (&str, &[&str])) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
    let mut command = Command::new(compiler);
    command.args(["-O2", "-g", "-pthread", "-o"]).args([&place.path().join("works"), &source]).args(options);
    assert!(command.status().expect("a compiler").success(), "it compiles");
}

/// `coz-bpf run` of that program by this command; the last record of its profile.
fn run(place: &Place, words: &[&str]) -> serde_json::Value {
    let mut command = place.profiled(PROFILED);
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

/// How often it is tried: on a busy machine threads wait for each other, and a few seconds may see nobody asked to pay.
const ATTEMPTS: usize = 3;

/// In one of some attempts somebody is delayed; an attempt gives the last record of its profile.
fn assert_delayed(attempt: impl Fn() -> serde_json::Value) {
    let mut last = serde_json::Value::Null;
    for _ in 0..ATTEMPTS {
        last = attempt();
        if ["signals_sent", "paid_ns"].iter().all(|what| last[what].as_u64() > Some(0)) {
            return;
        }
    }
    panic!("nobody was delayed: {last}");
}

#[test]
fn a_static_program_is_delayed_when_it_is_run() {
    let _turn = turn::alone();
    for kind in &KINDS[1..] {
        let place = Place::new();
        works(&place, "programs/independent.c", *kind);
        assert_delayed(|| run(&place, &["./works", "--seconds", "2"]));
    }
}

#[test]
fn a_static_program_that_a_dynamic_one_executes_is_delayed_too() {
    let _turn = turn::alone();
    let place = Place::new();
    works(&place, "programs/independent.c", KINDS[1]);
    assert_delayed(|| run(&place, &["sh", "-c", "./works --seconds 2; true"]));
}

#[test]
fn what_libc_starts_by_itself_is_delayed_too() {
    let _turn = turn::alone();
    let place = Place::new();
    works(&place, "programs/independent.c", KINDS[0]);
    let script = "import os; os.system('./works --seconds 2')";
    assert_delayed(|| run(&place, &["python3", "-c", script]));
}

#[test]
fn threads_whose_alternate_stack_has_no_room_are_left_alone() {
    let _turn = turn::beside_others();
    let place = Place::new();
    works(&place, "enter/tiny.c", KINDS[1]);
    let runtime = run(&place, &["./works", "--seconds", "3"]);
    assert_eq!(runtime["signals_sent"].as_u64(), Some(0), "{runtime}");
}

/// `coz-bpf run` of a program that filters its own system calls, or begins behind a filter: whether it is delayed, and what is said if not.
fn assert_filtered(place: &Place, variable: &str, words: &[&str], delayed: bool) {
    let run = || {
        let mut command = place.profiled(PROFILED);
        command.env(variable, "1").args(words);
        let ended = place.run(command);
        ended.assert_says(0, &[]);
        assert!(ended.output().starts_with("rounds "), "{}", ended.output());
        assert_eq!(ended.words().contains("does not allow clock_nanosleep"), !delayed, "{}", ended.words());
        last_record(place)
    };
    if delayed {
        assert_delayed(run);
    } else {
        let runtime = run();
        assert_eq!(runtime["signals_sent"].as_u64(), Some(0), "{runtime}");
    }
}

#[test]
fn a_program_that_filters_its_own_calls_is_delayed_if_they_allow_it() {
    let _turn = turn::alone();
    for (variable, delayed) in [("NOTHING", true), ("KILLS", false)] {
        let place = Place::new();
        works(&place, "enter/sandboxed.c", KINDS[0]);
        assert_filtered(&place, variable, &["./works", "--seconds", "2"], delayed);
    }
}

#[test]
fn a_program_that_begins_behind_a_filter_is_delayed_if_that_allows_it() {
    let _turn = turn::alone();
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
