//! Each warning, from what is recorded.

use super::*;
use crate::experiment::record::{
    END_TO_END, Experiment, Health, PointDelta, PointKind, PointRun, PointSpec, Recorded, Samples, Startup,
    ThreadDelay, ThroughputPoint, Why,
};

/// A run of a second with a thousand samples in which nothing was wrong, changed.
fn run(change: impl Fn(&mut Health)) -> Profile {
    let mut health = Health { samples: 1000, owed_ns: 1_000_000, cpu_ns: 1_000_000_000, ..Health::default() };
    change(&mut health);
    let startup = Startup {
        points: vec![PointSpec { name: "done".into(), kind: PointKind::Throughput }],
        ..Startup::default()
    };
    Profile { runs: 1, startup, runtime: Some(Runtime { time: 1_000_000_000, health }), ..Profile::default() }
}

/// Where nothing could be said of effects, nothing is said against them.
#[test]
fn a_run_without_points_has_no_effects_to_doubt() {
    let mut bare = run(|h| {
        (h.runqueue_share, h.steal_share, h.spinning) = (0.5, 0.2, 250);
        (h.lost_samples, h.unpaid_ns, h.quota_periods) = (200, 900_000, (100, 40));
    });
    assert_eq!(said(&bare).iter().filter(|text| refuses(text)).count(), 6, "{:?}", said(&bare));
    bare.startup.points.clear();
    // A run that was started is an experiment itself, from end to end; one that was attached to has none.
    let whole = ThroughputPoint { name: END_TO_END.into(), delta: 1, duration: None };
    let whole = Recorded { points: vec![PointDelta::ThroughputPoint(whole)], ..Recorded::default() };
    for experiments in [vec![], vec![whole]] {
        let said = said(&Profile { experiments, ..bare.clone() });
        assert!(!said.iter().any(|text| text.contains("effects")), "{said:?}");
        assert!(said.len() == 2 && said.iter().any(|text| text.contains("samples were lost")), "{said:?}");
    }
}

fn said(profile: &Profile) -> Vec<String> {
    warnings(profile, &crate::estimate::estimate(profile, &crate::estimate::simulate::settings()))
        .iter()
        .map(ToString::to_string)
        .collect()
}

/// The only warning of such a run; and that a run of 99 samples has none.
fn only(change: impl Fn(&mut Health)) -> String {
    let short = run(|h| {
        change(h);
        h.samples = 99;
    });
    assert_eq!(said(&short), [""; 0], "shares of a handful of samples say nothing");
    let found = said(&run(change));
    assert_eq!(found.len(), 1, "{found:?}");
    found.into_iter().next().unwrap()
}

fn refuses(text: &str) -> bool {
    text.contains("not to be trusted")
}

#[test]
fn a_sound_run_has_no_warnings() {
    assert_eq!(said(&run(|_| ())), [""; 0]);
}

#[test]
fn samples_lost() {
    let few = only(|h| h.lost_samples = 20);
    assert!(few.starts_with("2 % of the samples were lost") && !refuses(&few), "{few}");
    assert!(refuses(&only(|h| h.lost_samples = 200)));
}

#[test]
fn signals_refused() {
    let text = only(|h| (h.signals_sent, h.signals_failed) = (90, 10));
    assert!(text.contains("refused 10 %"), "{text}");
}

#[test]
fn threads_that_spin() {
    let text = only(|h| h.spinning = 250);
    assert!(
        text.starts_with("25 % of the samples met a thread that waits by spinning") && refuses(&text),
        "{text}"
    );
    assert_eq!(said(&run(|h| h.spinning = 40)), [""; 0], "a moment before they block is no harm");
}

#[test]
fn delays_unpaid() {
    let some = only(|h| h.unpaid_ns = 200_000);
    assert!(some.starts_with("20 % of the delays were never paid") && !refuses(&some), "{some}");
    let more = only(|h| h.unpaid_ns = 3_000_000);
    assert!(more.starts_with("100 %") && refuses(&more), "no share is more than all of it: {more}");
}

#[test]
fn a_thread_that_does_not_pay() {
    let thread = |visits| ThreadDelay {
        name: "worker\u{1b}".into(),
        tid: 7,
        owed_ns: 100,
        paid_ns: 10,
        unpaid_ns: 60,
        visits,
    };
    let text = only(|h| h.threads = vec![thread(3)]);
    assert!(text.starts_with("thread worker") && text.contains("60 %"), "{text}");
    assert!(!text.contains('\u{1b}'));
    assert_eq!(said(&run(|h| h.threads = vec![thread(0)])), [""; 0], "one that makes no progress may owe");
    let many = |tid| ThreadDelay { tid, unpaid_ns: 40 + u64::from(tid), ..thread(3) };
    let text = only(|h| h.threads = (1..=9).map(many).collect());
    assert!(
        text.starts_with("threads worker  (9), worker  (8), worker  (7) and 6 more made progress and did not pay up to 49 %"),
        "one bullet for a pool of threads: {text}"
    );
}

#[test]
fn nothing_is_said_twice() {
    let text = || "the table of threads was full".to_owned();
    assert_eq!(said(&run(|h| h.warnings = vec![text(), text()])), [text()]);
}

#[test]
fn waiting_for_a_cpu() {
    assert!(refuses(&only(|h| h.runqueue_share = 0.5)));
}

#[test]
fn stolen_time() {
    let little = only(|h| h.steal_share = 0.04);
    assert!(little.contains("hypervisor took 4 %") && !refuses(&little), "{little}");
    assert!(refuses(&only(|h| h.steal_share = 0.2)));
}

#[test]
fn cpus_that_stand_still_unseen() {
    let few = only(|h| h.clock_samples = (880, 1000));
    assert!(few.starts_with("there were 12 % fewer samples") && !refuses(&few), "{few}");
    let half = only(|h| h.clock_samples = (5470, 10_000));
    assert!(half.starts_with("there were 45 % fewer samples") && refuses(&half), "{half}");
    for fine in [(0, 0), (930, 1000), (1300, 1000), (300, 900)] {
        assert_eq!(said(&run(|h| h.clock_samples = fine)), [""; 0], "{fine:?}");
    }
}

#[test]
fn a_cpu_quota() {
    let little = only(|h| h.quota_periods = (100, 2));
    assert!(little.contains("quota stopped the program in 2 %") && !refuses(&little), "{little}");
    assert!(refuses(&only(|h| h.quota_periods = (100, 40))));
}

#[test]
fn time_out_of_scope() {
    let text = only(|h| h.out_of_scope = 800);
    assert!(text.starts_with("80 % of the samples fell into code that can not be selected"), "{text}");
}

#[test]
fn the_cost_of_sampling() {
    assert!(only(|h| h.sampling_ns = 90_000_000).contains("used 9 % of the CPU time"));
}

#[test]
fn the_cost_of_a_point_that_is_passed_too_often() {
    let point = |visits, probe_ns| PointRun { name: "hot".into(), visits, probe_ns };
    let text = only(|h| h.points = vec![point(50_000, 90_000_000)]);
    assert!(
        text.starts_with("hot was passed 50000 times a second") && text.contains("9 % of a CPU"),
        "{text}"
    );
    assert_eq!(said(&run(|h| h.points = vec![point(500, 900_000)])), [""; 0]);
}

#[test]
fn what_the_profiler_wrote_and_a_run_without_an_end() {
    assert_eq!(said(&run(|h| h.warnings = vec!["odd".into()])), ["odd"]);
    let open = Profile { open_end: true, ..run(|_| ()) };
    assert!(said(&open)[0].starts_with("the profile has no end"));
    let cut = Profile { truncated: true, ..run(|_| ()) };
    assert!(said(&cut)[0].starts_with("the profile ends within a record"));
}

#[test]
fn experiments_that_do_not_count() {
    let with = |valid: usize, not: usize| {
        let experiment = |i| Recorded {
            experiment: Experiment {
                valid: i >= not,
                why: (i < not).then_some(Why::Unpaid),
                ..Experiment::default()
            },
            ..Recorded::default()
        };
        Profile { experiments: (0..valid + not).map(experiment).collect(), ..run(|_| ()) }
    };
    assert!(said(&with(6, 4))[0].starts_with("40 % of the experiments do not count (most: delays not paid"));
    assert_eq!(said(&with(9, 1)), [""; 0], "one is as it should be");
    assert_eq!(said(&with(2, 2)), [""; 0], "of four, shares say nothing");
}

#[test]
fn experiments_that_were_counted_before_the_program_had_settled() {
    let with = |speedup: f64, drifts: &[f64]| {
        let each = drifts.iter().map(|&drift| Recorded {
            experiment: Experiment { speedup, valid: true, drift: Some(drift), ..Experiment::default() },
            ..Recorded::default()
        });
        Profile { experiments: each.collect(), ..run(|_| ()) }
    };
    let drifts = [0.08, 0.07, 0.06, 0.07, 0.08, 0.07, 0.06, 0.07];
    let text = &said(&with(0.0, &drifts))[0];
    assert!(text.starts_with("the program takes long to get used to the end of delays"), "{text}");
    assert!(text.contains("was 7 % faster while"), "{text}");
    let text = &said(&with(0.5, &drifts.map(|drift| -drift)))[0];
    assert!(text.contains("used to delays (") && text.contains("7 % slower while"), "{text}");
    assert_eq!(said(&with(0.5, &drifts[..4])), [""; 0], "four say nothing");
    assert_eq!(
        said(&with(0.5, &drifts.map(|drift| drift - 0.045))),
        [""; 0],
        "two percent and a half do not matter"
    );
    // Of one that has needed more time, it is to be shown that it got enough.
    let grown = |drifts: &[f64]| {
        let mut profile = with(0.5, drifts);
        let early = Experiment { speedup: 0.5, why: Some(Why::Unsettled), ..Experiment::default() };
        profile.experiments.insert(0, Recorded { experiment: early, ..Recorded::default() });
        said(&profile)
    };
    assert!(grown(&[0.01, -0.01])[0].contains("used to delays"), "two show nothing");
    assert!(grown(&[0.36, -0.07, 0.33, 0.0, 0.24])[0].contains("not to be trusted"));
    assert_eq!(grown(&[0.01, -0.01, 0.02, 0.0]), [""; 0]);
    // Baselines that depend on what was before them.
    let turns = [
        (1.0, 0),
        (0.0, 160),
        (0.0, 100),
        (0.5, 0),
        (0.0, 150),
        (0.0, 102),
        (1.0, 0),
        (0.0, 158),
        (0.0, 101),
    ];
    let recorded = |(speedup, visits): (f64, u64)| Recorded {
        experiment: Experiment {
            speedup,
            valid: true,
            wall: 100,
            delay: (90.0 * speedup) as u64,
            duration: 100,
            ..Experiment::default()
        },
        points: vec![PointDelta::ThroughputPoint(ThroughputPoint {
            name: "p".into(),
            delta: visits,
            duration: None,
        })],
        ..Recorded::default()
    };
    let in_turn = |turns: &[(f64, u64)]| Profile {
        experiments: turns.iter().copied().map(recorded).collect(),
        ..run(|_| ())
    };
    assert!(said(&in_turn(&turns))[0].contains("used to the end of delays"), "{:?}", said(&in_turn(&turns)));
    let steady = turns.map(|(speedup, visits)| (speedup, if visits > 0 { 100 + visits % 5 } else { 0 }));
    assert_eq!(said(&in_turn(&steady)), [""; 0]);
    let scattered = [0.3, -0.2, 0.4, -0.3, 0.2, -0.1, 0.3, -0.2];
    assert_eq!(said(&with(0.5, &scattered)), [""; 0], "chance");
}

#[test]
fn lines_too_thin_to_be_worth_it() {
    let with = |largest: u64| {
        let mut profile = run(|_| ());
        let line = |i: u64| Samples {
            location: format!("a.c:{i}"),
            count: if i == 0 { largest } else { 20 },
            weight_ns: 1_000_000,
            ..Samples::default()
        };
        profile.samples = (0..40).map(line).collect();
        profile
    };
    assert!(said(&with(25))[0].contains("-g function"), "{:?}", said(&with(25)));
    assert_eq!(said(&with(60)), [""; 0]);
    let mut functions = with(25);
    functions.startup.granularity = Granularity::Function;
    assert_eq!(said(&functions), [""; 0], "functions it is already");
}

#[test]
fn mishaps_and_phases_that_can_not_be_believed() {
    use crate::estimate::{Estimate, Line};
    let line = Line { experiments: 20, outliers: 3, phase_capped: true, ..Line::default() };
    let estimate = Estimate { lines: vec![line], ..Estimate::default() };
    let found = warnings(&run(|_| ()), &estimate);
    assert_eq!(found, [Warning::Outliers(0.15), Warning::PhaseCapped(1)]);
}

#[test]
fn shares_of_attributed_time_do_without_a_total() {
    let mut old = run(|h| (h.cpu_ns, h.sampling_ns) = (0, 100));
    old.samples = vec![Samples { weight_ns: 1000, count: 1000, ..Samples::default() }];
    assert_eq!(said(&old).len(), 1, "10 % of what is attributed");
}
