//! What a visit of a point costs where nothing is delayed, and how sure that is.

use crate::{
    estimate::{
        Estimated, interval, outliers,
        series::{self, Trial},
    },
    experiment::record::{PointKind, Profile},
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Fewer experiments do not tell how they scatter.
const LEAST: usize = 4;

/// The cost of a visit: of a throughput point its time, of a latency point its length.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Visits {
    /// Nanoseconds.
    pub per_visit: f64,
    /// On so many experiments without delay it rests, mishaps left out.
    pub experiments: usize,
    /// Standard error, as a part of it; `None` where they are too few.
    pub error: Option<f64>,
    replicates: Vec<f64>,
}

impl Visits {
    /// The same, fit to be kept.
    #[must_use]
    pub fn without_replicates(mut self) -> Self {
        self.replicates = Vec::new();
        self
    }
}

/// The cost of a visit of this point, from the experiments without delay on whatever line; `None` where it had no visit.
#[must_use]
pub fn of(profile: &Profile, point: &str, kind: PointKind, replicates: u32) -> Option<Visits> {
    let mut trials: Vec<Trial> = series::all(profile)
        .into_iter()
        .filter(|series| series.point == point && series.kind == kind)
        .flat_map(|series| series.trials)
        .filter(Trial::is_baseline)
        .collect();
    trials.sort_by(|a, b| a.at.total_cmp(&b.at));
    let keep = outliers::keep_alike(&trials);
    let trials: Vec<Trial> = trials.into_iter().zip(keep).filter(|(_, keep)| *keep).map(|(t, _)| t).collect();
    let per_visit = ratio(&trials, 0..trials.len())?;
    let replicates = if trials.len() < LEAST { Vec::new() } else { draw(&trials, replicates) };
    Some(Visits {
        per_visit,
        experiments: trials.len(),
        error: deviation(&replicates, per_visit),
        replicates,
    })
}

/// Share of the time per visit that is saved: the bootstrap over the experiments of both, 95 %.
#[must_use]
pub fn saved(before: &Visits, after: &Visits) -> Estimated {
    let value = 1.0 - after.per_visit / before.per_visit;
    let pairs = before.replicates.iter().zip(&after.replicates);
    let replicates: Vec<f64> = pairs.map(|(b, a)| 1.0 - a / b).filter(|x| x.is_finite()).collect();
    let freedom = before.experiments.min(after.experiments).saturating_sub(1) as f64;
    let interval = interval::interval(value, replicates, freedom);
    Estimated { value, low: interval.map(|i| i.low), high: interval.map(|i| i.high) }
}

/// Cost over visits, as a ratio of sums.
fn ratio(trials: &[Trial], which: impl IntoIterator<Item = usize>) -> Option<f64> {
    let (cost, visits) = which
        .into_iter()
        .fold((0.0, 0.0), |(cost, visits), i| (cost + trials[i].cost, visits + trials[i].visits));
    (visits > 0.0 && cost > 0.0).then(|| cost / visits)
}

/// Experiments drawn with putting back, in blocks of neighbours in time (Politis and Romano 1992: the blocks go round in a
/// circle), since a machine's speed wanders.
fn draw(trials: &[Trial], replicates: u32) -> Vec<f64> {
    let n = trials.len();
    let block = (n as f64).cbrt().round().max(1.0) as usize;
    let mut rng = ChaCha8Rng::seed_from_u64(n as u64);
    let mut ratios = Vec::with_capacity(replicates as usize);
    for _ in 0..replicates {
        let mut drawn = Vec::with_capacity(n + block);
        while drawn.len() < n {
            let begin = rng.random_range(0..n);
            drawn.extend((begin..begin + block).map(|i| i % n));
        }
        drawn.truncate(n);
        ratios.extend(ratio(trials, drawn));
    }
    ratios
}

fn deviation(replicates: &[f64], of: f64) -> Option<f64> {
    if replicates.len() < 2 {
        return None;
    }
    let n = replicates.len() as f64;
    let mean = replicates.iter().sum::<f64>() / n;
    Some((replicates.iter().map(|r| (r - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt() / of)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::simulate::Program;

    /// `visit`: seconds.
    fn program(visit: f64, seconds: f64) -> Program {
        let mut program = Program::steady(seconds, vec![(0.5, |s| 0.5 * s), (0.4, |_| 0.0)]);
        program.phases[0].visit = visit;
        program.mishaps = 0.03;
        program
    }

    fn measured(visit: f64, seed: u64) -> Visits {
        of(&program(visit, 40.0).profile(seed), "request", PointKind::Throughput, 399).unwrap()
    }

    #[test]
    fn what_was_saved_is_within_its_interval_nineteen_times_of_twenty() {
        let mut held = 0;
        for seed in 0..50 {
            let saved = saved(&measured(2e-3, seed), &measured(1.4e-3, 1000 + seed));
            let (low, high) = (saved.low.unwrap(), saved.high.unwrap());
            assert!(high - low < 0.08, "and it says something: {low} to {high}");
            held += usize::from((low..=high).contains(&0.3));
        }
        assert!(held >= 45, "{held} of 50 intervals hold the truth");
    }

    #[test]
    fn few_experiments_have_no_interval_and_no_visit_no_cost() {
        let few = of(&program(2e-3, 0.8).profile(1), "request", PointKind::Throughput, 99);
        assert!(few.is_none_or(|few| few.error.is_none()));
        assert_eq!(of(&program(2e-3, 9.0).profile(1), "another", PointKind::Throughput, 99), None);
    }
}
