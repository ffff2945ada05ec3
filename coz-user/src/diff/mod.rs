//! Two profiles of a program, before and after a change: did the change bring what the first one predicted? Pure functions.
//!
//! * [`places`] are the lines of a profile with what tells them apart; [`matching`] says which line of the one is which of the
//!   other, though the edit has moved them.
//! * [`visits`] says what a visit of a point costs without delays, in either, and so what was *realised*.
//! * [`own`] says by how much a line itself became faster: its CPU time per visit, before and after. Looked up on the line's
//!   curve from before ([`predict`]), that is what was *predicted*.
//! * [`outcome`] compares the two.
//!
//! These two words, predicted and realised, are used wherever a comparison is shown, and no others.

pub mod matching;
pub mod outcome;
pub mod own;
pub mod places;
pub mod predict;
pub mod visits;

use crate::{
    estimate::{Estimate, Estimated, Level, Line, Verdict},
    experiment::record::{Attribution, PointKind, Profile},
};
use matching::How;
use outcome::Outcome;
use own::OwnTime;
use places::Place;
use visits::Visits;

/// A profile and what was estimated from it.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    /// What was read.
    pub profile: &'a Profile,
    /// What follows from it.
    pub estimate: &'a Estimate,
    /// Its lines ([`places::of`]).
    pub places: &'a [Place],
}

/// What became of the program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Diff {
    /// The points that both profiles have.
    pub points: Vec<PointDiff>,
    /// The lines of the profile before, those with most CPU time first.
    pub lines: Vec<LineDiff>,
    /// Lines of the profile after that are none of those, with most CPU time first.
    pub appeared: Vec<Appeared>,
    /// What makes the comparison doubtful, in plain words.
    pub notes: Vec<String>,
}

/// A point before and after.
#[derive(Clone, Debug, PartialEq)]
pub struct PointDiff {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: PointKind,
    /// What a visit costs before, and on how many experiments without delay that rests.
    pub before: Option<Visits>,
    /// The same after.
    pub after: Option<Visits>,
    /// Share of the time per visit that was saved.
    pub realised: Option<Estimated>,
    /// What the lines that became faster or slower should have saved together.
    pub predicted: Option<Estimated>,
    /// Lines that changed, are worth a look and have no curve.
    pub without_curve: Vec<String>,
    /// How the two agree.
    pub outcome: Outcome,
}

/// A line before and after.
#[derive(Clone, Debug, PartialEq)]
pub struct LineDiff {
    /// Before.
    pub before: Place,
    /// After; `None` where nothing is left of it, or where it was rewritten.
    pub after: Option<Place>,
    /// How it was found again.
    pub how: How,
    /// Against each point that both profiles have, in their order.
    pub at: Vec<LineAt>,
}

/// A line against a point.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LineAt {
    /// Its own CPU time per visit, nanoseconds.
    pub time: Option<OwnTime>,
    /// Whether it took less or more, beyond chance and by a twentieth at least.
    pub changed: bool,
    /// What its curve says of that.
    pub predicted: Option<Estimated>,
    /// Its verdict before.
    pub verdict: Verdict,
    /// Its verdict after; `None` where it has no curve there.
    pub verdict_after: Option<Verdict>,
    /// Whether there is something to say of it: it changed, and was shown to be worth something to the point, before or after;
    /// or it has no curve to show that.
    pub matters: bool,
    /// Its curve before: the fitted effect at the quarters.
    pub curve: Vec<Level>,
}

/// A line that was not there before.
#[derive(Clone, Debug, PartialEq)]
pub struct Appeared {
    /// The line.
    pub place: Place,
    /// Whether it stands for lines that were rewritten ([`How::Rewritten`]).
    pub replaces: bool,
    /// Whether there is something to say of it: not where it was shown to be worth nothing to any point.
    pub matters: bool,
}

/// Lines with less than this part of a visit's time are not worth a word.
const SMALL: f64 = 0.01;

/// Compares two profiles.
#[must_use]
pub fn diff(before: Side<'_>, after: Side<'_>, replicates: u32) -> Diff {
    let matched = matching::matches(before.places, after.places);
    let points: Vec<(String, PointKind)> =
        before.profile.points().into_iter().filter(|p| after.profile.points().contains(p)).collect();
    let costs: Vec<_> = points
        .iter()
        .map(|(name, kind)| {
            (
                visits::of(before.profile, name, *kind, replicates),
                visits::of(after.profile, name, *kind, replicates),
            )
        })
        .collect();
    let mut lines: Vec<LineDiff> = before
        .places
        .iter()
        .enumerate()
        .map(|(i, place)| {
            let at = points.iter().zip(&costs).map(|((name, _), cost)| {
                let line = curve_of(&before, place, name);
                let time = cost
                    .0
                    .as_ref()
                    .zip(cost.1.as_ref())
                    .and_then(|(b, a)| own::time([before, after], &matched, i, [b, a]));
                let now = matched.after(i).and_then(|j| curve_of(&after, &after.places[j], name));
                line_at(line, now, time, place, cost.0.as_ref().map_or(f64::INFINITY, |b| b.per_visit))
            });
            LineDiff {
                before: place.clone(),
                after: matched.after(i).map(|j| after.places[j].clone()),
                how: matched.how(i),
                at: at.collect(),
            }
        })
        .collect();
    let inclusive = before.profile.startup.attribution == Attribution::Inclusive;
    let points = points
        .into_iter()
        .zip(costs)
        .enumerate()
        .map(|(p, ((name, kind), (b, a)))| {
            let realised = b.as_ref().zip(a.as_ref()).map(|(b, a)| visits::saved(b, a));
            let predicted = predict::together(lines.iter().map(|line| &line.at[p]), inclusive);
            let without_curve: Vec<String> = lines
                .iter()
                .filter(|line| {
                    let at = &line.at[p];
                    at.matters && at.predicted.is_none()
                })
                .map(|line| line.before.location.clone())
                .collect();
            let any_matters = lines.iter().any(|line| line.at[p].matters);
            let outcome = outcome::compare(realised, predicted, any_matters, !without_curve.is_empty());
            let [before, after] = [b, a].map(|v| v.map(|v| v.without_replicates()));
            PointDiff { name, kind, before, after, realised, predicted, without_curve, outcome }
        })
        .collect();
    lines.sort_by(|a, b| b.before.share.total_cmp(&a.before.share));
    let mut appeared: Vec<Appeared> = matched
        .appeared()
        .map(|(j, replaces)| {
            let place = after.places[j].clone();
            let mut curves = after.estimate.lines.iter().filter(|line| line.location == place.location);
            let matters = replaces || !curves.any(|line| line.verdict == Verdict::Flat);
            Appeared { place, replaces, matters }
        })
        .collect();
    appeared.sort_by(|a, b| b.place.share.total_cmp(&a.place.share));
    Diff { points, lines, appeared, notes: notes(before.profile, after.profile) }
}

/// A line against a point in one of the profiles.
fn curve_of<'a>(side: &Side<'a>, place: &Place, point: &str) -> Option<&'a Line> {
    side.estimate.lines.iter().find(|line| line.location == place.location && line.point == point)
}

/// `now`: the line in the profile after; `per_visit`: what a visit costs before.
fn line_at(
    line: Option<&Line>,
    now: Option<&Line>,
    time: Option<OwnTime>,
    place: &Place,
    per_visit: f64,
) -> LineAt {
    let verdict = line.map_or(Verdict::Undecided, |line| line.verdict);
    let is_idle = matches!(verdict, Verdict::Flat | Verdict::Undecided);
    let changed = time.is_some_and(|time| time.is_change(is_idle)) && place.share >= SMALL / 2.0;
    let curve = line.map(|line| line.summary.clone()).unwrap_or_default();
    let predicted = time.filter(|_| changed).and_then(|time| {
        let predicted = predict::at(&curve, time.less)?;
        Some(predict::bounded(predicted, verdict, (time.before - time.after) / per_visit))
    });
    let verdict_after = now.map(|line| line.verdict);
    let is_worth =
        |verdict: Option<Verdict>| matches!(verdict, Some(Verdict::Optimize | Verdict::Contention));
    let may_be_worth = match predicted {
        Some(Estimated { value, low, high }) => {
            let is_sure = low.zip(high).is_some_and(|(low, high)| low > 0.0 || high < 0.0);
            verdict != Verdict::Flat && value.abs() >= SMALL && is_sure
        }
        // Nobody knows: then what it takes less of a visit's time decides.
        None => time.is_some_and(|time| (time.before - time.after).abs() > SMALL * per_visit),
    };
    let matters = changed && (is_worth(Some(verdict)) || is_worth(verdict_after) || may_be_worth);
    LineAt { time, changed, predicted, verdict, curve, verdict_after, matters }
}

/// What tells the two runs apart, besides the change.
fn notes(before: &Profile, after: &Profile) -> Vec<String> {
    let mut notes = Vec::new();
    let [a, b] = [&before.startup, &after.startup];
    let name =
        |points: Vec<(String, PointKind)>| points.into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    let (mine, theirs) = (name(before.points()), name(after.points()));
    let only = |of: &[String], others: &[String]| -> Vec<String> {
        of.iter().filter(|name| !others.contains(name)).map(|name| format!("`{name}`")).collect()
    };
    for (which, only) in [("before", only(&mine, &theirs)), ("after", only(&theirs, &mine))] {
        if !only.is_empty() {
            notes.push(format!("only the profile {which} has {}: it is not compared", only.join(", ")));
        }
    }
    if a.program.get(1..) != b.program.get(1..) {
        let words = |program: &[String]| program.get(1..).unwrap_or_default().join(" ");
        notes.push(format!(
            "the programs were run with different arguments (`{}` and `{}`): what differs may be the work, not the program",
            words(&a.program),
            words(&b.program)
        ));
    }
    if a.kernel != b.kernel {
        notes.push(format!("the kernels differ ({} and {})", a.kernel, b.kernel));
    }
    if a.attribution != b.attribution || a.granularity != b.granularity {
        notes.push("samples were attributed in different ways (--granularity, --inclusive): lines cannot be compared".into());
    }
    notes
}

#[cfg(test)]
mod tests;
