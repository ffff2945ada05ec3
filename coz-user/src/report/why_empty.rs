//! What to say when there is no curve to show.

use crate::{
    estimate::{Estimate, Hidden},
    experiment::record::{Profile, Why},
};
use std::fmt::Write as _;

/// Why no line is shown, and what to do; `None` when some are.
#[must_use]
pub fn explain(profile: &Profile, estimate: &Estimate, shows_hidden: bool) -> Option<String> {
    if estimate.lines.iter().any(|l| l.hidden.is_none() || (shows_hidden && !l.curve.is_empty())) {
        return None;
    }
    let discarded: usize = estimate.discarded.values().sum();
    let in_scope = estimate.samples.iter().any(|s| s.samples.count > 0);
    Some(if estimate.counted == 0 && discarded > 0 {
        all_discarded(estimate, discarded)
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
    } else if estimate.counted > 0 {
        too_few(estimate)
    } else if !in_scope && profile.runtime.is_some() {
        "No sample fell into code that may be selected. Was the program built with debug information (-g), and \
         are its sources in scope? --scope-source and --scope-binary widen it; `coz-bpf doctor PROGRAM` tells more."
            .into()
    } else if profile.points().is_empty() && profile.runtime.is_some() {
        "There was no progress point, so no experiment could be made. Name what the program is there for with \
         --progress (`coz-bpf points PROGRAM` lists what can serve), or use --end-to-end. Below is where the time \
         goes; it does not tell what would make the program faster."
            .into()
    } else {
        let after = profile
            .runtime
            .as_ref()
            .map_or_else(String::new, |r| format!(" after {:.1} s", r.time as f64 / 1e9));
        format!(
            "The program ended{after}, before the first experiment did. Give it more to do, or profile many \
             short runs with --end-to-end."
        )
    })
}

fn all_discarded(estimate: &Estimate, discarded: usize) -> String {
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
        Some(Why::Truncated | Why::Interrupted) => {
            "\nGive the program more to do, or shorten the experiments."
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

fn too_few(estimate: &Estimate) -> String {
    let lines = estimate.lines.len();
    let baseless = estimate.lines.iter().filter(|l| l.hidden == Some(Hidden::NoBaseline)).count();
    format!(
        "Not enough data yet: {} experiments on {lines} lines; {baseless} lines have no baseline, {} too few \
         different speedups. Run longer, narrow the scope with --scope-source, or see what there is with --all.",
        estimate.counted,
        lines - baseless,
    )
}
