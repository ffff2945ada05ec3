//! How a function is entered: how often, how steadily, by how many threads. From that, how good a progress point it makes.

/// What was counted in slices of equal length.
#[derive(Clone, Debug, PartialEq)]
pub struct Pace {
    /// Visits per second.
    pub rate: f64,
    /// Standard deviation of the slices, as a share of their mean; beyond what chance alone gives.
    pub spread: f64,
    /// How many threads visited.
    pub threads: usize,
    /// The share of the thread that visited most.
    pub busiest: f64,
}

/// A visit every few milliseconds is ideal.
const IDEAL: f64 = 300.0;
/// More than this costs too much time of its own; fewer take too long to be counted.
const USEFUL: std::ops::RangeInclusive<f64> = 2.0..=100_000.0;
/// Points off for a function that one thread alone enters, in a program of several: what that thread does need not be
/// what the program is there for.
const ALONE: f64 = 0.7;

impl Pace {
    /// Of the visits of each thread (outer) in each slice (inner), of so many seconds each. `None` without any visit.
    #[must_use]
    pub fn of(counts: &[Vec<u64>], seconds: f64) -> Option<Self> {
        let slices = counts.iter().map(Vec::len).max()?;
        let sums: Vec<f64> = (0..slices)
            .map(|slice| counts.iter().filter_map(|thread| thread.get(slice)).sum::<u64>() as f64)
            .collect();
        let total: f64 = sums.iter().sum();
        if total <= 0.0 || seconds <= 0.0 {
            return None;
        }
        let mean = total / slices as f64;
        let variance = sums.iter().map(|sum| (sum - mean).powi(2)).sum::<f64>() / (slices.max(2) - 1) as f64;
        // Independent visits would vary by the root of their number.
        let spread = (variance - mean).max(0.0).sqrt() / mean;
        let by_thread: Vec<u64> =
            counts.iter().map(|thread| thread.iter().sum()).filter(|sum| *sum > 0).collect();
        let most = by_thread.iter().max().copied().unwrap_or(0) as f64;
        Some(Self { rate: mean / seconds, spread, threads: by_thread.len(), busiest: most / total })
    }

    /// Whether it can serve at all.
    #[must_use]
    pub fn is_useful(&self) -> bool {
        USEFUL.contains(&self.rate)
    }

    /// The smaller, the better; `others`: how many threads of the program do anything.
    #[must_use]
    pub fn penalty(&self, others: usize) -> f64 {
        let off = (self.rate / IDEAL).log10().abs();
        let alone = if self.busiest > 0.95 && others > 1 { ALONE } else { 0.0 };
        off + 2.0 * self.spread.min(1.5) + alone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_spread_and_threads_are_those_of_the_counts() {
        let pace =
            Pace::of(&[vec![100, 100, 100, 100], vec![0, 0, 0, 0], vec![300, 300, 300, 300]], 0.1).unwrap();
        assert_eq!((pace.rate, pace.spread, pace.threads, pace.busiest), (4000.0, 0.0, 2, 0.75));
        assert!(pace.is_useful());
        assert_eq!(Pace::of(&[vec![0, 0]], 0.1), None);
        assert_eq!(Pace::of(&[], 0.1), None);
        assert!(!Pace::of(&[vec![1_000_000]], 0.1).unwrap().is_useful());
    }

    #[test]
    fn chance_alone_is_no_unsteadiness_but_bursts_are() {
        let steady = Pace::of(&[vec![96, 104, 110, 90, 100]], 0.1).unwrap();
        let bursts = Pace::of(&[vec![500, 0, 0, 0, 0]], 0.1).unwrap();
        assert!(steady.spread < 0.01 && bursts.spread > 2.0, "{steady:?} {bursts:?}");
        assert!(steady.penalty(1) < bursts.penalty(1));
    }

    #[test]
    fn of_two_equals_the_one_that_several_threads_enter_is_better() {
        let one = Pace::of(&[vec![30, 30], vec![0, 0]], 0.1).unwrap();
        let two = Pace::of(&[vec![15, 15], vec![15, 15]], 0.1).unwrap();
        assert!(two.penalty(2) < one.penalty(2));
        assert!(
            (one.penalty(1) - two.penalty(1)).abs() < 1e-9,
            "in a program of one thread there is no difference"
        );
    }
}
