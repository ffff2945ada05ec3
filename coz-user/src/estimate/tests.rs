//! The estimates of simulated programs against what is known about them.

use super::{
    simulate::{Phase, Program, SimulatedLine, name, settings},
    *,
};

fn half(s: f64) -> f64 {
    0.5 * s
}

fn none(_: f64) -> f64 {
    0.0
}

/// Gains until another part becomes the bottleneck.
fn kinked(s: f64) -> f64 {
    0.8 * s.min(0.5)
}

fn contended(s: f64) -> f64 {
    -0.3 * s
}

fn find(estimate: &Estimate, line: usize) -> &Line {
    estimate.lines.iter().find(|l| l.location == name(line)).expect("the line was measured")
}

fn at(line: &Line, permille: u32) -> &Level {
    line.summary.iter().find(|l| l.permille == permille).expect("the fit reaches that far")
}

fn four_lines(seconds: f64) -> Program {
    Program::steady(seconds, vec![(0.5, half), (0.4, none), (0.5, kinked), (0.3, contended)])
}

/// The same with so many visits that chance among them does not matter.
fn busy(seconds: f64) -> Program {
    let mut program = four_lines(seconds);
    program.phases[0].visit = 2e-4;
    program
}

#[test]
fn a_steady_program_gives_its_own_curves_and_verdicts() {
    let program = busy(200.0);
    let estimates: Vec<_> = (1..4).map(|seed| estimate(&program.profile(seed), &settings())).collect();
    for line in 0..4 {
        for permille in [250, 500, 750, 1000] {
            let effect = estimates.iter().map(|e| at(find(e, line), permille).effect).sum::<f64>() / 3.0;
            let truth = program.truth(line, f64::from(permille) / 1000.0);
            assert!((effect - truth).abs() < 0.025, "line {line} at {permille}: {effect} {truth}");
        }
        assert_eq!(find(&estimates[0], line).phase_factor, 1.0);
        assert_eq!(find(&estimates[0], line).hidden, None);
    }
    let estimate = &estimates[0];
    let verdicts: Vec<_> = (0..4).map(|line| find(estimate, line).verdict).collect();
    assert_eq!(verdicts, [Verdict::Optimize, Verdict::Flat, Verdict::Optimize, Verdict::Contention]);
    assert_eq!(estimate.lines[3].location, name(3), "contention comes last");
    assert_eq!(estimate.discarded.keys().collect::<Vec<_>>(), [&Why::Truncated]);
}

/// How often intervals cover the truth, in percent: of the summary, of the slope, of single levels.
fn coverage(program: &Program, profiles: u64) -> [f64; 3] {
    let mut hits = [[0_u32; 2]; 3];
    let mut count = |kind: usize, low: Option<f64>, high: Option<f64>, truth: f64| {
        let (Some(low), Some(high)) = (low, high) else { return };
        hits[kind][usize::from(low <= truth && truth <= high)] += 1;
    };
    for seed in 0..profiles {
        let settings = Settings { replicates: 99, ..settings() };
        let estimate = estimate(&program.profile(1000 + seed), &settings);
        for line in 0..program.phases[0].lines.len() {
            let Some(found) = estimate.lines.iter().find(|l| l.location == name(line)) else { continue };
            if found.hidden.is_some() {
                continue;
            }
            for level in found.summary.iter().filter(|l| [250, 500, 1000].contains(&l.permille)) {
                count(0, level.low, level.high, program.truth(line, f64::from(level.permille) / 1000.0));
            }
            for level in found.curve.iter().filter(|l| l.permille > 0) {
                count(2, level.low, level.high, program.truth(line, f64::from(level.permille) / 1000.0));
            }
            // A straight curve's slope is its effect at 100 %.
            if program.truth(line, 0.5) * 2.0 == program.truth(line, 1.0)
                && let Some(slope) = found.slope
            {
                count(1, slope.low, slope.high, program.truth(line, 1.0));
            }
        }
    }
    hits.map(|[missed, hit]| 100.0 * f64::from(hit) / f64::from((missed + hit).max(1)))
}

fn assert_covers(program: &Program, profiles: u64, at_most: f64) {
    let found = coverage(program, profiles);
    for (what, percent) in ["summary", "slope", "levels"].into_iter().zip(found) {
        assert!(
            (92.0..=at_most).contains(&percent),
            "{what}: {percent:.1} % of the intervals hold the truth"
        );
    }
}

#[test]
fn intervals_hold_the_truth_as_often_as_they_say() {
    assert_covers(&four_lines(40.0), 110, 98.0);
    assert_covers(&busy(40.0), 110, 98.0);
}

#[test]
fn intervals_hold_with_few_experiments() {
    // A dozen trials a line: rather too wide than too narrow.
    assert_covers(&four_lines(16.0), 100, 99.5);
}

#[test]
fn intervals_hold_with_few_visits() {
    let mut program = four_lines(40.0);
    program.phases[0].visit = 30e-3;
    assert_covers(&program, 60, 99.5);
}

#[test]
fn mishaps_move_little() {
    let program = Program { mishaps: 0.06, ..busy(100.0) };
    for seed in 0..5 {
        let estimate = estimate(&program.profile(seed), &settings());
        for line in 0..4 {
            let found = find(&estimate, line);
            let (effect, truth) = (at(found, 500).effect, program.truth(line, 0.5));
            assert!((effect - truth).abs() < 0.06, "line {line}, seed {seed}: {effect} {truth}");
        }
        assert!(estimate.lines.iter().map(|l| l.outliers).sum::<usize>() > 3);
    }
}

/// The line is hot in the first half only, and the halves make progress at different rates.
fn phased() -> Program {
    let phase =
        |visit, share, effect| Phase { seconds: 60.0, visit, lines: vec![(share, effect), (0.5, none)] };
    Program {
        phases: vec![phase(2e-3, 0.5, half as fn(f64) -> f64), phase(6e-3, 0.0, none)],
        ..four_lines(1.0)
    }
}

#[test]
fn a_line_that_is_hot_in_one_phase_is_corrected_for_the_other() {
    let program = phased();
    let mut errors = Vec::new();
    for seed in 0..11 {
        let estimate = estimate(&program.profile(seed), &settings());
        let hot = find(&estimate, 0);
        assert!((hot.phase_factor - 0.5).abs() < 0.06, "{}", hot.phase_factor);
        errors.push((at(hot, 1000).effect - program.truth(0, 1.0)).abs());
    }
    let error = outliers::median(errors);
    assert!(error < 0.03, "{error}");
}

#[test]
fn a_line_that_is_selected_in_both_phases_needs_no_correction() {
    // Hot in both, but of use in the first half only: its experiments are bimodal, and none is thrown away.
    let phase = |effect| Phase { seconds: 60.0, visit: 2e-3, lines: vec![(0.5, effect)] };
    let program = Program { phases: vec![phase(half as fn(f64) -> f64), phase(none)], ..four_lines(1.0) };
    let (mut sum, mut covered) = (0.0, 0);
    for seed in 0..10 {
        let estimate = estimate(&program.profile(seed), &settings());
        let line = find(&estimate, 0);
        assert_eq!((line.phase_factor, line.outliers), (1.0, 0));
        let (level, truth) = (at(line, 1000), program.truth(0, 1.0));
        sum += level.effect - truth;
        covered += u32::from(level.low.unwrap() <= truth && truth <= level.high.unwrap());
    }
    assert!((sum / 10.0).abs() < 0.05, "mean error {}", sum / 10.0);
    assert!(covered >= 8, "{covered} of 10");
}

#[test]
fn useless_lines_are_rarely_praised_however_many() {
    let program = Program::steady(250.0, vec![(0.05, none as fn(f64) -> f64); 20]);
    let praised: usize = (0..4)
        .map(|seed| {
            let estimate = estimate(&program.profile(seed), &settings());
            let is = |v| move |l: &&Line| l.hidden.is_none() && l.verdict == v;
            estimate.lines.iter().filter(is(Verdict::Optimize)).count()
                + estimate.lines.iter().filter(is(Verdict::Contention)).count()
        })
        .sum();
    assert!(praised <= 1, "{praised} of 80 useless lines");
}

#[test]
fn a_line_without_baseline_or_with_few_speedups_is_marked() {
    let mut profile = four_lines(60.0).profile(3);
    for recorded in &mut profile.experiments {
        let e = &mut recorded.experiment;
        if e.selected == name(0) && e.speedup == 0.0 {
            e.speedup = 0.5;
        } else if e.selected == name(1) && e.speedup > 0.0 {
            e.speedup = 0.25;
        }
    }
    let estimate = estimate(&profile, &settings());
    let (lone, narrow) = (find(&estimate, 0), find(&estimate, 1));
    assert_eq!((lone.hidden, lone.slope, lone.curve.len()), (Some(Hidden::NoBaseline), None, 0));
    assert_eq!(narrow.hidden, Some(Hidden::FewSpeedups));
    assert_eq!(narrow.curve.len(), 2, "it is estimated all the same");
    assert_eq!(narrow.summary.iter().map(|l| l.permille).collect::<Vec<_>>(), [250]);
}

#[test]
fn a_point_goes_by_the_time_of_those_who_pass_it() {
    use crate::experiment::record::{Experiment, PointDelta, Recorded, ThroughputPoint};
    let mut profile = Profile { runs: 1, ..Profile::default() };
    for i in 0..24_u64 {
        let speedup = [0.0, 0.5, 0.0, 1.0][i as usize % 4];
        // Others, who pass another point far more often, have absorbed half of the time whatever is tried.
        let experiment = Experiment {
            selected: "a.c:1".into(),
            speedup,
            duration: 500_000_000,
            wall: 1_000_000_000,
            delay: (4e8 * speedup) as u64,
            valid: true,
            ..Default::default()
        };
        let duration = Some((1e9 * (1.0 - 0.4 * speedup)) as u64);
        let point = ThroughputPoint { name: "rare".into(), delta: 1_000 + i * 7 % 5, duration };
        profile.experiments.push(Recorded {
            run: 0,
            experiment,
            points: vec![PointDelta::ThroughputPoint(point)],
        });
    }
    let estimate = estimate(&profile, &settings());
    let line = &estimate.lines[0];
    assert!((at(line, 1000).effect - 0.4).abs() < 0.02 && (at(line, 500).effect - 0.2).abs() < 0.02);
}

#[test]
fn whole_runs_are_compared_by_their_length() {
    let mut profile = Profile { runs: 1, ..Profile::default() };
    for i in 0..24_u64 {
        let speedup = [0.0, 0.5, 0.0, 1.0][i as usize % 4];
        let jitter = 1.0 + 0.01 * ((i * 7 % 5) as f64 - 2.0);
        profile.experiments.push(crate::experiment::record::Recorded {
            run: 0,
            experiment: crate::experiment::record::Experiment {
                selected: "a.c:1".into(),
                speedup,
                duration: (2e9 * (1.0 - 0.4 * speedup) * jitter) as u64,
                valid: true,
                ..Default::default()
            },
            points: vec![crate::experiment::record::PointDelta::ThroughputPoint(
                crate::experiment::record::ThroughputPoint {
                    name: crate::experiment::record::END_TO_END.into(),
                    delta: 1,
                    duration: None,
                },
            )],
        });
    }
    let estimate = estimate(&profile, &settings());
    let line = &estimate.lines[0];
    assert!((at(line, 1000).effect - 0.4).abs() < 0.02 && (at(line, 500).effect - 0.2).abs() < 0.02);
    assert_eq!(line.verdict, Verdict::Optimize);
}

#[test]
fn next_to_nothing_is_undecided_and_never_a_panic() {
    let whole = four_lines(20.0).profile(5);
    for n in 0..whole.experiments.len().min(12) {
        let mut profile = whole.clone();
        profile.experiments.truncate(n);
        let estimate = estimate(&profile, &settings());
        for line in &estimate.lines {
            let finite = |x: Option<f64>| x.is_none_or(f64::is_finite);
            assert!(
                line.curve
                    .iter()
                    .chain(&line.summary)
                    .all(|l| l.effect.is_finite() && finite(l.low) && finite(l.high))
            );
            assert!(n > 3 || line.verdict == Verdict::Undecided, "{n} experiments: {line:?}");
        }
    }
}

#[test]
fn intervals_hold_on_a_machine_that_wanders_and_stumbles() {
    // Speed wanders by a tenth to both sides within half a minute, and one experiment in twenty is off by 20 to 60 points.
    let program = Program { drift: 0.1, mishaps: 0.05, ..busy(60.0) };
    assert_covers(&program, 80, 99.0);
}

#[test]
fn baselines_of_their_own_time_halve_the_intervals_on_a_machine_that_wanders() {
    let width = |drift| {
        let program = Program { drift, ..busy(60.0) };
        let widths = (0..6).map(|seed| {
            let level = *at(find(&estimate(&program.profile(seed), &settings()), 0), 500);
            level.high.unwrap() - level.low.unwrap()
        });
        outliers::median(widths.collect())
    };
    let (steady, wandering) = (width(0.0), width(0.3));
    // Pooled baselines would add noise of 20 points to each experiment: five times that of the steady machine.
    assert!(wandering < 3.0 * steady, "{wandering} on a machine that wanders, {steady} on a steady one");
}

#[test]
fn a_phased_line_has_an_interval_that_is_worth_something() {
    // One line that is always selected, hot in the first half: its experiments and baselines fall into both halves.
    let phase = |share, effect| Phase { seconds: 9.0, visit: 1e-3, lines: vec![(share, effect)] };
    let all = |s: f64| 0.98 * s;
    let program =
        Program { phases: vec![phase(0.98, all as fn(f64) -> f64), phase(0.0, none)], ..four_lines(1.0) };
    for seed in 0..5 {
        let (profile, _) = spending::until(&program, seed, 0.01, spending::How::Ours);
        let estimate = estimate(&profile, &settings());
        let (level, truth) = (at(find(&estimate, 0), 500), program.truth(0, 0.5));
        let (low, high) = (level.low.unwrap(), level.high.unwrap());
        assert!((level.effect - truth).abs() < 0.04, "{level:?}");
        assert!(low <= truth && truth <= high && high - low < 0.15, "seed {seed}: {low} to {high}");
    }
}

#[test]
fn programs_without_phases_are_left_alone() {
    let mut corrected = 0;
    for seed in 0..40 {
        let estimate = estimate(&four_lines(20.0).profile(seed), &Settings { replicates: 0, ..settings() });
        corrected += estimate.lines.iter().filter(|l| l.phase_factor != 1.0).count();
    }
    assert!(corrected <= 1, "{corrected} of 160 lines");
}

#[test]
fn runs_in_one_file_are_one_profile() {
    // What `cat` makes of three profiles of a program without phases, one of them on a machine half as fast.
    let program = busy(30.0);
    let mut joined = program.profile(1);
    for (run, seed) in [(1, 2), (2, 3)] {
        let mut other = program.profile(seed);
        for recorded in &mut other.experiments {
            recorded.run = run;
            if run == 2 {
                recorded.experiment.duration *= 2;
                recorded.experiment.selected_weight *= 2;
            }
        }
        let slower = if run == 2 { 2 } else { 1 };
        other.runtime.as_mut().unwrap().health.undelayed_ns *= slower;
        joined.experiments.extend(other.experiments);
        for (sum, more) in joined.samples.iter_mut().zip(other.samples) {
            sum.count += more.count;
            sum.undelayed_weight_ns =
                Some(sum.undelayed_weight_ns.unwrap() + slower * more.undelayed_weight_ns.unwrap());
        }
        joined.runtime.as_mut().unwrap().join(other.runtime.unwrap());
        joined.runs += 1;
    }
    let estimate = estimate(&joined, &settings());
    for line in 0..4 {
        let found = find(&estimate, line);
        assert_eq!(found.phase_factor, 1.0, "line {line}");
        let (effect, truth) = (at(found, 500).effect, program.truth(line, 0.5));
        assert!((effect - truth).abs() < 0.05, "line {line}: {effect} {truth}");
    }
}

#[test]
fn what_was_not_paid_widens_the_interval_downwards() {
    let plain = busy(40.0).profile(1);
    let mut owing = plain.clone();
    for e in owing.experiments.iter_mut().map(|r| &mut r.experiment).filter(|e| e.speedup > 0.0) {
        // A twentieth of the time at full speedup, less at a lower one.
        e.unpaid = (0.05 * e.speedup * e.wall as f64) as u64;
    }
    let level = |profile: &Profile| *at(find(&estimate(profile, &settings()), 0), 1000);
    let (before, after) = (level(&plain), level(&owing));
    assert_eq!((before.effect, before.high), (after.effect, after.high));
    let wider = before.low.unwrap() - after.low.unwrap();
    assert!((0.03..0.07).contains(&wider), "{wider}");
}

mod spending;

/// A load that takes turns with three kinds of requests, which last as long as experiments do and cost 1, 1.3 and 8:
/// two lines run with the first two kinds only, two with the dear one only, one with all.
fn in_turns(turns: usize) -> Program {
    let small = (0.15, (|s| 0.15 * s) as fn(f64) -> f64);
    let large = (0.3, (|s| 0.3 * s) as fn(f64) -> f64);
    let absent = (0.0, none as fn(f64) -> f64);
    let kind = |visit, lines: [SimulatedLine; 5]| Phase { seconds: 0.5, visit, lines: lines.to_vec() };
    let cheap = [small, large, absent, absent, small];
    let dear = [absent, absent, small, large, small];
    let kinds = [kind(1e-5, cheap), kind(1.3e-5, cheap), kind(8e-5, dear)];
    Program { phases: kinds.iter().cycle().take(3 * turns).cloned().collect(), ..four_lines(1.0) }
}

#[test]
fn a_load_that_changes_in_steps_makes_intervals_wide_and_no_line_absurd() {
    let program = in_turns(14);
    // Rather too wide than too narrow.
    assert_covers(&program, 25, 100.0);
    for seed in 0..25 {
        for line in estimate(&program.profile(seed), &settings()).lines.iter().filter(|l| l.hidden.is_none())
        {
            let low = line.slope.and_then(|slope| slope.low);
            // No line is worth more than a quarter of the run here.
            assert!(low.is_none_or(|low| low < 0.3), "seed {seed}: {} {:?}", line.location, line.slope);
        }
    }
}

#[test]
fn a_dozen_experiments_that_agree_by_luck_are_not_believed() {
    let line = |i| (0.08, if i < 3 { (|s| 0.08 * s) as fn(f64) -> f64 } else { none });
    let program = Program { noise: 0.04, ..Program::steady(60.0, (0..12).map(line).collect()) };
    let praised = |seed| {
        let found = estimate(&program.profile(seed), &settings());
        let is_wrong = |l: &&Line| {
            let useless = (3..12).any(|i| name(i) == l.location);
            useless && matches!(l.verdict, Verdict::Optimize | Verdict::Contention)
        };
        found.lines.iter().filter(is_wrong).count()
    };
    let praised: usize = (0..25).map(praised).sum();
    assert!(praised <= 1, "{praised} of 225 useless lines");
}
