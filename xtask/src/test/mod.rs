//! `cargo xtask test`: everything that can tell whether the repository is in order.

mod outcome;
mod page;
mod stages;

use std::time::Instant;

use anyhow::{Result, ensure};

pub use outcome::Outcome;
pub use stages::{STAGES, Stage};

/// Which stages to run.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Only these stages (all of them)
    #[arg(value_name = "STAGE", value_parser = STAGES.iter().map(|stage| stage.name).collect::<Vec<_>>())]
    stages: Vec<String>,
    /// Show what each stage prints, also of those that pass
    #[arg(short, long)]
    verbose: bool,
}

/// Runs the stages, each to its end, also after one has failed; the last line is `N passed, N failed`.
///
/// # Errors
/// When anything failed, or nothing was run.
pub fn run(options: &Options) -> Result<()> {
    let wanted =
        |stage: &&Stage| options.stages.is_empty() || options.stages.iter().any(|name| name == stage.name);
    let mut sum = Outcome::default();
    for stage in STAGES.iter().filter(wanted) {
        let start = Instant::now();
        let (outcome, words) = stage.run();
        let verdict = match (outcome.passed, outcome.failed) {
            (0, 0) => "none",
            (_, 0) => "ok",
            _ => "FAILED",
        };
        if options.verbose || outcome.failed > 0 {
            println!("{}", words.trim_end());
        }
        for note in &outcome.notes {
            println!("note: {note}");
        }
        println!(
            "{:10} {verdict:6} {:6.1} s  {}",
            stage.name,
            start.elapsed().as_secs_f64(),
            outcome.counted()
        );
        sum.add(&outcome);
    }
    println!("{} passed, {} failed", sum.passed, sum.failed);
    ensure!(sum.failed == 0, "{} failed", sum.failed);
    ensure!(sum.passed > 0, "nothing was run");
    Ok(())
}
