//! What to say when there is no curve to show.

use crate::{
    estimate::{Estimate, Hidden},
    experiment::record::{END_TO_END, Profile, Why},
};
use std::fmt::Write as _;

/// A program that ends within this time, nanoseconds, is told to have been too short, whatever else was missing.
const SHORT: u64 = 500_000_000;

/// A program that ends within so many seconds is not told to run longer: whoever profiles it cannot.
const BRIEF: f64 = 15.0;

/// Why no line is shown, and what to do; `None` when some are.
#[must_use]
pub fn explain(profile: &Profile, estimate: &Estimate, shows_hidden: bool) -> Option<String> {
    if estimate.lines.iter().any(|l| l.hidden.is_none() || (shows_hidden && !l.curve.is_empty())) {
        return None;
    }
    let discarded: usize = estimate.discarded.values().sum();
    let in_scope = estimate.samples.iter().any(|s| s.samples.count > 0);
    let took = profile.runtime.as_ref().map(|runtime| runtime.time);
    let whole = is_without_points(profile);
    let attached = profile.startup.attached;
    Some(if !in_scope && took.is_some_and(|took| took >= SHORT) {
        "No sample fell into code that may be selected. Was the program built with debug information (-g), and \
         are its sources in scope? --scope-source and --scope-binary widen it; `coz-bpf doctor PROGRAM` tells more."
            .into()
    } else if whole && in_scope {
        without_points(profile)
    } else if attached && estimate.counted == 0 && discarded == 0 {
        "No experiment was made: nobody could be delayed, or not in time. The notes below say who and why. What was counted \
         tells where the time goes, not what would make the programs faster."
            .into()
    } else if whole {
        ended_early(took)
    } else if estimate.counted == 0 && discarded > 0 {
        all_discarded(estimate, discarded, profile)
    } else if estimate.counted > 0 && estimate.points.is_empty() {
        "No experiment had a progress point. Name what the program is there for with --progress (`coz-bpf points \
         PROGRAM` lists what can serve)."
            .into()
    } else if estimate.counted > 0 && estimate.points.iter().all(|p| p.visits == 0) {
        let names: Vec<String> =
            estimate.points.iter().map(|p| format!("`{}`", super::names::clean(&p.name))).collect();
        format!(
            "No progress point was visited ({}). Name one that the program passes often with --progress (`coz-bpf \
             points PROGRAM` lists what can serve).",
            names.join(", ")
        )
    } else if !estimate.latencies.is_empty()
        && estimate.points.iter().all(|p| is_too_short(estimate, &p.name))
    {
        "No line has a curve, for what was timed is over too soon to be timed. Name something that takes longer with --latency, or \
         a progress point with --progress."
            .into()
    } else if estimate.counted > 0 {
        too_few(estimate, took.filter(|_| !attached && !profile.startup.end_to_end))
    } else {
        ended_early(took)
    })
}

fn ended_early(took: Option<u64>) -> String {
    let after = took.map_or_else(String::new, |took| format!(" after {:.1} s", took as f64 / 1e9));
    format!(
        "The program ended{after}, before the first experiment did. Give it more to do, or profile many short runs \
         with --end-to-end."
    )
}

/// Whether the program has no progress point at all: the run as a whole is all that there is to tell of.
#[must_use]
pub fn is_without_points(profile: &Profile) -> bool {
    profile.runtime.is_some()
        && !profile.startup.end_to_end
        && profile.points().iter().all(|(name, _)| name == END_TO_END)
}

fn without_points(profile: &Profile) -> String {
    if profile.startup.attached {
        return "There was no progress point, so no experiment was made, nothing was put into the programs, and nothing was \
                delayed. Name what they are there for with --progress (`coz-bpf points PROGRAM` lists what can serve). \
                Below is where the time goes; it does not tell what would make the programs faster."
            .into();
    }
    let took = profile.runtime.as_ref().map_or(0, |runtime| runtime.time) as f64 / 1e9;
    format!(
        "There was no progress point, so no experiment could be made: the run counts as one whole, end to end, of \
         {took:.1} s. Name what the program is there for with --progress (`coz-bpf points PROGRAM` lists what can serve), \
         or use --end-to-end, which runs the program again and again. Below is where the time goes; it does not tell what would make the program faster."
    )
}

fn all_discarded(estimate: &Estimate, discarded: usize, profile: &Profile) -> String {
    let whole_runs = profile.startup.end_to_end;
    let mut text = match discarded {
        1 => "The only experiment does not count:".to_owned(),
        _ => format!("None of the {discarded} experiments counts:"),
    };
    for (why, n) in &estimate.discarded {
        // Writing to a String cannot fail.
        let _ = write!(text, "\n  {n:>5}  {why}");
    }
    let most = estimate.discarded.iter().max_by_key(|(_, n)| **n).map(|(why, _)| *why);
    text.push_str(match most {
        Some(Why::Truncated | Why::Interrupted) if whole_runs => {
            "\nA run counts if the program ends by itself, with exit code 0."
        }
        Some(Why::Truncated | Why::Interrupted) => {
            "\nGive the program more to do, or profile many short runs with --end-to-end."
        }
        Some(Why::NoVisits) if are_never_reached(profile) => {
            "\nNo progress point was reached in the whole run: this code is not executed, or was inlined elsewhere. Name \
             another one (`coz-bpf points --run PROGRAM` suggests some)."
        }
        Some(Why::NoVisits) => "\nName a progress point that is visited more often, or run longer.",
        Some(Why::LostSamples) => "\nA lower --rate helps.",
        Some(Why::Unpaid) => {
            "\nThe threads that make progress hardly use a CPU; a progress point in busier threads helps."
        }
        _ => "\nRun longer.",
    });
    text
}

/// Whether the whole run has passed no progress point.
fn are_never_reached(profile: &Profile) -> bool {
    let points = profile.runtime.as_ref().map(|runtime| &runtime.health.points[..]).unwrap_or_default();
    !points.is_empty() && points.iter().all(|point| point.visits == 0)
}

fn is_too_short(estimate: &Estimate, point: &str) -> bool {
    estimate.latencies.iter().any(|facts| facts.name == point && facts.is_too_short())
}

/// `took`: how long the program ran, nanoseconds, where it ended by itself.
fn too_few(estimate: &Estimate, took: Option<u64>) -> String {
    let lines = estimate.lines.len();
    let baseless = estimate.lines.iter().filter(|l| l.hidden == Some(Hidden::NoBaseline)).count();
    let counted = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    let mut gaps = Vec::new();
    if baseless > 0 {
        gaps.push(format!("{} without a baseline", counted(baseless, "line")));
    }
    if lines > baseless {
        gaps.push(format!("{} with too few different speedups", counted(lines - baseless, "line")));
    }
    let longer = match took.map(|took| took as f64 / 1e9) {
        Some(seconds) if seconds < BRIEF => format!(
            "The program ended after {seconds:.1} s: give it more to do, half a minute of it, or use --end-to-end, which runs it \
             again and again. --all shows what there is."
        ),
        _ => "Run longer, narrow the scope with --scope-source, or see what there is with --all.".to_owned(),
    };
    let gaps = if gaps.is_empty() { String::new() } else { format!("; {}", gaps.join(", ")) };
    format!("Not enough data yet: {}{gaps}. {longer}", counted(estimate.counted, "experiment"))
}
