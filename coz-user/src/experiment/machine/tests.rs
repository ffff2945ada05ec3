use proptest::prelude::*;

use super::super::plan::Lines;
use super::*;

const LINE: LineId = LineId(7);
const POINT: PointId = PointId(0);

fn ms(n: u64) -> Nanos {
    Nanos(n * 1_000_000)
}

fn machine(config: MachineConfig) -> Machine {
    let levels: Vec<_> = (1..=20).filter_map(|i| Speedup::from_percent(i * 5)).collect();
    Machine::new(config, Plan::new(1, Lines::Sampled, &levels), ms(0))
}

fn points(visits: u64) -> Vec<PointVisits> {
    vec![PointVisits::of(POINT, visits)]
}

fn snapshot(at: Nanos, visits: u64, required: Nanos) -> Event {
    let set = SetTotals { samples: at.0 / 1_000_000, ..SetTotals::default() };
    Event::Snapshot(Snapshot {
        at,
        required,
        absorbed: required,
        points: points(visits),
        set,
        ..Snapshot::default()
    })
}

use super::super::data::SetTotals;

/// A machine with a line and a point, in an experiment that began at `ms(1)`.
fn running(config: MachineConfig) -> Machine {
    let mut m = machine(config);
    m.on(Event::PointsKnown, ms(0));
    m.on(Event::TableReady, ms(0));
    let actions = m.on(Event::LinesSeen(vec![(LINE, 60)]), ms(1));
    settled(&mut m, &actions);
    m.on(snapshot(ms(1), 0, Nanos(0)), ms(1));
    m
}

/// Lets the time go by in which the program settles, if there is any: the experiment that `begun` began is about to count.
fn settled(m: &mut Machine, begun: &[Action]) {
    match begun {
        [Action::Begin(_), Action::SetTimer(at)] => {
            assert_eq!(m.on(Event::Tick, *at), [Action::TakeSnapshot { line: LINE }]);
        }
        other => {
            assert!(matches!(other, [Action::Begin(_), Action::TakeSnapshot { line: LINE }]), "{other:?}")
        }
    }
}

fn recorded(actions: &[Action]) -> &Experiment {
    actions
        .iter()
        .find_map(|a| if let Action::Record(e) = a { Some(&**e) } else { None })
        .unwrap_or_else(|| panic!("no record in {actions:?}"))
}

#[test]
fn an_experiment_waits_for_lines_and_points() {
    let mut m = machine(MachineConfig::default());
    assert_eq!(m.on(Event::Tick, ms(0)), []);
    assert_eq!(m.on(Event::TableReady, ms(1)), [], "no point yet");
    let poll = |now: u64| [Action::ReadLines, Action::SetTimer(after(ms(now), POLL))];
    assert_eq!(m.on(Event::PointsKnown, ms(2)), poll(2));
    assert_eq!(m.on(Event::LinesSeen(vec![]), ms(2)), [], "asking again at once would never end");
    assert_eq!(m.on(Event::Tick, ms(22)), poll(22));
    let begin = m.on(Event::LinesSeen(vec![(LINE, 60)]), ms(22));
    let [Action::Begin(begin), Action::TakeSnapshot { line: LINE }] = begin[..] else { panic!("{begin:?}") };
    assert_eq!((begin.line, begin.epoch, begin.length, begin.deadline), (LINE, 1, ms(300), ms(2022)));
}

#[test]
fn an_experiment_runs_its_time_and_is_recorded() {
    let mut m = running(MachineConfig::default());
    assert_eq!(m.on(Event::Tick, ms(301)), [Action::End, Action::TakeSnapshot { line: LINE }]);
    let actions = m.on(snapshot(ms(302), 40, ms(60)), ms(303));
    let e = recorded(&actions);
    assert_eq!((e.wall(), e.delay, e.effective()), (ms(301), ms(60), 241_000_000));
    assert_eq!((e.points.clone(), e.invalid), (points(40), None));
    assert_eq!(e.set.samples, 301);
    let Some(Action::SetTimer(at)) = actions.last() else { panic!("{actions:?}") };
    assert!((ms(313)..=ms(323)).contains(at), "cool-off: 10 to 20 ms, not {at:?}");
    assert_eq!(m.on(Event::Tick, ms(305)), [Action::SetTimer(*at)], "an early tick begins nothing");
    assert!(matches!(m.on(Event::Tick, *at)[..], [Action::Begin(Begin { epoch: 2, .. }), _]));
}

#[test]
fn the_deadline_is_short_and_renewed() {
    let mut m = machine(MachineConfig { length: ms(5_000), ..MachineConfig::default() });
    m.on(Event::TableReady, ms(0));
    m.on(Event::PointsKnown, ms(0));
    m.on(Event::LinesSeen(vec![(LINE, 60)]), ms(0));
    assert_eq!(m.on(snapshot(ms(0), 0, Nanos(0)), ms(0)), [Action::SetTimer(RENEW)]);
    assert_eq!(
        m.on(Event::Tick, ms(500)),
        [Action::Extend { deadline: ms(2_500) }, Action::SetTimer(ms(1_000))]
    );
    assert_eq!(
        m.on(Event::Tick, ms(2_500)),
        [
            Action::TakeSnapshot { line: LINE },
            Action::Extend { deadline: ms(4_500) },
            Action::SetTimer(ms(3_000))
        ],
        "half of the time is over"
    );
    m.on(snapshot(ms(2_500), 0, Nanos(0)), ms(2_500));
    assert_eq!(
        m.on(Event::Tick, ms(4_800)),
        [Action::Extend { deadline: ms(6_800) }, Action::SetTimer(ms(5_000))]
    );
}

#[test]
fn what_counts_begins_when_the_program_has_settled() {
    let levels = [Speedup::FULL];
    let mut m = Machine::new(MachineConfig::default(), Plan::new(1, Lines::Sampled, &levels), ms(0));
    m.on(Event::PointsKnown, ms(0));
    m.on(Event::TableReady, ms(0));
    let mut actions = m.on(Event::LinesSeen(vec![(LINE, 60)]), ms(0));
    let (mut now, mut before, mut seen) = (ms(0), Speedup::BASELINE, [0; 4]);
    for _ in 0..40 {
        let [Action::Begin(begin), next] = &actions[..] else { panic!("{actions:?}") };
        let speedup = begin.speedup;
        let change = !(speedup.is_baseline() && before.is_baseline());
        seen[usize::from(speedup.is_baseline()) + 2 * usize::from(before.is_baseline())] += 1;
        before = speedup;
        if change {
            assert_eq!(next, &Action::SetTimer(after(now, ms(60))), "{speedup:?} after another");
            assert_eq!(
                m.on(Event::Tick, after(now, ms(30))),
                std::slice::from_ref(next),
                "an early tick begins nothing"
            );
            now = after(now, ms(60));
            assert_eq!(m.on(Event::Tick, now), [Action::TakeSnapshot { line: LINE }]);
        } else {
            assert_eq!(next, &Action::TakeSnapshot { line: LINE }, "nothing has changed");
        }
        // 20 ms of delay to settle, then 50 to each half; 40 and 60 visits.
        let delay = |n| if speedup.is_baseline() { Nanos(0) } else { ms(n) };
        assert_eq!(m.on(snapshot(now, 7, delay(20)), now), [Action::SetTimer(after(now, ms(150)))]);
        let half = after(now, ms(150));
        assert!(m.on(Event::Tick, half).contains(&Action::TakeSnapshot { line: LINE }));
        assert_eq!(m.on(snapshot(half, 47, delay(70)), half), []);
        let end = after(now, ms(300));
        m.on(Event::Tick, end);
        let ended = m.on(snapshot(end, 107, delay(120)), end);
        let e = recorded(&ended);
        assert_eq!((e.begin, e.wall(), e.delay_before, e.delay), (now, ms(300), delay(20), delay(100)));
        assert_eq!(e.effective(), 300_000_000 - delay(100).0 as i64);
        let half = e.half.as_ref().expect("it was looked at halfway");
        assert_eq!((half.effective, &half.points), (150_000_000 - delay(50).0 as i64, &points(40)));
        assert!((e.drift().unwrap() - (40.0_f64 / 60.0).ln()).abs() < 1e-9);
        let Some(Action::SetTimer(at)) = ended.last() else { panic!("{ended:?}") };
        now = *at;
        actions = m.on(Event::Tick, now);
        if seen.iter().all(|&n| n > 0) {
            return;
        }
    }
    panic!("not all orders: {seen:?}");
}

#[test]
fn an_end_while_the_program_settles_is_an_experiment_that_does_not_count() {
    let levels = [Speedup::FULL];
    for seed in 0.. {
        let mut m = Machine::new(MachineConfig::default(), Plan::new(seed, Lines::Sampled, &levels), ms(0));
        m.on(Event::PointsKnown, ms(0));
        m.on(Event::TableReady, ms(0));
        let begun = m.on(Event::LinesSeen(vec![(LINE, 60)]), ms(0));
        if matches!(begun[..], [_, Action::SetTimer(_)]) {
            assert_eq!(m.on(Event::TargetExited, ms(20)), [Action::End, Action::TakeSnapshot { line: LINE }]);
            let actions = m.on(snapshot(ms(20), 7, ms(10)), ms(20));
            assert_eq!(recorded(&actions).invalid, Some(Why::Truncated));
            assert_eq!(actions.last(), Some(&Action::Finish));
            return;
        }
    }
}

#[test]
fn too_few_visits_double_the_time_up_to_the_maximum() {
    let config = MachineConfig { max_length: ms(1_000), ..MachineConfig::default() };
    let mut m = running(config);
    let mut lengths = vec![m.length()];
    let (mut now, mut visits) = (ms(1), 0);
    for gain in [4, 0, 4, 5] {
        now = after(now, m.length());
        m.on(Event::Tick, now);
        visits += gain;
        let actions = m.on(snapshot(now, visits, Nanos(0)), now);
        assert_eq!(recorded(&actions).invalid, (gain == 0).then_some(Why::NoVisits));
        lengths.push(m.length());
        let Some(Action::SetTimer(at)) = actions.last() else { panic!("{actions:?}") };
        now = *at;
        let begun = m.on(Event::Tick, now);
        settled(&mut m, &begun);
        m.on(snapshot(now, visits, Nanos(0)), now);
    }
    assert_eq!(lengths, [ms(300), ms(600), ms(1_000), ms(1_000), ms(1_000)], "and it never shrinks again");
}

#[test]
fn the_programs_end_truncates_and_finishes() {
    let mut m = running(MachineConfig::default());
    assert_eq!(m.on(Event::TargetExited, ms(100)), [Action::End, Action::TakeSnapshot { line: LINE }]);
    let actions = m.on(snapshot(ms(100), 40, Nanos(0)), ms(101));
    assert_eq!(recorded(&actions).invalid, Some(Why::Truncated));
    assert_eq!(recorded(&actions).wall(), ms(99), "its true length, not the planned one");
    assert_eq!(actions[1..], [Action::Finish]);
    assert_eq!(m.length(), ms(300), "a truncated experiment says nothing about the length");
    assert_eq!(m.on(Event::Tick, ms(200)), []);
}

#[test]
fn an_experiment_that_ended_before_the_program_did_counts() {
    let mut m = running(MachineConfig::default());
    m.on(Event::Tick, ms(301));
    assert_eq!(m.on(Event::TargetExited, ms(301)), []);
    let actions = m.on(snapshot(ms(302), 40, Nanos(0)), ms(302));
    assert_eq!(recorded(&actions).invalid, None);
    assert_eq!(actions[1..], [Action::Finish]);
}

#[test]
fn an_end_before_the_first_snapshot_is_a_truncated_experiment_too() {
    let mut m = machine(MachineConfig::default());
    m.on(Event::TableReady, ms(0));
    m.on(Event::PointsKnown, ms(0));
    m.on(Event::LinesSeen(vec![(LINE, 60)]), ms(0));
    assert_eq!(m.on(Event::TargetExited, ms(0)), [Action::End]);
    let actions = m.on(snapshot(ms(1), 3, Nanos(0)), ms(1));
    assert_eq!((recorded(&actions).wall(), recorded(&actions).invalid), (Nanos(0), Some(Why::Truncated)));
    assert_eq!(actions.last(), Some(&Action::Finish));
}

#[test]
fn after_the_duration_nothing_begins_and_the_run_goes_on() {
    let mut m = running(MachineConfig::default());
    m.on(Event::DurationOver, ms(100));
    let actions = m.on(snapshot(ms(100), 40, Nanos(0)), ms(101));
    assert_eq!((actions.len(), recorded(&actions).invalid), (1, Some(Why::Interrupted)));
    assert_eq!(m.on(Event::Tick, ms(5_000)), []);
    assert_eq!(m.on(Event::LinesSeen(vec![(LINE, 60)]), ms(5_000)), []);
    assert_eq!(m.on(Event::TargetExited, ms(9_000)), [Action::Finish]);
}

#[test]
fn ctrl_c_finishes_without_waiting_for_the_target() {
    let mut m = running(MachineConfig::default());
    m.on(Event::Interrupted, ms(100));
    assert_eq!(m.on(Event::TargetExited, ms(100)), []);
    let actions = m.on(snapshot(ms(101), 40, Nanos(0)), ms(101));
    assert_eq!(recorded(&actions).invalid, Some(Why::Interrupted), "the target ended because of it");
    assert_eq!(actions.last(), Some(&Action::Finish));
}

#[test]
fn without_points_the_run_is_one_baseline() {
    let mut m = machine(MachineConfig::default());
    m.on(Event::TableReady, ms(0));
    assert_eq!(m.on(Event::LinesSeen(vec![(LINE, 60)]), ms(5)), []);
    assert_eq!(m.on(Event::TargetExited, ms(900)), [Action::TakeSnapshot { line: LineId::NONE }]);
    let actions = m.on(Event::Snapshot(Snapshot { at: ms(901), ..Snapshot::default() }), ms(901));
    let e = recorded(&actions);
    assert_eq!((e.epoch, e.line, e.speedup, e.invalid), (0, LineId::NONE, Speedup::BASELINE, None));
    assert_eq!(e.effective(), 901_000_000);
    assert_eq!(e.points, [PointVisits::of(PointId::WHOLE_RUN, 1)]);
    assert_eq!(actions.last(), Some(&Action::Finish));
}

#[test]
fn a_run_that_was_interrupted_is_no_whole_run() {
    let mut m = machine(MachineConfig::default());
    m.on(Event::Interrupted, ms(900));
    m.on(Event::TargetExited, ms(900));
    let actions = m.on(Event::Snapshot(Snapshot { at: ms(901), ..Snapshot::default() }), ms(901));
    assert_eq!((recorded(&actions).points.len(), recorded(&actions).invalid), (0, Some(Why::Interrupted)));
}

#[test]
fn a_point_that_appears_while_it_runs_starts_the_experiments() {
    let mut m = machine(MachineConfig::default());
    m.on(Event::TableReady, ms(0));
    m.on(Event::LinesSeen(vec![(LINE, 60)]), ms(5));
    assert!(matches!(m.on(Event::PointsKnown, ms(700))[..], [Action::Begin(_), _]));
}

#[test]
fn the_line_that_is_fixed_needs_no_samples() {
    let mut m = Machine::new(MachineConfig::default(), Plan::new(1, Lines::Fixed, &[Speedup::FULL]), ms(0));
    m.on(Event::PointsKnown, ms(0));
    assert_eq!(m.on(Event::TableReady, ms(0)), []);
    assert!(matches!(m.on(Event::FixedLine(LINE), ms(1))[..], [Action::Begin(Begin { line: LINE, .. }), _]));
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => Just(Event::Tick),
        2 => (0..3u32, 0..50u64).prop_map(|(line, n)| Event::LinesSeen(vec![(LineId(line), n)])),
        // Times and totals as a confused controller might report them.
        4 => (any::<u64>(), any::<u64>(), 0..20u64).prop_map(|(at, g, v)| snapshot(Nanos(at), v, Nanos(g))),
        1 => Just(Event::TableReady),
        1 => Just(Event::PointsKnown),
        1 => Just(Event::FixedLine(LINE)),
        1 => prop_oneof![Just(Event::DurationOver), Just(Event::Interrupted), Just(Event::TargetExited)],
    ]
}

proptest! {
    /// Whatever happens in whatever order: one experiment at a time, each ended and recorded once, timers that
    /// lie ahead, and nothing after the end.
    #[test]
    fn any_order_of_events_keeps_the_rules(
        events in proptest::collection::vec((any_event(), 0..400u64), 0..200),
    ) {
        let mut m = machine(MachineConfig::default());
        let (mut now, mut begun, mut open, mut unrecorded, mut finished) = (ms(0), 0, false, 0, false);
        let end = [(Event::TargetExited, 1), (snapshot(ms(1), 9, Nanos(0)), 1), (snapshot(ms(2), 9, Nanos(0)), 1)];
        for (event, dt) in events.into_iter().chain(end) {
            now = after(now, ms(dt));
            for action in m.on(event, now) {
                prop_assert!(!finished, "{action:?} after the end");
                match action {
                    Action::Begin(b) => {
                        prop_assert!(!open && unrecorded == 0);
                        begun += 1;
                        prop_assert_eq!(b.epoch, begun);
                        prop_assert!(b.deadline > now);
                        (open, unrecorded) = (true, 1);
                    }
                    Action::End => prop_assert!(std::mem::replace(&mut open, false)),
                    Action::Record(e) if e.epoch > 0 => {
                        prop_assert!(!open);
                        prop_assert_eq!(e.epoch, begun);
                        unrecorded -= 1;
                    }
                    Action::Record(e) => prop_assert_eq!((begun, e.line), (0, LineId::NONE)),
                    Action::SetTimer(at) => prop_assert!(at > now),
                    Action::Extend { deadline } => prop_assert!(open && deadline > now),
                    Action::Finish => finished = true,
                    Action::TakeSnapshot { .. } | Action::ReadLines => {}
                    Action::RunAgain => prop_assert!(false, "one run is all there is"),
                }
                prop_assert!(unrecorded >= 0);
            }
        }
        prop_assert!(finished && !open && unrecorded == 0, "it always comes to an end");
    }
}

mod simulated;
