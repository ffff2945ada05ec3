//! What all cells come to, and whether that is good enough.

use std::fmt;

use anyhow::{Result, ensure};
use serde::Serialize;

use super::rows::{Answer, Row};
use super::suite;

/// Mean absolute error, percentage points.
pub const MEAN: f64 = 3.0;
/// How far beyond the truth's own interval the worst cell may be.
pub const WORST: f64 = 8.0;
/// How far from 0 where the truth is 0, from the truth where a CPU is shared.
pub const NEAR: f64 = 3.0;
/// By how much versions of one program may differ.
pub const ALIKE: f64 = 2.0;
/// The share of intervals that must hold the truth.
pub const HOLDS: f64 = 0.9;
/// The programs whose truth is 0.
const ZERO: &[&str] = &["io_bound", "background"];

/// The goals, and what misses them.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Verdict {
    /// Cells with an answer.
    pub cells: usize,
    /// Mean of the absolute errors, percentage points; `None` without any answer.
    pub mean: Option<f64>,
    /// The largest error and whose it is.
    pub worst: Option<(String, f64)>,
    /// The share of cells whose interval holds the truth.
    pub holds: Option<f64>,
    /// Cells that were refused where that is right: they do not count above.
    pub refused: usize,
    /// Every goal that is missed, in words.
    pub missed: Vec<String>,
}

impl Verdict {
    /// Of these rows, with the answers that `of` picks.
    #[must_use]
    pub fn of(rows: &[Row], of: impl Fn(&Row) -> Option<&Answer>) -> Self {
        let label = |row: &Row| format!("{} at {} %", row.program, row.level);
        let mut verdict = Self::default();
        let mut answers = Vec::new();
        for row in rows {
            match of(row) {
                Some(answer) if answer.refused && suite::is_crowded(&row.program) => verdict.refused += 1,
                Some(answer) => answers.push((row, answer)),
                None => verdict.missed.push(format!("no answer for {}", label(row))),
            }
        }
        let count = answers.len() as f64;
        verdict.cells = answers.len();
        if answers.is_empty() {
            verdict.missed.push("there is nothing to compare".into());
            return verdict;
        }
        let mean = answers.iter().map(|(_, answer)| answer.error.abs()).sum::<f64>() / count;
        let holds = answers.iter().filter(|(_, answer)| answer.holds).count() as f64 / count;
        let worst = answers.iter().max_by(|a, b| a.1.error.abs().total_cmp(&b.1.error.abs()));
        verdict.mean = Some(mean);
        verdict.holds = Some(holds);
        verdict.worst = worst.map(|(row, answer)| (label(row), answer.error));
        let mut miss = |missed: bool, text: String| {
            if missed {
                verdict.missed.push(text);
            }
        };
        miss(mean > MEAN, format!("the mean error is {mean:.1} points, not at most {MEAN}"));
        let share = 100.0 * holds;
        miss(
            holds < HOLDS,
            format!("{share:.0} % of the intervals hold the truth, not {:.0} %", 100.0 * HOLDS),
        );
        for (row, answer) in &answers {
            let (label, error) = (label(row), answer.error);
            let beyond = row.truth.beyond(answer.spread.median);
            miss(beyond > WORST, format!("{label}: {beyond:.1} points beyond the truth's interval"));
            let zero = ZERO.contains(&row.program.as_str()) && answer.spread.median.abs() > NEAR;
            miss(zero, format!("{label}: {:.1} where the truth is 0", answer.spread.median));
            let crowded = suite::is_crowded(&row.program) && error.abs() > NEAR;
            miss(crowded, format!("{label}: {error:+.1} with a shared CPU, and no refusal"));
        }
        verdict.missed.extend(differences(&answers));
        verdict
    }

    /// Whether it is good enough.
    ///
    /// # Errors
    /// When a goal is missed.
    pub fn check(&self) -> Result<()> {
        ensure!(self.missed.is_empty(), "goals missed: {}", self.missed.join("; "));
        Ok(())
    }
}

/// Where versions of one program get different answers.
fn differences(answers: &[(&Row, &Answer)]) -> Vec<String> {
    let mut texts = Vec::new();
    for &level in super::LEVELS {
        let alike = |row: &Row| row.level == level && suite::ALIKE.contains(&row.program.as_str());
        let figures = answers.iter().filter(|(row, _)| alike(row)).map(|(_, answer)| answer.spread.median);
        let (low, high) = figures.fold((f64::MAX, f64::MIN), |(low, high), x| (low.min(x), high.max(x)));
        if high - low > ALIKE {
            texts.push(format!(
                "{} differ by {:.1} points at {level} %",
                suite::ALIKE.join(", "),
                high - low
            ));
        }
    }
    texts
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let (Some(mean), Some((which, worst)), Some(holds)) = (self.mean, &self.worst, self.holds) {
            write!(
                f,
                "{} cells: mean error {mean:.1} points, worst {worst:+.1} ({which}); {:.0} % of the intervals hold the truth",
                self.cells,
                100.0 * holds
            )?;
        } else {
            write!(f, "no answers")?;
        }
        if self.refused > 0 {
            write!(f, "; {} cells were refused", self.refused)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::stats::Spread;
    use super::*;

    fn row(program: &str, level: u32, truth: f64, prediction: f64) -> Row {
        let around = |median| Spread { median, low: median - 1.0, high: median + 1.0 };
        let answer = Answer::new(around(truth), around(prediction), false);
        Row { program: program.into(), level, truth: around(truth), ours: Some(answer), coz: None }
    }

    fn ours(rows: &[Row]) -> Verdict {
        Verdict::of(rows, |row| row.ours.as_ref())
    }

    #[test]
    fn good_answers_are_good_enough() {
        let verdict = ours(&[row("single", 50, 20.0, 21.0), row("single", 100, 40.0, 40.5)]);
        assert_eq!((verdict.mean, verdict.holds), (Some(0.75), Some(1.0)));
        assert_eq!(verdict.worst, Some(("single at 50 %".into(), 1.0)));
        assert_eq!(verdict.missed, Vec::<String>::new());
    }

    #[test]
    fn every_goal_can_be_missed() {
        let missed = |rows: &[Row]| ours(rows).missed.join("\n");
        assert!(missed(&[row("single", 50, 20.0, 23.5)]).contains("the mean error is 3.5"));
        assert!(missed(&[row("single", 50, 20.0, 29.5)]).contains("8.5 points beyond"));
        assert!(missed(&[row("single", 50, 20.0, 22.5)]).contains("0 % of the intervals"));
        assert!(missed(&[row("io_bound", 50, 0.0, 3.5)]).contains("3.5 where the truth is 0"));
        assert!(missed(&[row("mutex_many", 50, 20.0, 23.1)]).contains("no refusal"));
        let alike = [row("pipeline_std", 50, 20.0, 19.0), row("pipeline_futex", 50, 20.0, 21.1)];
        assert!(missed(&alike).contains("differ by 2.1 points at 50 %"));
        assert!(missed(&[Row { ours: None, ..row("single", 50, 20.0, 0.0) }]).contains("no answer"));
        assert!(ours(&[]).check().is_err(), "nothing is not good");
    }

    #[test]
    fn a_refusal_is_right_only_where_a_cpu_is_shared() {
        let refused = |program| {
            let mut row = row(program, 50, 20.0, 60.0);
            row.ours.as_mut().expect("there is one").refused = true;
            ours(&[row, self::row("single", 50, 20.0, 20.0)])
        };
        assert_eq!((refused("mutex_many").refused, refused("mutex_many").missed.len()), (1, 0));
        assert!(!refused("single").missed.is_empty());
    }
}
