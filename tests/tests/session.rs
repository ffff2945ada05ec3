//! What a run does besides predicting: points, options, signals, words. Each against the built binary.

use coz_tests::program;
use coz_tests::run::{Ended, Place, wait_until};
use coz_tests::turn;
use serde_json::Value;

/// The records of a profile, in their order.
fn records(place: &Place) -> Vec<Value> {
    let text = std::fs::read_to_string(place.profile()).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn of_type<'a>(records: &'a [Value], kind: &str) -> Vec<&'a Value> {
    records.iter().filter(|record| record["type"] == kind).collect()
}

fn run(place: &Place, options: &[&str], name: &str, args: &[&str]) -> Ended {
    let mut command = place.profiled(options);
    command.arg("--").arg(program(name)).args(args);
    place.run(command)
}

/// `FILE:LINE` of the marked line, or of one so many lines below.
fn marked(name: &str, below: u64) -> String {
    let line = xtask::programs::Program::build(name).and_then(|program| program.marked("line"));
    let line = line.expect("it has one");
    let (file, number) = line.split_once(':').expect("FILE:LINE");
    format!("{file}:{}", number.parse::<u64>().expect("a number") + below)
}

#[test]
fn points_of_coz_h_count_without_being_named() {
    let _turn = turn::beside_others();
    let place = Place::new();
    run(&place, &[], "cozh", &["--seconds", "4"]).assert_says(0, &["visits of a round"]);
    let records = records(&place);
    let visits: u64 = of_type(&records, "throughput-point")
        .iter()
        .filter(|point| point["name"] == "a round")
        .filter_map(|point| point["delta"].as_u64())
        .sum();
    assert!(visits > 100, "{visits} visits: the points of an instrumented program are seen");
    assert!(of_type(&records, "experiment").len() > 3);
}

#[test]
fn without_a_point_the_run_is_one_whole_and_candidates_are_named() {
    let _turn = turn::beside_others();
    let place = Place::new();
    let ended = run(&place, &[], "nopoint", &["--seconds", "2"]);
    let says = ["no progress point", "end to end", "where the samples fall", "nopoint.c:", "--progress: "];
    ended.assert_says(0, &says);
    ended.assert_says(0, &["handle_request", "coz-bpf points "]);
    let records = records(&place);
    let experiments = of_type(&records, "experiment");
    assert_eq!(experiments.len(), 1, "{experiments:?}");
    assert_eq!(experiments[0]["speedup"], 0.0);
    assert!(
        experiments[0]["selected"].as_str().is_some_and(|line| line.contains("nopoint.c:")),
        "the hottest line"
    );
    let points = of_type(&records, "throughput-point");
    assert!(points.len() == 1 && points[0]["name"] == "end-to-end" && points[0]["delta"] == 1, "{points:?}");
}

#[test]
fn a_fixed_line_is_tried_from_the_start_also_if_it_is_not_sampled_yet() {
    let _turn = turn::alone();
    // The line below `else` runs in the second half only.
    let (place, line) = (Place::new(), marked("phased", 2));
    let options = ["-P", "progress", "--fixed-line", &line, "--speedups", "50"];
    run(&place, &options, "phased", &["--seconds", "3"]).assert_says(0, &[]);
    let records = records(&place);
    let experiments = of_type(&records, "experiment");
    let first = experiments.first().expect("there are experiments");
    let runtime = of_type(&records, "runtime")[0];
    let figure = |record: &Value, key: &str| record[key].as_u64().expect("it is recorded");
    let after = figure(first, "begin").saturating_sub(figure(runtime, "startup_ns"));
    assert!(after < figure(runtime, "time") / 3, "{after} ns after the start: {first}");
    assert!(
        experiments.iter().all(|e| e["selected"].as_str().is_some_and(|l| l.ends_with(&line))),
        "{experiments:?}"
    );
    assert!(experiments.iter().all(|e| e["speedup"] == 0.0 || e["speedup"] == 0.5));
}

#[test]
fn a_wrong_fixed_line_is_an_error_before_the_start_with_the_nearest() {
    let _turn = turn::beside_others();
    for (options, says) in [
        (["--fixed-line", "single.c:1"], ["single.c:1", "nearest lines"]),
        (["--fixed-line", "singel.c:8"], ["singel.c", "single.c"]),
        (["--fixed-function", "progres"], ["progres", "progress"]),
    ] {
        let place = Place::new();
        let ended = run(&place, &options, "single", &["--rounds", "10"]);
        ended.assert_says(2, &says);
        assert_eq!(ended.output(), "", "the program was not started");
        assert!(!place.profile().exists(), "and no empty profile is left");
    }
}

#[test]
fn after_the_duration_there_are_no_experiments_and_the_program_runs_on() {
    let _turn = turn::beside_others();
    let place = Place::new();
    let ended = run(&place, &["-P", "progress", "-d", "1.5"], "pipeline_condvar", &["--seconds", "4"]);
    ended.assert_says(0, &[]);
    assert!(ended.output().starts_with("rounds "));
    let records = records(&place);
    let (begin, runtime) = (of_type(&records, "experiment"), of_type(&records, "runtime"));
    let startup = runtime[0]["startup_ns"].as_u64().expect("it is recorded");
    let last = begin.iter().filter_map(|e| e["begin"].as_u64()).max().expect("there were some");
    assert!(last < startup + 1_700_000_000, "an experiment began at {last}, the start took {startup}");
    assert!(runtime[0]["time"].as_u64() > Some(3_900_000_000), "sampled to the end");
}

#[test]
fn quiet_says_nothing_at_all() {
    let _turn = turn::beside_others();
    let place = Place::new();
    std::fs::write(place.profile(), "old\n").expect("the place is writable");
    let ended = run(&place, &["-q", "-P", "progress"], "single", &["--seconds", "1"]);
    ended.assert_says(0, &[]);
    assert_eq!(ended.words(), "");
    assert!(ended.output().starts_with("rounds ") && ended.output().lines().count() == 1);
}

#[test]
fn very_verbose_has_the_kernel_sides_own_words() {
    let _turn = turn::beside_others();
    let place = Place::new();
    let ended = run(&place, &["-vv", "-P", "progress"], "single", &["--seconds", "1"]);
    ended.assert_says(0, &["kernel side, info: process", "has executed a program", "kernel side: Samples"]);
    let once = run(&place, &["-v", "-P", "progress"], "single", &["--seconds", "1"]);
    once.assert_says(0, &["kernel side: Samples"]);
    assert!(!once.words().contains("kernel side, info"), "{}", once.words());
}

#[test]
fn a_termination_is_passed_on_and_the_report_is_printed() {
    let _turn = turn::beside_others();
    let place = Place::new();
    let mut command = place.profiled(["-P", "progress", "--"]);
    command.arg(program("pipeline_condvar")).args(["--seconds", "50"]);
    let mut running = place.start(command);
    wait_until("an experiment", || (!of_type(&records(&place), "experiment").is_empty()).then_some(()));
    running.signal(libc::SIGTERM);
    running.wait().assert_says(128 + libc::SIGTERM, &["the program ended", "experiment"]);
    assert_eq!(of_type(&records(&place), "runtime").len(), 1, "the profile has its end");
}

#[test]
fn processes_that_outlive_the_program_are_told_of() {
    let _turn = turn::beside_others();
    let place = Place::new();
    let mut command = place.profiled(["--"]);
    command.arg(program("behave")).arg("fork");
    let mut running = place.start(command);
    running.wait().assert_says(5, &["1 process of the program runs on"]);
    running.wait_for_output("the child speaks\n");
}

#[test]
fn an_executed_programs_samples_and_points_count() {
    let _turn = turn::beside_others();
    let (place, single) = (Place::new(), program("single"));
    let single = single.to_str().expect("UTF-8");
    let point = format!("{single}@progress");
    let args = ["exec", single, "--seconds", "3"];
    let ended = run(&place, &["-P", &point], "behave", &args);
    ended.assert_says(0, &["single.c:"]);
    let records = records(&place);
    let visits: u64 = of_type(&records, "throughput-point").iter().filter_map(|p| p["delta"].as_u64()).sum();
    assert!(visits > 100, "{visits} visits");
    let samples = of_type(&records, "samples");
    assert!(
        samples.iter().any(|s| s["location"].as_str().is_some_and(|l| l.contains("single.c:"))),
        "{samples:?}"
    );
}

#[test]
fn a_reader_that_has_gone_hurts_neither_the_program_nor_the_profile() {
    let _turn = turn::beside_others();
    let place = Place::new();
    // The report goes to a pipe that nobody reads; then to a closed descriptor.
    for redirect in ["2>&1 >out | true", "2>&- >out"] {
        let script =
            format!("{{ \"$0\" run -v -P progress -- \"$1\" --seconds 1; echo $? >code; }} {redirect}");
        let mut command = place.plain("sh", ["-c", &script]);
        command.arg(coz_tests::profiler()).arg(program("single"));
        place.run(command);
        let read = |name: &str| std::fs::read_to_string(place.path().join(name)).unwrap_or_default();
        wait_until("the end", || Some(read("code")).filter(|code| code.ends_with('\n')));
        assert_eq!(read("code"), "0\n", "{redirect}");
        assert!(read("out").starts_with("rounds "), "{redirect}: {}", read("out"));
        assert_eq!(of_type(&records(&place), "runtime").len(), 1, "{redirect}");
        std::fs::remove_file(place.path().join("code")).expect("it was there");
    }
}

#[test]
fn on_a_terminal_there_is_one_status_line_and_elsewhere_none() {
    let _turn = turn::beside_others();
    let place = Place::new();
    let (profiler, single) = (coz_tests::profiler(), program("single"));
    let inner = format!("{} run -P progress {} --seconds 3", profiler.display(), single.display());
    let mut command = place.plain("script", ["-qec", &inner, "/dev/null"]);
    command.env("TERM", "xterm");
    let shown = place.run(command);
    shown.assert_says(0, &[]);
    assert!(shown.output().contains("visits/s"), "{}", shown.output());
    let ended = run(&place, &["-P", "progress"], "single", &["--seconds", "1"]);
    assert!(!ended.words().contains("visits/s") && !ended.words().contains('\x1b'), "{}", ended.words());
}

/// What a server on this machine answers.
fn get(address: &str, below: &str) -> String {
    use std::io::{Read, Write};
    let rest = address.strip_prefix("http://").expect("an address");
    let (host, path) = rest.split_once('/').expect("with a path");
    let mut stream = std::net::TcpStream::connect(host).expect("the page is there");
    write!(stream, "GET /{path}{below} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")
        .expect("it listens");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    answer
}

#[test]
fn the_page_shows_a_run_while_it_goes_on() {
    let _turn = turn::beside_others();
    let place = Place::new();
    let mut command = place.profiled(["-P", "progress", "--live"]);
    command.arg("--").arg(program("single")).args(["--seconds", "5"]);
    let mut running = place.start(command);
    let address = wait_until("the page's address", || {
        let words = running.words_so_far();
        let at = words.find("http://127.0.0.1:")?;
        let (address, _) = words[at..].split_once('\n')?;
        Some(address.to_owned())
    });
    assert!(get(&address, "").contains("<!doctype html>"));
    wait_until("experiments on the page", || {
        let data = get(&address, "data.json");
        (data.contains("single.c:") && data.contains("\"open\":true")).then_some(())
    });
    running.wait().assert_says(0, &["visits of progress"]);
    let host = address.split('/').nth(2).expect("an address");
    assert!(std::net::TcpStream::connect(host).is_err(), "it ends with the run");
    place.assert_nothing_left();
}
