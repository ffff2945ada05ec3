//! Whether what was predicted came true, in words.

use crate::estimate::Estimated;
use serde::Serialize;

/// Nearer than this, points of effect, is the same: what predictions are off by where intervals are narrow.
const NEAR: f64 = 0.03;
/// An interval with a larger half width than this and than half of its value settles nothing.
const VAGUE: f64 = 0.1;

/// How a prediction came out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Predicted and realised agree.
    CameTrue,
    /// It brought more.
    More,
    /// It brought less.
    Less,
    /// The intervals are too wide to tell.
    Unsure,
    /// What changed has no curve.
    NotPredicted,
    /// No line changed, and the point neither.
    Unchanged,
    /// The point changed, and no line did.
    Unexplained,
    /// A profile has no experiment without delay in which the point was visited.
    #[default]
    NoData,
}

/// Compares the two; `any_changed`: lines became faster or slower; `missing`: some of those have no curve.
#[must_use]
pub fn compare(
    realised: Option<Estimated>,
    predicted: Option<Estimated>,
    any_changed: bool,
    missing: bool,
) -> Outcome {
    let Some(realised) = realised else { return Outcome::NoData };
    let half = |of: &Estimated| of.low.zip(of.high).map(|(low, high)| (high - low) / 2.0);
    let Some(came) = half(&realised) else { return Outcome::Unsure };
    let vague = |of: &Estimated, half: f64| half > VAGUE.max(of.value.abs() / 2.0);
    let Some(predicted) = predicted.filter(|_| !missing) else {
        return match (any_changed, realised.value.abs() <= came.max(NEAR)) {
            _ if vague(&realised, came) => Outcome::Unsure,
            (true, _) => Outcome::NotPredicted,
            (false, true) => Outcome::Unchanged,
            (false, false) => Outcome::Unexplained,
        };
    };
    let Some(said) = half(&predicted) else { return Outcome::Unsure };
    let more = realised.value - predicted.value;
    if vague(&realised, came) || vague(&predicted, said) {
        Outcome::Unsure
    } else if more.abs() <= came.hypot(said).max(NEAR) {
        Outcome::CameTrue
    } else if more > 0.0 {
        Outcome::More
    } else {
        Outcome::Less
    }
}

impl Outcome {
    /// A sentence: what was predicted, and what came of it.
    #[must_use]
    pub fn words(self, realised: Option<&Estimated>, predicted: Option<&Estimated>) -> String {
        let number = |of: Option<&Estimated>| of.map_or_else(|| "unknown".to_owned(), percent);
        let (came, said) = (number(realised), number(predicted));
        match self {
            Self::CameTrue => format!("predicted {said}, came true: {came}"),
            Self::More => format!("predicted {said}, it brought more: {came}"),
            Self::Less => format!("predicted {said}, it brought less: {came}"),
            Self::Unsure if predicted.is_some() => {
                format!(
                    "predicted {said}, found {came}: too uncertain to compare; profile longer, before and after"
                )
            }
            Self::Unsure => format!("found {came}: too uncertain; profile longer, before and after"),
            Self::NotPredicted => {
                format!(
                    "found {came}; nothing was predicted, for what changed has no curve in the profile before"
                )
            }
            Self::Unchanged => format!("no change: {came}, and no line takes less time or more"),
            Self::Unexplained => format!(
                "found {came}, though no profiled line takes less time or more: the work, the machine or code out of scope \
                 is different"
            ),
            Self::NoData => {
                "cannot be compared: in one of the profiles no experiment without delay has a visit of it"
                    .into()
            }
        }
    }
}

/// `+12 % (±2)`; no sign for zero.
#[must_use]
pub fn percent(of: &Estimated) -> String {
    let whole = (100.0 * of.value).clamp(-999.0, 999.0).round() as i64;
    let sign = if whole == 0 { String::from("0") } else { format!("{whole:+}") };
    match of.low.zip(of.high) {
        Some((low, high)) => format!("{sign} % (±{:.0})", (50.0 * (high - low)).max(1.0)),
        None => format!("{sign} % (no interval)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(value: f64, half: f64) -> Option<Estimated> {
        Some(Estimated { value, low: Some(value - half), high: Some(value + half) })
    }

    #[test]
    fn predictions_come_true_or_not_or_cannot_be_told() {
        let compare = |came, said| compare(came, said, true, false);
        assert_eq!(compare(of(0.11, 0.03), of(0.12, 0.02)), Outcome::CameTrue);
        assert_eq!(
            compare(of(0.11, 0.001), of(0.135, 0.001)),
            Outcome::CameTrue,
            "as near as predictions get"
        );
        assert_eq!(compare(of(0.2, 0.02), of(0.12, 0.02)), Outcome::More);
        assert_eq!(compare(of(0.0, 0.02), of(0.12, 0.02)), Outcome::Less);
        assert_eq!(compare(of(0.1, 0.15), of(0.12, 0.02)), Outcome::Unsure);
        assert_eq!(compare(of(0.1, 0.02), None), Outcome::NotPredicted);
        assert_eq!(compare(None, of(0.12, 0.02)), Outcome::NoData);
        let quiet = |came| super::compare(came, None, false, false);
        assert_eq!(quiet(of(0.01, 0.02)), Outcome::Unchanged);
        assert_eq!(quiet(of(0.2, 0.02)), Outcome::Unexplained);
        assert_eq!(
            super::compare(of(0.3, 0.02), of(0.1, 0.02), true, true),
            Outcome::NotPredicted,
            "half a prediction is none"
        );
    }

    #[test]
    fn words_are_those_that_people_want() {
        assert_eq!(
            Outcome::CameTrue.words(of(0.11, 0.03).as_ref(), of(0.12, 0.02).as_ref()),
            "predicted +12 % (±2), came true: +11 % (±3)"
        );
        assert_eq!(percent(&Estimated { value: -0.001, low: Some(-0.002), high: Some(0.0) }), "0 % (±1)");
    }
}
