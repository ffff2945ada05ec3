//! The most that a line can be worth: its own time.
//!
//! Whoever makes a line faster by `s` saves at most `s` times the time for which it runs, all threads together, and as much delay
//! is inserted in an experiment. So the slope of a throughput point's effect cannot exceed
//! `sum(delay) / sum(speedup * wall)`. A slope whose interval lies beyond that is chance, whatever its interval says: experiments
//! that fell by luck into dear and cheap stretches of the load. (A latency can fall by more than its own time, since
//! waiting in a queue grows faster than the load; it has no such bound.)

use super::{line::Line, series::Trial};
use crate::experiment::record::PointKind;

/// The bound is itself measured, and a line that is faster may disturb others less: so much more is allowed, as a part of it
const TOLERANCE: f64 = 0.25;
/// and in units of effect.
const SLACK: f64 = 0.03;

/// The largest slope that the line's own time allows; `None` where it is not known (a profile of coz).
#[must_use]
pub fn most(trials: &[Trial], keep: &[bool], kind: PointKind) -> Option<f64> {
    let kept = trials.iter().zip(keep).filter(|(t, keep)| **keep && !t.is_baseline());
    let (delay, wall) = kept.fold((0.0, 0.0), |(d, w), (t, _)| (d + t.delay, w + t.speedup() * t.wall));
    (kind == PointKind::Throughput && delay > 0.0 && wall > 0.0).then(|| delay / wall)
}

/// Marks a line whose slope surely exceeds what its own time allows: it is not known, and its intervals reach down to zero.
pub fn check(line: &mut Line) {
    let Some((most, slope)) = line.own_time.zip(line.slope.as_mut()) else { return };
    if slope.low.is_none_or(|low| low <= most * (1.0 + TOLERANCE) + SLACK) {
        return;
    }
    line.is_beyond_own_time = true;
    line.chance = None;
    line.half_width = None;
    slope.low = slope.low.map(|low| low.min(0.0));
    for level in line.summary.iter_mut().chain(&mut line.curve).filter(|level| level.permille > 0) {
        level.low = level.low.map(|low| low.min(0.0));
    }
}

/// Keeps the effects of a throughput point within what can be: whoever makes a line faster by `s` saves at most `s` of all time, were
/// the program nothing else. Beyond is the chance of a few experiments.
pub fn bound(line: &mut Line) {
    if line.kind != PointKind::Throughput {
        return;
    }
    if let Some(slope) = &mut line.slope {
        slope.value = slope.value.min(1.0);
        slope.low = slope.low.map(|low| low.min(1.0));
        slope.high = slope.high.map(|high| high.min(1.0));
    }
    line.max_effect = line.max_effect.map(|effect| effect.min(1.0));
    for level in line.summary.iter_mut().chain(&mut line.curve) {
        let most = f64::from(level.permille) / 1000.0;
        level.effect = level.effect.min(most);
        level.low = level.low.map(|low| low.min(most));
        level.high = level.high.map(|high| high.min(most));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::{Estimated, Level};

    fn line(low: f64, own_time: Option<f64>) -> Line {
        let level =
            Level { permille: 500, effect: 0.2, low: Some(low / 2.0), high: Some(0.4), ..Level::default() };
        let slope = Estimated { value: 0.4, low: Some(low), high: Some(0.8) };
        Line { own_time, slope: Some(slope), chance: Some(1e-6), summary: vec![level], ..Line::default() }
    }

    #[test]
    fn a_line_is_worth_no_more_than_its_time() {
        let trial = |permille, delay| Trial { permille, delay, wall: 1e9, ..Trial::default() };
        let trials = [trial(0, 0.0), trial(500, 2.5e7), trial(1000, 5e7)];
        let keep = [true; 3];
        assert!((most(&trials, &keep, PointKind::Throughput).unwrap() - 0.05).abs() < 1e-12);
        assert_eq!(most(&trials, &keep, PointKind::Latency), None);
        assert_eq!(most(&trials[..1], &keep, PointKind::Throughput), None, "no delays, no bound");
    }

    #[test]
    fn nothing_saves_more_than_all_time() {
        let mut absurd = line(0.7, None);
        absurd.slope = Some(Estimated { value: 1.4, low: Some(0.7), high: Some(2.0) });
        absurd.summary[0] = Level { effect: 0.7, high: Some(0.9), ..absurd.summary[0] };
        let latency = Line { kind: PointKind::Latency, ..absurd.clone() };
        bound(&mut absurd);
        assert_eq!(absurd.slope, Some(Estimated { value: 1.0, low: Some(0.7), high: Some(1.0) }));
        assert_eq!((absurd.summary[0].effect, absurd.summary[0].high), (0.5, Some(0.5)));
        let mut same = latency.clone();
        bound(&mut same);
        assert_eq!(same, latency, "a latency has no such bound");
    }

    #[test]
    fn what_cannot_be_is_not_believed() {
        let mut absurd = line(0.14, Some(0.05));
        check(&mut absurd);
        assert!(absurd.is_beyond_own_time && absurd.chance.is_none());
        assert_eq!((absurd.slope.unwrap().low, absurd.summary[0].low), (Some(0.0), Some(0.0)));
        for (low, most) in [(0.08, Some(0.05)), (0.14, Some(0.3)), (0.14, None)] {
            let mut fine = line(low, most);
            check(&mut fine);
            assert_eq!(fine, line(low, most), "{low} {most:?}");
        }
    }
}
