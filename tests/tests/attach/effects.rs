//! What is predicted of programs that run already.

use coz_tests::profiler;
use coz_tests::run::Place;
use coz_tests::turn;
use serde_json::Value;

use crate::target::{ATTEMPTS, LONG, Target, attach, runtime};

/// The effect of the only line at this speedup, in percent.
fn effect(place: &Place, speedup: f64) -> f64 {
    let ended = place.run(place.plain(profiler(), ["report", "--json", "--all"]));
    let report: Value = serde_json::from_str(&ended.output()).expect("it is JSON");
    let curve = report["lines"][0]["curve"].as_array().expect("a curve").clone();
    let level = curve.iter().find(|level| level["speedup"] == speedup);
    100.0
        * level.unwrap_or_else(|| panic!("{speedup} was tried: {report}"))["effect"]
            .as_f64()
            .expect("a number")
}

fn marked(name: &str) -> String {
    xtask::programs::Program::build(name).and_then(|program| program.marked("line")).expect("it has one")
}

/// Half of this program's line is worth so many percent, whatever else this machine does: one of some attempts shows it.
fn half_of_the_line(name: &str, start: impl Fn() -> Target, truth: f64) {
    let line = marked(name);
    let attempt = || {
        let (place, target) = (Place::new(), start());
        let before = target.inside();
        let options = ["-p", &target.pid(), "-P", "progress", "-d", "9", "--max-overhead", "100"];
        let options = [&options[..], &["--fixed-line", &line, "--speedups", "50"]].concat();
        place.run(attach(&place, &options)).assert_says(0, &["attached to process", &line]);
        assert_eq!(target.inside(), before, "everything is undone");
        target.end();
        // Of two threads one is asked to pay, if the machine leaves them time to work.
        let asked = runtime(&place)["signals_sent"].as_u64() > Some(0) || name == "single";
        (effect(&place, 0.5), asked)
    };
    let mut found = Vec::new();
    while found.len() < ATTEMPTS {
        found.push(attempt());
        if found.last().is_some_and(|(found, asked)| *asked && (found - truth).abs() <= 10.0) {
            return;
        }
    }
    panic!("percent, and whether anybody was asked to pay: {found:?}, where {truth} are true");
}

#[test]
fn one_thread_that_runs_already() {
    let _turn = turn::alone();
    half_of_the_line("single", || Target::start("single", LONG), 25.0);
}

#[test]
fn two_threads_that_run_already() {
    let _turn = turn::alone();
    half_of_the_line("pipeline_condvar", || Target::start("pipeline_condvar", LONG), 37.0);
}

#[test]
fn two_threads_in_a_container() {
    let _turn = turn::alone();
    half_of_the_line("pipeline_condvar", || Target::contained("pipeline_condvar"), 37.0);
}

#[test]
fn delays_stay_within_the_budget() {
    let _turn = turn::alone();
    let overhead = |options: &[&str]| {
        let (place, target) = (Place::new(), Target::start("single", LONG));
        let line = marked("single");
        let all =
            ["-p", &target.pid(), "-P", "progress", "-d", "6", "--speedups", "100", "--fixed-line", &line];
        place.run(attach(&place, &[&all[..], options].concat())).assert_says(0, &["visits of progress"]);
        target.ends_as_it_should();
        let runtime = runtime(&place);
        let figure = |key: &str| runtime[key].as_u64().unwrap_or(0) as f64;
        (figure("delay_ns") / figure("time"), figure("held_back_ns"))
    };
    let (free, _) = overhead(&["--max-overhead", "100"]);
    let (bound, held_back) = overhead(&["--max-overhead", "5"]);
    // The last experiment's delays are still to be paid off. Of a busy machine there is less time to delay.
    assert!(bound < 0.08 && free > 1.2 * bound && held_back > 2e8, "{free}, {bound}, {held_back}");
}
