//! What the intervals must allow for besides chance: the profiler's own rules are not exact.
//!
//! The bootstrap tells how far experiments scatter. On a quiet machine that soon is less than what delays, samples and the virtual
//! clock get wrong: the same program, profiled again, misses the truth in the same way. How far, the truth suite says
//! (`cargo xtask truth`, docs/truth.md): 5 % of the effect, as a standard deviation over its programs, chance taken off. It
//! is an uncertainty of the method ("type B": JCGM 100:2008, the guide to the expression of uncertainty in measurement, 4.3), and added in quadrature (5.1.2 there).

use super::line::Line;

/// Standard deviation of what the method gets wrong, as a part of the effect.
pub const ERROR: f64 = 0.05;
/// Half of a normal distribution's 95 % interval, in standard deviations.
const Z: f64 = 1.96;

/// Widens the line's intervals by a method that is off by `error` of the effect.
pub fn widen(line: &mut Line, error: f64) {
    for level in line.summary.iter_mut().chain(&mut line.curve) {
        (level.low, level.high) = widened(level.effect, level.low, level.high, error);
    }
    if let Some(slope) = &mut line.slope {
        (slope.low, slope.high) = widened(slope.value, slope.low, slope.high, error);
    }
}

fn widened(value: f64, low: Option<f64>, high: Option<f64>, error: f64) -> (Option<f64>, Option<f64>) {
    let half = |chance: f64| chance.hypot(Z * error * value);
    // An interval need not have its number in it: where the number was bounded, for one.
    let below = |low: f64| if low <= value { value - half(value - low) } else { low };
    let above = |high: f64| if high >= value { value + half(high - value) } else { high };
    (low.map(below), high.map(above))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::{Estimated, Level};

    #[test]
    fn a_large_effect_is_known_no_better_than_the_method_and_none_is_as_before() {
        let level = |effect, half| Level {
            effect,
            low: Some(effect - half),
            high: Some(effect + half),
            ..Level::default()
        };
        let slope = Estimated { value: 0.4, low: Some(0.39), high: Some(0.41) };
        let mut line =
            Line { summary: vec![level(0.4, 0.01), level(0.0, 0.01)], slope: Some(slope), ..Line::default() };
        widen(&mut line, ERROR);
        let half = 0.01_f64.hypot(1.96 * 0.05 * 0.4);
        let [large, none] = &line.summary[..] else { panic!() };
        assert!((large.high.unwrap() - 0.4 - half).abs() < 1e-12, "{large:?}");
        assert!((0.4 - large.low.unwrap() - half).abs() < 1e-12 && half > 0.039);
        assert_eq!((none.low, none.high), (Some(-0.01), Some(0.01)));
        assert!((line.slope.unwrap().low.unwrap() - (0.4 - half)).abs() < 1e-12);
    }

    #[test]
    fn without_an_interval_there_is_none_to_widen() {
        assert_eq!(widened(0.3, None, None, ERROR), (None, None));
        assert_eq!(widened(0.3, Some(0.35), Some(0.4), 0.0), (Some(0.35), Some(0.4)));
    }
}
