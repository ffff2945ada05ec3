//! How much longer to measure until there is an answer.
//!
//! Intervals narrow as the root of the number of experiments. What a verdict asks for is known ([`super::verdict`]), and so is
//! how many experiments a line got in how much time: the rest is a rule of three. It is a guess: the effect itself moves too.

use super::{
    Line, MIN_SPEEDUPS, Verdict,
    verdict::{FLAT, WORTH},
};
use std::collections::BTreeSet;

/// An interval must be this much narrower than the distance to what it is to exclude.
const MARGIN: f64 = 0.8;
/// What is short of an answer by less gets it by chance, or not: so much longer makes a difference, as a part of what there is.
const LEAST: f64 = 0.25;
/// Nobody waits longer for a line, seconds.
const LONGEST: f64 = 6.0 * 3600.0;

/// Seconds more of the same run until the line probably has an answer; and if all experiments were on it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct More {
    /// If the run went on as it was.
    pub seconds: f64,
    /// With `--fixed-line`.
    pub alone: f64,
}

/// How much longer for a line that is undecided. `seconds`: how long experiments have been made; `experiments`: how many count, on
/// all lines. `None` for lines with an answer, and where none is in sight.
#[must_use]
pub fn more(line: &Line, seconds: f64, experiments: usize) -> Option<More> {
    if line.verdict != Verdict::Undecided || line.experiments == 0 || seconds <= 0.0 {
        return None;
    }
    let factor = few(line).into_iter().chain(wide(line)).reduce(f64::max)?;
    let seconds = seconds * (factor - 1.0).max(LEAST);
    let alone = seconds * line.experiments as f64 / experiments.max(line.experiments) as f64;
    (seconds <= LONGEST).then_some(More { seconds, alone })
}

/// How many times as many experiments until enough different speedups have been tried.
fn few(line: &Line) -> Option<f64> {
    let tried: BTreeSet<u32> = line.curve.iter().map(|level| level.permille).collect();
    let wanted = f64::from(MIN_SPEEDUPS);
    line.hidden.is_some().then(|| wanted / (tried.len().max(1) as f64).min(wanted))
}

/// How many times as many experiments until the slope's interval leaves out zero, or lies near it.
fn wide(line: &Line) -> Option<f64> {
    let slope = line.slope?;
    // Where an end is bounded by what can be, the other one tells how wide it is.
    let half = (slope.high? - slope.value).max(slope.value - slope.low?);
    let size = slope.value.abs();
    let is_gain = slope.value >= WORTH || slope.value <= -FLAT;
    let wanted = [is_gain.then_some(size * MARGIN), (size < FLAT).then_some((FLAT - size) * MARGIN)];
    let wanted = wanted.into_iter().flatten().fold(0.0, f64::max);
    (wanted > 0.0 && half.is_finite()).then(|| (half / wanted).powi(2).max(1.0))
}

/// `40 s`, `5 min`, `2 h`: no finer than it is known.
#[must_use]
pub fn rounded(seconds: f64) -> String {
    let (value, unit) = match seconds {
        s if s < 90.0 => (s, "s"),
        s if s < 5400.0 => (s / 60.0, "min"),
        s => (s / 3600.0, "h"),
    };
    let step = if value < 10.0 || unit == "h" {
        1.0
    } else if unit == "s" {
        10.0
    } else {
        5.0
    };
    format!("{:.0} {unit}", (value / step).ceil() * step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::{
        Estimated, Level, estimate,
        simulate::{Program, settings},
    };

    fn undecided(value: f64, half: f64) -> Line {
        Line {
            experiments: 10,
            slope: Some(Estimated { value, low: Some(value - half), high: Some(value + half) }),
            curve: vec![Level::default(); 6],
            ..Line::default()
        }
    }

    #[test]
    fn half_the_width_takes_four_times_the_experiments() {
        let found = more(&undecided(0.1, 0.16), 30.0, 40).unwrap();
        assert!((found.seconds - 90.0).abs() < 1e-9, "{found:?}");
        assert!((found.alone - 22.5).abs() < 1e-9, "a quarter of the experiments were on it");
        let flat = more(&undecided(0.0, 0.08), 30.0, 10).unwrap();
        assert!((flat.seconds - 90.0).abs() < 1e-9, "to show that nothing is gained: {flat:?}");
        assert_eq!(more(&Line { verdict: Verdict::Optimize, ..undecided(0.1, 0.01) }, 30.0, 9), None);
        assert_eq!(more(&undecided(0.0499, 0.5), 30.0, 9).map(|m| m.seconds > 600.0), Some(true));
        assert_eq!(more(&undecided(-0.04999, 0.5), 1000.0, 9), None, "not in sight");
        let bounded = Estimated { value: 0.9, low: Some(-0.46), high: Some(1.0) };
        let wild = more(&Line { slope: Some(bounded), ..undecided(0.9, 1.0) }, 15.0, 10).unwrap();
        assert!(
            wild.seconds > 30.0,
            "an interval from -46 to 90 % is not half as wide for its upper end: {wild:?}"
        );
        assert_eq!(more(&Line { experiments: 5, ..Line::default() }, 30.0, 9), None);
    }

    #[test]
    fn times_are_told_as_people_tell_them() {
        assert_eq!([3.2, 41.0, 100.0, 700.0, 9000.0].map(rounded), ["4 s", "50 s", "2 min", "15 min", "3 h"]);
    }

    #[test]
    fn after_as_long_as_was_said_there_is_an_answer_more_often_than_not() {
        let program = |seconds: f64| Program {
            noise: 0.06,
            ..Program::steady(seconds, vec![(0.4, |s| 0.12 * s), (0.6, |_| 0.0)])
        };
        let (mut said, mut answered) = (0, 0);
        for seed in 0..30 {
            let line = |seconds: f64| {
                let found = estimate(&program(seconds).profile(seed), &settings());
                let count = found.counted;
                (found.lines.into_iter().find(|l| l.location == "/src/app.c:10"), count)
            };
            let (Some(first), count) = line(12.0) else { continue };
            let Some(more) = more(&first, 12.0, count).filter(|more| more.seconds < 200.0) else { continue };
            said += 1;
            let later = line(12.0 + 1.3 * more.seconds).0;
            answered += usize::from(later.is_some_and(|l| l.verdict != Verdict::Undecided));
        }
        assert!(said >= 5 && 2 * answered >= said, "{answered} of {said}");
    }
}
