//! From what was recorded to what the curve is fitted through: mishaps left out, each trial compared with the
//! baselines of its time, and given its dose of a line that has phases.

use super::{
    baseline::Local,
    curve::Basis,
    outliers,
    phase::{self, Correction, LEAST_DOSE},
    series::Trial,
};
use crate::experiment::record::PointKind;

/// Trials that are ready to be fitted.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// The trials, their visits and costs as the fit wants them. `exposure` is the time that the trial would have
    /// cost at speedup 0, or what it did cost where that is more: its noise goes with the root of that.
    pub trials: Vec<Trial>,
    /// Which of them count.
    pub keep: Vec<bool>,
    /// How many were mishaps.
    pub outliers: usize,
    /// What each is compared with.
    pub local: Local,
    /// The correction for phases.
    pub correction: Correction,
}

/// Prepares the trials; `None` where there is no baseline with a visit.
#[must_use]
pub fn prepare(raw: &[Trial], basis: &Basis, kind: PointKind, run: Option<phase::Run>) -> Option<Prepared> {
    let mut keep = outliers::keep(raw, basis, kind);
    let first = Local::new(raw, &keep)?;
    // What wanders with time hides mishaps, and mishaps hide what wanders.
    if !first.is_pooled {
        keep = outliers::keep(&first.levelled(raw), basis, kind);
    }
    let local = Local::new(raw, &keep)?;
    let mut trials = local.levelled(raw);
    let outliers = keep.iter().filter(|keep| !**keep).count();
    let p0 = pooled(&trials, &local);
    for trial in &mut trials {
        // Latencies are sums over overlapping visits: as a measure of time they will do.
        let whole = (trial.visits * p0).max(trial.cost).max(1.0);
        trial.exposure = whole;
    }
    let correction = phase::correction(raw, &keep, run, kind);
    if let Some(share) = correction.dose {
        let doses = phase::doses(&trials, p0, share);
        for ((trial, dose), keep) in trials.iter_mut().zip(doses).zip(&mut keep) {
            if trial.is_baseline() {
                continue;
            }
            if dose < LEAST_DOSE {
                *keep = false;
                continue;
            }
            // What was saved stays the same; what it is a share of is what the line's CPU time amounts to.
            trial.cost += trial.visits * p0 * (dose - 1.0);
            trial.visits *= dose;
        }
    }
    Some(Prepared { trials, keep, outliers, local, correction })
}

fn pooled(trials: &[Trial], local: &Local) -> f64 {
    let (cost, visits) = local
        .baselines
        .iter()
        .fold((0.0, 0.0), |(cost, visits), &b| (cost + trials[b].cost, visits + trials[b].visits));
    cost / visits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doses_make_experiments_of_both_phases_agree() {
        // The line is all there is in the first half, and absent in the second; sped up by half.
        let trial = |i: usize| {
            let (hot, baseline) = (i < 20, i.is_multiple_of(2));
            let saved = if hot && !baseline { 0.5 } else { 0.0 };
            Trial {
                permille: if baseline { 0 } else { 500 },
                cost: 3e8 * (1.0 - saved),
                exposure: 3e8 * (1.0 - saved),
                visits: 300.0,
                weight: if hot { 3e8 } else { 0.0 },
                samples: (if hot { 300 } else { 0 }, 300),
                at: i as f64 * 3e8,
                ..Trial::default()
            }
        };
        let raw: Vec<Trial> = (0..40).map(trial).collect();
        let run = phase::Run { weight: 10e9, time: 20e9, samples_of_all: 0, crowded_visits: 0.0 };
        let prepared = prepare(&raw, &Basis::straight(), PointKind::Throughput, Some(run)).unwrap();
        for (i, trial) in prepared.trials.iter().enumerate().filter(|(_, t)| !t.is_baseline()) {
            assert_eq!(prepared.keep[i], i < 20, "an experiment without the line says nothing");
            if i < 20 {
                let effect = 1.0 - trial.cost / trial.visits / 1e6;
                assert!((effect - 0.25).abs() < 1e-9, "half of the line's time, half of the run: {effect}");
            }
        }
    }
}
