//! Whether the program had got used to delays, and to their absence, before anything was counted.

use super::Warning;
use crate::{
    estimate::Estimate,
    experiment::{
        record::{PointDelta, Profile, Why},
        settling::{Drift, History, Sure},
    },
};

/// Of baselines, and of experiments with delays.
pub(super) fn warnings(profile: &Profile, estimate: &Estimate) -> impl Iterator<Item = Warning> {
    [true, false].into_iter().filter_map(|undelayed| unsettled(profile, estimate, undelayed))
}

/// Whether experiments, those without delays or those with, were counted before the program had got used to them.
fn unsettled(profile: &Profile, estimate: &Estimate, undelayed: bool) -> Option<Warning> {
    let mut drift = Drift::NONE;
    let alike =
        || profile.experiments.iter().map(|e| &e.experiment).filter(|e| (e.permille() == 0) == undelayed);
    alike()
        .filter(|e| e.valid)
        .filter_map(|e| e.drift.filter(|drift| drift.is_finite()))
        .for_each(|each| drift.add(each));
    let history = history(profile, estimate);
    if undelayed && history.matters(Sure::ONCE) {
        return Some(Warning::Unsettled(history.mean().exp_m1(), undelayed));
    }
    let needed_more = alike().any(|e| e.why == Some(Why::Unsettled));
    (drift.is_there(Sure::ONCE) || needed_more && drift.may_be_there())
        .then(|| Warning::Unsettled(drift.mean().exp_m1(), undelayed))
}

/// How fast baselines were, by what was before them, at the point that is visited most.
fn history(profile: &Profile, estimate: &Estimate) -> History {
    let mut history = History::default();
    let Some(point) = estimate.points.iter().max_by_key(|point| point.visits) else {
        return history;
    };
    for pair in profile.experiments.windows(2) {
        let [before, now] = pair else { continue };
        let e = &now.experiment;
        let counts = |p: &&PointDelta| p.visits() > 0 && p.exposure(e) > 0;
        let Some(seen) = now.points.iter().find(|p| p.name() == point.name).filter(counts) else {
            continue;
        };
        if e.valid && e.permille() == 0 && before.run == now.run && before.experiment.wall > 0 {
            let delayed = before.experiment.delay as f64 / before.experiment.wall as f64;
            history.add(delayed, (seen.visits() as f64 / seen.exposure(e) as f64).ln());
        }
    }
    history
}
