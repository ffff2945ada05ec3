//! Whether a program's output and exit code are those of a plain run, and the kernel afterwards as it was before.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use super::workload::{Outcome, Workload};
use super::{command, folder};
use crate::sh;

/// Runs the program so many times plain and profiled, on little work, and compares; then once more with the profiler
/// killed in the middle.
///
/// # Errors
/// At the first difference.
pub fn as_plain(name: &str, profiler: &Path, runs: u32) -> Result<()> {
    let workload = Workload::small(name)?;
    eprintln!("{name}: {runs} runs plain and profiled, to compare");
    let plain = || workload.outcome(workload.plain(), None);
    let profiled = |killed| {
        let mut command = command(profiler, &workload, &folder().join("same.jsonl"));
        command.arg(&workload.program).args(&workload.args);
        workload.outcome(command, killed)
    };
    for run in 1..=runs {
        let before = kernel_objects()?;
        let (expected, found) = (plain()?, profiled(None)?);
        ensure!(
            workload.repeats.agree(&found.output, &expected.output),
            "{name}, run {run}: another output than that of a plain run"
        );
        ensure!(
            found.code == expected.code,
            "{name}, run {run}: ended with {:?}, in a plain run with {:?}",
            found.code,
            expected.code
        );
        nothing_left(&before).with_context(|| format!("{name}, run {run}"))?;
    }
    let before = kernel_objects()?;
    let expected = plain()?;
    // Late enough that the program runs and is delayed, early enough that it has most of its work before it.
    let Outcome { output, .. } = profiled(Some(Duration::from_millis(400)))?;
    ensure!(
        workload.repeats.agree(&output, &expected.output),
        "{name}: another output after the profiler was killed"
    );
    nothing_left(&before).with_context(|| format!("{name}, after the profiler was killed"))
}

/// The BPF programs, maps and links that the kernel holds.
fn kernel_objects() -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    for kind in ["prog", "map", "link"] {
        let list = sh::output(Command::new("bpftool").args(["-j", kind, "list"]))
            .context("to list what the kernel holds takes bpftool: apt-get install -y bpftool")?;
        let list: Vec<serde_json::Value> = serde_json::from_str(&list)?;
        found.extend(list.iter().map(|entry| format!("{kind} {}", entry["id"])));
    }
    Ok(found)
}

/// What was not there before and does not go within some seconds: the kernel frees in the background.
fn nothing_left(before: &BTreeSet<String>) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        let now = kernel_objects()?;
        let left: Vec<_> = now.difference(before).cloned().collect();
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() > deadline {
            bail!("left in the kernel: {}", left.join(", "));
        }
        sleep(Duration::from_millis(100));
    }
}
