//! `coz-bpf diff` on a program whose line is really made shorter: what was predicted of it comes true.

use std::path::Path;

use coz_tests::run::Place;
use serde_json::Value;
use xtask::programs::{Debug, PROGRESS, Program};

/// Points of effect that predicted and realised may differ here: other load on a machine with two CPUs costs some.
const NEAR: f64 = 0.08;
/// Attempts: whatever else the machine did meanwhile, it seldom does three times.
const ATTEMPTS: usize = 3;

fn profile(place: &Place, program: &Program, shrink: &str, seconds: &str, name: &str) {
    let mut command = program.command(Path::new(&coz_tests::profiler()));
    command.args(["run", "-q", "-P", PROGRESS, "-o", name, "--"]).arg(&program.path);
    command.args(["--seconds", seconds, "--shrink", shrink]).current_dir(place.path());
    place.run(command).assert_says(0, &[]);
}

/// What `diff` says of the program with its line 50 % shorter, of which `truth` is saved.
fn attempt(name: &str, truth: f64) -> Result<(), String> {
    let place = Place::new();
    let program = Program::build(name).map_err(|error| format!("{error:#}"))?;
    profile(&place, &program, "0", "12", "before.jsonl");
    profile(&place, &program, "50", "6", "after.jsonl");
    let [json, text] = [&["--json"][..], &[]].map(|more| {
        let mut command = place.plain(coz_tests::profiler(), ["diff", "before.jsonl", "after.jsonl"]);
        command.args(more);
        let ended = place.run(command);
        ended.assert_says(0, &[]);
        ended.output()
    });
    let diff: Value = serde_json::from_str(&json).expect("it is JSON");
    let point = &diff["points"][0];
    let value = |of: &Value| of["value"].as_f64().unwrap_or(f64::NAN);
    let (realised, predicted) = (value(&point["realised"]), value(&point["predicted"]));
    let marked = program.marked("line").map_err(|error| format!("{error:#}"))?;
    let lines = diff["lines"].as_array().expect("a list");
    let line =
        lines.iter().find(|line| line["before"].as_str().is_some_and(|place| place.ends_with(&marked)));
    let line = line.ok_or("the line is not there")?;
    let own = value(&line["points"][0]["own_speedup"]);
    let faults = [
        (!near(realised - truth, NEAR), format!("realised {realised:.3}, truth {truth}")),
        (!near(predicted - realised, NEAR), format!("predicted {predicted:.3}, realised {realised:.3}")),
        (!near(own - 0.5, 0.06), format!("the line's own speedup is 0.5, not {own:.3}")),
        (!text.contains(": as predicted"), "realised is not what was predicted".to_owned()),
    ];
    let faults: Vec<String> = faults.into_iter().filter(|(is, _)| *is).map(|(_, what)| what).collect();
    if faults.is_empty() { Ok(()) } else { Err(format!("{}\n{text}", faults.join("; "))) }
}

/// Whether a difference is small; one that is no number is not.
fn near(difference: f64, limit: f64) -> bool {
    difference.abs() < limit
}

fn assert_comes_true(name: &str, truth: f64) {
    let mut failures = Vec::new();
    for _ in 0..ATTEMPTS {
        match attempt(name, truth) {
            Ok(()) => return,
            Err(failure) => failures.push(failure),
        }
    }
    panic!("{name}: none of {ATTEMPTS} attempts:\n{}", failures.join("\n"));
}

#[test]
fn a_line_of_one_thread_that_takes_half_of_its_time() {
    assert_comes_true("single", 0.25);
}

/// Debian's coz, on a program that it can read, writes a profile that is read like one of ours.
#[test]
fn what_coz_records_is_read() {
    let place = Place::new();
    let speed = Program::build("single").and_then(|program| program.calibrate()).expect("it runs");
    let program = Program::build_for("single", Debug::Dwarf3, speed).expect("it compiles");
    let folder = program.source.parent().expect("a source has a folder").display();
    let mut coz = program.command(Path::new("coz"));
    coz.args(["run", "--source-scope", &format!("{folder}/%"), "-o", "old.coz", "---"]).arg(&program.path);
    coz.args(["--seconds", "8"]).current_dir(place.path());
    place.run(coz).assert_says(0, &[]);
    let text = std::fs::read_to_string(place.path().join("old.coz")).expect("coz has written a profile");
    for (name, text) in [("old.coz", text.clone()), ("twice.coz", text.repeat(2))] {
        std::fs::write(place.path().join(name), text).expect("it is writable");
        let ended = place.run(place.plain(coz_tests::profiler(), ["report", "--json", name]));
        ended.assert_says(0, &[]);
        let report: Value = serde_json::from_str(&ended.output()).expect("it is JSON");
        assert!(report["experiments"].as_u64() > Some(5), "{name}: {report}");
        assert!(report["points"][0]["visits"].as_u64() > Some(1000), "{name}: {report}");
        let marked = program.marked("line").expect("it has one");
        let lines = report["lines"].as_array().expect("a list");
        let found =
            lines.iter().any(|line| line["location"].as_str().is_some_and(|place| place.ends_with(&marked)));
        assert!(found, "{name}: no {marked} in {report}");
    }
}
