//! A first look at the predictions against the truth, which is measured in the same run by really shortening the line.
//! It tells whether predictions work at all, on any machine, however busy; how good they are, `cargo xtask truth` tells.

use coz_tests::run::Place;
use xtask::programs::Program;
use xtask::truth::{JUDGED, Plan, Row, measure, table};

/// Percentage points that a prediction may be off here. Other load on a machine with two CPUs costs some.
const GENEROUS: f64 = 15.0;
/// Attempts: whatever else the machine did meanwhile, it seldom does three times.
const ATTEMPTS: usize = 3;

const SMOKE: Plan = Plan { repeats: 2, run_seconds: 0.7, profile_seconds: 12.0 };

/// What is wrong with a row.
fn fault(row: &Row) -> Option<String> {
    let Some(error) = row.error() else { return Some(format!("{} %: no prediction", row.level)) };
    let says = row.prediction.map_or(0.0, |prediction| prediction.median);
    let faulty = says <= 0.0 || error.abs() > GENEROUS;
    faulty.then(|| format!("{} %: {says:.1} predicted, {:.1} true", row.level, row.truth.median))
}

fn attempt(name: &str) -> Result<(), String> {
    let place = Place::new();
    let program = Program::build(name).map_err(|error| format!("{error:#}"))?;
    let profile = place.path().join("profile.jsonl");
    let rows = measure(&program, &coz_tests::profiler(), &SMOKE, &profile).map_err(|e| format!("{e:#}"))?;
    let judged = rows.iter().filter(|row| JUDGED.contains(&row.level));
    let faults: Vec<String> = judged.filter_map(fault).collect();
    if faults.is_empty() { Ok(()) } else { Err(format!("{}\n{}", faults.join("; "), table(&rows))) }
}

fn assert_predicted(name: &str) {
    let mut failures = Vec::new();
    for _ in 0..ATTEMPTS {
        match attempt(name) {
            Ok(()) => return,
            Err(failure) => failures.push(failure),
        }
    }
    panic!("{name}: {ATTEMPTS} attempts, none is near the truth:\n{}", failures.join("\n"));
}

#[test]
fn one_thread_half_of_its_time_in_the_line() {
    assert_predicted("single");
}

#[test]
fn a_pipeline_whose_producer_is_the_slower_one() {
    assert_predicted("pipeline_condvar");
}
