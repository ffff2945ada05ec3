//! The predictions against the truth, which is measured in the same run by really shortening the line.

use coz_tests::run::Place;
use xtask::programs::Program;
use xtask::truth::{CASES, Plan, Verdict, measure, table};

#[test]
fn predictions_come_within_six_points_of_the_truth() {
    let place = Place::new();
    let rows = CASES.iter().flat_map(|name| {
        let program = Program::build(name).expect("the program compiles");
        let profile = place.path().join(format!("{name}.jsonl"));
        measure(&program, &coz_tests::profiler(), &Plan::QUICK, &profile).expect("it can be measured")
    });
    let rows: Vec<_> = rows.collect();
    let verdict = Verdict::of(&rows);
    println!("{}\n{verdict}", table(&rows));
    verdict.check().expect("the predictions are near the truth");
}
