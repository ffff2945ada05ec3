//! The runs of one program: plain and in every way that is compared with that, in turn.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::bare;
use super::subject::{Subject, UnderCoz};
use crate::sh;
use crate::truth::Spread;
use crate::truth::stats;

/// What one run took, seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Elapsed {
    /// From the command to its end.
    pub whole: f64,
    /// The program's own work, where known, else its life.
    pub work: f64,
    /// Before the program was released.
    pub startup: f64,
    /// After its end.
    pub end: f64,
    /// Delay that was required of everyone, in all.
    pub delay: f64,
}

/// One round: each way once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// Samples a second in `bare`, `sampled` and `probed`: as the default run before has chosen them.
    pub rate: u32,
    /// Alone.
    pub plain: Elapsed,
    /// Interrupted as often as it is sampled, and nothing else.
    pub bare: Elapsed,
    /// Sampled and its switches seen, without progress points and experiments.
    pub sampled: Elapsed,
    /// The same, visits of the point counted.
    pub probed: Elapsed,
    /// As users run it.
    pub default: Elapsed,
    /// Under coz with speedup 0 only: sampled, nothing delayed.
    pub coz_sampled: Option<Elapsed>,
    /// Under coz, as users run it.
    pub coz: Option<Elapsed>,
}

/// All that was measured of one program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// The program.
    pub name: String,
    /// The rounds.
    pub rounds: Vec<Round>,
    /// Why coz is missing, if it is.
    pub without_coz: Option<String>,
}

impl Figures {
    /// Measures so many rounds.
    ///
    /// # Errors
    /// When a run fails; where coz fails, that is noted instead.
    pub fn measure(name: &str, subject: &Subject, profiler: &Path, runs: u32, coz: bool) -> Result<Self> {
        let mut figures = Self { name: name.to_owned(), ..Self::default() };
        let mut under_coz = None;
        if coz {
            match subject.for_coz() {
                Ok(program) => under_coz = Some(program),
                Err(error) => figures.without_coz = Some(format!("{error:#}")),
            }
        } else {
            figures.without_coz = Some("not asked for".into());
        }
        // Not counted: it chooses the rate.
        let (mut rate, _) = profiled(subject, profiler, true, &[])?;
        for number in 0..runs as usize {
            let mut round = Round { rate, ..Round::default() };
            // Each round begins with another kind, so that none always follows the same one.
            for at in 0..KINDS {
                match (number + at) % KINDS {
                    0 => round.plain = alone(subject, subject.plain())?,
                    1 => round.bare = interrupted(subject, round.rate)?,
                    2 => round.sampled = undelayed(subject, profiler, round.rate, false)?,
                    3 => round.probed = undelayed(subject, profiler, round.rate, true)?,
                    4 => (rate, round.default) = profiled(subject, profiler, true, &[])?,
                    _ => figures.under_coz(subject, &mut under_coz, &mut round),
                }
            }
            figures.rounds.push(round);
        }
        Ok(figures)
    }

    /// Where coz fails once, that is noted, and it is not tried again.
    fn under_coz(&mut self, subject: &Subject, program: &mut Option<UnderCoz>, round: &mut Round) {
        let Some(under_coz) = program else { return };
        let run = |options: &[&str]| alone(subject, under_coz.command(subject, options));
        match run(&["--fixed-speedup", "0"]).and_then(|sampled| Ok((sampled, run(&[])?))) {
            Ok((sampled, default)) => (round.coz_sampled, round.coz) = (Some(sampled), Some(default)),
            Err(error) => {
                self.without_coz = Some(format!("{error:#}"));
                *program = None;
            }
        }
    }

    /// The centre and 95 % interval of a ratio within each round, as a percentage above 1; `None` where it was never
    /// measured.
    #[must_use]
    pub fn excess(&self, ratio: impl Fn(&Round) -> Option<f64>) -> Option<Spread> {
        let logs: Vec<f64> = self.rounds.iter().filter_map(ratio).map(f64::ln).collect();
        let centre = stats::centre(&logs)?;
        let percent = |log: f64| 100.0 * (log.exp() - 1.0);
        Some(Spread { median: percent(centre.median), low: percent(centre.low), high: percent(centre.high) })
    }

    /// The median of a figure, with the least and the most.
    #[must_use]
    pub fn spread(&self, figure: impl Fn(&Round) -> Option<f64>) -> Option<Spread> {
        Spread::of(&self.rounds.iter().filter_map(figure).collect::<Vec<_>>())
    }
}

/// Kinds of runs in a round; both of coz's count as one.
const KINDS: usize = 6;

/// Sampled and counted as ever, but the time for experiments is over before the first.
fn undelayed(subject: &Subject, profiler: &Path, rate: u32, point: bool) -> Result<Elapsed> {
    let options = ["--duration", "0.001", "--rate", &rate.to_string()].map(str::to_owned);
    Ok(profiled(subject, profiler, point, &options)?.1)
}

fn interrupted(subject: &Subject, rate: u32) -> Result<Elapsed> {
    let mut command = subject.plain();
    bare::interrupted(&mut command, rate);
    alone(subject, command)
}

/// A run whose start and end are not told apart from the program's: plain, or under coz.
fn alone(subject: &Subject, command: Command) -> Result<Elapsed> {
    let took = subject.run(command)?;
    let whole = took.whole.as_secs_f64();
    Ok(Elapsed { whole, work: took.work.map_or(whole, |work| work.as_secs_f64()), ..Elapsed::default() })
}

fn profiled(subject: &Subject, profiler: &Path, point: bool, options: &[String]) -> Result<(u32, Elapsed)> {
    let profile = sh::target_dir().join("overhead.jsonl");
    // Else every run would keep the one before aside.
    if profile.exists() {
        fs::remove_file(&profile)?;
    }
    let took = subject.run(subject.profiled(profiler, point, options, &profile))?;
    let whole = took.whole.as_secs_f64();
    let (rate, startup, lived, delay) = read(&fs::read_to_string(&profile)?)?;
    let work = took.work.map_or(lived, |work| work.as_secs_f64());
    let end = (whole - startup - lived).max(0.0);
    Ok((rate, Elapsed { whole, work, startup, end, delay }))
}

/// Samples a second; start-up, life of the program and required delay, seconds.
fn read(profile: &str) -> Result<(u32, f64, f64, f64)> {
    let record = |kind: &str| -> Result<Value> {
        let begin = format!(r#"{{"type":"{kind}""#);
        let line = profile.lines().rfind(|line| line.starts_with(&begin));
        Ok(serde_json::from_str(line.with_context(|| format!("the profile has no `{kind}`"))?)?)
    };
    let (startup, runtime) = (record("startup")?, record("runtime")?);
    let rate = startup["rate"].as_u64().and_then(|rate| u32::try_from(rate).ok());
    let seconds = |key: &str| -> Result<f64> {
        let ns = runtime[key].as_u64().with_context(|| format!("no `{key}` at the end of the profile"))?;
        Ok(ns as f64 / 1e9)
    };
    Ok((
        rate.context("no `rate` in the profile")?,
        seconds("startup_ns")?,
        seconds("time")?,
        seconds("delay_ns")?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_says_where_its_time_went() {
        let text = "{\"type\":\"startup\",\"rate\":1999}\n{\"type\":\"experiment\"}\n\
            {\"type\":\"runtime\",\"time\":2000000000,\"startup_ns\":150000000,\"delay_ns\":40000000}\n";
        assert_eq!(read(text).expect("it is a profile"), (1999, 0.15, 2.0, 0.04));
        assert!(read("{\"type\":\"startup\",\"rate\":1999}\n").is_err(), "it has no end");
    }

    #[test]
    fn an_excess_is_within_each_round() {
        let round = |plain: f64, default: f64| Round {
            plain: Elapsed { work: plain, ..Elapsed::default() },
            default: Elapsed { work: default, ..Elapsed::default() },
            ..Round::default()
        };
        let figures =
            Figures { rounds: vec![round(1.0, 1.1), round(2.0, 2.2), round(4.0, 4.4)], ..Figures::default() };
        let excess = figures.excess(|r| Some(r.default.work / r.plain.work)).expect("there are three");
        assert!((excess.median - 10.0).abs() < 1e-9 && excess.half() < 1e-9, "{excess:?}");
        assert_eq!(figures.excess(|r| r.coz.map(|coz| coz.work)), None);
    }
}
