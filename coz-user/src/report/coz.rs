//! The text form of older coz: a record a line, fields separated by tabs. Only what counts is written, as coz
//! itself writes nothing else.
//!
//! Coz's viewer draws what a line saves of a latency as a loss, and what it costs as a gain. What it makes of a throughput point is
//! right. So a latency point is written as a throughput point called `NAME (latency)`, with as many visits as such latencies fit into
//! the experiment one after the other: its time per visit is the latency, and the curve is that of the mean latency. What is lost
//! by that, arrivals, departures and their difference, is in the profile itself, which the viewer opens as well.

use super::names::clean;
use crate::experiment::record::{LatencyPoint, PointDelta, PointKind, Profile};
use std::fmt::Write as _;

/// A speedup with at least the two decimals that coz writes.
fn speedup(value: f64) -> String {
    let short = format!("{value}");
    match short.split_once('.') {
        Some((_, decimals)) if decimals.len() > 2 => short,
        _ => format!("{value:.2}"),
    }
}

/// The viewer reads whole numbers: thousandths of a visit are the visits.
const THOUSANDTHS: f64 = 1000.0;

/// How many latencies of the experiment's mean fit into it, in thousandths; `None` where there is no mean.
fn as_visits(point: &LatencyPoint, duration: u64) -> Option<u64> {
    let exposure = duration as f64;
    let measured = point.mean_ns.filter(|mean| mean.is_finite() && point.departures > 0);
    // Little's law, from the mean number under way, or the only one that coz writes down: that at the end.
    let under_way = point.in_system.unwrap_or(point.difference.max(0) as f64);
    let little = || (point.arrivals > 0).then(|| under_way * exposure / point.arrivals as f64);
    let mean = measured.or_else(little).filter(|mean| *mean > 0.0)?;
    Some((THOUSANDTHS * exposure / mean).round().max(1.0) as u64)
}

/// What is to be said when it has been written.
#[must_use]
pub fn remark(profile: &Profile) -> Option<String> {
    profile.points().iter().any(|(_, kind)| *kind == PointKind::Latency).then(|| {
        "latency points stand in it as throughput points, `NAME (latency)`: coz's viewer draws what is saved of a latency as \
         a loss"
            .into()
    })
}

/// The profile in coz's text form.
#[must_use]
pub fn text(profile: &Profile) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write(&mut out, profile);
    out
}

fn write(out: &mut String, profile: &Profile) -> std::fmt::Result {
    writeln!(out, "startup\ttime={}", profile.startup.time)?;
    for recorded in profile.experiments.iter().filter(|r| r.experiment.valid) {
        let e = &recorded.experiment;
        writeln!(
            out,
            "experiment\tselected={}\tspeedup={}\tduration={}\tselected-samples={}",
            clean(&e.selected),
            speedup(e.speedup),
            e.duration,
            e.selected_samples
        )?;
        for point in &recorded.points {
            let name = clean(point.name());
            match point {
                PointDelta::ThroughputPoint(p) => {
                    // coz knows one effective time for all points.
                    let own = p.exposure(e).max(1);
                    let delta = (p.delta as f64 * e.duration as f64 / own as f64).round() as u64;
                    writeln!(out, "throughput-point\tname={name}\tdelta={delta}")?;
                }
                PointDelta::LatencyPoint(p) => {
                    if let Some(delta) = as_visits(p, e.duration) {
                        writeln!(out, "throughput-point\tname={name} (latency)\tdelta={delta}")?;
                    }
                }
            }
        }
    }
    if let Some(runtime) = &profile.runtime {
        writeln!(out, "runtime\ttime={}", runtime.time)?;
    }
    for samples in &profile.samples {
        writeln!(out, "samples\tlocation={}\tcount={}", clean(&samples.location), samples.count)?;
    }
    Ok(())
}
