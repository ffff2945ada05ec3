//! Truth beside prediction, as a table and as a verdict.

use std::fmt;

use anyhow::{Result, ensure};
use comfy_table::Table;
use serde::Serialize;

use super::stats::{Spread, median};
use super::{JUDGED, LIMIT};

/// One program at one level; everything in percent of the time a round takes.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The program.
    pub program: String,
    /// By how much the line was made shorter.
    pub level: u32,
    /// What that really gave.
    pub truth: Spread,
    /// What the profile of the original says; `None` when it says nothing of this level.
    pub prediction: Option<Spread>,
}

impl Row {
    /// Prediction minus truth, percentage points.
    #[must_use]
    pub fn error(&self) -> Option<f64> {
        Some(self.prediction?.median - self.truth.median)
    }
}

/// All rows, for people.
#[must_use]
pub fn table(rows: &[Row]) -> Table {
    let mut table = Table::new();
    table.load_preset(comfy_table::presets::UTF8_HORIZONTAL_ONLY);
    table.set_header(["program", "level", "truth", "from..to", "prediction", "interval", "error"]);
    let figure = |value: f64| format!("{value:.1}");
    let range = |spread: Spread| format!("{:.1}..{:.1}", spread.low, spread.high);
    let none = || "none".to_owned();
    for row in rows {
        table.add_row([
            row.program.clone(),
            format!("{} %", row.level),
            figure(row.truth.median),
            range(row.truth),
            row.prediction.map_or_else(none, |prediction| figure(prediction.median)),
            row.prediction.map_or_else(String::new, range),
            row.error().map_or_else(String::new, |error| format!("{error:+.1}")),
        ]);
    }
    table
}

/// What all rows come to at the judged levels.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// Median of the absolute errors, percentage points; `None` without any prediction.
    pub median: Option<f64>,
    /// The largest of them and whose it is.
    pub worst: Option<(String, f64)>,
    /// Programs and levels of which the profile says nothing.
    pub missing: Vec<String>,
}

impl Verdict {
    /// Of these rows.
    #[must_use]
    pub fn of(rows: &[Row]) -> Self {
        let judged = || rows.iter().filter(|row| JUDGED.contains(&row.level));
        let label = |row: &Row| format!("{} at {} %", row.program, row.level);
        let errors: Vec<_> = judged().filter_map(|row| Some((label(row), row.error()?.abs()))).collect();
        Self {
            median: median(&errors.iter().map(|(_, error)| *error).collect::<Vec<_>>()),
            worst: errors.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)),
            missing: judged().filter(|row| row.prediction.is_none()).map(label).collect(),
        }
    }

    /// Whether it is good enough.
    ///
    /// # Errors
    /// When a prediction is missing or the median error is above [`LIMIT`].
    pub fn check(&self) -> Result<()> {
        ensure!(self.missing.is_empty(), "no prediction for {}", self.missing.join(", "));
        let good = self.median.is_some_and(|median| median <= LIMIT);
        ensure!(good, "the median error is above {LIMIT} percentage points, or there is none");
        Ok(())
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let levels = JUDGED.iter().map(u32::to_string).collect::<Vec<_>>().join(" and ");
        match (self.median, &self.worst) {
            (Some(median), Some((which, error))) => {
                write!(f, "error at {levels} %: median {median:.1}, worst {error:.1} points ({which})")?;
            }
            _ => write!(f, "error at {levels} %: nothing to compare")?,
        }
        if self.missing.is_empty() {
            Ok(())
        } else {
            write!(f, "; no prediction for {}", self.missing.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(level: u32, truth: f64, prediction: Option<f64>) -> Row {
        let exactly = |value| Spread { median: value, low: value, high: value };
        Row { program: "p".into(), level, truth: exactly(truth), prediction: prediction.map(exactly) }
    }

    #[test]
    fn only_the_judged_levels_count() {
        let rows = [row(25, 10.0, Some(90.0)), row(50, 20.0, Some(18.0)), row(100, 40.0, Some(46.0))];
        let verdict = Verdict::of(&rows);
        assert_eq!(verdict.median, Some(4.0));
        assert_eq!(verdict.worst, Some(("p at 100 %".into(), 6.0)));
        assert!(verdict.check().is_ok());
    }

    #[test]
    fn a_wrong_or_missing_prediction_fails() {
        assert!(Verdict::of(&[row(50, 20.0, Some(26.1))]).check().is_err());
        assert!(Verdict::of(&[row(50, 20.0, Some(20.0)), row(100, 20.0, None)]).check().is_err());
        assert!(Verdict::of(&[row(25, 20.0, None)]).check().is_err(), "nothing was judged");
    }
}
