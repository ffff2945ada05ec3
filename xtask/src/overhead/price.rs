//! The price of each kernel program, as the kernel counts it.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use comfy_table::Table;
use serde_json::Value;

use crate::sh;

const SWITCH: &str = "/proc/sys/kernel/bpf_stats_enabled";
/// The programs that run often, by the names that the kernel knows them by.
const SHOWN: [&str; 4] = ["sample", "sched_switch", "sched_waking", "visit"];

/// Nanoseconds a run, and how many runs, of each program.
pub struct Prices(BTreeMap<String, (u64, u64)>);

impl Prices {
    /// An empty table.
    pub fn table() -> Table {
        let mut table = Table::new();
        table.load_preset(comfy_table::presets::ASCII_MARKDOWN);
        table.set_header(std::iter::once("ns a run (runs)").chain(SHOWN).chain(["interrupts", "all, ms"]));
        table
    }

    /// Of the programs that are loaded while `work` runs. The kernel's accounting itself adds some 20 to 40 ns a run.
    ///
    /// # Errors
    /// When `bpftool` is missing, the accounting cannot be turned on, or the work fails.
    pub fn of(work: impl FnOnce() -> Result<()>) -> Result<Self> {
        let before = fs::read_to_string(SWITCH).with_context(|| format!("cannot read {SWITCH}"))?;
        fs::write(SWITCH, "1").with_context(|| format!("cannot write {SWITCH}"))?;
        let done = AtomicBool::new(false);
        let prices = std::thread::scope(|scope| {
            let watch = scope.spawn(|| {
                let mut most: BTreeMap<String, (u64, u64)> = BTreeMap::new();
                while !done.load(Ordering::Relaxed) {
                    // The counts go with the programs, one program after the other: of each the last look that saw it.
                    for (name, seen) in look()? {
                        let kept = most.entry(name).or_default();
                        *kept = (*kept).max(seen);
                    }
                    std::thread::sleep(Duration::from_millis(100));
                }
                Ok(most)
            });
            let worked = work();
            done.store(true, Ordering::Relaxed);
            let seen = watch.join().unwrap_or_else(|_| Ok(BTreeMap::new()));
            worked.and(seen)
        });
        fs::write(SWITCH, before.trim()).with_context(|| format!("cannot write {SWITCH}"))?;
        prices.map(Self)
    }

    /// A row of the table.
    pub fn row(&self, name: &str) -> Vec<String> {
        let shown = |(time, runs): (u64, u64)| match runs {
            0 => "-".to_owned(),
            _ => format!("{} ({runs})", time / runs),
        };
        let sum = |wanted: &dyn Fn(&str) -> bool| {
            let found = self.0.iter().filter(|(name, _)| wanted(name));
            found.fold((0, 0), |sum, (_, add)| (sum.0 + add.0, sum.1 + add.1))
        };
        let mut row = vec![name.to_owned()];
        row.extend(SHOWN.map(|wanted| shown(sum(&|name| name == wanted))));
        row.push(shown(sum(&|name| {
            name.ends_with("_entry") || name.ends_with("_exit") || name == "softirq_raise"
        })));
        row.push(format!("{:.1}", sum(&|_| true).0 as f64 / 1e6));
        row
    }
}

fn look() -> Result<BTreeMap<String, (u64, u64)>> {
    let programs = sh::output(Command::new("bpftool").args(["prog", "list", "-j"]))
        .context("the prices take bpftool: apt-get install -y bpftool")?;
    let programs: Vec<Value> = serde_json::from_str(&programs)?;
    let mut prices = BTreeMap::new();
    for program in programs {
        if let (Some(name), Some(time), Some(runs)) =
            (program["name"].as_str(), program["run_time_ns"].as_u64(), program["run_cnt"].as_u64())
        {
            let sum: &mut (u64, u64) = prices.entry(name.to_owned()).or_default();
            *sum = (sum.0 + time, sum.1 + runs);
        }
    }
    Ok(prices)
}
