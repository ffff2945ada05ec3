//! What the curves of before say of the speedups that the lines got.

use super::LineAt;
use crate::estimate::{Estimated, Level, Verdict};

/// The effect on a curve at this speedup of its line, with what either is not sure of. Between the quarters the curve is
/// straight; beyond the last one that was measured it stays level; a line that became slower goes down on the curve's first
/// piece. `None` where there is no curve.
#[must_use]
pub fn at(curve: &[Level], less: Estimated) -> Option<Estimated> {
    let value = along(curve, less.value, |level| Some(level.effect))?;
    let read = |speedup: f64, bound: fn(&Level) -> Option<f64>| along(curve, speedup, bound);
    let own = less.low.zip(less.high).and_then(|(low, high)| {
        let effect = |level: &Level| Some(level.effect);
        Some((along(curve, high, effect)? - along(curve, low, effect)?).abs() / 2.0)
    });
    let bounds = read(less.value, |level| level.low).zip(read(less.value, |level| level.high));
    let interval = bounds.zip(own).map(|((a, b), own)| {
        // On the other side of zero the ends change places.
        let (low, high) = (a.min(b), a.max(b));
        (value - (value - low).hypot(own), value + (high - value).hypot(own))
    });
    Some(Estimated { value, low: interval.map(|i| i.0), high: interval.map(|i| i.1) })
}

/// A line that takes so much less of a visit's time saves no more than that by itself, nor costs more: what an interval that rests
/// on few experiments says beyond that is noise. Of lines that were shown to matter the curve is believed, since
/// waiting can multiply.
#[must_use]
pub fn bounded(predicted: Estimated, verdict: Verdict, most: f64) -> Estimated {
    if matches!(verdict, Verdict::Optimize | Verdict::Contention) {
        return predicted;
    }
    let within = |x: f64| x.clamp(-most.abs(), most.abs());
    Estimated {
        value: within(predicted.value),
        low: predicted.low.map(within),
        high: predicted.high.map(within),
    }
}

fn along(curve: &[Level], speedup: f64, of: impl Fn(&Level) -> Option<f64>) -> Option<f64> {
    let at = |level: &Level| f64::from(level.permille) / 1000.0;
    let first = curve.first()?;
    if speedup < 0.0 {
        return Some(speedup / at(first) * of(first)?);
    }
    let (mut x0, mut y0) = (0.0, 0.0);
    for level in curve {
        let (x1, y1) = (at(level), of(level)?);
        if speedup <= x1 {
            return Some(y0 + (y1 - y0) * (speedup - x0) / (x1 - x0));
        }
        (x0, y0) = (x1, y1);
    }
    Some(y0)
}

/// What the changed lines should have saved together. What lines in one thread save adds up, and so do their errors, as
/// squares; with samples that count for every line of a call chain the lines hold each other, and the largest stands for
/// all. Lines that are shown to gain nothing add nothing. `None` where none of them has a curve.
pub fn together<'a>(lines: impl Iterator<Item = &'a LineAt>, inclusive: bool) -> Option<Estimated> {
    let found: Vec<Estimated> = lines
        .filter(|line| line.changed)
        .filter_map(|line| match line.verdict {
            Verdict::Flat => Some(Estimated { value: 0.0, low: Some(0.0), high: Some(0.0) }),
            _ => line.predicted,
        })
        .collect();
    if inclusive {
        return found.into_iter().max_by(|a, b| a.value.abs().total_cmp(&b.value.abs()));
    }
    let mut sum = Estimated { value: 0.0, low: Some(0.0), high: Some(0.0) };
    for one in &found {
        let value = sum.value + one.value;
        let wider = |end: Option<f64>, more: Option<f64>, sign: f64| {
            Some(value + sign * (end? - sum.value).hypot(more? - one.value))
        };
        (sum.low, sum.high) = (wider(sum.low, one.low, -1.0), wider(sum.high, one.high, 1.0));
        sum.value = value;
    }
    (!found.is_empty()).then_some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve() -> Vec<Level> {
        let level = |(permille, effect): (u32, f64)| Level {
            permille,
            effect,
            low: Some(effect - 0.02),
            high: Some(effect + 0.02),
            ..Level::default()
        };
        [(250, 0.1), (500, 0.2), (750, 0.2), (1000, 0.2)].map(level).to_vec()
    }

    fn less(value: f64, half: f64) -> Estimated {
        Estimated { value, low: Some(value - half), high: Some(value + half) }
    }

    #[test]
    fn between_the_quarters_the_curve_is_straight_and_both_doubts_count() {
        let found = at(&curve(), less(0.375, 0.0)).unwrap();
        assert!((found.value - 0.15).abs() < 1e-12);
        assert!((found.high.unwrap() - 0.17).abs() < 1e-12, "the curve's own interval");
        let found = at(&curve(), less(0.375, 0.0375)).unwrap();
        assert!((found.high.unwrap() - 0.15 - 0.02_f64.hypot(0.015)).abs() < 1e-12, "and the speedup's");
        assert!((at(&curve(), less(0.9, 0.05)).unwrap().value - 0.2).abs() < 1e-12, "level by then");
    }

    #[test]
    fn a_small_line_cannot_be_worth_much() {
        let wild = Estimated { value: 0.07, low: Some(-0.11), high: Some(0.26) };
        let found = bounded(wild, Verdict::Undecided, 0.007);
        assert_eq!(found, Estimated { value: 0.007, low: Some(-0.007), high: Some(0.007) });
        assert_eq!(bounded(wild, Verdict::Optimize, 0.007), wild);
    }

    #[test]
    fn a_slower_line_goes_down() {
        let found = at(&curve(), less(-0.5, 0.0)).unwrap();
        assert!((found.value + 0.2).abs() < 1e-12);
        assert!(found.low.unwrap() < -0.2 && found.high.unwrap() > -0.2, "{found:?}");
    }

    #[test]
    fn a_short_curve_is_not_continued_and_none_says_nothing() {
        assert!((at(&curve()[..1], less(0.8, 0.1)).unwrap().value - 0.1).abs() < 1e-12);
        assert_eq!(at(&[], less(0.5, 0.1)), None);
    }

    #[test]
    fn lines_add_up_unless_they_hold_each_other() {
        let line = |value: f64, verdict| LineAt {
            changed: true,
            predicted: Some(less(value, 0.03)),
            verdict,
            ..LineAt::default()
        };
        let lines = [line(0.2, Verdict::Optimize), line(0.1, Verdict::Optimize), line(0.04, Verdict::Flat)];
        let sum = together(lines.iter(), false).unwrap();
        assert!((sum.value - 0.3).abs() < 1e-12);
        assert!((sum.high.unwrap() - 0.3 - 0.03_f64.hypot(0.03)).abs() < 1e-12);
        assert!((together(lines.iter(), true).unwrap().value - 0.2).abs() < 1e-12);
        let unchanged = LineAt::default();
        assert_eq!(together([&unchanged].into_iter(), false), None);
    }
}
