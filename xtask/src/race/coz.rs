//! A run of coz, watched from outside: it writes each experiment down when it has ended, but not when that was.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::programs::Program;
use crate::sh;

/// As for `--until`: fewer experiments with a delay say too little about their own noise, and an interval must stay narrow
/// while they grow by a tenth, by two at least.
const AT_LEAST: u64 = 8;
const STAYS_SHARE: f64 = 0.1;
const STAYS: u64 = 2;

/// What coz wrote, and when.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Watched {
    /// The profile.
    pub text: String,
    /// Seconds since its first record, and how many bytes it had then.
    pub sizes: Vec<(f64, usize)>,
}

/// Runs the program, which must have been built with debug information of DWARF 3, for so many seconds under coz. Lines are
/// drawn from the program's own sources, as ours are.
///
/// # Errors
/// When coz cannot be run or writes nothing.
pub fn watch(program: &Program, seconds: f64, profile: &Path) -> Result<Watched> {
    let profile = profile.with_extension("coz");
    let _ = fs::remove_file(&profile);
    let folder = program.source.parent().context("a source has a folder")?;
    let mut command = program.command(Path::new("coz"));
    command.args(["run", "--source-scope", &format!("{}/%", folder.display()), "-o"]).arg(&profile);
    command.arg("---").arg(&program.path).args(["--seconds", &seconds.to_string()]);
    let mut child = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("cannot start `{}`", sh::shown(&command)))?;
    let mut watched = Watched::default();
    let mut first = None;
    while child.try_wait()?.is_none() {
        let size = fs::metadata(&profile).map_or(0, |metadata| metadata.len() as usize);
        if size > 0 && watched.sizes.last().is_none_or(|(_, last)| *last < size) {
            let first = *first.get_or_insert_with(Instant::now);
            watched.sizes.push((first.elapsed().as_secs_f64(), size));
        }
        thread::sleep(Duration::from_millis(10));
    }
    watched.text =
        fs::read_to_string(&profile).with_context(|| format!("cannot read {}", profile.display()))?;
    ensure!(!watched.sizes.is_empty(), "coz has written no profile");
    Ok(watched)
}

/// Seconds until the first line was known to within so many points, had the run been judged as ours are: by our estimate, after
/// every experiment. `None` where it never was.
///
/// # Errors
/// When our estimate cannot be had.
pub fn enough(watched: &Watched, profiler: &Path, points: f64) -> Result<Option<f64>> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("prefix.coz");
    let mut since = None;
    for end in ends(&watched.text) {
        fs::write(&file, &watched.text[..end])?;
        let text = sh::output(Command::new(profiler).args(["report", "--json"]).arg(&file))?;
        let report: Value = serde_json::from_str(&text)?;
        let top = top(&report).filter(|top| top.half_width <= points / 100.0 && top.delayed >= AT_LEAST);
        if stays(&mut since, top.map(|top| top.delayed)) {
            return Ok(watched.sizes.iter().find(|(_, size)| *size >= end).map(|(time, _)| *time));
        }
    }
    Ok(None)
}

/// Where each experiment ends in the text, its points included.
fn ends(text: &str) -> Vec<usize> {
    let (mut ends, mut at, mut open) = (Vec::new(), 0, false);
    for line in text.split_inclusive('\n') {
        let point = line.starts_with("throughput-point") || line.starts_with("progress-point");
        if open && !point {
            ends.push(at);
            open = false;
        }
        open |= point;
        at += line.len();
    }
    ends.extend(open.then_some(at));
    ends
}

/// The line that stands first.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Top {
    half_width: f64,
    /// Experiments with a delay.
    delayed: u64,
}

fn top(report: &Value) -> Option<Top> {
    let line = report["lines"].as_array()?.iter().find(|line| line["hidden"].is_null())?;
    let levels = line["curve"].as_array()?.iter();
    let delayed = levels.filter(|level| level["speedup"].as_f64().is_some_and(|speedup| speedup > 0.0));
    Some(Top {
        half_width: line["half_width"].as_f64()?,
        delayed: delayed.filter_map(|level| level["experiments"].as_u64()).sum(),
    })
}

/// The rule of `--until`: whether the interval has been narrow for long enough. `delayed`: experiments of the line that stands
/// first, if its interval is narrow now.
fn stays(since: &mut Option<u64>, delayed: Option<u64>) -> bool {
    let Some(delayed) = delayed else {
        *since = None;
        return false;
    };
    let begun = *since.get_or_insert(delayed);
    if begun > delayed {
        // Another line is on top.
        *since = Some(delayed);
        return false;
    }
    delayed >= begun + STAYS.max((begun as f64 * STAYS_SHARE).ceil() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_experiment_ends_with_its_points() {
        let text = "startup\ttime=1\nexperiment\ta\nthroughput-point\tb\nexperiment\tc\nthroughput-point\td\nsamples\te\n";
        let parts: Vec<_> = ends(text).into_iter().map(|end| text[..end].lines().count()).collect();
        assert_eq!(parts, [3, 5]);
        assert_eq!(ends("startup\ttime=1\nexperiment\ta\n"), Vec::<usize>::new(), "one without its points");
    }

    #[test]
    fn an_interval_must_stay_narrow() {
        let told = |narrow: &[Option<u64>]| {
            let mut since = None;
            narrow.iter().map(|&delayed| stays(&mut since, delayed)).collect::<Vec<_>>()
        };
        assert_eq!(told(&[Some(8), Some(9), Some(10)]), [false, false, true]);
        assert_eq!(told(&[Some(8), None, Some(10), Some(11)]), [false; 4], "once can be chance");
        assert_eq!(
            told(&[Some(30), Some(9), Some(10), Some(11)]),
            [false, false, false, true],
            "another line"
        );
        assert_eq!(told(&[Some(40), Some(43), Some(44)]), [false, false, true], "a tenth of forty");
    }

    #[test]
    fn the_first_line_that_is_shown_counts() {
        let report = serde_json::json!({"lines": [
            {"hidden": "few speedups", "half_width": 0.01, "curve": []},
            {"hidden": null, "half_width": 0.02, "curve": [
                {"speedup": 0.0, "experiments": 9}, {"speedup": 0.5, "experiments": 4}, {"speedup": 1.0, "experiments": 3}]}]});
        assert_eq!(top(&report), Some(Top { half_width: 0.02, delayed: 7 }));
    }
}
