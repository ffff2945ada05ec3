//! A first look at the predictions against the truth, which is measured in the same run by really shortening the line.
//! It tells whether predictions work at all, on any machine, however busy; how good they are, `cargo xtask truth` tells.

use coz_tests::run::Place;
use xtask::programs::Program;
use xtask::truth::{Answer, LEVELS, Plan, Prediction, Row, Truth, table};

/// Percentage points that a prediction may be off here. Other load on a machine with two CPUs costs some.
const GENEROUS: f64 = 15.0;
/// Attempts: whatever else the machine did meanwhile, it seldom does three times.
const ATTEMPTS: usize = 3;
/// Levels that are judged.
const JUDGED: [u32; 2] = [50, 100];

const SMOKE: Plan = Plan { repeats: 2, extra: 0, run_seconds: 0.7, profile_seconds: 9.0, tries: 2 };

/// What is wrong with a row.
fn fault(row: &Row) -> Option<String> {
    let Some(answer) = &row.ours else { return Some(format!("{} %: no prediction", row.level)) };
    let says = answer.spread.median;
    let faulty = says <= 0.0 || answer.error.abs() > GENEROUS;
    faulty.then(|| format!("{} %: {says:.1} predicted, {:.1} true", row.level, row.truth.median))
}

fn attempt(name: &str) -> Result<(), String> {
    let place = Place::new();
    let program = Program::build(name).map_err(|error| format!("{error:#}"))?;
    let profile = place.path().join("profile.jsonl");
    let truth = Truth::measure(&program, &SMOKE).map_err(|error| format!("{error:#}"))?;
    let ours =
        Prediction::ours(&program, &coz_tests::profiler(), &SMOKE, &profile).map_err(|e| format!("{e:#}"))?;
    let rows: Vec<Row> = LEVELS
        .iter()
        .enumerate()
        .filter_map(|(at, &level)| {
            let truth = truth.at(at)?;
            let ours = ours.levels[at].map(|spread| Answer::new(truth, spread, ours.refuses()));
            Some(Row { program: name.to_owned(), level, truth, ours, coz: None })
        })
        .collect();
    let judged: Vec<&Row> = rows.iter().filter(|row| JUDGED.contains(&row.level)).collect();
    if judged.len() != JUDGED.len() {
        return Err("the truth could not be measured".to_owned());
    }
    let faults: Vec<String> = judged.into_iter().filter_map(fault).collect();
    if faults.is_empty() { Ok(()) } else { Err(format!("{}\n{}", faults.join("; "), table(&rows, false))) }
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
