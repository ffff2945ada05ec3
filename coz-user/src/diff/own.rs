//! By how much a line itself became faster: its own CPU time per visit, before and after.

use super::{Side, matching::Matches, visits::Visits};
use crate::estimate::Estimated;

/// Changes below this are none: compilers lay out code anew, machines wander.
const LEAST: f64 = 0.05;
/// coz samples each millisecond of CPU time, and does not write it down.
const COZ_SAMPLE: f64 = 1e6;
/// 97.5 % quantile of the normal distribution.
const Z: f64 = 1.96;

/// A line's CPU time per visit of a point.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OwnTime {
    /// Before, nanoseconds.
    pub before: f64,
    /// After, nanoseconds.
    pub after: f64,
    /// By which share it became less: the line's own speedup; below zero where it became more.
    pub less: Estimated,
    /// Its CPU time per second after, over that before.
    pub pace: f64,
}

impl OwnTime {
    /// Whether it became less or more, beyond chance and by a twentieth at least.
    ///
    /// A line that nobody waits for may just run by the clock: where visits come faster it takes less per visit. With
    /// `is_idle`, what takes as much per second as before has not changed.
    #[must_use]
    pub fn is_change(&self, is_idle: bool) -> bool {
        let sure = self.less.low.zip(self.less.high).is_some_and(|(low, high)| low > 0.0 || high < 0.0);
        sure && self.less.value.abs() >= LEAST && !(is_idle && (self.pace - 1.0).abs() < LEAST)
    }
}

/// CPU time per undelayed time, and on how many samples that rests.
#[derive(Clone, Copy, Debug, Default)]
struct Rate {
    value: f64,
    samples: f64,
}

/// Of line `i` of before, with all that it is compared with. `None` where a profile does not tell.
pub(super) fn time(
    sides: [Side<'_>; 2],
    matches: &Matches,
    i: usize,
    visits: [&Visits; 2],
) -> Option<OwnTime> {
    let (before, after) = matches.together(i);
    let [b, a] = [sum(&sides[0], &before)?, sum(&sides[1], &after)?];
    let [whole_before, whole_after] = [b.value * visits[0].per_visit, a.value * visits[1].per_visit];
    if whole_before <= 0.0 {
        return None;
    }
    let ratio = whole_after / whole_before;
    // Of lines that were rewritten together each has its part of what stands in their place.
    let own = rate(&sides[0], &sides[0].places[i].location)?.value * visits[0].per_visit;
    let square = |x: Option<f64>| x.map(|x| x * x);
    // Samples are counted, so by chance their number varies as its root.
    let chance = square(visits[0].error).zip(square(visits[1].error)).map(|(x, y)| {
        (x + y + 1.0 / b.samples.max(1.0) + 1.0 / a.samples.max(1.0)).sqrt()
            * ratio.max(1.0 / b.samples.max(1.0))
    });
    let less = Estimated {
        value: 1.0 - ratio,
        low: chance.map(|error| 1.0 - ratio - Z * error),
        high: chance.map(|error| (1.0 - ratio + Z * error).min(1.0)),
    };
    Some(OwnTime { before: own, after: own * ratio, less, pace: a.value / b.value })
}

fn sum(side: &Side<'_>, lines: &[usize]) -> Option<Rate> {
    let mut sum = Rate::default();
    for &line in lines {
        let rate = rate(side, &side.places[line].location)?;
        sum.value += rate.value;
        sum.samples += rate.samples;
    }
    // A line without samples takes no time, but only a profile with totals says so.
    (!lines.is_empty() || side.profile.runtime.is_some()).then_some(sum)
}

/// From the totals of undelayed time; else from the line's own baselines; else from all samples of the run.
fn rate(side: &Side<'_>, location: &str) -> Option<Rate> {
    let profile = side.profile;
    let totals = profile.samples.iter().find(|samples| samples.location == location);
    let health = profile.runtime.as_ref().map(|runtime| &runtime.health);
    if let Some((samples, health)) = totals.zip(health)
        && let Some(weight) = samples.undelayed_weight_ns
        && health.undelayed_ns > 0
    {
        let part = weight as f64 / samples.weight_ns.max(weight).max(1) as f64;
        return Some(Rate {
            value: weight as f64 / health.undelayed_ns as f64,
            samples: samples.count as f64 * part,
        });
    }
    let own = || {
        let own =
            |e: &&crate::experiment::record::Recorded| e.experiment.valid && e.experiment.permille() == 0;
        profile.experiments.iter().filter(own).map(|r| &r.experiment).filter(|e| e.selected == location)
    };
    let time: f64 = own().map(|e| e.duration as f64).sum();
    let samples: f64 = own().map(|e| e.selected_samples as f64).sum();
    let weight: f64 = own().map(|e| e.selected_weight as f64).sum();
    if time > 0.0 {
        let weight = if weight > 0.0 { weight } else { samples * COZ_SAMPLE };
        return Some(Rate { value: weight / time, samples });
    }
    let run = profile.runtime.as_ref()?.time as f64;
    let totals = totals?;
    let weight =
        if totals.weight_ns > 0 { totals.weight_ns as f64 } else { totals.count as f64 * COZ_SAMPLE };
    (run > 0.0).then_some(Rate { value: weight / run, samples: totals.count as f64 })
}
