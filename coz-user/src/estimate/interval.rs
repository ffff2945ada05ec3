//! From replicates to intervals and probabilities.

use super::{
    curve::Coefficients,
    student::{self, widening},
};

/// A nominal 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// The same, reaching further down by so much.
    #[must_use]
    pub fn reaching_down(self, by: f64) -> Self {
        Self { low: self.low - by, ..self }
    }
}

/// The 95 % interval of `replicates` around `value`, widened for `freedom`.
#[must_use]
pub fn interval(value: f64, mut replicates: Vec<f64>, freedom: f64) -> Option<Interval> {
    if replicates.is_empty() {
        return None;
    }
    replicates.sort_by(f64::total_cmp);
    let at = |p: f64| {
        // The k-th of n values is the k/(n+1) quantile in the mean (Hyndman and Fan 1996, type 6).
        let last = (replicates.len() - 1) as f64;
        let x = (p * (replicates.len() + 1) as f64 - 1.0).clamp(0.0, last);
        let (below, part) = (x.floor() as usize, x.fract());
        let above = (below + 1).min(replicates.len() - 1);
        replicates[below] * (1.0 - part) + replicates[above] * part
    };
    let wider = widening(freedom);
    Some(Interval { low: value + wider * (at(0.025) - value), high: value + wider * (at(0.975) - value) })
}

/// Two-sided probability of such a value if the truth were zero.
#[must_use]
pub fn chance(value: f64, replicates: &[f64], freedom: f64) -> f64 {
    let n = replicates.len().max(1) as f64;
    let mean = replicates.iter().sum::<f64>() / n;
    let error = (replicates.iter().map(|r| (r - mean).powi(2)).sum::<f64>() / n).sqrt();
    student::chance(value, error, freedom)
}

/// The value of a curve with these coefficients.
#[must_use]
pub fn value(row: &Coefficients, beta: &Coefficients) -> f64 {
    row.iter().zip(beta).map(|(a, b)| a * b).sum()
}
