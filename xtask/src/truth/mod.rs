//! How near the predictions come: the truth is measured by really shortening the line.

mod measure;
mod stats;
mod verdict;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result};

pub use measure::{Plan, measure};
pub use stats::Spread;
pub use verdict::{Row, Verdict, table};

use crate::programs::Program;

/// The programs with a known answer that are measured.
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
/// The levels that the verdict is about.
pub const JUDGED: &[u32] = &[50, 100];
/// The median error at the judged levels must not exceed this many percentage points.
pub const LIMIT: f64 = 6.0;

/// What to measure, and where to.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Short runs: a rough answer in a few minutes
    #[arg(long)]
    quick: bool,
    /// Write every figure to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Keep the profiles in this folder
    #[arg(long, value_name = "FOLDER")]
    keep: Option<PathBuf>,
    /// Only these programs (all of them)
    #[arg(value_name = "PROGRAM")]
    programs: Vec<String>,
}

/// Measures, prints the table.
///
/// # Errors
/// When something cannot be built or run, or the median error is above [`LIMIT`].
pub fn run(options: &Options) -> Result<()> {
    let plan = if options.quick { Plan::QUICK } else { Plan::FULL };
    let profiler = crate::profiler(true)?;
    let folder = tempfile::tempdir()?;
    let keep = options.keep.as_deref().unwrap_or(folder.path());
    fs::create_dir_all(keep).with_context(|| format!("cannot create {}", keep.display()))?;
    let all = || CASES.iter().map(|&name| name.to_owned()).collect();
    let names = if options.programs.is_empty() { all() } else { options.programs.clone() };
    let mut rows = Vec::new();
    for name in names {
        eprintln!("{name}: about {:.0} s", plan.seconds());
        let program = Program::build(&name)?;
        rows.extend(measure(&program, &profiler, &plan, &keep.join(format!("{name}.jsonl")))?);
    }
    println!("{}", table(&rows));
    if let Some(path) = &options.json {
        let text = serde_json::to_string_pretty(&rows)? + "\n";
        fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let verdict = Verdict::of(&rows);
    println!("{verdict}");
    verdict.check()
}
