//! How near the predictions come: the truth is measured by really shortening the line.

mod measure;
mod noise;
mod profile;
mod rows;
pub(crate) mod stats;
pub(crate) mod store;
mod suite;
mod verdict;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use serde_json::json;

pub use measure::{Plan, Truth};
pub use profile::Prediction;
pub use rows::{Answer, Row, table};
pub use stats::Spread;
pub use suite::{SUITE, names};
pub use verdict::Verdict;

use crate::programs::{Debug, Program};
use store::Store;

/// Some programs of the suite, one of each kind: those that the tests use.
pub const CASES: &[&str] = &[
    "single",
    "barrier",
    "pipeline_condvar",
    "pipeline_std",
    "pipeline_futex",
    "cpu_sleep",
    "phased",
    "jobserver",
];
/// By how much the line is made shorter, percent.
pub const LEVELS: &[u32] = &[25, 50, 75, 100];

/// Another profiler to compare with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Peer {
    /// Debian's coz-profiler
    Coz,
}

/// A piece of the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// The shortened runs
    Truth,
    /// Our profile
    Ours,
    /// The peer's profile
    Peer,
    /// Nothing: only what has been kept
    None,
}

/// What to measure, and where to.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Short runs: a rough answer in a quarter of an hour
    #[arg(long)]
    quick: bool,
    /// Measure this profiler too
    #[arg(long, value_enum)]
    peer: Option<Peer>,
    /// Write every figure to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the table to this file, in Markdown
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Keep the profiles and what was measured in this folder
    #[arg(long, value_name = "FOLDER")]
    keep: Option<PathBuf>,
    /// Use what that folder has; measure only what it has not
    #[arg(long, requires = "keep")]
    resume: bool,
    /// Measure only this piece now
    #[arg(long, value_enum, requires = "keep")]
    part: Option<Part>,
    /// Length of each profile, seconds
    #[arg(long, value_name = "SECS")]
    profile_seconds: Option<f64>,
    /// Length of each shortened run, seconds
    #[arg(long, value_name = "SECS")]
    run_seconds: Option<f64>,
    /// Only these programs (default: the whole suite)
    #[arg(value_name = "PROGRAM")]
    programs: Vec<String>,
}

impl Options {
    fn plan(&self) -> Plan {
        let mut plan = if self.quick { Plan::QUICK } else { Plan::FULL };
        if self.quick && self.peer.is_some() {
            // Two profiles in the time of one.
            plan.profile_seconds /= 2.0;
        }
        plan.profile_seconds = self.profile_seconds.unwrap_or(plan.profile_seconds);
        plan.run_seconds = self.run_seconds.unwrap_or(plan.run_seconds);
        plan
    }

    fn wants(&self, part: Part) -> bool {
        (part != Part::Peer || self.peer.is_some()) && self.part.is_none_or(|only| only == part)
    }
}

/// All that is known of a program.
#[derive(Clone, Debug, Default, serde::Serialize)]
struct Measured {
    program: String,
    truth: Option<Truth>,
    ours: Option<Prediction>,
    coz: Option<Prediction>,
}

/// Measures, prints the table.
///
/// # Errors
/// When something cannot be built or run, or a goal is missed.
pub fn run(options: &Options) -> Result<()> {
    let plan = options.plan();
    let profiler = crate::profiler(true)?;
    let folder = tempfile::tempdir()?;
    let keep = options.keep.clone().unwrap_or_else(|| folder.path().to_owned());
    let store = Store::open(keep, options.resume)?;
    let names = if options.programs.is_empty() { names(options.quick) } else { options.programs.clone() };
    let speed = store.get("speed.json", || Ok(Some(Program::build("single")?.calibrate()?)))?;
    let speed = speed.context("the speed of the machine is not known")?;
    let mut all = Vec::new();
    for name in &names {
        eprintln!("{name}: about {:.0} s", plan.seconds(1 + usize::from(options.peer.is_some())));
        all.push(measure(name, &speed, &profiler, options, &plan, &store)?);
    }
    let rows: Vec<Row> = all.iter().flat_map(compare).collect();
    let with_coz = options.peer.is_some();
    println!("{}", table(&rows, with_coz));
    let verdict = Verdict::of(&rows, |row| row.ours.as_ref());
    println!("coz-bpf: {verdict}");
    let mut summary = json!({ "coz-bpf": verdict });
    if with_coz {
        let coz: Vec<Row> = rows.iter().filter(|row| row.coz.is_some()).cloned().collect();
        let peers = Verdict::of(&coz, |row| row.coz.as_ref());
        println!("coz: {peers}; n/a for {} cells", rows.len() - coz.len());
        summary["coz"] = json!(peers);
    }
    for (program, note) in all.iter().flat_map(notes) {
        println!("{program}: {note}");
    }
    if let Some(path) = &options.json {
        let text = json!({ "summary": summary, "rows": rows, "programs": all });
        let text = serde_json::to_string_pretty(&text)? + "\n";
        fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    if let Some(path) = &options.markdown {
        fs::write(path, rows::markdown(&rows)).with_context(|| format!("cannot write {}", path.display()))?;
    }
    // A piece of a measurement has no goals to meet.
    if options.part.is_some() { Ok(()) } else { verdict.check() }
}

fn measure(
    name: &str,
    speed: &str,
    profiler: &Path,
    options: &Options,
    plan: &Plan,
    store: &Store,
) -> Result<Measured> {
    let program = Program::build_for(name, Debug::Default, speed.to_owned())?;
    let file = |extension: &str| store.path(&format!("{name}.{extension}"));
    let truth = store.get(&format!("{name}.truth.json"), || {
        options.wants(Part::Truth).then(|| Truth::measure(&program, plan)).transpose()
    })?;
    let ours = store.get(&format!("{name}.ours.json"), || {
        let profile = || Prediction::ours(&program, profiler, plan, &file("jsonl"));
        options.wants(Part::Ours).then(profile).transpose()
    })?;
    let for_coz = options.peer.map(|_| Program::build_for(name, Debug::Dwarf3, speed.to_owned()));
    let coz = store.get(&format!("{name}.coz.json"), || {
        let profile = || {
            let program = for_coz.context("it was not asked for")??;
            Prediction::of_coz(&program, profiler, plan, &file("coz"))
        };
        // Where the peer fails, that is an answer of its own.
        let failed = |error: anyhow::Error| {
            let notes = vec![format!("{error:#}").replace('\n', " ")];
            Prediction { levels: vec![None; LEVELS.len()], notes, ..Prediction::default() }
        };
        Ok(options.wants(Part::Peer).then(|| profile().unwrap_or_else(failed)))
    })?;
    Ok(Measured { program: name.to_owned(), truth, ours, coz })
}

/// The rows of a program whose truth is known.
fn compare(measured: &Measured) -> Vec<Row> {
    let row = |(at, &level): (usize, &u32)| {
        let truth = measured.truth.as_ref()?.at(at)?;
        let answer = |prediction: Option<&Prediction>| {
            let prediction = prediction?;
            let spread = prediction.levels.get(at).copied().flatten()?;
            Some(Answer::new(truth, spread, prediction.refuses()))
        };
        let (ours, coz) = (answer(measured.ours.as_ref()), answer(measured.coz.as_ref()));
        Some(Row { program: measured.program.clone(), level, truth, ours, coz })
    };
    LEVELS.iter().enumerate().filter_map(row).collect()
}

/// How much was disturbed, what failed, what our report warns of.
fn notes(measured: &Measured) -> Vec<(&str, String)> {
    let predictions = [&measured.ours, &measured.coz].into_iter().flatten();
    let all = predictions.flat_map(|prediction| &prediction.notes);
    let all = measured.truth.iter().flat_map(|truth| &truth.notes).chain(all);
    let (disturbed, mut notes): (Vec<String>, Vec<String>) =
        all.cloned().partition(|note| note.contains(noise::DISTURBED));
    let kept = disturbed.iter().filter(|note| note.ends_with(noise::KEPT)).count();
    if !disturbed.is_empty() {
        notes.push(format!("{} measurements were disturbed; {kept} were taken as they are", disturbed.len()));
    }
    let ours = measured.ours.as_ref().map(|ours| &ours.health["warnings"]);
    let warnings = ours.and_then(|warnings| warnings.as_array()).into_iter().flatten();
    notes.extend(warnings.filter_map(|warning| Some(format!("warning: {}", warning.as_str()?))));
    notes.into_iter().map(|note| (measured.program.as_str(), note)).collect()
}
