//! The predictions against the truth, which is measured in the same run by really shortening the line.
//! `cargo xtask truth` does this for the whole suite; here are some programs of each kind, and looser limits.

use coz_tests::run::Place;
use xtask::programs::Program;
use xtask::truth::{Answer, CASES, LEVELS, Plan, Prediction, Row, Truth, table};

/// Median of the absolute errors at 50 and 100 %, percentage points.
const LIMIT: f64 = 6.0;

#[test]
fn predictions_come_within_six_points_of_the_truth() {
    let place = Place::new();
    let rows: Vec<Row> = CASES.iter().flat_map(|name| rows(&place, name)).collect();
    println!("{}", table(&rows, false));
    let judged = rows.iter().filter(|row| matches!(row.level, 50 | 100));
    let mut errors: Vec<f64> =
        judged.map(|row| row.ours.as_ref().map_or(f64::INFINITY, |answer| answer.error.abs())).collect();
    errors.sort_by(f64::total_cmp);
    assert_eq!(errors.len(), 2 * CASES.len());
    assert!(errors.last().is_some_and(|error| error.is_finite()), "an answer is missing");
    assert!(errors[errors.len() / 2] <= LIMIT, "{errors:?}");
}

fn rows(place: &Place, name: &str) -> Vec<Row> {
    let program = Program::build(name).expect("the program compiles");
    let profile = place.path().join(format!("{name}.jsonl"));
    let plan = Plan { profile_seconds: 20.0, ..Plan::QUICK };
    let truth = Truth::measure(&program, &plan).expect("it runs");
    let ours = Prediction::ours(&program, &coz_tests::profiler(), &plan, &profile).expect("it is profiled");
    let row = |(at, &level): (usize, &u32)| {
        let truth = truth.at(at).expect("it was measured");
        let answer = ours.levels[at].map(|spread| Answer::new(truth, spread, ours.refuses()));
        Row { program: name.to_owned(), level, truth, ours: answer, coz: None }
    };
    LEVELS.iter().enumerate().map(row).collect()
}
