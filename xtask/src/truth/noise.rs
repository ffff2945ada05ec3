//! What else the machine did while something was measured.

use std::fs;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};

/// From this share of the CPUs' time on, other programs have spoilt a measurement; the same for stolen time.
pub const LIMIT: f64 = 0.05;
/// Stands in the note of every disturbed measurement.
pub const DISTURBED: &str = "others used";
/// How the note of one ends that was not repeated.
pub const KEPT: &str = "taken as it is";
/// After a disturbed measurement, a pause: what disturbed it may be over then.
const PAUSE: Duration = Duration::from_millis(500);
/// The kernel counts in ticks: so many of them may be missed at the ends.
const SLACK_TICKS: f64 = 3.0;

/// Totals since the machine's start, seconds of CPU time.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Totals {
    busy: f64,
    stolen: f64,
    all: f64,
    /// What we and the programs that we waited for used.
    own: f64,
}

/// What others used meanwhile, as shares of all CPU time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Noise {
    /// Other programs.
    pub foreign: f64,
    /// The hypervisor.
    pub stolen: f64,
}

impl Noise {
    fn between(before: &Totals, after: &Totals, tick: f64) -> Self {
        let all = (after.all - before.all).max(tick);
        let share = |seconds: f64| (seconds - SLACK_TICKS * tick).max(0.0) / all;
        let foreign = (after.busy - before.busy) - (after.own - before.own);
        Self { foreign: share(foreign), stolen: share(after.stolen - before.stolen) }
    }

    fn spoils(self) -> bool {
        self.foreign > LIMIT || self.stolen > LIMIT
    }
}

/// Measures until nothing disturbs it, at most `tries` times; what was repeated and what was taken as it is is
/// printed and noted, with the name of what was measured.
///
/// # Errors
/// When the measurement fails, or the kernel's counters cannot be read.
pub fn undisturbed<T>(
    what: &str,
    tries: usize,
    notes: &mut Vec<String>,
    mut measure: impl FnMut() -> Result<T>,
) -> Result<T> {
    let tick = tick();
    let mut tried = 0;
    loop {
        tried += 1;
        let before = totals(tick)?;
        let result = measure()?;
        let noise = Noise::between(&before, &totals(tick)?, tick);
        if !noise.spoils() {
            return Ok(result);
        }
        let end = if tried >= tries { KEPT } else { "repeated" };
        let percent = |share: f64| 100.0 * share;
        let (foreign, stolen) = (percent(noise.foreign), percent(noise.stolen));
        let note = format!("{what}: {DISTURBED} {foreign:.0} % of the CPUs, {stolen:.0} % was stolen: {end}");
        eprintln!("  {note}");
        notes.push(note);
        if tried >= tries {
            return Ok(result);
        }
        thread::sleep(PAUSE);
    }
}

/// Seconds a tick.
fn tick() -> f64 {
    // SAFETY: sysconf has no preconditions.
    let rate = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    1.0 / rate.max(1) as f64
}

fn totals(tick: f64) -> Result<Totals> {
    let text = fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
    parse(&text, tick, used(libc::RUSAGE_SELF) + used(libc::RUSAGE_CHILDREN))
}

fn used(whose: libc::c_int) -> f64 {
    // SAFETY: an all-zero rusage is a valid one.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is writable and lives through the call.
    unsafe { libc::getrusage(whose, &raw mut usage) };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

/// The first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal, in ticks.
fn parse(text: &str, tick: f64, own: f64) -> Result<Totals> {
    let line = text.lines().next().unwrap_or_default();
    let ticks: Vec<f64> = line.split_ascii_whitespace().skip(1).map_while(|word| word.parse().ok()).collect();
    let [user, nice, system, idle, iowait, irq, softirq, steal] = ticks[..ticks.len().min(8)] else {
        anyhow::bail!("/proc/stat begins with `{line}`");
    };
    // Interrupts belong to nobody: a profiler's samples are some, too.
    let busy = user + nice + system;
    let all = busy + idle + iowait + irq + softirq + steal;
    Ok(Totals { busy: busy * tick, stolen: steal * tick, all: all * tick, own })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(user: u32, idle: u32, steal: u32, own: f64) -> Totals {
        parse(&format!("cpu  {user} 0 0 {idle} 0 0 0 {steal} 0 0\ncpu0"), 0.01, own)
            .expect("that is its form")
    }

    #[test]
    fn what_we_did_ourselves_is_no_noise() {
        let noise = Noise::between(&at(0, 0, 0, 0.0), &at(100, 100, 0, 0.98), 0.01);
        assert_eq!(noise, Noise { foreign: 0.0, stolen: 0.0 });
    }

    #[test]
    fn what_others_did_is() {
        let noise = Noise::between(&at(0, 0, 0, 0.0), &at(150, 50, 0, 1.0), 0.01);
        assert!((noise.foreign - 0.235).abs() < 1e-9 && noise.spoils(), "{noise:?}");
        let noise = Noise::between(&at(0, 0, 0, 0.0), &at(100, 80, 20, 1.0), 0.01);
        assert!((noise.stolen - 0.085).abs() < 1e-9 && noise.spoils(), "{noise:?}");
    }

    #[test]
    fn another_form_is_an_error() {
        assert!(parse("cpu 1 2 3", 0.01, 0.0).is_err());
    }
}
