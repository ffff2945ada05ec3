//! The planner and the stop rule on simulated programs: what is known when they stop is true as often as it is said to
//! be, and they stop early.

use coz_common::units::{LineId, Nanos, Speedup};

use super::{
    super::simulate::{SimulatedLine, choose},
    *,
};
use crate::{
    estimate::standing::standings,
    experiment::{
        plan::{Lines, Plan},
        spend::Until,
    },
};
use rand::RngExt;

/// How the next experiment is chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum How {
    /// As `coz-bpf run` does.
    Ours,
    /// Lines in proportion to their samples, speedups at random and 0 half of the time: the paper's.
    Proportional,
    /// Every line alike, speedups as in the paper.
    Uniform,
}

/// Experiments between two looks at what is known.
const LOOK: usize = 12;

/// The profile at the time when the interval of the top line is as narrow as asked for, and that time, seconds of wall
/// time; the whole program and no time where that never happens.
pub(super) fn until(program: &Program, seed: u64, points: f64, how: How) -> (Profile, Option<f64>) {
    let levels: Vec<_> = (1..=20).filter_map(|i| Speedup::from_percent(i * 5)).collect();
    let mut plan = Plan::new(seed, Lines::Sampled, &levels);
    let mut until = Until::points(points);
    let mut seen = vec![0; program.phases[0].lines.len()];
    let line = |location: &str| (0..seen.len()).find(|&i| name(i) == location).map(|i| LineId(i as u32 + 1));
    let number: HashMap<String, LineId> =
        (0..seen.len()).filter_map(|i| Some((name(i), line(&name(i))?))).collect();
    let settings = Settings { replicates: 0, ..settings() };
    let mut stopped = None;
    let mut looked = 0;
    let profile = program.profile_with(seed, |rng, phase, so_far| {
        let now = Nanos((so_far.wall * 1e9) as u64);
        if so_far.experiments.len() >= looked + LOOK {
            looked = so_far.experiments.len();
            let profile = Profile { runs: 1, experiments: so_far.experiments.to_vec(), ..Profile::default() };
            let estimate = estimate(&profile, &settings);
            let (known, top) = standings(&estimate, true);
            if until.look(top, now) {
                stopped = Some(so_far.wall);
                return None;
            }
            plan.learn(known.into_iter().map(|(location, standing)| (number[location], standing)));
        }
        if let Some(last) = so_far.experiments.last() {
            plan.ended(last.experiment.selected_samples);
        }
        let fresh: Vec<_> = (so_far.samples.iter().zip(&seen).enumerate())
            .map(|(i, (now, before))| (LineId(i as u32 + 1), now - before))
            .collect();
        seen.copy_from_slice(so_far.samples);
        plan.observe(&fresh, now);
        let level = if rng.random::<bool>() { 0 } else { 50 * rng.random_range(1..=20_u32) };
        Some(match how {
            How::Ours => match plan.choose() {
                Some(choice) => (choice.line.0 as usize - 1, choice.speedup.permille()),
                None => (choose(rng, phase), level),
            },
            How::Proportional => (choose(rng, phase), level),
            How::Uniform => (rng.random_range(0..phase.lines.len()), level),
        })
    });
    (profile, stopped)
}

/// A machine as it is: speed that wanders, noise, and experiments that go wrong by 20 to 60 points.
fn noisy(program: Program) -> Program {
    Program { drift: 0.05, mishaps: 0.04, noise: 0.04, ..program }
}

#[test]
fn intervals_hold_when_the_run_ends_because_they_are_narrow() {
    let program = noisy(busy(120.0));
    let mut hits = [[0_u32; 2]; 2];
    let mut stopped = 0;
    for seed in 0..50 {
        let (profile, at) = until(&program, seed, 5.0, How::Ours);
        stopped += u32::from(at.is_some());
        let estimate = estimate(&profile, &Settings { replicates: 99, ..settings() });
        for (rank, line) in estimate.lines.iter().filter(|l| l.hidden.is_none()).enumerate() {
            let index = (0..4).find(|&i| name(i) == line.location).unwrap();
            for level in line.summary.iter().filter(|l| [250, 500, 1000].contains(&l.permille)) {
                let truth = program.truth(index, f64::from(level.permille) / 1000.0);
                let holds = level.low.unwrap() <= truth && truth <= level.high.unwrap();
                // The line whose interval ended the run, and all others.
                hits[usize::from(rank > 0)][usize::from(holds)] += 1;
            }
        }
    }
    assert!(stopped >= 45, "{stopped} of 50 runs were ended by the rule");
    for (what, [missed, hit]) in ["first", "other"].into_iter().zip(hits) {
        let percent = 100.0 * f64::from(hit) / f64::from(hit + missed);
        println!("{what}: {percent:.1} % of {} intervals hold the truth", hit + missed);
        assert!((92.0..=98.0).contains(&percent), "{what}: {percent:.1} % of the intervals hold the truth");
    }
}

/// A program of two dozen lines of which one is worth the trouble.
fn many_lines() -> Program {
    let mut lines: Vec<SimulatedLine> = vec![(0.5, half), (0.4, none), (0.3, none), (0.2, none)];
    lines.extend([(0.1, none as fn(f64) -> f64), (0.05, none)]);
    lines.extend([(0.003, none as fn(f64) -> f64); 18]);
    let mut program = Program::steady(200.0, lines);
    program.phases[0].visit = 1e-3;
    noisy(program)
}

#[test]
fn experiments_that_go_where_they_are_needed_answer_sooner() {
    let program = many_lines();
    let time = |how| {
        let times = (0..3).map(|seed| until(&program, 100 + seed, 4.0, how).1.unwrap_or(200.0));
        outliers::median(times.collect())
    };
    let (ours, proportional, uniform) = (time(How::Ours), time(How::Proportional), time(How::Uniform));
    println!(
        "seconds until the first line is known to 4 points (median of 3): {ours:.0}; in proportion to samples {proportional:.0} \
         ({:.1}x); every line alike {uniform:.0} ({:.1}x)",
        proportional / ours,
        uniform / ours
    );
    assert!(proportional > 1.5 * ours, "{ours} against {proportional}");
    assert!(uniform > 3.0 * ours, "{ours} against {uniform}");
}

#[test]
fn cold_lines_do_not_use_up_the_time_of_the_others() {
    let program = many_lines();
    let (profile, _) = until(
        &Program { phases: vec![Phase { seconds: 60.0, ..program.phases[0].clone() }], ..program.clone() },
        7,
        0.5,
        How::Ours,
    );
    let mut of_line: BTreeMap<&str, usize> = BTreeMap::new();
    for recorded in &profile.experiments {
        *of_line.entry(&recorded.experiment.selected).or_default() += 1;
    }
    for (i, (share, _)) in program.phases[0].lines.iter().enumerate() {
        let experiments = of_line.get(name(i).as_str()).copied().unwrap_or(0);
        if *share < 0.005 {
            assert!(experiments <= 4, "two pairs for a line of {share}: {experiments}");
        } else if *share >= 0.4 {
            assert!(experiments >= 10, "the lines that may be first have theirs: {share}: {experiments}");
        }
    }
}
