//! How long it takes until the first line's effect is known: ours, ours without its allocation of experiments, and coz.

mod coz;
mod ours;

use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use clap::ValueEnum;
use comfy_table::Table;
use serde::{Deserialize, Serialize};

use crate::programs::{Debug, Program};
use crate::sh;
use crate::truth::store::Store;

/// Ours must be so many times faster than coz.
const FASTER: f64 = 2.0;
/// One worker's queue, a hash table's buckets, an interpreter: programs in which several lines are hot.
const PROGRAMS: [&str; 3] = ["jobserver", "dedup", "sqlite"];

/// What to measure, how often, for how long.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Runs of each kind
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// Half width that the interval of the first line's effect at 50 % is to have, percentage points
    #[arg(long, default_value_t = 3.0)]
    points: f64,
    /// Give up after so many seconds
    #[arg(long, default_value_t = 45.0)]
    limit: f64,
    /// Keep the profiles and what was measured in this folder
    #[arg(long, value_name = "FOLDER")]
    keep: Option<PathBuf>,
    /// Use what that folder has; measure only what it has not
    #[arg(long, requires = "keep")]
    resume: bool,
    /// Make so many runs now, at most
    #[arg(long, value_name = "N", requires = "keep")]
    most: Option<usize>,
    /// Only these programs
    #[arg(value_name = "PROGRAM")]
    programs: Vec<String>,
}

/// How long a run took until it was enough.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Taken {
    /// `None`: it never was.
    seconds: Option<f64>,
}

impl Taken {
    const fn after(seconds: Option<f64>) -> Self {
        Self { seconds }
    }
}

/// Who decides what is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Way {
    /// We, by what is known
    Ours,
    /// We, in proportion to the samples
    Random,
    /// coz
    Coz,
}

impl Way {
    const ALL: [Self; 3] = [Self::Ours, Self::Random, Self::Coz];

    fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Random => "random",
            Self::Coz => "coz",
        }
    }
}

/// Measures, prints the table.
///
/// # Errors
/// When something cannot be built or run, or we are not fast enough.
pub fn run(options: &Options) -> Result<()> {
    ensure!(sh::is_root(), "profiling takes root");
    ensure!(sh::find("coz").is_some(), "coz is missing: apt-get install -y coz-profiler");
    let profiler = crate::profiler(true)?;
    let folder = tempfile::tempdir()?;
    let store =
        Store::open(options.keep.clone().unwrap_or_else(|| folder.path().to_owned()), options.resume)?;
    let names = match &options.programs[..] {
        [] => PROGRAMS.map(str::to_owned).to_vec(),
        some => some.to_vec(),
    };
    let mut left = options.most.unwrap_or(usize::MAX);
    let mut rows = Vec::new();
    for name in &names {
        let speed = store.get("speed.json", || Ok(Some(Program::build("single")?.calibrate()?)))?;
        let speed = speed.context("the speed of the machine is not known")?;
        let program = Program::build_for(name, Debug::Default, speed)?;
        let for_coz = program.with(Debug::Dwarf3)?;
        let mut times = [const { Vec::new() }; 3];
        for run in 0..options.runs {
            for (way, times) in Way::ALL.into_iter().zip(&mut times) {
                let label = format!("{name}.{}.{run}", way.name());
                let wanted = |left: &mut usize| {
                    let more = *left > 0;
                    *left -= usize::from(more);
                    if more {
                        eprintln!("{label}");
                    }
                    more
                };
                let profile = store.path(&label);
                let time = match way {
                    Way::Coz => {
                        let raw = store.get(&format!("{label}.json"), || {
                            wanted(&mut left)
                                .then(|| coz::watch(&for_coz, options.limit, &profile))
                                .transpose()
                        })?;
                        let judged = || {
                            raw.map(|raw| coz::enough(&raw, &profiler, options.points).map(Taken::after))
                                .transpose()
                        };
                        store.get(&format!("{label}.time.json"), judged)?
                    }
                    _ => store.get(&format!("{label}.json"), || {
                        let random = way == Way::Random;
                        let run = || {
                            ours::enough(&program, &profiler, options.points, options.limit, random, &profile)
                                .map(Taken::after)
                        };
                        wanted(&mut left).then(run).transpose()
                    })?,
                };
                times.extend(time.map(|taken: Taken| taken.seconds));
            }
        }
        rows.push((name.clone(), times));
    }
    println!("{}\n", table(&rows, options));
    let slow: Vec<String> =
        rows.iter().filter_map(|(name, times)| too_slow(name, times, options.limit)).collect();
    // A piece of a measurement has no goals to meet.
    if options.most.is_none() {
        ensure!(slow.is_empty(), "goals missed: {}", slow.join("; "));
        println!("held: at least {FASTER} times faster than coz on every program");
    }
    Ok(())
}

/// Seconds of each run, for each way; none where it was not reached.
type Times = [Vec<Option<f64>>; 3];

fn table(rows: &[(String, Times)], options: &Options) -> Table {
    let mut table = Table::new();
    table.load_preset(comfy_table::presets::ASCII_MARKDOWN);
    table.set_header(["program", "ours, s", "random lines, s", "coz, s", "coz over ours"]);
    for (name, times) in rows {
        let [ours, random, coz] = times.each_ref().map(|times| shown(times, options.limit));
        let ratio = match (median(&times[0], options.limit), median(&times[2], options.limit)) {
            (Some(Median { time: ours, reached: true }), Some(coz)) => {
                format!("{}{:.1}", if coz.reached { "" } else { "> " }, coz.time / ours)
            }
            _ => "n/a".into(),
        };
        table.add_row([name.clone(), ours, random, coz, ratio]);
    }
    table
}

/// The median of runs of which some were given up.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Median {
    time: f64,
    /// Else it is later than this.
    reached: bool,
}

fn median(times: &[Option<f64>], limit: f64) -> Option<Median> {
    let mut all: Vec<f64> = times.iter().map(|time| time.unwrap_or(limit)).collect();
    all.sort_by(f64::total_cmp);
    let time = *all.get(all.len().checked_sub(1)? / 2)?;
    Some(Median { time, reached: time < limit })
}

fn shown(times: &[Option<f64>], limit: f64) -> String {
    let one = |time: f64| if time < limit { format!("{time:.1}") } else { format!("> {limit:.0}") };
    let Some(median) = median(times, limit) else { return "n/a".into() };
    let mut all: Vec<f64> = times.iter().map(|time| time.unwrap_or(limit)).collect();
    all.sort_by(f64::total_cmp);
    let ends = all.first().zip(all.last()).map(|(low, high)| format!("{}..{}", one(*low), one(*high)));
    format!("{} ({})", one(median.time), ends.unwrap_or_default())
}

fn too_slow(name: &str, times: &Times, limit: f64) -> Option<String> {
    let (Some(ours), Some(coz)) = (median(&times[0], limit), median(&times[2], limit)) else {
        return Some(format!("{name} was not measured"));
    };
    let fast = ours.reached && coz.time >= FASTER * ours.time;
    (!fast).then(|| format!("{name}: {} s against {} s", shown(&times[0], limit), shown(&times[2], limit)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_beyond_the_limit_is_only_known_to_be_later() {
        let some = [Some(3.0), None, Some(1.0)];
        assert_eq!(median(&some, 10.0), Some(Median { time: 3.0, reached: true }));
        assert_eq!(median(&[Some(3.0), None, None], 10.0), Some(Median { time: 10.0, reached: false }));
        assert_eq!(shown(&[Some(3.0), None, None], 10.0), "> 10 (3.0..> 10)");
        assert_eq!(median(&[], 10.0), None);
    }

    #[test]
    fn twice_as_fast_is_fast_enough() {
        let times = |ours: f64, coz: Option<f64>| [vec![Some(ours)], vec![], vec![coz]];
        assert_eq!(too_slow("p", &times(5.0, Some(10.0)), 45.0), None);
        assert_eq!(too_slow("p", &times(20.0, None), 45.0), None, "coz takes more than 45 s");
        assert!(too_slow("p", &times(5.1, Some(10.0)), 45.0).is_some());
        assert!(too_slow("p", &times(30.0, None), 45.0).is_some(), "45 s is not twice as long");
        assert!(too_slow("p", &[vec![], vec![], vec![]], 45.0).is_some());
    }
}
