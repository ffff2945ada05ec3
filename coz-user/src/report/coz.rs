//! The text form of older coz: a record a line, fields separated by tabs. Only what counts is written, as coz
//! itself writes nothing else.

use super::names::clean;
use crate::experiment::record::{PointDelta, Profile};
use std::fmt::Write as _;

/// A speedup with at least the two decimals that coz writes.
fn speedup(value: f64) -> String {
    let short = format!("{value}");
    match short.split_once('.') {
        Some((_, decimals)) if decimals.len() > 2 => short,
        _ => format!("{value:.2}"),
    }
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
                    writeln!(out, "throughput-point\tname={name}\tdelta={}", p.delta)?;
                }
                PointDelta::LatencyPoint(p) => writeln!(
                    out,
                    "latency-point\tname={name}\tarrivals={}\tdepartures={}\tdifference={}",
                    p.arrivals, p.departures, p.difference
                )?,
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
