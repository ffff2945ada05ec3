//! Truth beside prediction, as a table.

use comfy_table::Table;
use serde::Serialize;

use super::stats::Spread;

/// A prediction and how it compares with the truth; everything in percent of the time a round takes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// The prediction with its interval.
    pub spread: Spread,
    /// Prediction minus truth.
    pub error: f64,
    /// Whether the interval holds the truth: they differ by no more than the half widths of both intervals, added as
    /// independent errors are. (The truth has been measured, too; a prediction must not pay for its error.)
    pub holds: bool,
    /// Whether the report says that the answer is not to be trusted.
    pub refused: bool,
}

impl Answer {
    /// The comparison.
    #[must_use]
    pub fn new(truth: Spread, spread: Spread, refused: bool) -> Self {
        let error = spread.median - truth.median;
        // Of an interval that is not symmetric, the side that the truth is on.
        let side = if error > 0.0 { spread.median - spread.low } else { spread.high - spread.median };
        let truths = if error > 0.0 { truth.high - truth.median } else { truth.median - truth.low };
        Self { spread, error, holds: error.abs() <= side.hypot(truths), refused }
    }
}

/// One program at one level.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The program.
    pub program: String,
    /// By how much the line was made shorter, percent.
    pub level: u32,
    /// What that really gave.
    pub truth: Spread,
    /// What our profile of the original says; `None` when it says nothing of this level.
    pub ours: Option<Answer>,
    /// What coz's says.
    pub coz: Option<Answer>,
}

/// All rows, for people.
#[must_use]
pub fn table(rows: &[Row], with_coz: bool) -> Table {
    let mut table = Table::new();
    table.load_preset(comfy_table::presets::UTF8_HORIZONTAL_ONLY);
    let mut header =
        vec!["program", "level", "truth", "interval", "prediction", "interval", "error", "holds"];
    if with_coz {
        header.extend(["coz", "interval", "error", "holds"]);
    }
    table.set_header(header);
    for row in rows {
        let mut cells = vec![row.program.clone(), format!("{} %", row.level)];
        cells.extend([format!("{:.1}", row.truth.median), range(row.truth)]);
        cells.extend(answer(row.ours.as_ref()));
        if with_coz {
            cells.extend(answer(row.coz.as_ref()));
        }
        table.add_row(cells);
    }
    table
}

/// The same for a page in Markdown: a line for each program and level, coz's answer beside.
#[must_use]
pub fn markdown(rows: &[Row]) -> String {
    let mut text = String::from(
        "| program | level | truth | predicted | error | holds | coz | error | holds |\n\
         | --- | ---: | ---: | ---: | ---: | --- | ---: | ---: | --- |\n",
    );
    for row in rows {
        let cells = [answer(row.ours.as_ref()), answer(row.coz.as_ref())];
        let figure = |[median, range, error, holds]: [String; 4]| {
            let range = if range.is_empty() { range } else { format!(" ({range})") };
            format!("{median}{range} | {error} | {holds}")
        };
        let [ours, coz] = cells.map(figure);
        let truth = format!("{:.1} ({})", row.truth.median, range(row.truth));
        text += &format!("| {} | {} | {truth} | {ours} | {coz} |\n", row.program, row.level);
    }
    text
}

fn range(spread: Spread) -> String {
    format!("{:.1}..{:.1}", spread.low, spread.high)
}

fn answer(answer: Option<&Answer>) -> [String; 4] {
    let Some(answer) = answer else { return ["n/a", "", "", ""].map(str::to_owned) };
    let holds = match (answer.refused, answer.holds) {
        (true, _) => "refused",
        (_, true) => "yes",
        (_, false) => "no",
    };
    let Spread { median, .. } = answer.spread;
    [format!("{median:.1}"), range(answer.spread), format!("{:+.1}", answer.error), holds.to_owned()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_side_that_the_truth_is_on_counts() {
        let truth = Spread { median: 20.0, low: 20.0, high: 20.0 };
        let holds = |median, low, high| Answer::new(truth, Spread { median, low, high }, false).holds;
        assert!(holds(25.0, 19.0, 25.5) && !holds(25.0, 24.0, 40.0));
        assert!(holds(15.0, 14.0, 20.5) && !holds(15.0, 0.0, 16.0));
    }

    #[test]
    fn the_truths_own_interval_counts_too() {
        let wide = Spread { median: 20.0, low: 16.0, high: 24.0 };
        let spread = Spread { median: 25.0, low: 22.0, high: 28.0 };
        assert!(Answer::new(wide, spread, false).holds, "5 is the hypotenuse of 3 and 4");
        assert!(!Answer::new(wide, Spread { median: 25.1, ..spread }, false).holds);
    }

    #[test]
    fn what_is_missing_is_shown_as_such() {
        let truth = Spread { median: 20.0, low: 19.0, high: 21.0 };
        let row = Row { program: "p".into(), level: 50, truth, ours: None, coz: None };
        let text = table(std::slice::from_ref(&row), true).to_string();
        assert_eq!(text.matches("n/a").count(), 2, "{text}");
        let text = markdown(&[row]);
        let last = text.lines().last();
        assert_eq!(last, Some("| p | 50 | 20.0 (19.0..21.0) | n/a |  |  | n/a |  |  |"));
    }
}
