//! What a profiler predicts on the original alone: ours, or Debian's coz.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{LEVELS, Plan, noise, stats::Spread};
use crate::programs::{PROGRESS, Program};
use crate::sh;

/// What the profile of the original says.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Prediction {
    /// For each level, the effect in percent with its 95 % interval; `None` where the profile says nothing.
    pub levels: Vec<Option<Spread>>,
    /// The part of the report about its own health.
    pub health: Value,
    /// What the measured effects were multiplied with to correct for phases.
    pub phase_factor: Option<f64>,
    /// Experiments on the line.
    pub experiments: u64,
    /// What was disturbed and repeated; why there is no answer.
    pub notes: Vec<String>,
}

impl Prediction {
    /// Profiles the program with our profiler; the profile stays in `profile`.
    ///
    /// # Errors
    /// When the program or the profiler fails, or what they write cannot be understood.
    pub fn ours(program: &Program, profiler: &Path, plan: &Plan, profile: &Path) -> Result<Self> {
        let line = program.marked("line")?;
        let mut notes = Vec::new();
        let what = format!("profile of {}", program.name);
        noise::undisturbed(&what, plan.tries, &mut notes, || {
            remove(profile)?;
            let mut command = program.command(profiler);
            command.args(["run", "-q", "-P", PROGRESS, "--fixed-line", &line]);
            command.args(["--speedups", "0,25,50,75,100", "-o"]).arg(profile).arg("--").arg(&program.path);
            sh::output(command.args(["--seconds", &plan.profile_seconds.to_string()]))
        })?;
        let report = report(profiler, profile)?;
        Ok(Self { notes, ..Self::read(&report, &line, "curve") })
    }

    /// Profiles the program, which must have been built with debug information of DWARF 3, with Debian's coz. Its
    /// experiments go through our own estimate, since coz has none and no interval: the effect at each level is
    /// that of the curve fitted through all its speedups, which cannot be restricted to some.
    ///
    /// # Errors
    /// When it is not installed, fails, or does not end.
    pub fn of_coz(program: &Program, profiler: &Path, plan: &Plan, profile: &Path) -> Result<Self> {
        ensure!(sh::find("coz").is_some(), "coz is missing: apt-get install -y coz-profiler");
        let line = program.marked("line")?;
        let mut notes = Vec::new();
        let what = format!("coz's profile of {}", program.name);
        noise::undisturbed(&what, plan.tries, &mut notes, || {
            remove(profile)?;
            let mut command = program.command(Path::new("timeout"));
            command.args(["--kill-after=5", &format!("{:.0}", plan.profile_seconds + 20.0), "coz", "run"]);
            command.args(["--fixed-line", &line, "-o"]).arg(profile).arg("---").arg(&program.path);
            sh::output(command.args(["--seconds", &plan.profile_seconds.to_string()]))
        })?;
        let report = report(profiler, profile)?;
        let mut prediction = Self { notes, ..Self::read(&report, &line, "summary") };
        if prediction.samples(&report, &line) == 0 {
            prediction.levels = vec![None; LEVELS.len()];
            prediction.notes.push("coz has no sample of the line: it cannot read where it is".to_owned());
        }
        Ok(prediction)
    }

    fn read(report: &Value, line: &str, curve: &str) -> Self {
        let entry = entry(report, line);
        let levels = LEVELS.iter().map(|&level| spread(&entry?[curve], level)).collect();
        Self {
            levels,
            health: report["health"].clone(),
            phase_factor: entry.and_then(|entry| entry["phase_factor"].as_f64()),
            experiments: entry.and_then(|entry| entry["experiments"].as_u64()).unwrap_or(0),
            notes: Vec::new(),
        }
    }

    fn samples(&self, report: &Value, line: &str) -> u64 {
        entry(report, line).and_then(|entry| entry["samples"].as_u64()).unwrap_or(0)
    }

    /// Whether the report says that its answer is not to be trusted.
    #[must_use]
    pub fn refuses(&self) -> bool {
        let warnings = self.health["warnings"].as_array().into_iter().flatten();
        warnings.filter_map(Value::as_str).any(|warning| warning.contains("not to be trusted"))
    }
}

fn remove(profile: &Path) -> Result<()> {
    match fs::remove_file(profile) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", profile.display()))
        }
        _ => Ok(()),
    }
}

fn report(profiler: &Path, profile: &Path) -> Result<Value> {
    let mut command = Command::new(profiler);
    command.arg("report").arg("--json").arg(profile);
    let text = sh::output(&mut command)?;
    serde_json::from_str(&text).with_context(|| format!("`{}` printed no JSON", sh::shown(&command)))
}

fn entry<'a>(report: &'a Value, line: &str) -> Option<&'a Value> {
    let of_line = |entry: &&Value| {
        let location = entry["location"].as_str().unwrap_or_default();
        location == line || location.ends_with(&format!("/{line}"))
    };
    report["lines"].as_array()?.iter().find(of_line)
}

/// The effect at this level, with its interval, in percent.
fn spread(curve: &Value, level: u32) -> Option<Spread> {
    let at_level = |point: &&Value| {
        let speedup = point["speedup"].as_f64().unwrap_or(f64::NAN);
        (speedup * 100.0 - f64::from(level)).abs() < 0.5
    };
    let point = curve.as_array()?.iter().find(at_level)?;
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
            r#"{"health":{"warnings":["the effects are not to be trusted"]},"lines":[
                {"location":"/x/other.c:7","curve":[{"speedup":0.5,"effect":0.9,"low":0.8,"high":1.0}]},
                {"location":"/x/a.c:7","curve":[{"speedup":0.25,"effect":0.1,"low":0.0,"high":0.2},
                                                {"speedup":0.5,"effect":0.25,"low":0.2,"high":0.3}]}]}"#,
        )
        .expect("valid");
        let found = Prediction::read(&report, "a.c:7", "curve");
        let half = found.levels[1].expect("it is there");
        assert!((half.median - 25.0).abs() < 1e-9 && (half.high - 30.0).abs() < 1e-9);
        assert_eq!(found.levels[2], None);
        assert!(found.refuses());
        let other = Prediction::read(&report, "r.c:7", "curve");
        assert!(other.levels.iter().all(Option::is_none), "a file's name is matched whole");
    }
}
