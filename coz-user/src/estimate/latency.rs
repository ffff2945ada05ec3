//! Latency points as such, whatever the line: how long, how many at once, and whether that is steady.

use super::histogram::quantile;
use super::quantiles::{Measured, QUANTILES, Quantile};
use crate::experiment::record::{LatencyPoint, PointDelta, PointKind, Profile, Recorded};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;

/// A latency point in the baselines: without any delay.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LatencyFacts {
    /// Its name.
    pub name: String,
    /// Ends a second.
    pub rate: f64,
    /// How many were under way on average (`L`).
    pub in_system: Option<f64>,
    /// The mean that follows from these two, nanoseconds (`W = L / lambda`).
    pub little_ns: Option<f64>,
    /// The mean of what was measured, nanoseconds.
    pub mean_ns: Option<f64>,
    /// Median and 99th percentile of what was measured, nanoseconds.
    pub quantiles_ns: [Option<f64>; 2],
    /// Share of the ends whose begin was seen in the same thread.
    pub measured: f64,
    /// Share of what was measured that took no longer than what it costs to look at it, which is taken off: the rest is nothing.
    pub too_short: f64,
    /// Where it does not hold: more begin than end. Then there is no mean to tell of, for it grows as long as the run goes on.
    pub growing: Option<Growing>,
}

impl LatencyFacts {
    /// Whether the single intervals are known.
    #[must_use]
    pub fn is_measured(&self) -> bool {
        self.measured >= crate::experiment::latency::MOSTLY && !self.is_too_short()
    }

    /// Whether it takes hardly longer than the probes that time it, so that what they show is mostly their own.
    #[must_use]
    pub fn is_too_short(&self) -> bool {
        self.too_short > TOO_SHORT
    }

    /// The mean by Little's law, where there is a steady state for it to hold in: not where more begin than end even without any
    /// delay, for then what is under way grows as long as the run goes on.
    #[must_use]
    pub fn steady_mean(&self) -> Option<f64> {
        self.little_ns.filter(|_| self.growing.is_none_or(|growing| growing.only_delayed))
    }
}

/// More intervals begin than end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Growing {
    /// Share of those that began and that did not end.
    pub share: f64,
    /// Only in experiments with delays: what arrives comes by a clock of its own, which delays do not hold up.
    pub only_delayed: bool,
}

/// From this share of nothing on, what is left says nothing of the rest.
const TOO_SHORT: f64 = 0.05;
/// From this share of the arrivals on, their surplus matters,
const SURPLUS: f64 = 0.05;
/// or from this share of what is under way on: what never ends piles up there, however little it is of all that arrives.
const PILE: f64 = 0.25;
/// And so many times its own standard error, over the experiments: in a steady state it has either sign.
const BEYOND_CHANCE: f64 = 3.0;
/// Of fewer experiments nothing is said.
const MIN_EXPERIMENTS: f64 = 3.0;

/// The facts of every latency point.
#[must_use]
pub fn facts(profile: &Profile) -> Vec<LatencyFacts> {
    let points = profile.points().into_iter().filter(|(_, kind)| *kind == PointKind::Latency);
    points.map(|(name, _)| of_point(profile, name)).collect()
}

fn latency<'a>(recorded: &'a Recorded, name: &str) -> Option<&'a LatencyPoint> {
    recorded.points.iter().find_map(|point| match point {
        PointDelta::LatencyPoint(point) if point.name == name => Some(point),
        _ => None,
    })
}

fn of_point(profile: &Profile, name: String) -> LatencyFacts {
    let valid = || profile.experiments.iter().filter(|r| r.experiment.valid);
    let seen = |baseline: bool| {
        let wanted = valid().filter(move |r| (r.experiment.permille() == 0) == baseline);
        wanted.filter_map(|r| Some((r.experiment.duration as f64, latency(r, &name)?)))
    };
    let mut sum = Sum::default();
    let mut levels = (0.0, 0.0);
    // What is under way where nothing has piled up yet.
    let mut least = f64::INFINITY;
    let mut histogram: BTreeMap<u32, u64> = BTreeMap::new();
    for (time, point) in seen(true) {
        sum.add(time, point);
        if let Some(level) = point.in_system {
            levels = (levels.0 + level * time, levels.1 + time);
            least = least.min(level);
        }
        point.histogram.iter().for_each(|(bucket, n)| *histogram.entry(*bucket).or_default() += n);
    }
    let mut delayed = Sum::default();
    seen(false).for_each(|(time, point)| delayed.add(time, point));
    let in_system = (levels.1 > 0.0).then(|| levels.0 / levels.1);
    let rate = if sum.time > 0.0 { sum.departures / sum.time * 1e9 } else { 0.0 };
    let counted: Vec<(u32, u64)> = histogram.into_iter().collect();
    let growing = |sum: &Sum, only_delayed| {
        let surplus = sum.arrivals - sum.departures;
        let variance = sum.squares - surplus * surplus / sum.experiments;
        // Even where it never shows, what is under way differs by its own root from one end of an experiment to the other.
        let by_nature = if least.is_finite() { 2.0 * least.max(0.5) * sum.experiments } else { 0.0 };
        let chance = BEYOND_CHANCE * variance.max(by_nature).sqrt();
        let matters =
            surplus > SURPLUS * sum.arrivals || in_system.is_some_and(|level| surplus > PILE * level);
        let is_real = sum.experiments >= MIN_EXPERIMENTS && matters && surplus > chance;
        is_real.then(|| Growing { share: surplus / sum.arrivals, only_delayed })
    };
    let all: u64 = counted.iter().map(|(_, n)| n).sum();
    let nothing: u64 = counted.iter().filter(|(bucket, _)| *bucket == 0).map(|(_, n)| n).sum();
    LatencyFacts {
        rate,
        in_system,
        too_short: nothing as f64 / all.max(1) as f64,
        little_ns: in_system.filter(|_| rate > 0.0).map(|level| level / rate * 1e9),
        mean_ns: (sum.measured > 0.0).then(|| sum.measured_ns / sum.measured),
        quantiles_ns: QUANTILES.map(|q| quantile(&counted, q)),
        measured: if sum.departures > 0.0 { sum.measured / sum.departures } else { 0.0 },
        growing: growing(&sum, false).or_else(|| growing(&delayed, true)),
        name,
    }
}

#[derive(Default)]
struct Sum {
    experiments: f64,
    time: f64,
    arrivals: f64,
    departures: f64,
    /// Of the surplus of arrivals in each experiment.
    squares: f64,
    measured: f64,
    measured_ns: f64,
}

impl Sum {
    fn add(&mut self, time: f64, point: &LatencyPoint) {
        self.experiments += 1.0;
        self.time += time;
        self.arrivals += point.arrivals as f64;
        self.departures += point.departures as f64;
        self.squares += (point.arrivals as f64 - point.departures as f64).powi(2);
        let measured = point.measured as f64;
        self.measured += measured;
        self.measured_ns += point.mean_ns.filter(|_| point.measured > 0).unwrap_or(0.0) * measured;
    }
}

/// The quantiles of a latency point against one line.
#[must_use]
pub fn quantiles(
    profile: &Profile,
    line: &str,
    point: &str,
    replicates: u32,
    rng: &mut ChaCha8Rng,
) -> Vec<Quantile> {
    let of_line = profile.experiments.iter().filter(|r| r.experiment.valid && r.experiment.selected == line);
    let measured: Vec<Measured<'_>> = of_line
        .filter_map(|r| Some(Measured { permille: r.experiment.permille(), point: latency(r, point)? }))
        .collect();
    super::quantiles::estimate(&measured, replicates, rng)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::record::Experiment;

    fn profile(of: impl Fn(usize) -> (f64, LatencyPoint)) -> Profile {
        let experiment = |n| {
            let (speedup, point) = of(n);
            Recorded {
                run: 0,
                experiment: Experiment {
                    speedup,
                    duration: 100_000_000,
                    valid: true,
                    ..Experiment::default()
                },
                points: vec![PointDelta::LatencyPoint(LatencyPoint { name: "x".into(), ..point })],
            }
        };
        Profile { experiments: (0..20).map(experiment).collect(), ..Profile::default() }
    }

    fn steady(n: usize) -> LatencyPoint {
        LatencyPoint {
            arrivals: if n.is_multiple_of(2) { 51 } else { 49 },
            departures: 50,
            mean_ns: Some(4e6),
            in_system: Some(2.0),
            measured: 50,
            histogram: vec![(coz_common::latency::bucket(4_000_000), 50)],
            ..LatencyPoint::default()
        }
    }

    #[test]
    fn littles_law_and_what_was_measured_agree_where_it_is_steady() {
        let facts = &facts(&profile(|n| (0.0, steady(n))))[0];
        assert!((facts.rate - 500.0).abs() < 1e-9 && facts.in_system == Some(2.0));
        assert!((facts.little_ns.unwrap() - 4e6).abs() < 1.0 && facts.mean_ns == Some(4e6));
        assert!((facts.measured - 1.0).abs() < 1e-9 && facts.growing.is_none());
    }

    #[test]
    fn what_takes_no_longer_than_a_look_at_it_is_not_known() {
        let short = |n| LatencyPoint { histogram: vec![(0, 47), (300, 3)], ..steady(n) };
        let facts = &facts(&profile(|n| (0.0, short(n))))[0];
        assert!((facts.too_short - 0.94).abs() < 1e-9 && facts.is_too_short() && !facts.is_measured());
    }

    #[test]
    fn a_few_that_never_end_pile_up_and_are_told_of() {
        // Three of a thousand begin for good: nothing beside what arrives, most of what is under way.
        let leaking = |n| LatencyPoint {
            arrivals: 1_003,
            departures: 1_000,
            in_system: Some(1.0 + 3.0 * n as f64),
            ..steady(n)
        };
        let growing = facts(&profile(|n| (0.0, leaking(n))))[0].growing.unwrap();
        assert!((growing.share - 3.0 / 1_003.0).abs() < 1e-9 && !growing.only_delayed);
        assert_eq!(
            facts(&profile(|n| (0.0, leaking(n))))[0].steady_mean(),
            None,
            "there is no mean to tell of"
        );
    }

    #[test]
    fn a_queue_that_grows_is_told_of_and_whether_only_delays_make_it() {
        let overfull = |n| LatencyPoint { arrivals: 60, ..steady(n) };
        let always = facts(&profile(|n| (0.0, overfull(n))))[0].growing.unwrap();
        assert!((always.share - 1.0 / 6.0).abs() < 1e-9 && !always.only_delayed);
        let delayed = profile(|n| if n % 2 == 0 { (0.0, steady(0)) } else { (0.5, overfull(n)) });
        // All those baselines have one arrival more than departures: far within chance.
        assert!(facts(&delayed)[0].growing.unwrap().only_delayed);
        assert!(facts(&delayed)[0].steady_mean().is_some(), "without delays it is steady");
    }
}
