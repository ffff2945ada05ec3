//! Programs that no one here wrote, from Debian's source packages and published crates: built with debug information,
//! otherwise unchanged, and profiled with a progress point that is a symbol of theirs or a system call.

mod build;
mod load;
mod programs;
mod same;
mod server;
mod source;
mod workload;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use crate::sh;
pub(crate) use programs::MEASURED;
use programs::NAMES;
pub(crate) use server::connect;
pub(crate) use workload::{Repeats, Workload};

/// Which programs, and where to write.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// How long each program is profiled, seconds
    #[arg(long, default_value_t = 40)]
    seconds: u32,
    /// Compare output and exit code with a plain run, so many times
    #[arg(long, default_value_t = 10)]
    runs: u32,
    /// Write the reports to this file, as Markdown
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Only these programs (all of them)
    #[arg(value_name = "PROGRAM", value_parser = NAMES.to_vec())]
    programs: Vec<String>,
}

/// Where sources, programs and profiles are kept.
pub(crate) fn folder() -> PathBuf {
    sh::target_dir().join("real")
}

/// Gets, builds and profiles the programs.
///
/// # Errors
/// When a source cannot be had or built, the profiler fails, or an output differs from that of a plain run.
pub fn run(options: &Options) -> Result<()> {
    ensure!(sh::is_root(), "profiling, and installing what the programs need, takes root");
    let profiler = crate::profiler(true)?;
    let names = NAMES
        .iter()
        .filter(|name| options.programs.is_empty() || options.programs.iter().any(|wanted| wanted == *name));
    let mut text = String::new();
    for name in names {
        let workload = Workload::prepare(name, options.seconds)?;
        let profile = folder().join(format!("{name}.jsonl"));
        let report = profiled(&workload, &profiler, &profile)?;
        let share = samples(&workload)?;
        same::as_plain(name, &profiler, options.runs)?;
        let section = section(&workload, &profile, &report, &share, options.runs);
        println!("{section}");
        text += &section;
    }
    if let Some(path) = &options.output {
        fs::write(path, &text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// `coz-bpf run -P SYMBOL -o PROFILE -- `, to be followed by the program.
pub(crate) fn command(profiler: &Path, workload: &Workload, profile: &Path) -> Command {
    let mut command = Command::new(profiler);
    command
        .args(["run", "-q", "-P", workload.point])
        .args(&workload.options)
        .arg("-o")
        .arg(profile)
        .arg("--");
    command
}

/// Profiles the workload; the text of its report.
fn profiled(workload: &Workload, profiler: &Path, profile: &Path) -> Result<String> {
    eprintln!("{}: profiling", workload.name);
    // One of an earlier run would be kept aside.
    let _ = fs::remove_file(profile);
    let mut command = command(profiler, workload, profile);
    command.arg(&workload.program).args(&workload.args);
    workload.run(&mut command)?;
    sh::output(Command::new(profiler).args(["report", "--top", "8"]).arg(profile))
}

/// Where an ordinary profiler's samples fall, for comparison; empty where `perf` is not installed.
fn samples(workload: &Workload) -> Result<String> {
    if sh::find("perf").is_none() {
        return Ok("(perf is not installed)".into());
    }
    let data = folder().join("perf.data");
    let mut command = Command::new("perf");
    command.args(["record", "-q", "-e", "cpu-clock", "-F", "997", "-o"]).arg(&data).arg("--");
    command.arg(&workload.program).args(&workload.args);
    eprintln!("{}: perf, for comparison", workload.name);
    workload.run(&mut command)?;
    let mut command = Command::new("perf");
    command.args([
        "report",
        "--stdio",
        "-q",
        "--no-children",
        "--sort",
        "symbol",
        "--percent-limit",
        "3",
        "-i",
    ]);
    let lines = sh::output(command.arg(&data).stderr(Stdio::null()))?;
    // Two empty columns follow each symbol.
    let trimmed = lines.lines().map(|line| line.trim_end_matches([' ', '-'])).filter(|line| !line.is_empty());
    Ok(trimmed.collect::<Vec<_>>().join("\n"))
}

/// A section of a Markdown document, without paths of this machine.
fn section(workload: &Workload, profile: &Path, report: &str, samples: &str, runs: u32) -> String {
    let mut text = String::new();
    let args = workload.shown_args();
    let options = workload.options.iter().fold(String::new(), |text, option| {
        if option.starts_with('-') { text + " " + option } else { text + " '" + option + "'" }
    });
    let program = workload.program.file_name().unwrap_or_default().to_string_lossy();
    let _ = writeln!(text, "## {}\n\n{}\n", workload.name, workload.about);
    let _ = writeln!(
        text,
        "```\n$ sudo coz-bpf run -P {}{options} ./{program} {args}\n{}\n```\n",
        workload.point,
        report.trim_end()
    );
    let _ = writeln!(text, "`perf report` on the same command:\n\n```\n{samples}\n```\n");
    let what = match workload.repeats {
        Repeats::Exactly => "Output and exit code were those of a plain run, byte for byte,",
        Repeats::InAnyOrder => {
            "Exit code and lines of output were those of a plain run, but for their order,"
        }
        Repeats::No => "The exit code was that of a plain run (the output has times in it)",
    };
    let _ = writeln!(
        text,
        "{what} in {runs} of {runs} runs, and the kernel's BPF \
         programs, maps and links after each were those before it; also after one more in which the profiler was \
         killed.\n"
    );
    let shown = |path: &Path| format!("{}/", path.display());
    text.replace(&shown(&folder()), "").replace(&shown(profile.parent().unwrap_or(profile)), "")
}
