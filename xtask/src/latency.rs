//! How near the predictions of latencies come: mean, median and 99th percentile under a really shortened line.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::programs::Program;
use crate::sh;
use crate::truth::LEVELS;

/// The program with the queue, and the function whose calls are timed.
const PROGRAM: &str = "requests";
const POINT: &str = "ask";
/// What is compared.
const FIGURES: [&str; 3] = ["mean", "p50", "p99"];

/// How long, and where to.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Length of each shortened run, seconds
    #[arg(long, value_name = "SECS", default_value_t = 8.0)]
    run_seconds: f64,
    /// Length of the profile, seconds
    #[arg(long, value_name = "SECS", default_value_t = 30.0)]
    profile_seconds: f64,
    /// Write the table to this file, in Markdown
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Keep the profile here
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
}

/// Mean, median and 99th percentile, microseconds.
type Latencies = [f64; 3];

/// Measures, prints the table.
///
/// # Errors
/// When something cannot be built or run, or says what cannot be understood.
pub fn run(options: &Options) -> Result<()> {
    let profiler = crate::profiler(true)?;
    let program = Program::build(PROGRAM)?;
    let truth = |shrink: u32| -> Result<Latencies> {
        let mut command = program.command(&program.path);
        command.args(["--shrink", &shrink.to_string(), "--seconds", &options.run_seconds.to_string()]);
        latencies(&sh::output(&mut command)?)
    };
    let original = truth(0)?;
    let shortened = LEVELS.iter().map(|&level| truth(level)).collect::<Result<Vec<_>>>()?;
    let folder = tempfile::tempdir()?;
    let profile = options.profile.clone().unwrap_or_else(|| folder.path().join("profile.jsonl"));
    let mut command = program.command(&profiler);
    command.args(["run", "-q", "-L", POINT, "--fixed-line", &program.marked("line")?]);
    command.args(["--speedups", "25,50,75,100", "-o"]).arg(&profile).arg("--").arg(&program.path);
    sh::output(command.args(["--seconds", &options.profile_seconds.to_string()]))?;
    let mut command = program.command(&profiler);
    let report: Value = serde_json::from_str(&sh::output(command.args(["report", "--json"]).arg(&profile))?)?;
    let text = table(&report, &original, &shortened)?;
    print!("{text}");
    if let Some(path) = &options.markdown {
        fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// The program's own figures: `latency mean M p50 M p99 M us`.
fn latencies(output: &str) -> Result<Latencies> {
    let line = output.lines().find(|line| line.starts_with("latency ")).unwrap_or_default();
    let words: Vec<&str> = line.split(' ').collect();
    let [_, "mean", mean, "p50", median, "p99", tail, "us"] = words[..] else {
        bail!("no latencies in what the program said: {output}")
    };
    Ok([mean.parse()?, median.parse()?, tail.parse()?])
}

fn table(report: &Value, original: &Latencies, shortened: &[Latencies]) -> Result<String> {
    let line = report["lines"].as_array().and_then(|lines| lines.first()).context("no line in the report")?;
    let point = &report["points"][0]["latency"];
    let mut text =
        String::from("| of | shortened by | truth | predicted, with its 95 % interval | off by |\n");
    text += "| --- | --- | --- | --- | --- |\n";
    let mut errors = Vec::new();
    for (i, figure) in FIGURES.iter().enumerate() {
        let summary = match i {
            0 => Some(&line["summary"]),
            _ => line["quantiles"].get(i - 1).map(|quantile| &quantile["summary"]),
        };
        for (&level, real) in LEVELS.iter().zip(shortened) {
            let truth = 100.0 * (1.0 - real[i] / original[i]);
            let entries = summary.and_then(Value::as_array).into_iter().flatten();
            let wanted = f64::from(level) / 100.0;
            let found = entries.into_iter().find(|entry| {
                entry["speedup"].as_f64().is_some_and(|speedup| (speedup - wanted).abs() < 1e-6)
            });
            let percent = |key: &str| found.and_then(|entry| Some(100.0 * entry[key].as_f64()?));
            let words = match (percent("effect"), percent("low"), percent("high")) {
                (Some(effect), Some(low), Some(high)) => {
                    errors.push((effect - truth).abs());
                    format!("{effect:.0} ({low:.0} to {high:.0}) | {:+.0}", effect - truth)
                }
                (Some(effect), ..) => format!("{effect:.0} | {:+.0}", effect - truth),
                _ => "unknown | ".to_owned(),
            };
            text += &format!("| {figure} | {level} % | {truth:.0} | {words} |\n");
        }
    }
    let mean = errors.iter().sum::<f64>() / errors.len().max(1) as f64;
    let ms = |key: &str| point[key].as_f64().unwrap_or(f64::NAN) / 1e6;
    text += &format!(
        "\nMean absolute error {mean:.1} points. Without any change: mean {:.2} ms, median {:.2}, 99th percentile {:.2}, as a \
         client sees them; in the profile's baselines {:.2}, {:.2}, {:.2}, and {:.2} by Little's law.\n",
        original[0] / 1e3,
        original[1] / 1e3,
        original[2] / 1e3,
        ms("mean_ns"),
        ms("p50_ns"),
        ms("p99_ns"),
        ms("little_ns"),
    );
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_own_figures_are_read() {
        let found =
            latencies("latency mean 830 p50 499 p99 4721 us\nrounds 10 ns 1000\n").expect("that is its form");
        assert_eq!(found, [830.0, 499.0, 4721.0]);
        assert!(latencies("rounds 10 ns 1000\n").is_err());
    }

    #[test]
    fn truth_and_prediction_stand_beside_each_other() {
        let level = serde_json::json!({"speedup": 0.25, "effect": 0.2, "low": 0.1, "high": 0.3});
        let report = serde_json::json!({
            "points": [{"latency": {"mean_ns": 1e6, "p50_ns": 1e6, "p99_ns": 4e6, "little_ns": 1e6}}],
            "lines": [{"summary": [level], "quantiles": []}],
        });
        let text = table(&report, &[1000.0; 3], &[[750.0; 3]; 4]).expect("it is complete");
        assert!(text.contains("| mean | 25 % | 25 | 20 (10 to 30) | -5 |"), "{text}");
        assert!(text.contains("| p99 | 100 % | 25 | unknown |  |"), "{text}");
    }
}
