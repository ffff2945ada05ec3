//! What profiling costs: plain runs, runs that are only sampled and default runs of the same work in turn.

mod price;
mod subject;

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use comfy_table::Table;

use crate::truth::{CASES, Peer, Spread};
use crate::{real, sh};
use price::Prices;
use subject::Subject;

/// How often, how long.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Runs of each kind
    #[arg(long, default_value_t = 9)]
    runs: u32,
    /// Length of a plain run, seconds
    #[arg(long, default_value_t = 3.5)]
    seconds: f64,
    /// Afterwards, one more default run of each program in which the kernel counts the time of every BPF program
    #[arg(long)]
    prices: bool,
    /// Also run the bundled programs under another profiler
    #[arg(long, value_enum)]
    peer: Option<Peer>,
    /// Only these programs (all the bundled ones, and those of `cargo xtask real`)
    #[arg(value_name = "PROGRAM")]
    programs: Vec<String>,
}

/// Measures, prints the table: elapsed time under `coz-bpf run` over that of the program alone.
///
/// # Errors
/// When something cannot be built or run.
pub fn run(options: &Options) -> Result<()> {
    ensure!(sh::is_root(), "profiling takes root");
    let profiler = crate::profiler(true)?;
    let mut table = Table::new();
    table.load_preset(comfy_table::presets::ASCII_MARKDOWN);
    if options.peer.is_some() {
        ensure!(sh::find("coz").is_some(), "coz is missing: apt-get install -y coz-profiler");
    }
    let mut header = vec![
        "program",
        "plain, s",
        "sampling only",
        "from..to",
        "default",
        "from..to",
        "start-up, ms",
        "delays, ms",
    ];
    if options.peer.is_some() {
        header.extend(["coz", "from..to"]);
    }
    table.set_header(header);
    let mut prices = Prices::table();
    let all = || CASES.iter().chain(&real::NAMES).map(|&name| name.to_owned()).collect();
    let names: Vec<String> = if options.programs.is_empty() { all() } else { options.programs.clone() };
    for name in names {
        eprintln!("{name}");
        let subject = Subject::build(&name, options.seconds)?;
        table.add_row(Figures::measure(&subject, &profiler, options)?.row(&name, options.peer)?);
        if options.prices {
            prices.add_row(Prices::of(|| profiled(&subject, &profiler, &[]).map(drop))?.row(&name));
        }
    }
    println!("{table}");
    if options.prices {
        println!("\n{prices}");
    }
    Ok(())
}

/// What was measured of one program.
#[derive(Default)]
struct Figures {
    plain: Vec<f64>,
    sampled: Vec<f64>,
    default: Vec<f64>,
    startup_ms: Vec<f64>,
    delay_ms: Vec<f64>,
    peer: Vec<f64>,
}

impl Figures {
    fn measure(subject: &Subject, profiler: &Path, options: &Options) -> Result<Self> {
        let mut figures = Self::default();
        let peer = options.peer.map(|_| subject.under_coz()).transpose()?.flatten();
        for _ in 0..options.runs {
            let start = Instant::now();
            let served = subject.run(subject.plain())?;
            let plain = served.unwrap_or_else(|| start.elapsed()).as_secs_f64();
            figures.plain.push(plain);
            // Sampled and counted as ever, but the time for experiments is over before the first.
            let sampled = profiled(subject, profiler, &["--duration", "0.001"])?;
            figures.sampled.push(sampled.work / plain);
            let default = profiled(subject, profiler, &[])?;
            figures.default.push(default.work / plain);
            figures.startup_ms.push((default.whole - default.lived) * 1e3);
            figures.delay_ms.push(default.delay * 1e3);
            if let Some(peer) = &peer {
                let start = Instant::now();
                subject.run(peer.command())?;
                figures.peer.push(start.elapsed().as_secs_f64() / plain);
            }
        }
        Ok(figures)
    }

    fn row(&self, name: &str, peer: Option<Peer>) -> Result<Vec<String>> {
        let of = |figures: &[f64]| Spread::of(figures).context("no run was asked for");
        let ratio = |figures: &[f64]| -> Result<[String; 2]> {
            let spread = of(figures)?;
            Ok([format!("{:.3}", spread.median), format!("{:.2}..{:.2}", spread.low, spread.high)])
        };
        let [sampled, sampled_spread] = ratio(&self.sampled)?;
        let [default, default_spread] = ratio(&self.default)?;
        let mut row = vec![
            name.to_owned(),
            format!("{:.2}", of(&self.plain)?.median),
            sampled,
            sampled_spread,
            default,
            default_spread,
            format!("{:.0}", of(&self.startup_ms)?.median),
            format!("{:.0}", of(&self.delay_ms)?.median),
        ];
        if peer.is_some() {
            row.extend(if self.peer.is_empty() {
                ["–".to_owned(), String::new()]
            } else {
                ratio(&self.peer)?
            });
        }
        Ok(row)
    }
}

/// Seconds of a run under the profiler.
struct Elapsed {
    /// From the profiler's start to its end.
    whole: f64,
    /// From the program's release to its end.
    lived: f64,
    /// The same; for a server, only the time in which it was served.
    work: f64,
    /// Required delay, of everyone who was to be slowed down.
    delay: f64,
}

fn profiled(subject: &Subject, profiler: &Path, options: &[&str]) -> Result<Elapsed> {
    let profile = sh::target_dir().join("overhead.jsonl");
    // Else every run would keep the one before aside.
    if profile.exists() {
        std::fs::remove_file(&profile)?;
    }
    let start = Instant::now();
    let served = subject.run(subject.profiled(profiler, options, &profile))?;
    let whole = start.elapsed().as_secs_f64();
    let text = std::fs::read_to_string(&profile)?;
    let runtime = text.lines().rfind(|line| line.starts_with(r#"{"type":"runtime""#));
    let runtime: serde_json::Value = serde_json::from_str(runtime.context("the profile has no end")?)?;
    let lived = runtime["time"].as_u64().context("no `time` at the end of the profile")? as f64 / 1e9;
    let work = served.map_or(lived, |time| time.as_secs_f64());
    let report: serde_json::Value =
        serde_json::from_str(&sh::output(Command::new(profiler).args(["report", "--json"]).arg(&profile))?)?;
    let delay = report["overhead"]["delay_ns"].as_u64().unwrap_or(0) as f64 / 1e9;
    Ok(Elapsed { whole, lived, work, delay })
}
