//! What to beware of, and the end of the report: what it cost.

use super::{Report, blocks::Paint, plural, table::wrapped};
use crate::report::{health, names};
use std::fmt;

/// What makes the figures doubtful: before any of them.
pub(super) fn beware(f: &mut fmt::Formatter<'_>, report: &Report<'_>) -> fmt::Result {
    let warnings = health::warnings(report.profile, report.estimate);
    if !warnings.is_empty() {
        writeln!(f, "\n{}", Paint::Unsure.on("Beware", report.options))?;
        for warning in &warnings {
            writeln!(
                f,
                "  - {}",
                wrapped(&warning.to_string(), "    ", report.options.style.width.saturating_sub(4))
            )?;
        }
    }
    Ok(())
}

pub(super) fn write(f: &mut fmt::Formatter<'_>, report: &Report<'_>) -> fmt::Result {
    let width = report.options.style.width;
    let notices = report.profile.runtime.iter().flat_map(|r| &r.health.notices);
    for (i, notice) in notices.enumerate() {
        if i == 0 {
            writeln!(f, "\n{}", Paint::Bold.on("Note", report.options))?;
        }
        writeln!(f, "  - {}", wrapped(&names::clean(notice), "    ", width.saturating_sub(4)))?;
    }
    if let Some(line) = summary(report) {
        writeln!(f, "\n{}", wrapped(&line, "", width))?;
    }
    Ok(())
}

/// One sentence of figures: samples, delays, discarded experiments.
fn summary(report: &Report<'_>) -> Option<String> {
    let runtime = report.profile.runtime.as_ref()?;
    let health = &runtime.health;
    let mut parts = vec![plural(report.profile.samples_in_all() as usize, "sample")];
    // A single thread owes nobody anything.
    if health.owed_ns > 0 && (health.paid_ns > 0 || health.unpaid_ns > 0) {
        // What was paid says little: most delays are absorbed by waiting.
        let unpaid = 100.0 * health.unpaid_ns as f64 / health.owed_ns as f64;
        parts.push(format!("{unpaid:.1} % of the delays left unpaid"));
    }
    if health.delay_ns > 0 {
        parts.push(format!("delays made the run {:.1} s longer", health.delay_ns as f64 / 1e9));
    }
    if let Some(text) = outside(report) {
        parts.push(text);
    }
    if let Some(part) = report.profile.startup.max_overhead.filter(|_| health.held_back_ns > 0) {
        parts.push(format!(
            "experiments were put off by {:.1} s in all, so that delays and load take no more than {:.0} % of the time",
            health.held_back_ns as f64 / 1e9,
            100.0 * part
        ));
    }
    if let Some((points, enough)) = report.profile.startup.until.zip(health.enough_ns) {
        let seconds = enough as f64 / 1e9;
        parts.push(format!(
            "the first line's effect at 50 % was known to within {points} points after {seconds:.1} s"
        ));
    }
    let discarded: Vec<String> =
        report.estimate.discarded.iter().map(|(why, n)| format!("{n} {why}")).collect();
    if !discarded.is_empty() {
        parts.push(format!("experiments that do not count: {}", discarded.join(", ")));
    }
    Some(parts.join("; ") + ".")
}

/// How much of what the CPUs did was not of the programs that were attached to.
fn outside(report: &Report<'_>) -> Option<String> {
    let health = &report.profile.runtime.as_ref()?.health;
    let all = (health.cpu_ns + health.outside_ns) as f64;
    let share = 100.0 * health.outside_ns as f64 / all;
    (report.profile.startup.attached && all > 0.0)
        .then(|| format!("{share:.0} % of the CPU time was used by others, coz-bpf included"))
}
