//! `coz-bpf diff`: reads two profiles, prints what became of the first one's predictions.

mod json;
mod page;
mod text;

use super::{Style, deliver, estimate_profile, health, source::Sources};
use crate::{
    diff::{self, Diff, Side, places},
    estimate::Verdict,
    experiment::record::{self, END_TO_END, PointKind, Profile},
};
use anyhow::Result;
use std::path::{Path, PathBuf};

/// What `coz-bpf diff` was asked for.
#[derive(Clone, Debug)]
pub struct DiffOptions {
    /// Profile of the program before the change.
    pub before: PathBuf,
    /// Profile of the program after it.
    pub after: PathBuf,
    /// Print JSON instead of text.
    pub json: bool,
    /// Write the page there; `-` is the standard output.
    pub html: Option<PathBuf>,
    /// At most so many lines; 0: all.
    pub top: usize,
    /// Colours and width.
    pub style: Style,
}

/// Replicates of what a visit costs: nothing else is drawn here.
const REPLICATES: u32 = 1999;

/// Two profiles compared, as all three forms show them.
#[derive(Debug)]
struct Compared<'a> {
    /// Names of the files.
    files: [String; 2],
    profiles: [&'a Profile; 2],
    /// Experiments that count.
    counted: [usize; 2],
    diff: Diff,
}

/// Reads the profiles, writes what was asked for, and gives back what belongs on the standard output.
///
/// # Errors
/// When a profile cannot be read or a file not written.
pub fn run(request: &DiffOptions) -> Result<String> {
    let [before, after] = [record::read(&request.before)?, record::read(&request.after)?];
    let files = [&request.before, &request.after].map(|path| path.display().to_string());
    let compared = compare(files, [&before, &after], super::Options::default().replicates);
    let mut out = String::new();
    if let Some(path) = &request.html {
        out += &deliver(Path::new(path), &page::text(&compared))?;
    }
    if request.json {
        out += &json::text(&compared);
    } else if request.html.is_none() {
        out += &text::text(&compared, request.top, request.style);
    }
    Ok(out)
}

fn compare(files: [String; 2], profiles: [&Profile; 2], replicates: u32) -> Compared<'_> {
    let options = super::Options { replicates, ..super::Options::default() };
    let [before, after] = profiles.map(|profile| estimate_profile(profile, &options));
    // What stood there before has been edited since; what stands there now is what was profiled after, or near enough.
    let places_before = places::of(&before, None);
    let places_after = places::of(&after, Some(&mut Sources::default()));
    let sides = [(profiles[0], &before, &places_before), (profiles[1], &after, &places_after)];
    let [b, a] = sides.map(|(profile, estimate, places)| Side { profile, estimate, places });
    let mut diff = diff::diff(b, a, REPLICATES);
    for (which, side) in [("before", b), ("after", a)] {
        // Lines too few or too thin do not matter here: what the visits rest on does.
        let doubts = health::warnings(side.profile, side.estimate).into_iter();
        let doubts = doubts.filter(health::Warning::is_of_the_machine);
        diff.notes.extend(doubts.map(|doubt| format!("{which}: {doubt}")));
    }
    // Once, of however many points it is true.
    if diff.points.iter().any(|point| point.outcome.wants_more(point.realised.as_ref())) {
        diff.notes.push("not everything can be told yet: profile longer, before and after".into());
    }
    Compared { files, profiles, counted: [before.counted, after.counted], diff }
}

/// The lines with something to say about point `p`, those that matter most first; and those that take less or more of a visit
/// too, but were not shown to be worth anything to it, neither before nor after: they are counted. Where there are no others, and
/// the visits changed all the same, those without an answer come first.
fn changed(diff: &Diff, p: usize) -> (Vec<&diff::LineDiff>, Vec<&diff::LineDiff>) {
    let worth = |line: &diff::LineDiff| line.at[p].predicted.map_or(0.0, |predicted| predicted.value.abs());
    let mut lines: Vec<_> = diff.lines.iter().filter(|line| line.at[p].changed).collect();
    lines.sort_by(|a, b| worth(b).total_cmp(&worth(a)));
    let realised = diff.points[p].realised.and_then(|realised| realised.low.zip(realised.high));
    let same = realised.is_none_or(|(low, high)| low <= 0.0 && high >= 0.0);
    if same || lines.iter().any(|line| line.at[p].matters) {
        lines.into_iter().partition(|line| line.at[p].matters)
    } else {
        lines.into_iter().partition(|line| line.at[p].verdict != Verdict::Flat)
    }
}

/// What follows for whoever made the change.
fn conclusion(point: &diff::PointDiff) -> Option<String> {
    let one = match point.kind {
        _ if point.name == END_TO_END => "a run",
        PointKind::Throughput => "a visit",
        PointKind::Latency => "it",
    };
    point.outcome.conclusion(one, point.realised.as_ref())
}

/// What the times before and after are.
fn what(point: &diff::PointDiff) -> &'static str {
    match point.kind {
        _ if point.name == END_TO_END => "Time per run",
        PointKind::Throughput => "Time per visit",
        PointKind::Latency => "Latency",
    }
}

/// What is said of those that are counted; `alone`: no others are shown.
fn worthless(lines: &[&diff::LineDiff], p: usize, alone: bool) -> String {
    let (count, are, _) = counted(lines.len());
    let more = if alone { "" } else { " more" };
    // What an open line may be worth is in the sum, so it is said.
    let together = diff::predict::together(lines.iter().map(|line| &line.at[p]), false);
    let together = together.filter(|sum| sum.value.abs() >= 0.005);
    let together = together
        .map_or_else(String::new, |sum| format!("; {} of what is predicted", diff::outcome::percent(&sum)));
    format!("{count}{more} that changed {are} not shown to be worth anything, before or after{together}")
}

/// `1 line`, `2 lines`; the verb that follows, and whose.
fn counted(n: usize) -> (String, &'static str, &'static str) {
    if n == 1 { ("1 line".into(), "is", "its") } else { (format!("{n} lines"), "are", "their") }
}

/// A place as people look for it: where it was, and where it is now.
fn moved(line: &diff::LineDiff) -> String {
    let after = line.after.as_ref();
    match (&line.before.source, after.and_then(|after| after.source.as_ref())) {
        (Some((file, from)), Some((now, to))) if file == now && from != to => {
            format!("{} → {to}", line.before.location)
        }
        _ => line.before.location.clone(),
    }
}

/// What became of a line, where that is not plain from its place.
fn how(line: &diff::LineDiff) -> Option<&'static str> {
    match line.how {
        diff::matching::How::Same => None,
        diff::matching::How::Moved => Some("now in another function"),
        diff::matching::How::Edited => Some("edited"),
        diff::matching::How::Number => Some("matched by its number alone"),
        diff::matching::How::Rewritten => Some("rewritten"),
        diff::matching::How::Gone => Some("gone: no samples any more"),
    }
}

#[cfg(test)]
mod tests;
