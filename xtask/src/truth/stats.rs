//! The few statistics that the comparison needs.

use serde::Serialize;

/// Middle and ends of some figures, in percent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The smallest (of a prediction: the lower end of its interval).
    pub low: f64,
    /// The largest (of a prediction: the upper end of its interval).
    pub high: f64,
}

impl Spread {
    /// Of these figures; `None` when there are none.
    #[must_use]
    pub fn of(figures: &[f64]) -> Option<Self> {
        let sorted = sorted(figures);
        Some(Self { median: median(figures)?, low: *sorted.first()?, high: *sorted.last()? })
    }
}

fn sorted(figures: &[f64]) -> Vec<f64> {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// The median; of an even number of figures, the mean of the two in the middle. `None` when there are none.
#[must_use]
pub fn median(figures: &[f64]) -> Option<f64> {
    let sorted = sorted(figures);
    let (low, high) = (sorted.get(sorted.len().checked_sub(1)? / 2)?, sorted.get(sorted.len() / 2)?);
    Some(f64::midpoint(*low, *high))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 9.0]), Some(3.0));
        assert_eq!(Spread::of(&[9.0, 1.0, 2.0]), Some(Spread { median: 2.0, low: 1.0, high: 9.0 }));
    }
}
