//! Which shapes a curve may have.
//!
//! A line's effect grows in proportion to its speedup until something else becomes the bottleneck, then stays:
//! straight pieces through the origin. With some sixty experiments over twenty speedups most speedups have one
//! or two, so that what is said about 25, 50 or 100 % must use them all: a linear spline with `effect(0) = 0`
//! and knots at the quarters, as many as the measured speedups can carry.

/// The most knots.
pub const MAX_KNOTS: usize = 4;

/// The speedups for which a report gives the fitted effect.
pub const SUMMARY: [f64; 4] = [0.25, 0.5, 0.75, 1.0];

/// How far beyond the largest measured speedup the last piece may be continued.
const REACH: f64 = 0.1;

/// One number per knot.
pub type Coefficients = [f64; MAX_KNOTS];

/// A linear spline through the origin, by its knots; its coefficients are its values there.
#[derive(Clone, Debug, PartialEq)]
pub struct Basis {
    knots: Vec<f64>,
    reach: f64,
}

impl Basis {
    /// A straight line: its only coefficient is the slope.
    #[must_use]
    pub fn straight() -> Self {
        Self { knots: vec![1.0], reach: 1.0 }
    }

    /// The finest spline that these speedups (0.0 to 1.0, zeros ignored, repeated as often as measured) can
    /// carry: every piece has two different speedups and, on average, three trials, or five where there are
    /// more than two pieces; or three trials at the very knot that it ends at. One bend is granted early, since a straight line through a curve that bends is
    /// far off; more bends widen the intervals more than they mend.
    #[must_use]
    pub fn for_speedups(speedups: &[f64]) -> Self {
        let mut levels: Vec<f64> = speedups.iter().copied().filter(|&s| s > 0.0).collect();
        let trials = levels.len();
        levels.sort_by(f64::total_cmp);
        let all = levels.clone();
        levels.dedup();
        let largest = levels.last().copied().unwrap_or(1.0);
        let end = if largest >= 1.0 - REACH { 1.0 } else { largest };
        let reach = (largest + REACH).min(1.0);
        for inner in [&[0.25, 0.5, 0.75][..], &[0.5], &[]] {
            let mut knots: Vec<f64> = inner.iter().copied().filter(|&k| k < end - REACH).collect();
            knots.push(end);
            let carried = |i: usize| {
                let from = if i == 0 { 0.0 } else { knots[i - 1] };
                levels.iter().filter(|&&s| s > from + 1e-9 && s <= knots[i] + 1e-9).count() >= 2
            };
            let pinned = |&knot: &f64| all.iter().filter(|&&s| (s - knot).abs() < 1e-9).count() >= 3;
            let each = if knots.len() > 2 { 5 } else { 3 };
            if knots.len() == 1
                || knots.iter().all(pinned)
                || (trials >= each * knots.len() && (0..knots.len()).all(carried))
            {
                return Self { knots, reach };
            }
        }
        Self { knots: vec![end], reach }
    }

    /// How many coefficients.
    #[must_use]
    pub fn size(&self) -> usize {
        self.knots.len()
    }

    /// The knots, rising.
    #[must_use]
    pub fn knots(&self) -> &[f64] {
        &self.knots
    }

    /// Whether the fit says anything about this speedup.
    #[must_use]
    pub fn reaches(&self, speedup: f64) -> bool {
        speedup <= self.reach + 1e-9
    }

    /// The weights of the coefficients at this speedup.
    #[must_use]
    pub fn at(&self, speedup: f64) -> Coefficients {
        let mut row = [0.0; MAX_KNOTS];
        let last = self.knots.len() - 1;
        let piece = self.knots.iter().position(|&k| speedup <= k).unwrap_or(last);
        let from = if piece == 0 { 0.0 } else { self.knots[piece - 1] };
        let part = (speedup - from) / (self.knots[piece] - from);
        row[piece] = part;
        if piece > 0 {
            row[piece - 1] = 1.0 - part;
        }
        row
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kink_at_a_knot_is_followed_exactly() {
        let all: Vec<f64> = (0..=20).map(|i| f64::from(i) / 20.0).collect();
        let basis = Basis::for_speedups(&all);
        assert_eq!(basis.knots(), [0.25, 0.5, 0.75, 1.0]);
        let value = |s: f64| basis.at(s).iter().zip([0.2, 0.4, 0.4, 0.3]).map(|(a, b)| a * b).sum::<f64>();
        for (s, effect) in [(0.0, 0.0), (0.1, 0.08), (0.25, 0.2), (0.5, 0.4), (0.6, 0.4), (1.0, 0.3)] {
            assert!((value(s) - effect).abs() < 1e-12, "at {s}: {}", value(s));
        }
    }

    #[test]
    fn few_speedups_carry_few_knots() {
        let knots = |speedups: &[f64]| Basis::for_speedups(speedups).knots().to_vec();
        assert_eq!(knots(&[0.0, 0.3, 0.9]), [1.0]);
        assert_eq!(knots(&[0.2, 0.4, 0.6, 0.8, 0.9, 1.0]), [0.5, 1.0]);
        assert_eq!(knots(&[0.5, 0.5, 0.5]), [0.5], "one fixed speedup");
        assert_eq!(knots(&[]), [1.0]);
    }

    #[test]
    fn levels_that_are_knots_each_have_their_own_value() {
        let quarters = [0.25, 0.5, 0.75, 1.0].repeat(3);
        assert_eq!(Basis::for_speedups(&quarters).knots(), [0.25, 0.5, 0.75, 1.0]);
        assert_eq!(Basis::for_speedups(&[0.25, 0.5, 0.75, 1.0].repeat(2)).knots(), [0.5, 1.0]);
    }

    #[test]
    fn nothing_is_said_far_beyond_what_was_measured() {
        let basis = Basis::for_speedups(&[0.5, 0.5]);
        assert!(basis.reaches(0.25) && basis.reaches(0.5));
        assert!(!basis.reaches(0.75) && !basis.reaches(1.0));
    }
}
