//! Whether what was realised is what was predicted, in words.

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
    AsPredicted,
    /// More was realised.
    MoreThanPredicted,
    /// Less was realised.
    LessThanPredicted,
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
        Outcome::AsPredicted
    } else if more > 0.0 {
        Outcome::MoreThanPredicted
    } else {
        Outcome::LessThanPredicted
    }
}

impl Outcome {
    /// A sentence: what was predicted, what was realised, and how the two agree.
    #[must_use]
    pub fn words(self, realised: Option<&Estimated>, predicted: Option<&Estimated>) -> String {
        let number = |name: &str, of: Option<&Estimated>| of.map(|of| format!("{name} {}", percent(of)));
        let numbers: Vec<String> =
            [number("predicted", predicted), number("realised", realised)].into_iter().flatten().collect();
        let is = match self {
            Self::AsPredicted => "as predicted",
            Self::MoreThanPredicted => "more than predicted",
            Self::LessThanPredicted => "less than predicted",
            Self::Unsure if predicted.is_some() => "too uncertain to compare",
            Self::Unsure => "too uncertain",
            Self::NotPredicted if predicted.is_some() => {
                "not to be compared, for some of what changed has no curve in the profile before"
            }
            Self::NotPredicted => {
                "nothing was predicted, for what changed has no curve in the profile before"
            }
            Self::Unchanged => "no change, and no line takes less time or more",
            Self::Unexplained => {
                "nothing was predicted, for no profiled line takes less time or more: the work, the machine or code out of \
                 scope is different"
            }
            Self::NoData => {
                return "cannot be compared: in one of the profiles no experiment without delay has a visit of it"
                    .into();
            }
        };
        format!("{}: {is}", numbers.join(", "))
    }

    /// Whether longer profiles would tell more.
    #[must_use]
    pub fn wants_more(self, realised: Option<&Estimated>) -> bool {
        let interval = realised.and_then(|realised| realised.low.zip(realised.high));
        self == Self::Unsure || interval.is_some_and(|(low, high)| is_open(low, high))
    }

    /// What follows for whoever made the change, in a sentence: whether it paid, and what to look at next. `one`: what takes the time,
    /// `a visit` for instance.
    #[must_use]
    pub fn conclusion(self, one: &str, realised: Option<&Estimated>) -> Option<String> {
        let realised = realised?;
        let (low, high) = realised.low.zip(realised.high)?;
        let whole = |share: f64| (100.0 * share).abs().clamp(0.0, 999.0).round() as i64;
        let least = |near: f64| match whole(near) {
            0 => String::new(),
            least => format!(", {least} % at least"),
        };
        let came = if low > 0.0 {
            format!("The change paid: {one} takes {} % less time{}", whole(realised.value), least(low))
        } else if high < 0.0 {
            format!("It became slower: {one} takes {} % more time{}", whole(realised.value), least(high))
        } else if !is_open(low, high) {
            format!("It did not pay: {one} takes as long as before")
        } else {
            return Some(format!(
                "Whether the change paid is not known: {one} may take {} % less time or {} % more.",
                whole(high),
                whole(low)
            ));
        };
        let is_gain = low > 0.0;
        let next = match self {
            Self::AsPredicted if is_gain => {
                ", as much as was to be expected. What to do next is in the profile after."
            }
            Self::AsPredicted => ", as was to be expected.",
            Self::MoreThanPredicted => {
                ", which is better than was to be expected: something else got faster with it (less waiting, less memory), or the \
                 machine did. Profile both once more, in turn, to be sure."
            }
            Self::LessThanPredicted => {
                ", which is worse than was to be expected: something else takes longer now. Look for lines below whose time \
                 became more, and for new ones."
            }
            Self::NotPredicted => {
                ". What changed had not been tried before, so no prediction is put to the test."
            }
            Self::Unexplained => {
                ", and no profiled line tells why: was it the same work, on a machine as quiet as before?"
            }
            Self::Unsure => ". How near that is to what was to be expected is not known.",
            Self::Unchanged | Self::NoData => ".",
        };
        Some(came + next)
    }
}

/// Whether an interval leaves open if a visit takes less time, more, or as much as before.
fn is_open(low: f64, high: f64) -> bool {
    low <= 0.0 && high >= 0.0 && low.abs().max(high.abs()) >= NEAR
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
    fn realised_is_as_predicted_or_not_or_cannot_be_told() {
        let compare = |came, said| compare(came, said, true, false);
        assert_eq!(compare(of(0.11, 0.03), of(0.12, 0.02)), Outcome::AsPredicted);
        assert_eq!(
            compare(of(0.11, 0.001), of(0.135, 0.001)),
            Outcome::AsPredicted,
            "as near as predictions get"
        );
        assert_eq!(compare(of(0.2, 0.02), of(0.12, 0.02)), Outcome::MoreThanPredicted);
        assert_eq!(compare(of(0.0, 0.02), of(0.12, 0.02)), Outcome::LessThanPredicted);
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
    fn what_follows_is_said_in_words() {
        let says = |outcome: Outcome, value: f64, half: f64| {
            outcome.conclusion("a visit", of(value, half).as_ref()).expect("there is an interval")
        };
        let paid = says(Outcome::AsPredicted, 0.55, 0.05);
        assert!(
            paid.starts_with("The change paid: a visit takes 55 % less time, 50 % at least, as much as"),
            "{paid}"
        );
        let worse = says(Outcome::LessThanPredicted, -0.2, 0.05);
        assert!(
            worse
                .starts_with("It became slower: a visit takes 20 % more time, 15 % at least, which is worse"),
            "{worse}"
        );
        let open = says(Outcome::Unsure, 0.02, 0.13);
        assert!(open.contains("may take 15 % less time or 11 % more"), "{open}");
        let wants_more = |outcome: Outcome, value, half| outcome.wants_more(of(value, half).as_ref());
        assert!(wants_more(Outcome::AsPredicted, 0.02, 0.13) && wants_more(Outcome::Unsure, 0.55, 0.4));
        assert!(!wants_more(Outcome::Unchanged, 0.0, 0.01) && !wants_more(Outcome::AsPredicted, 0.55, 0.05));
        assert_eq!(says(Outcome::Unchanged, 0.0, 0.01), "It did not pay: a visit takes as long as before.");
        let none = Estimated { value: 0.3, low: None, high: None };
        assert_eq!(Outcome::Unsure.conclusion("a run", Some(&none)), None);
    }

    #[test]
    fn words_are_always_the_same_two() {
        let (said, came) = (of(0.12, 0.02), of(0.11, 0.03));
        let words = |outcome: Outcome| outcome.words(came.as_ref(), said.as_ref());
        assert_eq!(words(Outcome::AsPredicted), "predicted +12 % (±2), realised +11 % (±3): as predicted");
        assert_eq!(
            words(Outcome::LessThanPredicted),
            "predicted +12 % (±2), realised +11 % (±3): less than predicted"
        );
        for outcome in [
            Outcome::AsPredicted,
            Outcome::MoreThanPredicted,
            Outcome::LessThanPredicted,
            Outcome::Unsure,
            Outcome::NotPredicted,
        ] {
            assert!(words(outcome).starts_with("predicted +12 % (±2), realised +11 % (±3): "), "{outcome:?}");
        }
        for outcome in [Outcome::Unsure, Outcome::NotPredicted, Outcome::Unchanged, Outcome::Unexplained] {
            assert!(outcome.words(came.as_ref(), None).starts_with("realised +11 % (±3): "), "{outcome:?}");
        }
        assert_eq!(percent(&Estimated { value: -0.001, low: Some(-0.002), high: Some(0.0) }), "0 % (±1)");
    }
}
