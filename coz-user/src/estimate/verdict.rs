//! What a curve means, when many lines are looked at.

use super::Line;
use serde::Serialize;
use std::fmt;

/// Share of false discoveries among the lines called worth optimising or contended.
const FALSE_DISCOVERIES: f64 = 0.05;
/// Smaller effects are not worth a word, whatever their interval.
pub(super) const WORTH: f64 = 0.02;
/// A loss must be as large before it is called contention: to pay delays costs threads up to some three points that
/// no account has (the truth suite's `background` and the demonstration's auditor, which nobody waits for).
const HARM: f64 = 0.05;
/// A line is flat if its slope lies within this of zero, surely, and so does every fitted effect, probably.
pub(super) const FLAT: f64 = 0.05;
/// The intervals of a flat line's fitted effects, each of which rests on a part of the data, end within this.
const FLAT_PARTS: f64 = 0.1;

/// What to do about a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Making it faster makes the program faster.
    Optimize,
    /// Making it faster gains nothing: the curve lies within five points of zero.
    Flat,
    /// Making it faster makes the program slower: it delays others at something shared.
    Contention,
    /// The data do not tell yet.
    #[default]
    Undecided,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Optimize => "optimize",
            Self::Flat => "flat",
            Self::Contention => "contention",
            Self::Undecided => "undecided",
        })
    }
}

/// Sets the verdict of every line.
///
/// A slope counts as different from zero by the procedure of Benjamini and Hochberg ("Controlling the false
/// discovery rate", Journal of the Royal Statistical Society B 57, 1995) over all lines, so that among a
/// hundred useless lines not five are praised. "Flat" must be shown too: by intervals within a margin
/// (Schuirmann's two one-sided tests, 1987), not by the lack of a difference.
pub fn decide(lines: &mut [Line]) {
    let mut chances: Vec<(usize, f64)> =
        lines.iter().enumerate().filter_map(|(i, line)| Some((i, line.chance?))).collect();
    let found = discoveries(&mut chances);
    for (i, line) in lines.iter_mut().enumerate() {
        line.verdict = verdict(line, found.contains(&i));
    }
}

fn verdict(line: &Line, discovered: bool) -> Verdict {
    let Some(slope) = line.slope else { return Verdict::Undecided };
    let largest = line.summary.iter().map(|s| s.effect.abs()).fold(slope.value.abs(), f64::max);
    let within = |low: Option<f64>, high: Option<f64>, margin: f64| {
        low.zip(high).is_some_and(|(low, high)| -margin <= low && high <= margin)
    };
    let flat = largest <= FLAT
        && within(slope.low, slope.high, FLAT)
        && line.summary.iter().all(|s| within(s.low, s.high, FLAT_PARTS));
    if discovered && slope.value > 0.0 && largest >= WORTH {
        Verdict::Optimize
    } else if discovered && slope.value < 0.0 && largest >= HARM {
        Verdict::Contention
    } else if flat {
        Verdict::Flat
    } else {
        Verdict::Undecided
    }
}

/// Benjamini and Hochberg: the largest `k` with `p(k) <= k/m q`, and all that rank before it.
fn discoveries(chances: &mut [(usize, f64)]) -> Vec<usize> {
    chances.sort_by(|a, b| a.1.total_cmp(&b.1));
    let m = chances.len() as f64;
    let passes = |(k, (_, p)): (usize, &(usize, f64))| *p <= (k + 1) as f64 / m * FALSE_DISCOVERIES;
    let found = (0..chances.len()).rev().find(|&k| passes((k, &chances[k]))).map_or(0, |k| k + 1);
    chances[..found].iter().map(|(i, _)| *i).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{Estimated, Level};
    use super::*;

    #[test]
    fn benjamini_and_hochberg_1995_find_their_own_four() {
        // The example of their paper, section 3.1: 15 probabilities, of which Bonferroni keeps 3 and they
        // keep 4.
        let published = [
            0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719,
            0.6528, 0.7590, 1.0,
        ];
        let mut chances: Vec<_> = published.into_iter().enumerate().rev().collect();
        assert_eq!(discoveries(&mut chances), [0, 1, 2, 3]);
    }

    fn line(slope: f64, half: f64, chance: f64) -> Line {
        let (low, high) = (Some(slope - half), Some(slope + half));
        Line {
            slope: Some(Estimated { value: slope, low, high }),
            chance: Some(chance),
            summary: vec![Level { permille: 1000, effect: slope, low, high, ..Level::default() }],
            ..Line::default()
        }
    }

    #[test]
    fn flat_must_be_shown_and_not_merely_not_refuted() {
        let mut lines = [
            line(0.4, 0.1, 1e-9),
            line(-0.3, 0.1, 1e-5),
            line(0.01, 0.03, 0.5),
            line(0.1, 0.3, 0.5),
            line(0.01, 0.005, 1e-4),
            Line::default(),
        ];
        decide(&mut lines);
        use Verdict::{Contention, Flat, Optimize, Undecided};
        let verdicts: Vec<_> = lines.iter().map(|l| l.verdict).collect();
        assert_eq!(verdicts, [Optimize, Contention, Flat, Undecided, Flat, Undecided]);
    }
}
