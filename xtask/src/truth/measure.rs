//! One program: short runs with the line really shortened, all levels in turn, half of them before and half
//! after a profile of the original.

use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::{LEVELS, Row, stats::Spread};
use crate::programs::{PROGRESS, Program};
use crate::sh;

/// How long and how often.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Runs of each level; even.
    pub repeats: usize,
    /// Length of each of them, seconds.
    pub run_seconds: f64,
    /// Length of the profile, seconds.
    pub profile_seconds: f64,
}

impl Plan {
    /// For a figure that is to be published.
    pub const FULL: Self = Self { repeats: 8, run_seconds: 1.5, profile_seconds: 60.0 };
    /// For the tests.
    pub const QUICK: Self = Self { repeats: 4, run_seconds: 0.7, profile_seconds: 20.0 };

    /// How long all of it takes, seconds.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.profile_seconds + self.repeats as f64 * self.run_seconds * (LEVELS.len() + 1) as f64
    }
}

/// Measures truth and prediction of the line marked `// COZ: line` at every level. The profile stays in `profile`.
///
/// # Errors
/// When the program or the profiler fails, or what they write cannot be understood.
pub fn measure(program: &Program, profiler: &Path, plan: &Plan, profile: &Path) -> Result<Vec<Row>> {
    let mut gains = vec![Vec::new(); LEVELS.len()];
    shortened(program, plan, &mut gains)?;
    let line = program.marked("line")?;
    let report = report(program, profiler, &line, plan, profile)?;
    shortened(program, plan, &mut gains)?;
    let row = |(&level, gains): (&u32, &Vec<f64>)| {
        let truth = Spread::of(gains).context("no run")?;
        Ok(Row { program: program.name.clone(), level, truth, prediction: prediction(&report, &line, level) })
    };
    LEVELS.iter().zip(&gains).map(row).collect()
}

/// Half of the runs: at each repetition a baseline, every level, and a second baseline that is the next one's first,
/// so that each level is compared with what was measured on both sides of it.
fn shortened(program: &Program, plan: &Plan, gains: &mut [Vec<f64>]) -> Result<()> {
    let mut before = program.run(0, plan.run_seconds)?.round_ns();
    for _ in 0..plan.repeats / 2 {
        let runs = LEVELS.iter().map(|&level| Ok(program.run(level, plan.run_seconds)?.round_ns()));
        let runs = runs.collect::<Result<Vec<_>>>()?;
        let after = program.run(0, plan.run_seconds)?.round_ns();
        let baseline = f64::midpoint(before, after);
        for (gains, run) in gains.iter_mut().zip(runs) {
            gains.push(100.0 * (1.0 - run / baseline));
        }
        before = after;
    }
    Ok(())
}

fn report(program: &Program, profiler: &Path, line: &str, plan: &Plan, profile: &Path) -> Result<Value> {
    let mut command = program.command(profiler);
    command.args(["run", "-q", "-P", PROGRESS, "--fixed-line", line, "--speedups", "0,25,50,75,100", "-o"]);
    command.arg(profile).arg("--").arg(&program.path).args(["--seconds", &plan.profile_seconds.to_string()]);
    sh::output(&mut command)?;
    let mut command = program.command(profiler);
    command.arg("report").arg("--json").arg(profile);
    let text = sh::output(&mut command)?;
    serde_json::from_str(&text).with_context(|| format!("`{}` printed no JSON", sh::shown(&command)))
}

/// The effect of the line at this level, with its interval, in percent.
fn prediction(report: &Value, line: &str, level: u32) -> Option<Spread> {
    let of_line = |entry: &&Value| {
        let location = entry["location"].as_str().unwrap_or_default();
        location == line || location.ends_with(&format!("/{line}"))
    };
    let entry = report["lines"].as_array()?.iter().find(of_line)?;
    let at_level = |point: &&Value| {
        let speedup = point["speedup"].as_f64().unwrap_or(f64::NAN);
        (speedup * 100.0 - f64::from(level)).abs() < 0.5
    };
    let point = entry["curve"].as_array()?.iter().find(at_level)?;
    let percent = |key: &str| point[key].as_f64().map(|fraction| 100.0 * fraction);
    let median = percent("effect")?;
    Some(Spread { median, low: percent("low").unwrap_or(median), high: percent("high").unwrap_or(median) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prediction_is_that_of_the_line_and_the_level() {
        let report: Value = serde_json::from_str(
            r#"{"lines":[
                {"location":"/x/other.c:7","curve":[{"speedup":0.5,"effect":0.9,"low":0.8,"high":1.0}]},
                {"location":"/x/a.c:7","curve":[{"speedup":0.25,"effect":0.1,"low":0.0,"high":0.2},
                                                {"speedup":0.5,"effect":0.25,"low":0.2,"high":0.3}]}]}"#,
        )
        .expect("valid");
        let found = prediction(&report, "a.c:7", 50).expect("it is there");
        assert!((found.median - 25.0).abs() < 1e-9 && (found.high - 30.0).abs() < 1e-9);
        assert_eq!(prediction(&report, "a.c:7", 75), None);
        assert_eq!(prediction(&report, "r.c:7", 50), None, "a file's name is matched whole");
    }
}
