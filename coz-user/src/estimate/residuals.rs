//! How sure a curve is: the wild bootstrap over experiments, in blocks of time.
//!
//! Each replicate keeps the speedups and visits as they were and multiplies every experiment's residual by a
//! random number of mean 0 and variance 1 (Wu, "Jackknife, bootstrap and other resampling methods in
//! regression analysis", Annals of Statistics 14, 1986): unlike resampling experiments it never loses a
//! baseline or a speedup that was measured once, and it allows each experiment its own variance. The numbers
//! are Webb's six points, fit for few experiments (Webb, "Reworking wild bootstrap based inference for
//! clustered errors", 2013). Experiments near in time share one number when their residuals are correlated
//! (cluster version: Cameron, Gelbach and Miller, Review of Economics and Statistics 90, 2008). Residuals are
//! divided by the root of 1 - leverage (MacKinnon and White's HC2, 1985), and the 95 % percentile interval is
//! widened as Student's t is over the normal, with Satterthwaite's degrees of freedom (Bell and McCaffrey,
//! Survey Methodology 28, 2002): percentiles of few experiments are too near.

use super::{regression::Fit, series::Trial};
use rand::{Rng, RngExt};

/// An experiment that explains itself away by more than this says nothing about the noise.
const SELF_MADE: f64 = 0.9;
/// At most so many neighbours in speedup lend their residuals to a speedup measured once or twice.
const NEIGHBOURS: usize = 16;
/// A trial without visits is taken for one with this share of what its cost would have had.
const LEAST_VISITS: f64 = 0.05;
/// Neighbours in time are correlated when their correlation exceeds this over the root of their number: by
/// chance once in twenty.
const CORRELATED: f64 = 1.645;

/// The residuals of a fit, ready to be drawn from.
#[derive(Clone, Debug)]
pub struct Residuals {
    /// Per trial: residual of its cost as the replicates use it; 0 for those left out.
    cost: Vec<f64>,
    /// Per trial: its CPU time of the line beyond what its effective time would have had; baselines only.
    density: Vec<f64>,
    /// Per trial: number of its block.
    block: Vec<usize>,
    blocks: usize,
    /// Of all baselines and of all others: what their residuals say about noise.
    pools: [Pool; 2],
    /// Share of the trials that the fit does not explain away.
    free: f64,
}

/// Residuals by speedup, in points of effect times the root of the exposure: alike wherever they stand.
#[derive(Clone, Debug, Default)]
struct Pool {
    /// Speedup, residual, index of the trial.
    residuals: Vec<(f64, f64, usize)>,
}

impl Pool {
    /// The residuals nearest in speedup.
    fn near(&self, speedup: f64) -> &[(f64, f64, usize)] {
        let pool = &self.residuals;
        let n = pool.len().min(NEIGHBOURS);
        let mut from = pool.partition_point(|p| p.0 < speedup).saturating_sub(n / 2).min(pool.len() - n);
        while from > 0 && speedup - pool[from - 1].0 < pool[from + n - 1].0 - speedup {
            from -= 1;
        }
        while from + n < pool.len() && pool[from + n].0 - speedup < speedup - pool[from].0 {
            from += 1;
        }
        &pool[from..from + n]
    }

    /// Their root mean square.
    fn size_at(&self, speedup: f64) -> Option<f64> {
        let near = self.near(speedup);
        (near.len() >= 2).then(|| (near.iter().map(|p| p.1 * p.1).sum::<f64>() / near.len() as f64).sqrt())
    }
}

impl Residuals {
    /// The residuals of `trials` around `fit`; `None` when there are too few to tell noise from signal.
    #[must_use]
    pub fn new(trials: &[Trial], keep: &[bool], fit: &Fit) -> Option<Self> {
        let parameters = 1 + fit.basis.size();
        let kept: Vec<usize> = (0..trials.len()).filter(|&i| keep[i]).collect();
        if kept.len() <= parameters {
            return None;
        }
        let scale = |t: &Trial| common_scale(t, fit);
        let residual = |i: usize| (trials[i].cost - fit.expected(&trials[i])) * scale(&trials[i]);
        let square: f64 = kept.iter().map(|&i| residual(i).powi(2)).sum();
        let typical = (square / (kept.len() - parameters) as f64).sqrt();
        let mut pools = [Pool::default(), Pool::default()];
        for &i in &kept {
            let leverage = fit.leverage(&trials[i]);
            if leverage <= SELF_MADE {
                let pool = &mut pools[usize::from(!trials[i].is_baseline())].residuals;
                pool.push((trials[i].speedup(), residual(i) / (1.0 - leverage).sqrt(), i));
            }
        }
        for pool in &mut pools {
            if pool.residuals.len() < 2 {
                pool.residuals = vec![(0.5, typical, kept[0]), (0.5, -typical, kept[0])];
            }
            pool.residuals.sort_by(|a, b| a.0.total_cmp(&b.0));
        }
        let mut this = Self {
            cost: vec![0.0; trials.len()],
            density: densities(trials),
            block: vec![0; trials.len()],
            blocks: 0,
            pools,
            free: (kept.len() - parameters) as f64 / kept.len() as f64,
        };
        let blocked = this.assign_blocks(trials, keep, fit);
        for i in kept {
            let (trial, leverage) = (&trials[i], fit.leverage(&trials[i]));
            let pool = &this.pools[usize::from(!trial.is_baseline())];
            // A block needs the residuals as they came. Single ones are taken by their sign alone, and as large
            // as their neighbours in speedup: one trial's own residual is no measure of its noise.
            let own = residual(i) / (1.0 - leverage.min(SELF_MADE)).sqrt();
            let size = if blocked { own.abs() } else { pool.size_at(trial.speedup()).unwrap_or(typical) };
            this.cost[i] = size.copysign(own) / scale(trial);
        }
        Some(this)
    }

    /// One block per trial, unless neighbours in time are off in the same direction: then the cube root of the
    /// number of trials (Hall, Horowitz and Jing, Biometrika 82, 1995). Speedups are drawn anew for each
    /// experiment, so that a drift which hits all speedups alike does no harm with blocks of one either.
    /// Says whether the blocks are longer than one trial.
    fn assign_blocks(&mut self, trials: &[Trial], keep: &[bool], fit: &Fit) -> bool {
        let z: Vec<f64> = trials
            .iter()
            .zip(keep)
            .filter(|(_, k)| **k)
            .map(|(t, _)| fit.deviation(t) * t.exposure.sqrt())
            .collect();
        let n = z.len() as f64;
        let mean = z.iter().sum::<f64>() / n;
        let square: f64 = z.iter().map(|z| (z - mean).powi(2)).sum();
        let next: f64 = z.windows(2).map(|w| (w[0] - mean) * (w[1] - mean)).sum();
        let correlated = square > 0.0 && next / square > CORRELATED / n.sqrt();
        let length = if correlated { n.cbrt().round().max(1.0) as usize } else { 1 };
        for (i, block) in self.block.iter_mut().enumerate() {
            *block = i / length;
        }
        self.blocks = self.block.last().map_or(0, |last| last + 1);
        length > 1
    }

    /// One replicate: by how much every trial's cost changes, and by how much the line's CPU time per time.
    pub fn replicate(&self, trials: &[Trial], fit: &Fit, rng: &mut impl Rng) -> (Vec<f64>, f64) {
        let numbers: Vec<f64> = (0..self.blocks).map(|_| webb(rng)).collect();
        let change = |(i, t): (usize, &Trial)| match self.cost[i] {
            // The trial left out changes nothing.
            0.0 => 0.0,
            residual => numbers[self.block[i]] * residual + fit.expected(t) - t.cost,
        };
        let density = self.density.iter().zip(&self.block).map(|(d, &b)| d * numbers[b]).sum();
        (trials.iter().enumerate().map(change).collect(), density)
    }

    /// A random error of the mean effect of these trials at one speedup, from the residuals of its neighbours.
    pub fn error_at(&self, trials: &[&Trial], fit: &Fit, rng: &mut impl Rng) -> f64 {
        let Some(first) = trials.first() else { return 0.0 };
        let near = self.pools[1].near(first.speedup());
        let visits: f64 = trials.iter().map(|t| t.visits).sum();
        let error = |t: &&Trial| {
            let drawn = rng.random_range(0..2 * near.len());
            let (z, sign) = (near[drawn / 2].1, if drawn % 2 == 0 { 1.0 } else { -1.0 });
            sign * z * t.visits * louder(t, fit) / t.exposure.max(1.0).sqrt()
        };
        trials.iter().map(error).sum::<f64>() / visits.max(1e-9)
    }

    /// Degrees of freedom behind the variance of the fitted effect at `speedup`.
    #[must_use]
    pub fn freedom(&self, trials: &[Trial], keep: &[bool], fit: &Fit, speedup: f64) -> f64 {
        let single = self.blocks == trials.len();
        let mut parts = vec![0.0; trials.len()];
        for (i, t) in trials.iter().enumerate().filter(|(i, _)| keep[*i]) {
            let part = (fit.influence(speedup, t) / common_scale(t, fit)).powi(2);
            if single {
                // The variance of this trial was learnt from its neighbours.
                let near = self.pools[usize::from(!t.is_baseline())].near(t.speedup());
                near.iter().for_each(|(_, _, j)| parts[*j] += part / near.len() as f64);
            } else {
                parts[self.block[i]] += part;
            }
        }
        let sum: f64 = parts.iter().sum();
        let squares: f64 = parts.iter().map(|q| q * q).sum();
        if squares > 0.0 { sum * sum / squares * self.free } else { 1.0 }
    }

    /// Degrees of freedom behind the interval of one measured speedup.
    #[must_use]
    pub fn freedom_at(&self, speedup: f64, baselines: usize) -> f64 {
        let pool = self.pools[1].near(speedup).len() as f64;
        (pool * self.free).min(baselines as f64 - 1.0 + pool / 2.0).max(1.0)
    }
}

/// What one nanosecond of the trial's cost is in points of effect times the root of the exposure. The
/// variance of an effect is taken to go with 1 / exposure, and, where a line makes the program slower, also
/// with the noise of the fewer visits.
fn common_scale(t: &Trial, fit: &Fit) -> f64 {
    let visits = t.visits.max(t.cost / fit.p0 * LEAST_VISITS).max(1e-9);
    t.exposure.max(1.0).sqrt() / (fit.p0 * visits) / louder(t, fit)
}

/// By how much a trial's noise exceeds that of a baseline of the same effective time: visits that come at
/// random in time make an effect's standard deviation `(1 - f)^1.5`. Below 1 other noise takes over.
fn louder(t: &Trial, fit: &Fit) -> f64 {
    (1.0 - fit.effect(t.speedup())).max(1.0).powf(1.5)
}

/// By how much each baseline's CPU time of the line exceeds what its effective time would have had, as a part
/// of all baselines' effective time.
fn densities(trials: &[Trial]) -> Vec<f64> {
    let baselines = trials.iter().filter(|t| t.is_baseline());
    let (weight, time) = baselines.fold((0.0, 0.0), |(w, x), t| (w + t.weight, x + t.exposure));
    let density = |t: &Trial| match t.is_baseline() && time > 0.0 {
        true => (t.weight - weight / time * t.exposure) / time,
        false => 0.0,
    };
    trials.iter().map(density).collect()
}

/// Webb's six-point distribution: plus or minus the roots of 1/2, 1 and 3/2.
fn webb(rng: &mut impl Rng) -> f64 {
    const POINTS: [f64; 6] = [
        -1.224_744_871_391_589,
        -1.0,
        -std::f64::consts::FRAC_1_SQRT_2,
        std::f64::consts::FRAC_1_SQRT_2,
        1.0,
        1.224_744_871_391_589,
    ];
    POINTS[rng.random_range(0..POINTS.len())]
}
