//! Truth, prediction, error.

use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use coz_user::kernel::standing::Standing;

use super::machine::Machine;
use super::profiler::Totals;
use super::program::Program;
use super::rules::Rules;
use super::{MS, Ns, S, World};

/// How much to simulate.
#[derive(Clone, Debug)]
pub struct Effort {
    /// Simulated time of the run that truth is taken from.
    pub truth: Ns,
    /// Length of an experiment.
    pub experiment: Ns,
    /// Experiments at each level; as many baselines again.
    pub repeat: usize,
    /// Least time between two experiments, up to twice that.
    pub cool_off: Ns,
    /// Levels, thousandths.
    pub levels: Vec<u32>,
    /// Part of an experiment that goes before what counts, where delays have changed.
    pub settle: Ns,
    /// Seed of everything.
    pub seed: u64,
}

impl Default for Effort {
    fn default() -> Self {
        Self {
            truth: 20 * S,
            experiment: 300 * MS,
            repeat: 30,
            cool_off: 10 * MS,
            levels: vec![250, 500, 750, 1000],
            settle: 60 * MS,
            seed: 1,
        }
    }
}

/// One level of one program.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    /// Speedup, thousandths.
    pub level: u32,
    /// What the program gains by it, percent.
    pub truth: f64,
    /// What is predicted.
    pub predicted: f64,
    /// Standard error of the prediction, percent.
    pub spread: f64,
    /// Mean debt at the end of the experiments, weighted by visits, as a part of the delay, percent.
    pub unpaid: f64,
}

impl Cell {
    /// Prediction less truth, points.
    #[must_use]
    pub fn error(&self) -> f64 {
        self.predicted - self.truth
    }
}

/// A program judged.
#[derive(Clone, Debug)]
pub struct Judgement {
    /// By level.
    pub cells: Vec<Cell>,
    /// Sums over all experiments.
    pub totals: Totals,
    /// Visits a second, plain.
    pub rate: f64,
}

/// What a real speedup brings at each level, percent, and the visits a second without.
#[must_use]
pub fn truth(program: &Program, machine: &Machine, effort: &Effort, cycle: u64) -> (Vec<f64>, f64) {
    let mut plain = World::plain(program, machine, 0, effort.seed);
    plain.run_until(effort.truth);
    let visits = (plain.visits() / cycle).max(1) * cycle;
    let time = |shortened| {
        let mut world = World::plain(program, machine, shortened, effort.seed);
        world.run_until_visits(visits, effort.truth * 20);
        world.now() as f64
    };
    let before = time(0);
    let gains = effort.levels.iter().map(|&level| 100.0 * (1.0 - time(level) / before)).collect();
    (gains, visits as f64 / (before / 1e9))
}

/// Sums over the experiments of one level.
#[derive(Clone, Debug, Default)]
struct Sum {
    each: Vec<(f64, f64)>,
    delay: f64,
    owed: f64,
}

impl Sum {
    /// Effective time of a visit, and the relative standard error of that.
    fn period(&self) -> (f64, f64) {
        let time: f64 = self.each.iter().map(|one| one.0).sum();
        let visits: f64 = self.each.iter().map(|one| one.1).sum();
        let period = time / visits;
        let n = self.each.len() as f64;
        let square: f64 = self.each.iter().map(|one| (one.0 - period * one.1).powi(2)).sum();
        (period, (square * n / (n - 1.0)).sqrt() / visits / period)
    }
}

/// Experiments on the running program, baseline and treatment interleaved.
#[must_use]
pub fn predict(
    program: &Program,
    machine: &Machine,
    rules: &Rules,
    effort: &Effort,
) -> (Vec<[f64; 3]>, Totals) {
    let mut world = World::profiled(program, machine, rules, effort.seed ^ 0xC02);
    let mut rng = ChaCha8Rng::seed_from_u64(effort.seed ^ 0xBEE);
    world.run_until(machine.warm_up);
    let mut plan: Vec<u32> = Vec::new();
    for _ in 0..effort.repeat {
        let mut levels = effort.levels.clone();
        levels.shuffle(&mut rng);
        for level in levels {
            plan.extend(if rng.random_bool(0.5) { [0, level] } else { [level, 0] });
        }
    }
    let mut baseline = Sum::default();
    let mut sums = vec![Sum::default(); effort.levels.len()];
    let stands = |world: &World| {
        let delay = world.required();
        let standing = Standing::of(world.standing().into_iter(), delay);
        (standing.absorbed.map_or(delay, |absorbed| absorbed.0), standing.unpaid.0)
    };
    let mut last = 0;
    for speedup in plan {
        world.begin(speedup);
        if speedup > 0 || last > 0 {
            world.run_until(world.now() + effort.settle);
        }
        last = speedup;
        let (begun, before) = (world.now(), world.visits());
        let (absorbed_before, _) = stands(&world);
        world.run_until(begun + effort.experiment);
        let delay = world.required();
        let (absorbed, owed) = stands(&world);
        world.end();
        let visits = (world.visits() - before) as f64;
        let effective = (world.now() - begun) as f64 - absorbed.saturating_sub(absorbed_before) as f64;
        let sum = match effort.levels.iter().position(|&level| level == speedup) {
            Some(level) => &mut sums[level],
            None => &mut baseline,
        };
        sum.each.push((effective, visits));
        sum.delay += delay as f64;
        sum.owed += owed as f64;
        let rest = effort.cool_off + rng.random_range(0..=effort.cool_off);
        world.run_until(world.now() + rest);
    }
    let (before, before_error) = baseline.period();
    let cells = sums
        .iter()
        .map(|sum| {
            let (after, after_error) = sum.period();
            let ratio = after / before;
            let error = ratio * before_error.hypot(after_error);
            [100.0 * (1.0 - ratio), 100.0 * error, 100.0 * sum.owed / sum.delay.max(1.0)]
        })
        .collect();
    (cells, world.totals())
}

/// Truth and prediction.
#[must_use]
pub fn judge(program: &Program, machine: &Machine, rules: &Rules, effort: &Effort, cycle: u64) -> Judgement {
    let (truths, rate) = truth(program, machine, effort, cycle);
    let (predictions, totals) = predict(program, machine, rules, effort);
    let cells = effort
        .levels
        .iter()
        .zip(truths)
        .zip(predictions)
        .map(|((&level, truth), [predicted, spread, unpaid])| Cell {
            level,
            truth,
            predicted,
            spread,
            unpaid,
        })
        .collect();
    Judgement { cells, totals, rate }
}
