//! Experiments sorted by line and point.

use super::PointTotal;
use crate::experiment::record::{Experiment, PointDelta, PointKind, Profile};
use std::collections::{BTreeMap, HashMap};

/// What one experiment says about one point.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Trial {
    /// The virtual speedup, thousandths.
    pub permille: u32,
    /// Throughput: effective time. Latency: the sum of all latencies. Nanoseconds.
    pub cost: f64,
    /// Throughput: visits. Latency: how many ended.
    pub visits: f64,
    /// Effective time of the experiment, nanoseconds: how much its word counts.
    pub exposure: f64,
    /// CPU time of the selected line, nanoseconds.
    pub weight: f64,
    /// Samples of the selected line, and of all threads.
    pub samples: (u64, u64),
    /// When it began, nanoseconds; runs lie [`RUN`] apart.
    pub at: f64,
    /// What the threads that visited the point still owed at its end, nanoseconds.
    pub unpaid: f64,
    /// Wall time, nanoseconds; 0 where it was not recorded.
    pub wall: f64,
    /// The delay that everyone was to pay, nanoseconds.
    pub delay: f64,
}

/// How far apart the runs of one file are put in time, nanoseconds: further than any run is long.
pub const RUN: f64 = 1e18;

impl Trial {
    /// The virtual speedup, 0.0 to 1.0.
    #[must_use]
    pub fn speedup(&self) -> f64 {
        f64::from(self.permille) / 1000.0
    }

    /// Whether this is a baseline.
    #[must_use]
    pub const fn is_baseline(&self) -> bool {
        self.permille == 0
    }
}

/// All trials of one line against one point, in the order of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// The line.
    pub location: String,
    /// The point.
    pub point: String,
    /// Its kind.
    pub kind: PointKind,
    /// The function around the line, where an experiment tells it.
    pub function: Option<String>,
    /// The trials.
    pub trials: Vec<Trial>,
}

impl Series {
    /// Samples of the line in its own experiments, and their share of all samples there: what is left when the
    /// run did not get to write its totals.
    #[must_use]
    pub fn samples(&self) -> (u64, f64) {
        let (own, all) = self.trials.iter().fold((0_u64, 0_u64), |sum, t| {
            (sum.0.saturating_add(t.samples.0), sum.1.saturating_add(t.samples.1))
        });
        (own, (own as f64 / all.max(1) as f64).min(1.0))
    }
}

/// Every line of every experiment that counts, against every point.
#[must_use]
pub fn all(profile: &Profile) -> Vec<Series> {
    let points = profile.points();
    let mut series: BTreeMap<(&str, usize), Vec<Trial>> = BTreeMap::new();
    let functions: HashMap<&str, &str> = profile
        .experiments
        .iter()
        .filter_map(|r| Some((r.experiment.selected.as_str(), r.experiment.function.as_deref()?)))
        .collect();
    for recorded in profile.experiments.iter().filter(|r| r.experiment.valid) {
        for (i, (name, kind)) in points.iter().enumerate() {
            let found = recorded.points.iter().find(|p| p.name() == name);
            let trials = series.entry((recorded.experiment.selected.as_str(), i)).or_default();
            trials.extend(trial(recorded.run, &recorded.experiment, found, *kind));
        }
    }
    series
        .into_iter()
        .map(|((location, i), trials)| Series {
            location: location.to_owned(),
            point: points[i].0.clone(),
            kind: points[i].1,
            function: functions.get(location).map(|name| (*name).to_owned()),
            trials,
        })
        .filter(|series| !series.trials.is_empty())
        .collect()
}

/// One experiment's word about one point; `None` where it has none.
fn trial(run: u32, experiment: &Experiment, point: Option<&PointDelta>, kind: PointKind) -> Option<Trial> {
    let duration = point.map_or(experiment.duration, |point| point.exposure(experiment));
    let exposure = duration as f64;
    let (cost, visits) = match (point, kind) {
        (Some(PointDelta::ThroughputPoint(p)), _) => (exposure, p.delta as f64),
        // A point that is not there was not visited, which says something.
        (None, PointKind::Throughput) => (exposure, 0.0),
        (Some(PointDelta::LatencyPoint(p)), _) => match p.mean_ns {
            Some(mean) if mean.is_finite() && p.departures > 0 => {
                (mean * p.departures as f64, p.departures as f64)
            }
            // Little's law, L = lambda W, with the only L that coz records: the one at the end.
            None if p.arrivals > 0 => (p.difference.max(0) as f64 * exposure, p.arrivals as f64),
            _ => return None,
        },
        (None, PointKind::Latency) => return None,
    };
    Some(Trial {
        permille: experiment.permille(),
        cost,
        visits,
        exposure,
        weight: experiment.selected_weight as f64,
        samples: (experiment.selected_samples, experiment.samples),
        at: f64::from(run) * RUN + experiment.begin as f64,
        unpaid: unaccounted(experiment, duration),
        wall: experiment.wall as f64,
        delay: experiment.delay as f64,
    })
}

/// The unpaid delay that the experiment's effective time does not know of, nanoseconds. Where it is known who visited the
/// points, effective time goes by what these have absorbed; else it is wall time less all that was required.
fn unaccounted(experiment: &Experiment, duration: u64) -> f64 {
    let all_paid = experiment.wall.saturating_sub(experiment.delay);
    experiment.unpaid.saturating_sub(duration.saturating_sub(all_paid)) as f64
}

/// All points with their visits in the experiments that count; where none does, in the whole run.
#[must_use]
pub fn totals(profile: &Profile) -> Vec<PointTotal> {
    let mut totals: Vec<PointTotal> =
        profile.points().into_iter().map(|(name, kind)| PointTotal { name, kind, visits: 0 }).collect();
    if !profile.experiments.iter().any(|r| r.experiment.valid)
        && let Some(runtime) = &profile.runtime
    {
        for run in &runtime.health.points {
            if let Some(total) = totals.iter_mut().find(|t| t.name == run.name) {
                total.visits = run.visits;
            }
        }
    }
    for recorded in profile.experiments.iter().filter(|r| r.experiment.valid) {
        for point in &recorded.points {
            if let Some(total) = totals.iter_mut().find(|t| t.name == point.name()) {
                total.visits = total.visits.saturating_add(point.visits());
            }
        }
    }
    totals
}
