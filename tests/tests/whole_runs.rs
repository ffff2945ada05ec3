//! `--end-to-end`: the program run again and again, each run an experiment. Against the built binary.

use coz_tests::program;
use coz_tests::run::{Ended, Place};
use serde_json::Value;
use xtask::programs::Program;

/// The records of a profile, in their order.
fn records(place: &Place) -> Vec<Value> {
    let text = std::fs::read_to_string(place.profile()).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn of_type<'a>(records: &'a [Value], kind: &str) -> Vec<&'a Value> {
    records.iter().filter(|record| record["type"] == kind).collect()
}

/// Percentage points that a prediction may be off: what it costs to start the program belongs to the run, too.
const NEAR: f64 = 5.0;
/// Attempts: whatever else the machine did meanwhile, it seldom does five times.
const ATTEMPTS: usize = 5;

/// The effect at 50 % of the marked line of a program whose runs take about 0.4 s, percent.
fn predicted(name: &str, rounds: &str, runs: &str) -> f64 {
    let line = Program::build(name).and_then(|program| program.marked("line")).expect("it has one");
    let place = Place::new();
    let options = ["--end-to-end", "--runs", runs, "--fixed-line", &line, "--fixed-speedup", "50"];
    let mut command = place.profiled(options);
    command.arg("--").arg(program(name)).args(["--rounds", rounds]);
    let ended = place.run(command);
    ended.assert_says(0, &["running time"]);
    assert_eq!(ended.output().matches("rounds ").count().to_string(), runs, "each run says one line");

    let report = place.run(place.plain(coz_tests::profiler(), ["report", "--json"]));
    let report: Value = serde_json::from_str(&report.output()).expect("JSON");
    let line = report["lines"].as_array().and_then(|lines| {
        lines.iter().find(|row| row["location"].as_str().is_some_and(|location| location.ends_with(&line)))
    });
    let curve = line.and_then(|line| line["curve"].as_array()).expect("a curve");
    let half = curve.iter().find(|level| level["speedup"] == 0.5).expect("it was tried");
    half["effect"].as_f64().expect("a number") * 100.0
}

fn assert_predicted(name: &str, rounds: &str, truth: f64) {
    let mut answers = Vec::new();
    for _ in 0..ATTEMPTS {
        answers.push(predicted(name, rounds, "13"));
        if answers.last().is_some_and(|answer| (answer - truth).abs() <= NEAR) {
            return;
        }
    }
    panic!("{name}: {answers:.1?} predicted, {truth} is true");
}

#[test]
fn half_of_the_running_time() {
    assert_predicted("single", "270", 25.0);
}

#[test]
fn a_first_run_to_look_then_pairs_each_a_record_with_its_point() {
    let place = Place::new();
    let mut command = place.profiled(["--end-to-end", "--runs", "7"]);
    command.arg("--").arg(program("single")).args(["--rounds", "150"]);
    place.run(command).assert_says(0, &["end to end, 7 runs"]);
    let records = records(&place);
    let kinds: Vec<&str> = records.iter().filter_map(|record| record["type"].as_str()).collect();
    let mut expected = vec!["startup"];
    expected.extend(["experiment", "throughput-point"].repeat(7));
    expected.push("runtime");
    assert_eq!(kinds[..expected.len()], expected);
    assert!(kinds[expected.len()..].iter().all(|kind| *kind == "samples"), "{kinds:?}");
    for point in of_type(&records, "throughput-point") {
        assert_eq!((&point["name"], &point["delta"]), (&"end-to-end".into(), &1.into()));
    }
    let experiments = of_type(&records, "experiment");
    assert_eq!(experiments[0]["speedup"], 0.0);
    for pair in experiments[1..].chunks(2) {
        assert_eq!(pair[0]["selected"], pair[1]["selected"]);
        assert_eq!(pair.iter().filter(|run| run["speedup"] == 0.0).count(), 1, "{pair:?}");
    }
    for run in &experiments {
        let figure = |key: &str| run[key].as_u64().expect("it is recorded");
        assert!(run["valid"] == true && figure("samples") > 20, "{run}");
        assert!(figure("wall") > 60_000_000 && figure("duration") <= figure("wall"), "{run}");
    }
}

/// A program that counts its runs in a file and fails in the third one.
fn failing(place: &Place) -> Ended {
    let script = "echo run >>runs; test $(wc -l <runs) -lt 3 || exit 7";
    let mut command = place.profiled(["--end-to-end", "--runs", "9", "--"]);
    command.args(["sh", "-c", script]);
    place.run(command)
}

#[test]
fn the_first_run_that_fails_is_the_last_and_its_code_ours() {
    let place = Place::new();
    failing(&place).assert_says(7, &["run 3 of 9 is the last: exit code 7"]);
    let runs = std::fs::read_to_string(place.path().join("runs")).expect("it was written");
    assert_eq!(runs.lines().count(), 3);
    let records = records(&place);
    let experiments = of_type(&records, "experiment");
    let failed: Vec<_> = experiments.iter().map(|run| run["why"] == "truncated").collect();
    assert_eq!(failed, [false, false, true], "{experiments:?}");
    assert_eq!(of_type(&records, "runtime").len(), 1, "the profile has its end");
}

#[test]
fn a_signal_ends_the_series_and_what_was_measured_stays() {
    let place = Place::new();
    let mut command = place.profiled(["--end-to-end", "--runs", "50", "--"]);
    command.arg(program("single")).args(["--rounds", "200"]);
    let mut running = place.start(command);
    coz_tests::run::wait_until("three runs", || {
        (of_type(&records(&place), "experiment").len() >= 3).then_some(())
    });
    running.signal(libc::SIGTERM);
    running.wait().assert_says(128 + libc::SIGTERM, &["the program ended"]);
    let records = records(&place);
    let valid = of_type(&records, "throughput-point").len();
    assert!((3..50).contains(&valid), "{valid} runs");
    assert_eq!(of_type(&records, "runtime").len(), 1, "the profile has its end");
}

#[test]
fn a_file_as_input_is_there_for_every_run() {
    let place = Place::new();
    std::fs::write(place.path().join("input"), "two\nlines\n").expect("it is writable");
    let profiler = coz_tests::profiler();
    let script = format!("{} run --end-to-end --runs 3 -- cat <input", profiler.display());
    let ended = place.run(place.plain("sh", ["-c", &script]));
    ended.assert_says(0, &[]);
    assert_eq!(ended.output(), "two\nlines\n".repeat(3));
    let script = format!("echo once | {} run --end-to-end --runs 3 -- cat", profiler.display());
    let ended = place.run(place.plain("sh", ["-c", &script]));
    ended.assert_says(0, &["standard input is a pipe"]);
    assert_eq!(ended.output(), "once\n");
}
