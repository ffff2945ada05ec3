//! Programs with a known answer, before and after a change.

use super::*;
use crate::{
    estimate::{
        self,
        simulate::{Program, SimulatedLine, settings},
    },
    report::source::Sources,
};

/// Time per visit and the share that line 0 has of it; line 1 runs beside and is of no use, line 2 is in the same thread.
fn program(visit: f64, share: f64, lines: [SimulatedLine; 3]) -> Program {
    let [a, b, c] = lines;
    let mut program = Program::steady(80.0, vec![(share, a.1), b, c]);
    program.phases[0].visit = visit;
    program
}

/// Before: 2 ms a visit; half of it in line 0, 30 % in line 2.
fn before() -> Program {
    program(2e-3, 0.5, [(0.0, |s| 0.5 * s), (0.6, |_| 0.0), (0.3, |s| 0.3 * s)])
}

/// After: line 0 takes 40 % less; 1.6 ms a visit are left, of which line 0 has 0.6 ms.
fn after() -> Program {
    program(1.6e-3, 0.6 / 1.6, [(0.0, |s| 0.375 * s), (0.6, |_| 0.0), (0.6 / 1.6, |s| 0.375 * s)])
}

fn moved(mut profile: Profile, by: u32) -> Profile {
    for samples in &mut profile.samples {
        samples.line = samples.line.map(|line| line + by);
        samples.location = format!("{}:{}", samples.file.as_deref().unwrap(), samples.line.unwrap());
    }
    for recorded in &mut profile.experiments {
        let (file, line) = crate::report::source::split(&recorded.experiment.selected).unwrap();
        recorded.experiment.selected = format!("{file}:{}", line + by);
    }
    profile
}

fn compared(before: &Profile, after: &Profile) -> Diff {
    let [b, a] = [before, after].map(|profile| estimate::estimate(profile, &settings()));
    let [places_b, places_a] = [&b, &a].map(|estimate| places::of(estimate, None::<&mut Sources>));
    let side = |profile, estimate, places| Side { profile, estimate, places };
    diff(side(before, &b, &places_b), side(after, &a, &places_a), 199)
}

#[test]
fn what_was_realised_is_as_predicted_though_every_line_has_moved() {
    let diff = compared(&before().profile(3), &moved(after().profile(4), 7));
    let point = &diff.points[0];
    let (realised, predicted) = (point.realised.unwrap(), point.predicted.unwrap());
    assert!((realised.value - 0.2).abs() < 0.02, "{realised:?}");
    assert!((predicted.value - 0.2).abs() < 0.04, "{predicted:?}");
    assert_eq!(point.outcome, Outcome::AsPredicted);
    let line = |n: u32| diff.lines.iter().find(|l| l.before.location == format!("/src/app.c:{n}")).unwrap();
    let own = line(10).at[0].time.unwrap();
    assert!((own.less.value - 0.4).abs() < 0.03, "the line's own speedup: {own:?}");
    assert!((own.before - 1e6).abs() < 4e4 && (own.after - 6e5).abs() < 3e4, "{own:?}");
    assert_eq!(
        (line(10).how, line(10).after.as_ref().unwrap().location.as_str()),
        (How::Same, "/src/app.c:17")
    );
    assert!(!line(20).at[0].changed, "what runs by the clock has not changed: {:?}", line(20).at[0].time);
    assert!(
        !line(30).at[0].changed,
        "what takes as much per visit as before has not changed: {:?}",
        line(30).at[0].time
    );
    assert!(diff.appeared.is_empty() && diff.notes.is_empty(), "{diff:?}");
}

#[test]
fn a_promise_that_is_not_kept_is_told() {
    // The line takes 40 % less, and the program is as slow as it was.
    let kept = program(2e-3, 0.3, [(0.0, |s| 0.3 * s), (0.6, |_| 0.0), (0.3, |s| 0.3 * s)]);
    let diff = compared(&before().profile(3), &kept.profile(4));
    assert_eq!(diff.points[0].outcome, Outcome::LessThanPredicted, "{:?}", diff.points[0]);
}

#[test]
fn the_same_program_twice_has_not_changed() {
    let diff = compared(&before().profile(3), &before().profile(4));
    assert_eq!(diff.points[0].outcome, Outcome::Unchanged, "{:?}", diff.points[0]);
    assert!(diff.lines.iter().all(|line| !line.at[0].changed));
}

#[test]
fn a_line_that_is_gone_took_all_of_its_time_with_it() {
    let mut gone = program(1e-3, 0.0, [(0.0, |_| 0.0), (0.6, |_| 0.0), (0.6, |s| 0.6 * s)]).profile(4);
    gone.samples.retain(|samples| samples.count > 0);
    let diff = compared(&before().profile(3), &gone);
    let line = diff.lines.iter().find(|line| line.before.location == "/src/app.c:10").unwrap();
    assert_eq!(line.how, How::Gone);
    assert!((line.at[0].time.unwrap().less.value - 1.0).abs() < 1e-9);
    assert_eq!(diff.points[0].outcome, Outcome::AsPredicted, "{:?}", diff.points[0]);
}

#[test]
fn points_and_arguments_that_differ_are_told() {
    let mut other = after().profile(4);
    other.startup.program = vec!["./app".into(), "--slow".into()];
    other.startup.points[0].name = "answer".into();
    for recorded in &mut other.experiments {
        for point in &mut recorded.points {
            if let crate::experiment::record::PointDelta::ThroughputPoint(point) = point {
                point.name = "answer".into();
            }
        }
    }
    let diff = compared(&before().profile(3), &other);
    assert!(diff.points.is_empty());
    assert_eq!(diff.notes.len(), 3, "{:?}", diff.notes);
    assert!(diff.notes[2].contains("`--fast` and `--slow`"), "{:?}", diff.notes);
}
