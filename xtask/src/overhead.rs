//! What a default run costs: plain and profiled runs of the same work in turn.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use comfy_table::Table;

use crate::programs::{PROGRESS, Program};
use crate::sh;
use crate::truth::{CASES, Spread};

/// How often, how long.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Runs of each kind
    #[arg(long, default_value_t = 9)]
    runs: u32,
    /// Length of a plain run, seconds
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Only these programs (all of them)
    #[arg(value_name = "PROGRAM")]
    programs: Vec<String>,
}

/// Measures, prints the table: elapsed time of `coz-bpf run` over that of the program alone.
///
/// # Errors
/// When something cannot be built or run.
pub fn run(options: &Options) -> Result<()> {
    let profiler = crate::profiler(true)?;
    let mut table = Table::new();
    table.load_preset(comfy_table::presets::UTF8_HORIZONTAL_ONLY);
    table.set_header(["program", "plain, s", "profiled, s", "ratio", "from..to"]);
    let all = || CASES.iter().map(|&name| name.to_owned()).collect();
    let names: Vec<String> = if options.programs.is_empty() { all() } else { options.programs.clone() };
    for name in names {
        eprintln!("{name}");
        let program = Program::build(&name)?;
        // The same rounds for every run: as many as a plain run of this length does.
        let rounds = program.run(0, 1.0)?.rounds as f64 * options.seconds;
        let args = ["--rounds".to_owned(), (rounds as u64).to_string()];
        let (mut plain, mut profiled, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..options.runs {
            let without = elapsed(program.command(&program.path).args(&args))?;
            let with = elapsed(command(&program, &profiler)?.args(&args))?;
            plain.push(without);
            profiled.push(with);
            ratios.push(with / without);
        }
        let of = |figures: &[f64]| Spread::of(figures).context("no run was asked for");
        let (plain, profiled, ratio) = (of(&plain)?, of(&profiled)?, of(&ratios)?);
        table.add_row([
            name,
            format!("{:.2}", plain.median),
            format!("{:.2}", profiled.median),
            format!("{:.3}", ratio.median),
            format!("{:.3}..{:.3}", ratio.low, ratio.high),
        ]);
    }
    println!("{table}");
    Ok(())
}

fn command(program: &Program, profiler: &Path) -> Result<Command> {
    let profile = sh::target_dir().join("overhead.jsonl");
    // Else every run would keep the one before aside.
    if profile.exists() {
        std::fs::remove_file(&profile)?;
    }
    let mut command = program.command(profiler);
    command.args(["run", "-q", "-P", PROGRESS, "-o"]).arg(profile).arg("--").arg(&program.path);
    Ok(command)
}

/// Seconds from start to end.
fn elapsed(command: &mut Command) -> Result<f64> {
    let start = Instant::now();
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    let status = status.with_context(|| format!("cannot start `{}`", sh::shown(command)))?;
    ensure!(status.success(), "`{}` failed: {status}", sh::shown(command));
    Ok(start.elapsed().as_secs_f64())
}
