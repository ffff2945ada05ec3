//! The few statistics that the comparison needs.

use serde::{Deserialize, Serialize};

/// A figure and the ends of its range, in percent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The smallest; of an estimate, the lower end of its interval.
    pub low: f64,
    /// The largest; of an estimate, the upper end of its interval.
    pub high: f64,
}

impl Spread {
    /// Of these figures; `None` when there are none.
    #[must_use]
    pub fn of(figures: &[f64]) -> Option<Self> {
        let sorted = sorted(figures);
        Some(Self { median: median(figures)?, low: *sorted.first()?, high: *sorted.last()? })
    }

    /// Half the length of the interval.
    #[must_use]
    pub fn half(self) -> f64 {
        (self.high - self.low) / 2.0
    }

    /// How far outside the interval the figure is; 0 inside.
    #[must_use]
    pub fn beyond(self, figure: f64) -> f64 {
        (self.low - figure).max(figure - self.high).max(0.0)
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

/// Where the figures' centre is, with its 95 % interval: the median of the means of all pairs (Hodges and Lehmann,
/// 1963) and the interval that belongs to Wilcoxon's signed-rank test, which asks nothing of the figures but symmetry
/// and bears a few wild ones. With fewer than six figures no interval holds 95 %; theirs is the range. `None` when
/// there are none.
#[must_use]
pub fn centre(figures: &[f64]) -> Option<Spread> {
    let means: Vec<f64> = (0..figures.len())
        .flat_map(|i| (i..figures.len()).map(move |j| f64::midpoint(figures[i], figures[j])))
        .collect();
    let means = sorted(&means);
    let out = outside(figures.len()).saturating_sub(1);
    Some(Spread { median: median(&means)?, low: *means.get(out)?, high: *means.get(means.len() - 1 - out)? })
}

/// How many of the means of pairs lie outside the 95 % interval at each end, and its own end: the largest `k` for
/// which the sum of the ranks of one sign is below `k` in at most 2.5 % of all 2^n choices of signs.
fn outside(n: usize) -> usize {
    // ways[s]: in how many choices of signs the ranks of the positive ones add up to s.
    let mut ways = vec![0.0; n * (n + 1) / 2 + 1];
    ways[0] = 1.0;
    for rank in 1..=n {
        for sum in (rank..ways.len()).rev() {
            ways[sum] += ways[sum - rank];
        }
    }
    let all = 2f64.powi(i32::try_from(n).unwrap_or(i32::MAX));
    let below = ways.iter().scan(0.0, |sum, ways| {
        *sum += ways / all;
        Some(*sum)
    });
    below.take_while(|share| *share <= 0.025).count()
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

    #[test]
    fn the_interval_is_that_of_the_signed_rank_test() {
        // The test's critical values for 2.5 % at each side are 0 for 6 figures, 3 for 8, 8 for 10.
        assert_eq!([5, 6, 8, 10].map(outside), [0, 1, 4, 9]);
    }

    #[test]
    fn one_wild_figure_among_eight_moves_neither_centre_nor_interval_far() {
        let centre = centre(&[10.0, 11.0, 9.0, 10.5, 9.5, 10.2, 9.8, -60.0]).expect("there are figures");
        assert!((9.0..10.5).contains(&centre.median), "{centre:?}");
        assert!(centre.low > -30.0 && centre.high < 11.0, "{centre:?}");
    }

    #[test]
    fn beyond_is_the_distance_to_the_nearer_end() {
        let spread = Spread { median: 5.0, low: 4.0, high: 8.0 };
        assert_eq!([3.0, 4.5, 10.0].map(|figure| spread.beyond(figure)), [1.0, 0.0, 2.0]);
        assert!((spread.half() - 2.0).abs() < 1e-9);
    }
}
