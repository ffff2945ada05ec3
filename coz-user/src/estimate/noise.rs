//! How noisy experiments are, learnt from all lines together.
//!
//! Noise is mostly the program's and the machine's, hardly the line's: a line with few experiments that happen to
//! agree is not better known than others. Each line's variance is moderated by those of all lines, as gene by gene
//! in Smyth, "Linear models and empirical Bayes methods for assessing differential expression" (Statistical
//! Applications in Genetics and Molecular Biology 3, 2004, sections 3 and 6.2): the lines' true variances are taken to scatter as
//! scaled inverse chi-squares with `d0` degrees of freedom about `s0^2`. Both come from the logarithms of the variances that were seen, and
//! `(d0 s0^2 + d s^2) / (d0 + d)`, with `d0 + d` degrees of freedom, is the variance that is used. Where lines differ
//! by more than chance, `d0` is small and each goes by its own.

/// Fewer lines say nothing about the noise of another.
const LINES: usize = 3;
/// Fewer degrees of freedom say nothing about a line's own.
const LEAST_FREEDOM: f64 = 2.0;
/// The experiments of other lines count for no more than this: their noise is alike, not the same.
const MOST_FREEDOM: f64 = 30.0;

/// A variance, and the degrees of freedom behind it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Noise {
    /// Of residuals, in the units of [`super::residuals`].
    pub variance: f64,
    /// How many residuals that are free it rests on.
    pub freedom: f64,
}

impl Noise {
    /// What several lines' variances have in common; `None` where they are too few to tell.
    #[must_use]
    pub fn common(lines: &[Self]) -> Option<Self> {
        let usable = || lines.iter().filter(|l| l.freedom >= LEAST_FREEDOM && l.variance > 0.0);
        let n = usable().count();
        if n < LINES {
            return None;
        }
        let centred = |l: &Self| l.variance.ln() - log_bias(l.freedom / 2.0);
        let mean = usable().map(centred).sum::<f64>() / n as f64;
        let seen = usable().map(|l| (centred(l) - mean).powi(2)).sum::<f64>() / (n - 1) as f64;
        let by_chance = usable().map(|l| trigamma(l.freedom / 2.0)).sum::<f64>() / n as f64;
        let freedom = match seen - by_chance {
            excess if excess > 0.0 => (2.0 * inverse_trigamma(excess)).min(MOST_FREEDOM),
            _ => MOST_FREEDOM,
        };
        Some(Self { variance: (mean + log_bias(freedom / 2.0)).exp(), freedom })
    }

    /// This line's variance, moderated by what all have in common.
    #[must_use]
    pub fn moderated(self, common: Self) -> Self {
        let freedom = self.freedom + common.freedom;
        let sum = self.freedom * self.variance + common.freedom * common.variance;
        Self { variance: sum / freedom, freedom }
    }
}

/// Mean of the logarithm of a chi-square over its `2 x` degrees of freedom: `digamma(x) - ln(x)`
/// (Abramowitz and Stegun 6.3.18).
fn log_bias(x: f64) -> f64 {
    -0.5 / x - 1.0 / (12.0 * x * x)
}

/// Variance of the logarithm of a chi-square with `2 x` degrees of freedom (Abramowitz and Stegun 6.4.12).
fn trigamma(x: f64) -> f64 {
    1.0 / x + 0.5 / (x * x) + 1.0 / (6.0 * x * x * x)
}

/// The number whose [`trigamma`] is `y`, by its first two terms.
fn inverse_trigamma(y: f64) -> f64 {
    (1.0 + (1.0 + 2.0 * y).sqrt()) / (2.0 * y)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::student::normal;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    /// Lines with `freedom` residuals each, of these standard deviations.
    fn lines(deviations: &[f64], freedom: usize, seed: u64) -> Vec<Noise> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let line = |deviation: &f64| {
            let square: f64 = (0..freedom).map(|_| (deviation * normal(&mut rng)).powi(2)).sum();
            Noise { variance: square / freedom as f64, freedom: freedom as f64 }
        };
        deviations.iter().map(line).collect()
    }

    #[test]
    fn lines_of_one_noise_are_all_taken_to_have_it() {
        let lines = lines(&[2.0; 40], 8, 1);
        let common = Noise::common(&lines).unwrap();
        assert!((3.0..5.0).contains(&common.variance) && common.freedom > 20.0, "{common:?}");
        let lucky = Noise { variance: 0.1, freedom: 3.0 };
        assert!(lucky.moderated(common).variance > 2.5, "three residuals that agree are no proof");
    }

    #[test]
    fn lines_that_differ_go_by_their_own() {
        let mut rng = ChaCha8Rng::seed_from_u64(2);
        let deviations: Vec<f64> = (0..40).map(|_| 10.0_f64.powf(rng.random_range(-1.0..1.0))).collect();
        let common = Noise::common(&lines(&deviations, 12, 3)).unwrap();
        assert!(common.freedom < 4.0, "{common:?}");
        let own = Noise { variance: 7.0, freedom: 40.0 };
        assert!((5.0..9.0).contains(&own.moderated(common).variance));
    }

    #[test]
    fn two_lines_say_nothing() {
        assert_eq!(Noise::common(&lines(&[1.0; 2], 9, 4)), None);
        assert_eq!(Noise::common(&[Noise { variance: 0.0, freedom: 9.0 }; 9]), None);
    }
}
