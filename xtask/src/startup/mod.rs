//! How long a program with much debug information takes to begin under the profiler, and what the profiler needs for it.

mod memory;
mod program;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use comfy_table::Table;

use crate::sh;
use crate::truth::Spread;
use memory::Watch;
use program::Large;

/// The program's first instruction of its own may come so much later than in a plain run, milliseconds.
const LATER_MS: f64 = 20.0;
/// The first experiment is to begin so soon after the program's release, milliseconds.
const FIRST_MS: f64 = 2000.0;
/// The profiler's memory at its peak, megabytes.
const MEMORY_MB: f64 = 300.0;

/// `coz-bpf points` answers within, milliseconds.
const POINTS_MS: f64 = 2000.0;

/// How large, how often.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Debug information of the program, megabytes
    #[arg(long, default_value_t = 200)]
    megabytes: usize,
    /// Runs of each kind, in turn
    #[arg(long, default_value_t = 5)]
    runs: u32,
    /// Length of each run, seconds
    #[arg(long, default_value_t = 4.0)]
    seconds: f64,
    /// Only build the program
    #[arg(long)]
    build: bool,
}

/// A kind of run under the profiler.
struct Kind {
    about: &'static str,
    options: Vec<String>,
    reached: Vec<f64>,
    later: Vec<f64>,
    first: Vec<f64>,
    memory: Vec<f64>,
    private: Vec<f64>,
}

/// Measures, prints the table.
///
/// # Errors
/// When something cannot be built or run, or a goal is missed.
pub fn run(options: &Options) -> Result<()> {
    ensure!(options.build || sh::is_root(), "profiling takes root");
    let large = Large::build(&sh::target_dir().join("large"), options.megabytes)?;
    if options.build {
        return Ok(());
    }
    let profiler = crate::profiler(true)?;
    let kind = |about, options: &[&str]| Kind {
        about,
        options: options.iter().map(|&option| option.to_owned()).collect(),
        reached: Vec::new(),
        later: Vec::new(),
        first: Vec::new(),
        memory: Vec::new(),
        private: Vec::new(),
    };
    let mut kinds = [
        kind("a function as the point", &["-P", "progress"]),
        kind("a line as the point", &["-P", &large.line]),
        kind("functions instead of lines", &["-P", "progress", "--granularity", "function"]),
    ];
    let (mut plain, mut listed) = (Vec::new(), Vec::new());
    for _ in 0..options.runs {
        for kind in &mut kinds {
            let alone = measure(Command::new(&large.path), options.seconds)?;
            plain.push(alone.reached);
            kind.measure(&large, &profiler, options.seconds, alone.reached)?;
        }
        listed.push(points(&large, &profiler)?);
    }
    let plain = Spread::of(&plain).context("no run was asked for")?;
    println!(
        "{} MB of debug information; plain runs reach main after {:.1} ms ({:.1}..{:.1})\n",
        large.debug_bytes / 1_000_000,
        plain.median,
        plain.low,
        plain.high
    );
    let mut table = Table::new();
    table.load_preset(comfy_table::presets::ASCII_MARKDOWN);
    table.set_header([
        "run",
        "main, ms from the command",
        "from the release, over plain",
        "first experiment, ms",
        "memory, MB",
        "of it private",
    ]);
    let listed = Spread::of(&listed).context("no run was asked for")?;
    println!(
        "`points` with a filter answers after {:.0} ms ({:.0}..{:.0})\n",
        listed.median, listed.low, listed.high
    );
    let mut missed = Vec::new();
    if listed.median > POINTS_MS {
        missed.push(format!("points: {:.0} ms for a list of points", listed.median));
    }
    for kind in &kinds {
        table.add_row(kind.row()?);
        missed.extend(kind.missed()?);
    }
    println!("{table}\n");
    for (limit, text) in [
        (LATER_MS, "ms from release to main over plain"),
        (FIRST_MS, "ms to the first experiment"),
        (MEMORY_MB, "MB of memory"),
        (POINTS_MS, "ms for a list of points"),
    ] {
        let of_this: Vec<_> = missed.iter().filter(|miss: &&String| miss.contains(text)).collect();
        let verdict = if of_this.is_empty() { "held" } else { "missed" };
        println!("goal: at most {limit:.0} {text}: {verdict}");
    }
    ensure!(missed.is_empty(), "goals missed: {}", missed.join("; "));
    Ok(())
}

/// How long `coz-bpf points` takes to find the functions of a name, milliseconds.
fn points(large: &Large, profiler: &Path) -> Result<f64> {
    let start = Instant::now();
    let listed = sh::output(Command::new(profiler).arg("points").arg(&large.path).arg("progress"))?;
    let took = start.elapsed();
    ensure!(listed.contains("progress"), "`points` does not know of `progress`:\n{listed}");
    Ok(took.as_secs_f64() * 1e3)
}

impl Kind {
    fn measure(&mut self, large: &Large, profiler: &Path, seconds: f64, alone: f64) -> Result<()> {
        let profile = sh::target_dir().join("startup.jsonl");
        let _ = fs::remove_file(&profile);
        let mut command = Command::new(profiler);
        command.args(["run", "-q"]).args(&self.options).arg("-o").arg(&profile).arg("--").arg(&large.path);
        let run = measure(command, seconds)?;
        let times = Times::read(&profile)?;
        self.reached.push(run.reached);
        self.later.push(run.reached - times.startup - alone);
        self.first.push(times.first.unwrap_or(f64::INFINITY));
        self.memory.push(run.watch.peak_kb as f64 / 1e3);
        self.private.push(run.watch.private_kb as f64 / 1e3);
        Ok(())
    }

    fn row(&self) -> Result<Vec<String>> {
        let shown = |figures: &[f64]| -> Result<String> {
            let spread = Spread::of(figures).context("no run was asked for")?;
            Ok(format!("{:.0} ({:.0}..{:.0})", spread.median, spread.low, spread.high))
        };
        let columns = [&self.reached, &self.later, &self.first, &self.memory, &self.private];
        let mut row = vec![self.about.to_owned()];
        for figures in columns {
            row.push(shown(figures)?);
        }
        Ok(row)
    }

    fn missed(&self) -> Result<Vec<String>> {
        let goals = [
            (&self.later, LATER_MS, "ms from release to main over plain"),
            (&self.first, FIRST_MS, "ms to the first experiment"),
            (&self.memory, MEMORY_MB, "MB of memory"),
        ];
        let mut missed = Vec::new();
        for (figures, limit, text) in goals {
            let median = Spread::of(figures).context("no run was asked for")?.median;
            if median > limit {
                missed.push(format!("{}: {median:.0} {text}", self.about));
            }
        }
        Ok(missed)
    }
}

/// A run, as it is seen from outside.
struct Run {
    /// From the command to `main`, milliseconds.
    reached: f64,
    watch: Watch,
}

/// Runs a command that ends with the program; its first line says when `main` was reached.
fn measure(mut command: Command, seconds: f64) -> Result<Run> {
    let start = monotonic_ns();
    command.arg(seconds.to_string()).stdout(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("cannot start `{}`", sh::shown(&command)))?;
    let output = child.stdout.take().context("its output was to be read")?;
    let watching = memory::watch(child.id());
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line)?;
    let status = child.wait()?;
    let watch = watching.join().unwrap_or_default();
    ensure!(status.success(), "`{}` failed: {status}", sh::shown(&command));
    let main: u64 = line.trim().parse().with_context(|| format!("the program printed {line:?}"))?;
    Ok(Run { reached: main.saturating_sub(start) as f64 / 1e6, watch })
}

/// What the profile says, milliseconds.
struct Times {
    /// Before the program's release.
    startup: f64,
    /// From the release to the first experiment; `None` where there was none.
    first: Option<f64>,
}

impl Times {
    fn read(profile: &PathBuf) -> Result<Self> {
        let text =
            fs::read_to_string(profile).with_context(|| format!("cannot read {}", profile.display()))?;
        Self::parse(&text)
    }

    fn parse(text: &str) -> Result<Self> {
        let (mut startup, mut first) = (None, None);
        for line in text.lines() {
            let record: serde_json::Value = serde_json::from_str(line)?;
            match record["type"].as_str() {
                Some("runtime") => startup = record["startup_ns"].as_u64(),
                Some("experiment") => first = first.or(record["begin"].as_u64()),
                _ => {}
            }
        }
        let startup = startup.context("no `startup_ns` in the profile")? as f64 / 1e6;
        Ok(Self { startup, first: first.map(|begin| begin as f64 / 1e6 - startup) })
    }
}

fn monotonic_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid pointer; the call cannot fail for this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_experiment_counts_from_the_release() {
        let text = "{\"type\":\"startup\"}\n{\"type\":\"experiment\",\"begin\":900000000}\n\
            {\"type\":\"experiment\",\"begin\":1900000000}\n{\"type\":\"runtime\",\"startup_ns\":400000000}\n";
        let times = Times::parse(text).expect("it is a profile");
        assert!((times.startup - 400.0).abs() < 1e-9);
        assert!((times.first.expect("there are two") - 500.0).abs() < 1e-9);
        let none =
            Times::parse("{\"type\":\"runtime\",\"startup_ns\":1}\n").expect("a run without experiments");
        assert_eq!(none.first, None);
        assert!(Times::parse("{\"type\":\"startup\"}\n").is_err(), "a run that did not end");
    }
}
