//! `diff --json`.

use super::{Compared, conclusion};
use crate::{
    diff::{LineAt, matching::How, outcome::Outcome, visits::Visits},
    estimate::{Estimated, Verdict},
    experiment::record::PointKind,
};
use serde::Serialize;

#[derive(Serialize)]
struct Report<'a> {
    before: File<'a>,
    after: File<'a>,
    points: Vec<Point<'a>>,
    lines: Vec<Line<'a>>,
    appeared: Vec<Appeared<'a>>,
    notes: &'a [String],
}

#[derive(Serialize)]
struct File<'a> {
    file: &'a str,
    program: &'a [String],
    experiments: usize,
    /// Nanoseconds.
    runtime_ns: Option<u64>,
}

#[derive(Serialize)]
struct Point<'a> {
    name: &'a str,
    kind: PointKind,
    before: Option<Cost>,
    after: Option<Cost>,
    predicted: Option<Number>,
    realised: Option<Number>,
    outcome: Outcome,
    words: String,
    /// What follows for whoever made the change.
    conclusion: Option<String>,
    without_curve: &'a [String],
}

#[derive(Serialize)]
struct Cost {
    per_visit_ns: f64,
    experiments: usize,
    relative_error: Option<f64>,
}

#[derive(Serialize)]
struct Number {
    value: f64,
    low: Option<f64>,
    high: Option<f64>,
}

#[derive(Serialize)]
struct Line<'a> {
    before: &'a str,
    after: Option<&'a str>,
    /// How it was matched.
    matched: How,
    function: &'a str,
    text: Option<&'a str>,
    share_before: f64,
    share_after: Option<f64>,
    points: Vec<At<'a>>,
}

#[derive(Serialize)]
struct At<'a> {
    point: &'a str,
    cpu_before_ns: Option<f64>,
    cpu_after_ns: Option<f64>,
    /// By which share the line's own time per visit became less.
    own_speedup: Option<Number>,
    changed: bool,
    /// Changed, and worth something to the point before or after, or may be.
    matters: bool,
    predicted: Option<Number>,
    verdict_before: Verdict,
    verdict_after: Option<Verdict>,
}

#[derive(Serialize)]
struct Appeared<'a> {
    location: &'a str,
    function: &'a str,
    text: Option<&'a str>,
    share: f64,
    replaces: bool,
    matters: bool,
}

impl From<&Estimated> for Number {
    fn from(of: &Estimated) -> Self {
        Self { value: of.value, low: of.low, high: of.high }
    }
}

impl From<&Visits> for Cost {
    fn from(visits: &Visits) -> Self {
        Self { per_visit_ns: visits.per_visit, experiments: visits.experiments, relative_error: visits.error }
    }
}

/// As one JSON object, indented, with a new line at its end. What is not known is `null`.
pub(super) fn text(compared: &Compared<'_>) -> String {
    let Compared { files, profiles, counted, diff } = compared;
    let file = |i: usize| File {
        file: &files[i],
        program: &profiles[i].startup.program,
        experiments: counted[i],
        runtime_ns: profiles[i].runtime.as_ref().map(|runtime| runtime.time),
    };
    let report = Report {
        before: file(0),
        after: file(1),
        points: diff
            .points
            .iter()
            .map(|p| Point {
                name: &p.name,
                kind: p.kind,
                before: p.before.as_ref().map(Cost::from),
                after: p.after.as_ref().map(Cost::from),
                predicted: p.predicted.as_ref().map(Number::from),
                realised: p.realised.as_ref().map(Number::from),
                outcome: p.outcome,
                words: p.outcome.words(p.realised.as_ref(), p.predicted.as_ref()),
                conclusion: conclusion(p),
                without_curve: &p.without_curve,
            })
            .collect(),
        lines: diff
            .lines
            .iter()
            .map(|line| Line {
                before: &line.before.location,
                after: line.after.as_ref().map(|after| after.location.as_str()),
                matched: line.how,
                function: &line.before.function,
                text: line.before.text.as_deref(),
                share_before: line.before.share,
                share_after: line.after.as_ref().map(|after| after.share),
                points: line
                    .at
                    .iter()
                    .zip(&diff.points)
                    .map(|(at, point)| at_point(at, &point.name))
                    .collect(),
            })
            .collect(),
        appeared: diff.appeared.iter().map(appeared).collect(),
        notes: &diff.notes,
    };
    // Only maps with keys that are no strings, or a failing writer, could make this fail: there are none.
    let mut text = serde_json::to_string_pretty(&report).unwrap_or_default();
    text.push('\n');
    text
}

fn at_point<'a>(at: &LineAt, point: &'a str) -> At<'a> {
    At {
        point,
        cpu_before_ns: at.time.map(|time| time.before),
        cpu_after_ns: at.time.map(|time| time.after),
        own_speedup: at.time.as_ref().map(|time| Number::from(&time.less)),
        changed: at.changed,
        matters: at.matters,
        predicted: at.predicted.as_ref().map(Number::from),
        verdict_before: at.verdict,
        verdict_after: at.verdict_after,
    }
}

fn appeared(of: &crate::diff::Appeared) -> Appeared<'_> {
    let place = &of.place;
    Appeared {
        location: &place.location,
        function: &place.function,
        text: place.text.as_deref(),
        share: place.share,
        replaces: of.replaces,
        matters: of.matters,
    }
}
