use proptest::prelude::*;

use super::*;
use crate::experiment::{data::SetTotals, plan::Lines};

const LINE: LineId = LineId(7);

fn ms(n: u64) -> Nanos {
    Nanos(n * 1_000_000)
}

fn series(runs: u32) -> Series {
    let levels: Vec<_> = (1..=20).filter_map(|i| Speedup::from_percent(i * 5)).collect();
    Series::new(Plan::new(1, Lines::Sampled, &levels), runs, ms(0))
}

fn snapshot(at: Nanos, required: Nanos) -> Snapshot {
    let set = SetTotals { samples: at.0 / 1_000_000, ..SetTotals::default() };
    Snapshot { at, required, absorbed: required, set, ..Snapshot::default() }
}

fn recorded(actions: &[Action]) -> &Experiment {
    actions
        .iter()
        .find_map(|a| if let Action::Record(e) = a { Some(&**e) } else { None })
        .unwrap_or_else(|| panic!("no record in {actions:?}"))
}

/// A program that takes 300 ms, and 100 more for each delayed run: what its experiments were.
fn play(series: &mut Series) -> Vec<Experiment> {
    let (mut now, mut runs, mut delay) = (ms(0), Vec::new(), Nanos(0));
    series.on(Event::TableReady, now);
    loop {
        now = after(now, after(ms(300), delay));
        assert!(matches!(series.on(Event::RunEnded, now)[..], [Action::End, Action::TakeSnapshot { .. }]));
        let mut actions = series.on(Event::Snapshot(snapshot(now, delay)), now);
        runs.push(recorded(&actions).clone());
        loop {
            match actions.pop() {
                Some(Action::Finish) => return runs,
                Some(Action::ReadLines) => actions = series.on(Event::LinesSeen(vec![(LINE, 90)]), now),
                Some(Action::SetTimer(at)) => {
                    now = at;
                    actions = series.on(Event::Tick, now);
                }
                Some(Action::TakeSnapshot { line: LINE }) => {
                    let Some(Action::Begin(begin)) = actions.pop() else { panic!() };
                    delay = if begin.speedup.is_baseline() { Nanos(0) } else { ms(100) };
                    actions = series.on(Event::Snapshot(snapshot(now, Nanos(0))), now);
                    assert_eq!(actions, [Action::RunAgain], "begun before the program does");
                }
                Some(Action::RunAgain) => {
                    actions = series.on(Event::Released, now);
                    assert_eq!(actions.pop(), Some(Action::SetTimer(after(now, RENEW))));
                    break;
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn as_many_runs_as_were_asked_for_each_seen_whole() {
    for wanted in [1, 2, 11] {
        let runs = play(&mut series(wanted));
        assert_eq!(runs.len(), wanted as usize);
        for run in &runs {
            assert_eq!((run.invalid, run.effective()), (None, 300_000_000), "{run:?}");
            assert_eq!(run.points, [PointVisits::of(PointId::WHOLE_RUN, 1)]);
            assert_eq!(run.set.samples, run.wall().0 / 1_000_000, "its own");
        }
    }
}

#[test]
fn the_first_is_a_look_and_the_others_come_in_pairs() {
    let runs = play(&mut series(11));
    assert_eq!((runs[0].line, runs[0].speedup, runs[0].epoch), (LineId::NONE, Speedup::BASELINE, 0));
    for (n, pair) in runs[1..].chunks(2).enumerate() {
        assert!(pair.iter().all(|run| run.line == LINE));
        assert_eq!(pair.iter().filter(|run| run.speedup.is_baseline()).count(), 1, "{pair:?}");
        assert_eq!((pair[0].epoch, pair[1].epoch), (2 * n as u32 + 1, 2 * n as u32 + 2));
    }
}

/// A series whose second run is under way.
fn in_the_second_run(runs: u32) -> Series {
    let mut series = series(runs);
    series.on(Event::TableReady, ms(0));
    series.on(Event::RunEnded, ms(300));
    series.on(Event::Snapshot(snapshot(ms(300), Nanos(0))), ms(300));
    series.on(Event::LinesSeen(vec![(LINE, 90)]), ms(300));
    assert_eq!(series.on(Event::Tick, ms(400)), [Action::ReadLines]);
    let begin = series.on(Event::LinesSeen(vec![]), ms(400));
    assert!(matches!(begin[..], [Action::Begin(_), Action::TakeSnapshot { line: LINE }]), "{begin:?}");
    series.on(Event::Snapshot(snapshot(ms(400), Nanos(0))), ms(400));
    series.on(Event::Released, ms(410));
    series
}

#[test]
fn a_long_run_goes_on_paying() {
    let mut series = in_the_second_run(9);
    let renewed = [Action::Extend { deadline: ms(2_910) }, Action::SetTimer(ms(1_410))];
    assert_eq!(series.on(Event::Tick, ms(910)), renewed);
}

#[test]
fn a_run_that_fails_is_the_last_and_does_not_count() {
    let mut series = in_the_second_run(9);
    series.on(Event::TargetExited, ms(500));
    let actions = series.on(Event::Snapshot(snapshot(ms(500), Nanos(0))), ms(500));
    assert_eq!((recorded(&actions).invalid, recorded(&actions).points.len()), (Some(Why::Truncated), 0));
    assert_eq!(actions[1..], [Action::Finish]);
}

#[test]
fn an_interruption_ends_the_experiment_at_once_and_the_series_with_the_run() {
    for end in [Event::RunEnded, Event::TargetExited] {
        let mut series = in_the_second_run(9);
        assert_eq!(series.on(Event::Interrupted, ms(500))[0], Action::End);
        let actions = series.on(Event::Snapshot(snapshot(ms(500), Nanos(0))), ms(500));
        assert_eq!((actions.len(), recorded(&actions).invalid), (1, Some(Why::Interrupted)));
        assert_eq!(series.on(Event::Tick, ms(700)), [], "the program runs on, undelayed");
        assert_eq!(series.on(end, ms(900)), [Action::Finish]);
    }
}

#[test]
fn between_two_runs_an_interruption_is_the_end() {
    let mut series = series(9);
    series.on(Event::RunEnded, ms(300));
    series.on(Event::Snapshot(snapshot(ms(300), Nanos(0))), ms(300));
    assert_eq!(series.on(Event::Interrupted, ms(310)), [Action::Finish]);
}

#[test]
fn where_there_is_nothing_to_select_three_runs_tell() {
    let (mut series, mut now, mut runs) = (series(20), ms(0), 0);
    let mut actions = Vec::new();
    while actions != [Action::Finish] {
        runs += 1;
        now = after(now, ms(300));
        series.on(Event::RunEnded, now);
        let set = SetTotals { samples: runs * 90, ..SetTotals::default() };
        actions = series.on(Event::Snapshot(Snapshot { set, ..snapshot(now, Nanos(0)) }), now);
        assert_eq!(recorded(&actions).set.samples, 90, "of this run alone");
        while actions != [Action::RunAgain] && actions != [Action::Finish] {
            actions = match actions.pop() {
                Some(Action::SetTimer(at)) => {
                    now = at;
                    series.on(Event::Tick, now)
                }
                _ => series.on(Event::LinesSeen(vec![]), now),
            };
        }
        series.on(Event::Released, now);
    }
    assert_eq!(runs, u64::from(SCOUTS));
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        2 => Just(Event::Tick),
        2 => (0..3u32, 0..90u64).prop_map(|(line, n)| Event::LinesSeen(vec![(LineId(line), n)])),
        4 => (any::<u64>(), any::<u64>()).prop_map(|(at, g)| Event::Snapshot(snapshot(Nanos(at), Nanos(g)))),
        1 => Just(Event::TableReady),
        4 => Just(Event::RunEnded),
        4 => Just(Event::Released),
        1 => prop_oneof![Just(Event::DurationOver), Just(Event::Interrupted), Just(Event::TargetExited)],
    ]
}

proptest! {
    /// Whatever happens in whatever order: a run is begun by one experiment, which is ended and recorded once, no more
    /// runs than were asked for, and nothing after the end.
    #[test]
    fn any_order_of_events_keeps_the_rules(
        events in proptest::collection::vec((any_event(), 0..400u64), 0..200),
        runs in 1..9u32,
    ) {
        let mut series = series(runs);
        let (mut now, mut begun, mut recorded, mut started, mut finished) = (ms(0), 0, 0, 1, false);
        let end = [(Event::TargetExited, 1), (Event::Snapshot(snapshot(ms(1), Nanos(0))), 1), (Event::TargetExited, 1)];
        for (event, dt) in events.into_iter().chain(end) {
            now = after(now, ms(dt));
            for action in series.on(event, now) {
                prop_assert!(!finished, "{action:?} after the end");
                match action {
                    Action::Begin(b) => {
                        begun += 1;
                        prop_assert_eq!(b.epoch, begun);
                        prop_assert!(b.deadline > now);
                    }
                    Action::RunAgain => started += 1,
                    Action::Record(_) => recorded += 1,
                    Action::SetTimer(at) => prop_assert!(at > now),
                    Action::Finish => finished = true,
                    Action::Extend { .. } | Action::End | Action::TakeSnapshot { .. } | Action::ReadLines => {}
                }
                prop_assert!(recorded <= started && started <= runs);
            }
        }
        prop_assert!(finished, "it always comes to an end");
    }
}
