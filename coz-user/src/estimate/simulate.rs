//! Programs with a known answer, and the profiles that they would give.

use super::{Settings, student::normal};
use crate::experiment::record::{
    Experiment, Health, PointDelta, PointKind, PointSpec, Profile, Recorded, Runtime, Samples, Startup,
    ThroughputPoint,
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// CPU time per time, and the effect of a speedup.
pub(crate) type SimulatedLine = (f64, fn(f64) -> f64);

/// What the profiler knows while it runs.
pub(crate) struct SoFar<'a> {
    /// Seconds since the start.
    pub(crate) wall: f64,
    /// Of each line.
    pub(crate) samples: &'a [u64],
    pub(crate) experiments: &'a [Recorded],
}

/// A stretch of the program, in seconds of its undelayed time.
#[derive(Clone, Debug)]
pub(crate) struct Phase {
    pub(crate) seconds: f64,
    /// Time per visit of the point, seconds.
    pub(crate) visit: f64,
    pub(crate) lines: Vec<SimulatedLine>,
}

#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) phases: Vec<Phase>,
    /// Standard deviation of an experiment's rate, as a share.
    pub(crate) noise: f64,
    /// Share of experiments that go wrong, by 20 to 60 points.
    pub(crate) mishaps: f64,
    /// By which share the machine's speed wanders to both sides, in half a minute there and back.
    pub(crate) drift: f64,
    /// Length of an experiment, seconds of wall time.
    pub(crate) experiment: f64,
}

pub(crate) const SAMPLE: f64 = 1e-3;
const COOL_OFF: f64 = 0.05;

pub(crate) fn name(line: usize) -> String {
    format!("/src/app.c:{}", 10 * (line + 1))
}

/// Few replicates: tests run unoptimised.
pub(crate) fn settings() -> Settings {
    // Nothing but chance is simulated.
    Settings { replicates: 199, model_error: 0.0, ..Settings::default() }
}

impl Program {
    /// One phase.
    pub(crate) fn steady(seconds: f64, lines: Vec<SimulatedLine>) -> Self {
        let phases = vec![Phase { seconds, visit: 2e-3, lines }];
        Self { phases, noise: 0.02, mishaps: 0.0, drift: 0.0, experiment: 0.3 }
    }

    /// What a real speedup of the line would bring to the whole run.
    pub(crate) fn truth(&self, line: usize, speedup: f64) -> f64 {
        let total: f64 = self.phases.iter().map(|p| p.seconds).sum();
        self.phases.iter().map(|p| p.seconds / total * (p.lines[line].1)(speedup)).sum()
    }

    /// Runs the program under the profiler, which draws lines in proportion to what they run, and speedups at random.
    pub(crate) fn profile(&self, seed: u64) -> Profile {
        self.profile_with(seed, |rng, phase, _| {
            let line = choose(rng, phase);
            Some((line, if rng.random::<bool>() { 0 } else { 50 * rng.random_range(1..=20_u32) }))
        })
    }

    /// Runs the program under the profiler; `next` chooses lines and speedups (thousandths), or that there were enough.
    pub(crate) fn profile_with(
        &self,
        seed: u64,
        mut next: impl FnMut(&mut ChaCha8Rng, &Phase, &SoFar<'_>) -> Option<(usize, u32)>,
    ) -> Profile {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let count = self.phases[0].lines.len();
        let (mut wall, mut undelayed) = (0.0_f64, 0.0_f64);
        let mut counts = vec![0_u64; count];
        let mut quiet = vec![0_u64; count];
        let mut experiments = Vec::new();
        let mut at = Position { phase: 0, left: self.phases[0].seconds };
        while at.phase < self.phases.len() {
            let mut idle = vec![0; count];
            for (phase, seconds) in self.advance(&mut at, COOL_OFF, |_| 1.0) {
                sample(&mut rng, phase, seconds, &mut idle);
            }
            (0..count).for_each(|i| {
                counts[i] += idle[i];
                quiet[i] += idle[i];
            });
            undelayed += COOL_OFF;
            wall += COOL_OFF;
            let Some(phase) = self.phases.get(at.phase) else { break };
            let so_far = SoFar { wall, samples: &counts, experiments: &experiments };
            let Some((line, permille)) = next(&mut rng, phase, &so_far) else { break };
            let s = f64::from(permille) / 1000.0;
            let wandered = 1.0 + self.drift * (wall / 30.0 * std::f64::consts::TAU).sin();
            let mut rate = wandered * (1.0 + self.noise * normal(&mut rng));
            if rng.random::<f64>() < self.mishaps {
                rate *= rng.random_range(0.4..0.8);
            }
            // Of each stretch: how much longer it takes under the delays, of which some are its own time.
            let left = |phase: &Phase| 1.0 - phase.lines[line].1(s);
            let stretch = |phase: &Phase| left(phase) + s * phase.lines[line].0;
            let mut within = vec![0; count];
            let (mut progress, mut took, mut duration, mut expected) = (0.0, 0.0, 0.0, 0.0);
            for (phase, seconds) in self.advance(&mut at, self.experiment, stretch) {
                sample(&mut rng, phase, seconds, &mut within);
                progress += seconds;
                took += seconds * stretch(phase);
                duration += seconds * left(phase);
                expected += seconds / phase.visit * rate;
            }
            let whole = took >= self.experiment * 0.999;
            let visits = poisson(&mut rng, expected);
            if permille == 0 {
                undelayed += progress;
                (0..count).for_each(|i| quiet[i] += within[i]);
            }
            (0..count).for_each(|i| counts[i] += within[i]);
            let nanos = |seconds: f64| (seconds * 1e9) as u64;
            let experiment = Experiment {
                selected: name(line),
                speedup: s,
                duration: nanos(duration).max(1),
                selected_samples: within[line],
                wall: nanos(took),
                delay: nanos(took - duration),
                valid: whole,
                why: (!whole).then_some(crate::experiment::record::Why::Truncated),
                begin: nanos(wall),
                selected_weight: nanos(within[line] as f64 * SAMPLE),
                samples: within.iter().sum(),
                ..Experiment::default()
            };
            let point = ThroughputPoint { name: "request".into(), delta: visits, duration: None };
            experiments.push(Recorded {
                run: 0,
                experiment,
                points: vec![PointDelta::ThroughputPoint(point)],
            });
            wall += took;
        }
        let samples = (0..count).map(|i| Samples {
            location: name(i),
            count: counts[i],
            weight_ns: counts[i] * 1_000_000,
            undelayed_weight_ns: Some(quiet[i] * 1_000_000),
            function: Some(format!("work_{i}")),
            file: Some("/src/app.c".into()),
            line: Some(10 * (i as u32 + 1)),
            text: Some(format!("work({i});")),
            around: Vec::new(),
        });
        let health = Health {
            samples: counts.iter().sum(),
            undelayed_ns: (undelayed * 1e9) as u64,
            undelayed_samples: quiet.iter().sum(),
            ..Health::default()
        };
        Profile {
            startup: Startup {
                version: 1,
                program: vec!["./app".into(), "--fast".into()],
                points: vec![PointSpec { name: "request".into(), kind: PointKind::Throughput }],
                ..Startup::default()
            },
            runs: 1,
            experiments,
            samples: samples.collect(),
            runtime: Some(Runtime { time: (wall * 1e9) as u64, health }),
            ..Profile::default()
        }
    }
}

/// How far a program has come.
struct Position {
    phase: usize,
    /// Seconds left of that phase.
    left: f64,
}

impl Program {
    /// Runs on for so much wall time, of which each second of a phase takes `stretch`: the phases that it goes
    /// through, and the seconds of each.
    fn advance(&self, at: &mut Position, wall: f64, stretch: impl Fn(&Phase) -> f64) -> Vec<(&Phase, f64)> {
        let mut parts = Vec::new();
        let mut wanted = wall;
        while wanted > 1e-9
            && let Some(phase) = self.phases.get(at.phase)
        {
            let seconds = (wanted / stretch(phase)).min(at.left);
            parts.push((phase, seconds));
            wanted -= seconds * stretch(phase);
            at.left -= seconds;
            if at.left <= 1e-9 {
                at.phase += 1;
                at.left = self.phases.get(at.phase).map_or(0.0, |next| next.seconds);
            }
        }
        parts
    }
}

pub(crate) fn choose(rng: &mut ChaCha8Rng, phase: &Phase) -> usize {
    let total: f64 = phase.lines.iter().map(|l| l.0).sum();
    let mut at = rng.random::<f64>() * total;
    phase
        .lines
        .iter()
        .position(|l| {
            at -= l.0;
            at < 0.0
        })
        .unwrap_or(phase.lines.len() - 1)
}

fn sample(rng: &mut ChaCha8Rng, phase: &Phase, seconds: f64, counts: &mut [u64]) {
    for (count, line) in counts.iter_mut().zip(&phase.lines) {
        *count += poisson(rng, line.0 * seconds / SAMPLE);
    }
}

fn poisson(rng: &mut ChaCha8Rng, mean: f64) -> u64 {
    if mean > 50.0 {
        return (mean + mean.sqrt() * normal(rng)).round().max(0.0) as u64;
    }
    let (mut n, mut left) = (0, (-mean).exp());
    let mut product = rng.random::<f64>();
    while product > left {
        n += 1;
        product *= rng.random::<f64>();
        left = left.max(f64::MIN_POSITIVE);
    }
    n
}
