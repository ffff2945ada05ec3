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

use super::{baseline::Local, noise::Noise, prepare::Prepared, regression::Fit, series::Trial};
use rand::{Rng, RngExt};

/// An experiment that explains itself away by more than this says nothing about the noise.
const SELF_MADE: f64 = 0.9;
/// At most so many neighbours in speedup lend their residuals to a speedup measured once or twice.
const NEIGHBOURS: usize = 16;
/// Neighbours in time are correlated when their correlation exceeds this over the root of their number: by
/// chance once in twenty.
const CORRELATED: f64 = 1.645;

/// The residuals of a fit, ready to be drawn from.
#[derive(Clone, Debug)]
pub struct Residuals {
    /// Per trial: residual of its cost as the replicates use it; 0 for those left out.
    cost: Vec<f64>,
    /// Per trial: by how much its cost answers to a change of its baseline by all of it.
    gain: Vec<f64>,
    /// Whether the trials have doses.
    dosed: bool,
    /// Per trial: number of its block.
    block: Vec<usize>,
    blocks: usize,
    /// Of all baselines and of all others: what their residuals say about noise.
    pools: [Pool; 2],
    /// Share of the trials that the fit does not explain away.
    free: f64,
    /// What they say about the noise.
    own: Noise,
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

/// One replicate of the trials.
#[derive(Clone, Debug)]
pub struct Replicate {
    /// By how much each trial's cost changes; none for the baselines: what they change is in the others.
    pub change: Vec<f64>,
    /// By which share the baseline of each trial changes.
    pub level: Vec<f64>,
}

impl Residuals {
    /// The residuals of the trials around `fit`; `None` when there are too few to tell noise from signal.
    #[must_use]
    pub fn new(prepared: &Prepared, fit: &Fit) -> Option<Self> {
        let Prepared { trials, keep, local, correction, .. } = prepared;
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
            let left = left_over(&trials[i], i, fit, local);
            if left >= 1.0 - SELF_MADE {
                let pool = &mut pools[usize::from(!trials[i].is_baseline())].residuals;
                pool.push((trials[i].speedup(), residual(i) / left.sqrt(), i));
            }
        }
        for pool in &mut pools {
            if pool.residuals.len() < 2 {
                pool.residuals = vec![(0.5, typical, kept[0]), (0.5, -typical, kept[0])];
            }
            pool.residuals.sort_by(|a, b| a.0.total_cmp(&b.0));
        }
        let dosed = correction.dose.is_some();
        let gain = |t: &Trial| if dosed { t.exposure } else { fit.expected(t) };
        let mut this = Self {
            cost: vec![0.0; trials.len()],
            gain: trials.iter().map(gain).collect(),
            dosed,
            block: vec![0; trials.len()],
            blocks: 0,
            pools,
            free: (kept.len() - parameters) as f64 / kept.len() as f64,
            own: Noise { variance: typical * typical, freedom: (kept.len() - parameters) as f64 },
        };
        let blocked = this.assign_blocks(trials, keep, fit);
        for i in kept {
            let (trial, left) = (&trials[i], left_over(&trials[i], i, fit, local));
            let pool = &this.pools[usize::from(!trial.is_baseline())];
            // A block needs the residuals as they came. Single ones are taken by their sign alone, and as large
            // as their neighbours in speedup: one trial's own residual is no measure of its noise.
            let left = left.max(1.0 - SELF_MADE);
            let own = residual(i) / left.sqrt();
            let size = if blocked { own.abs() } else { pool.size_at(trial.speedup()).unwrap_or(typical) };
            // Half way from HC2 to HC3: the curve was chosen after a look at the data, which is no part of HC2.
            this.cost[i] = (size / left.min(1.0).powf(0.25)).copysign(own) / scale(trial);
        }
        Some(this)
    }

    /// What this line's residuals say about the noise.
    #[must_use]
    pub const fn noise(&self) -> Noise {
        self.own
    }

    /// Takes into account what all lines have in common: a line that seems quieter has been lucky.
    pub fn moderate(&mut self, common: Noise) {
        let by = (self.own.moderated(common).variance / self.own.variance).sqrt();
        if !by.is_finite() || by <= 1.0 {
            return;
        }
        self.cost.iter_mut().for_each(|cost| *cost *= by);
        let pooled = self.pools.iter_mut().flat_map(|pool| &mut pool.residuals);
        pooled.for_each(|(_, residual, _)| *residual *= by);
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

    /// One replicate of all trials.
    pub fn replicate(&self, prepared: &Prepared, fit: &Fit, rng: &mut impl Rng) -> Replicate {
        let Prepared { trials, local, .. } = prepared;
        let numbers: Vec<f64> = (0..self.blocks).map(|_| webb(rng)).collect();
        let drawn = |i: usize| numbers[self.block[i]] * self.cost[i];
        let of_baselines: Vec<f64> =
            local.baselines.iter().map(|&b| drawn(b) / fit.expected(&trials[b]).max(1.0)).collect();
        let level = local.changes(&of_baselines);
        let change = |(i, t): (usize, &Trial)| match self.cost[i] {
            // The trial left out changes nothing.
            0.0 => 0.0,
            _ if t.is_baseline() => 0.0,
            _ if self.dosed => fit.expected(t) + drawn(i) - level[i] * self.gain[i] - t.cost,
            _ => (fit.expected(t) + drawn(i)) / (1.0 + level[i]).max(0.1) - t.cost,
        };
        Replicate { change: trials.iter().enumerate().map(change).collect(), level }
    }

    /// A random error of the mean effect of these trials at one speedup, from the residuals of its neighbours.
    pub fn error_at(&self, trials: &[&Trial], fit: &Fit, rng: &mut impl Rng) -> f64 {
        let Some(first) = trials.first() else { return 0.0 };
        let near = self.pools[1].near(first.speedup());
        let whole: f64 = trials.iter().map(|t| t.visits * fit.p0).sum();
        let error = |t: &&Trial| {
            let drawn = rng.random_range(0..2 * near.len());
            let (z, sign) = (near[drawn / 2].1, if drawn % 2 == 0 { 1.0 } else { -1.0 });
            sign * z / common_scale(t, fit)
        };
        trials.iter().map(error).sum::<f64>() / whole.max(1.0)
    }

    /// By how much the mean effect of these trials rises when their baselines change by such shares.
    #[must_use]
    pub fn level_moved(&self, prepared: &Prepared, fit: &Fit, of: &[usize], level: &[f64]) -> f64 {
        let trials = &prepared.trials;
        let whole: f64 = of.iter().map(|&i| trials[i].visits * fit.p0).sum();
        let moved = |&i: &usize| match self.dosed {
            true => self.gain[i] * level[i],
            false => trials[i].cost * level[i] / (1.0 + level[i]).max(0.1),
        };
        of.iter().map(moved).sum::<f64>() / whole.max(1.0)
    }

    /// How the fitted effect at `speedup` answers to each trial's cost, per nanosecond: the baselines' by way of
    /// all trials that are compared with them.
    fn influences(&self, prepared: &Prepared, fit: &Fit, speedup: f64) -> Vec<f64> {
        let Prepared { trials, keep, local, .. } = prepared;
        let direct = |(i, t): (usize, &Trial)| {
            if keep[i] && !t.is_baseline() { fit.influence(speedup, t) } else { 0.0 }
        };
        let mut influences: Vec<f64> = trials.iter().enumerate().map(direct).collect();
        let mut of_baselines = vec![0.0; local.baselines.len()];
        for (i, _) in trials.iter().enumerate().filter(|(i, t)| keep[*i] && !t.is_baseline()) {
            let answer = influences[i] * self.gain[i];
            of_baselines.iter_mut().zip(local.weights(i)).for_each(|(sum, weight)| *sum -= answer * weight);
        }
        for (&b, answer) in local.baselines.iter().zip(of_baselines) {
            influences[b] = answer / fit.expected(&trials[b]).max(1.0);
        }
        influences
    }

    /// Standard error of the fitted effect at `speedup`: the sum of squares of influence times residual (the
    /// "sandwich": White, Econometrica 48, 1980), and the degrees of freedom behind it.
    #[must_use]
    pub fn error(&self, prepared: &Prepared, fit: &Fit, speedup: f64) -> (f64, f64) {
        let influences = self.influences(prepared, fit, speedup);
        let mut of_blocks = vec![0.0; self.blocks];
        for (i, influence) in influences.iter().enumerate() {
            of_blocks[self.block[i]] += influence * self.cost[i];
        }
        let error = of_blocks.iter().map(|part| part * part).sum::<f64>().sqrt();
        (error, self.freedom_of(prepared, fit, &influences))
    }

    /// Degrees of freedom behind the variance of the fitted effect at `speedup`.
    #[must_use]
    pub fn freedom(&self, prepared: &Prepared, fit: &Fit, speedup: f64) -> f64 {
        self.freedom_of(prepared, fit, &self.influences(prepared, fit, speedup))
    }

    fn freedom_of(&self, prepared: &Prepared, fit: &Fit, influences: &[f64]) -> f64 {
        let Prepared { trials, keep, .. } = prepared;
        let single = self.blocks == trials.len();
        let mut parts = vec![0.0; trials.len()];
        for (i, t) in trials.iter().enumerate().filter(|(i, _)| keep[*i]) {
            let part = (influences[i] / common_scale(t, fit)).powi(2);
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
    pub fn freedom_at(&self, speedup: f64, baselines: f64) -> f64 {
        let pool = self.pools[1].near(speedup).len() as f64;
        (pool * self.free).min(baselines - 1.0 + pool / 2.0).max(1.0)
    }
}

/// Share of a trial's variance that is left in its residual: less for what it explains of the fit, more for the
/// noise of what it is compared with.
fn left_over(trial: &Trial, index: usize, fit: &Fit, local: &Local) -> f64 {
    let leverage = if trial.is_baseline() { 0.0 } else { fit.leverage(trial) };
    (local.left_over(index) - leverage).max(0.0)
}

/// Makes a trial's residual, in nanoseconds of cost, comparable with all others: the variance of a cost is taken to
/// go with the time that the visits would have cost at speedup 0 (visits that come at random in time have that),
/// or, where a line makes the program slower, with the time that they did cost.
fn common_scale(t: &Trial, fit: &Fit) -> f64 {
    let louder = (1.0 - fit.effect(t.speedup())).max(1.0).sqrt();
    1.0 / t.exposure.max(1.0).sqrt() / louder
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
