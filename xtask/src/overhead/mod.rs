//! What profiling costs: plain runs, and runs of the same work in every way that is compared with them, in turn.

mod bare;
mod goals;
mod measure;
mod others;
mod price;
mod subject;
mod table;

use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};

use crate::truth::store::Store;
use crate::truth::{CASES, Peer};
use crate::{real, sh};
use measure::Figures;
use price::Prices;
use subject::Subject;

/// A program that hardly switches: what switches beside it are others.
const QUIET: &str = "single";

/// How often, how long.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Rounds; in each, every kind of run once
    #[arg(long, default_value_t = 9)]
    runs: u32,
    /// Length of a plain run, seconds
    #[arg(long, default_value_t = 3.5)]
    seconds: f64,
    /// Afterwards, one more default run of each program in which the kernel counts the time of every BPF program
    #[arg(long)]
    prices: bool,
    /// Also run the programs under another profiler
    #[arg(long, value_enum)]
    peer: Option<Peer>,
    /// Keep what was measured of each program in this folder
    #[arg(long, value_name = "FOLDER")]
    keep: Option<PathBuf>,
    /// Use what that folder has; measure only what it has not
    #[arg(long, requires = "keep")]
    resume: bool,
    /// Fail where a goal is missed
    #[arg(long)]
    check: bool,
    /// Only build the programs
    #[arg(long)]
    build: bool,
    /// Only these programs (some of the bundled ones, and those of `cargo xtask real`)
    #[arg(value_name = "PROGRAM")]
    programs: Vec<String>,
}

/// Measures, prints the tables and the goals.
///
/// # Errors
/// When something cannot be built or run, or, with `--check`, a goal is missed.
pub fn run(options: &Options) -> Result<()> {
    ensure!(options.build || sh::is_root(), "profiling takes root");
    if options.peer.is_some() {
        ensure!(sh::find("coz").is_some(), "coz is missing: apt-get install -y coz-profiler");
    }
    let profiler = crate::profiler(true)?;
    let folder = tempfile::tempdir()?;
    let keep = options.keep.clone().unwrap_or_else(|| folder.path().to_owned());
    let store = Store::open(keep, options.resume)?;
    let all = || CASES.iter().chain(&real::MEASURED).map(|&name| name.to_owned()).collect();
    let names: Vec<String> = if options.programs.is_empty() { all() } else { options.programs.clone() };
    let mut measured = Vec::new();
    let mut prices = Prices::table();
    for name in names {
        eprintln!("{name}");
        if options.build {
            let subject = Subject::build(&name, options.seconds)?;
            options.peer.map(|_| subject.for_coz()).transpose()?;
            continue;
        }
        let figures = store.get(&format!("{name}.json"), || {
            let subject = Subject::build(&name, options.seconds)?;
            let coz = options.peer.is_some();
            Figures::measure(&name, &subject, &profiler, options.runs, coz).map(Some)
        })?;
        measured.push(figures.context("nothing was measured")?);
        if options.prices {
            let subject = Subject::build(&name, options.seconds)?;
            let profile = sh::target_dir().join("prices.jsonl");
            let _ = std::fs::remove_file(&profile);
            let run = || subject.run(subject.profiled(&profiler, true, &[], &profile)).map(drop);
            prices.add_row(Prices::of(run)?.row(&name));
            if name == QUIET {
                let _ = std::fs::remove_file(&profile);
                let beside = Prices::of(|| others::switching(run))?;
                prices.add_row(beside.row(&format!("{name}, while others switch")));
            }
        }
    }
    if options.build {
        return Ok(());
    }
    println!("{}\n", table::split(&measured));
    if options.peer.is_some() {
        println!("{}\n", table::beside_coz(&measured));
        for (figures, why) in
            measured.iter().filter_map(|figures| Some((figures, figures.without_coz.as_ref()?)))
        {
            println!("{}: n/a under coz: {}", figures.name, why.lines().next().unwrap_or_default());
        }
    }
    let goals = goals::goals(&measured);
    for goal in &goals {
        println!("{}", goal.line());
    }
    if options.prices {
        println!("\n{prices}");
    }
    let missed: Vec<String> =
        goals.iter().filter(|goal| goal.held == Some(false)).map(goals::Goal::line).collect();
    ensure!(!options.check || missed.is_empty(), "{}", missed.join("; "));
    Ok(())
}
