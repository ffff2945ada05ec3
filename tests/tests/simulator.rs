//! What the simulator's machine and the rules that run on it must keep to.

use coz_tests::sim::judge::{Effort, judge};
use coz_tests::sim::machine::Machine;
use coz_tests::sim::program::Op::{Cpu, Get, Lock, Meet, Progress, Put, Receive, Send, Sleep, Unlock};
use coz_tests::sim::program::{Fairness, HOT, OTHER, Op, Program, Span, Waiting};
use coz_tests::sim::rules::{Charging, CpuEdge, Rules};
use coz_tests::sim::shapes::shapes;
use coz_tests::sim::{MS, Ns, S, US, World};
use proptest::prelude::*;

/// A machine on which looking costs nothing.
fn free(cpus: usize) -> Machine {
    Machine { cpus, sample_cost: 0, ..Machine::default() }
}

/// A step of a random program: threads of one program never wait for each other in a circle.
#[derive(Clone, Debug)]
enum Piece {
    Cpu(bool, Ns),
    Locked(usize, bool, Ns),
    Sleep(Ns),
    Unlucky,
}

fn piece() -> impl Strategy<Value = Piece> {
    prop_oneof![
        4 => (any::<bool>(), 1u64..2_000).prop_map(|(hot, us)| Piece::Cpu(hot, us * US)),
        3 => (0usize..2, any::<bool>(), 1u64..800).prop_map(|(lock, hot, us)| Piece::Locked(lock, hot, us * US)),
        1 => (1u64..3_000).prop_map(|us| Piece::Sleep(us * US)),
        1 => Just(Piece::Unlucky),
    ]
}

fn line(hot: bool) -> u32 {
    if hot { HOT } else { OTHER }
}

/// What all threads of a random program do together.
#[derive(Clone, Copy, Debug)]
enum Joint {
    Nothing,
    Barrier,
    Spinning,
    Queues,
    Pipes,
}

fn build(threads: &[Vec<Piece>], joint: Joint, fairness: Fairness) -> Program {
    let mut program = Program::new();
    let locks = [program.mutex(fairness), program.mutex(fairness)];
    let waiting = if matches!(joint, Joint::Spinning) { Waiting::Spinning } else { Waiting::Asleep };
    let barrier = program.barrier(threads.len(), waiting);
    let queues: Vec<usize> = threads.iter().map(|_| program.queue(4)).collect();
    let pipes: Vec<usize> = threads.iter().map(|_| program.pipe(4)).collect();
    for (index, pieces) in threads.iter().enumerate() {
        let mut ops: Vec<Op> = vec![Cpu(OTHER, Span::Fixed(50 * US))];
        for piece in pieces {
            match *piece {
                Piece::Cpu(hot, ns) => ops.push(Cpu(line(hot), Span::Even(ns / 2, ns))),
                Piece::Locked(lock, hot, ns) => {
                    ops.extend([Lock(locks[lock]), Cpu(line(hot), Span::Fixed(ns)), Unlock(locks[lock])]);
                }
                Piece::Sleep(ns) => ops.push(Sleep(Span::Fixed(ns))),
                Piece::Unlucky => ops.push(Cpu(HOT, Span::Exponential(300 * US))),
            }
        }
        let last = index + 1 == threads.len();
        match joint {
            Joint::Nothing => {}
            Joint::Barrier | Joint::Spinning => ops.push(Meet(barrier)),
            // A chain from the first thread to the last.
            Joint::Queues => {
                if index > 0 {
                    ops.insert(0, Get(queues[index - 1]));
                }
                if !last {
                    ops.push(Put(queues[index]));
                }
            }
            Joint::Pipes => {
                if index > 0 {
                    ops.insert(0, Receive(pipes[index - 1]));
                }
                if !last {
                    ops.push(Send(pipes[index]));
                }
            }
        }
        ops.push(Progress);
        program.thread(&ops);
    }
    program
}

fn joint() -> impl Strategy<Value = Joint> {
    prop_oneof![
        Just(Joint::Nothing),
        Just(Joint::Barrier),
        Just(Joint::Spinning),
        Just(Joint::Queues),
        Just(Joint::Pipes)
    ]
}

fn fairness() -> impl Strategy<Value = Fairness> {
    prop_oneof![
        Just(Fairness::Fifo),
        Just(Fairness::Barging { spin: 0 }),
        Just(Fairness::Barging { spin: 20 * US })
    ]
}

fn random() -> impl Strategy<Value = Program> {
    (prop::collection::vec(prop::collection::vec(piece(), 1..5), 1..6), joint(), fairness())
        .prop_map(|(threads, joint, fairness)| build(&threads, joint, fairness))
}

/// Runs three experiments, the clocks watched.
fn watched<'a>(
    program: &'a Program,
    machine: &'a Machine,
    rules: &Rules,
    speedup: u32,
    seed: u64,
) -> World<'a> {
    let mut world = World::profiled(program, machine, rules, seed);
    world.audit();
    world.run_until(20 * MS);
    for _ in 0..3 {
        world.begin(speedup);
        world.run_until(world.now() + 100 * MS);
        world.end();
        world.run_until(world.now() + 15 * MS);
    }
    world
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// A virtual clock goes back by a hit's delay only; a woken thread's is not behind its waker's.
    #[test]
    fn clocks_never_go_back(
        program in random(), cpus in 1usize..5, speedup in 1u32..=1000, seed in any::<u64>(),
        rules in prop_oneof![
            Just(Rules::default()),
            Just(Rules { cpu_edge: CpuEdge::Owes, ..Rules::default() }),
            Just(Rules { charging: Charging::Lumped, ..Rules::default() }),
        ],
    ) {
        let machine = free(cpus);
        let world = watched(&program, &machine, &rules, speedup, seed);
        prop_assert!(world.broken().is_empty(), "{:?}", world.broken());
    }

    /// A speedup of 0 changes nothing: the same visits at the same nanoseconds, with and without experiments.
    #[test]
    fn a_baseline_changes_nothing(program in random(), cpus in 1usize..5, seed in any::<u64>()) {
        let machine = free(cpus);
        let mut plain = World::plain(&program, &machine, 0, seed);
        plain.record_visits();
        plain.run_until(300 * MS);
        let mut profiled = World::profiled(&program, &machine, &Rules::default(), seed);
        profiled.record_visits();
        profiled.run_until(50 * MS);
        profiled.begin(0);
        profiled.run_until(300 * MS);
        prop_assert_eq!(plain.visit_times(), profiled.visit_times());
        prop_assert_eq!(profiled.required(), 0);
    }

    /// Every thread that runs on a CPU of its own has absorbed `G`, up to the threshold and what `G` grew by between
    /// two of its samples: by its own hits and by pauses.
    #[test]
    fn everybody_absorbs_the_same(
        shares in prop::collection::vec(0u64..=10, 1..5), speedup in 100u32..=1000, seed in any::<u64>(),
    ) {
        let mut program = Program::new();
        for share in &shares {
            program.thread(&[
                Cpu(HOT, Span::Fixed(share * 30 * US + 1)),
                Cpu(OTHER, Span::Fixed((11 - share) * 30 * US)),
                Progress,
            ]);
        }
        let machine = free(shares.len());
        let rules = Rules::default();
        let mut world = World::profiled(&program, &machine, &rules, seed);
        world.run_until(20 * MS);
        world.begin(speedup);
        world.run_until(world.now() + 200 * MS);
        // A payment under way is at most one debt long; G grows at most as fast as time passes.
        let most = rules.threshold + 3 * rules.period;
        for (owed, _) in world.owed() {
            prop_assert!(owed <= most, "owes {owed} of {}", world.required());
        }
        // Nor has anybody paid more than what a wake-up takes too much.
        for stood in world.standing() {
            let absorbed = stood.absorbed;
            prop_assert!(absorbed <= world.required() + rules.threshold, "{absorbed} of {}", world.required());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, ..ProptestConfig::default() })]

    /// Threads that share nothing, no more of them than CPUs: where what the line takes is known to the nanosecond,
    /// each one's visits are predicted to a third of a point.
    #[test]
    fn independent_threads_are_predicted_exactly(
        shares in prop::collection::vec(1u64..10, 1..4), level in 100u32..900, seed in any::<u64>(),
    ) {
        let mut program = Program::new();
        for share in &shares {
            program.thread(&[
                Cpu(HOT, Span::Even(share * 40 * US, share * 44 * US)),
                Cpu(OTHER, Span::Fixed((10 - share) * 42 * US)),
                Progress,
            ]);
        }
        let rules = Rules { charging: Charging::Exact, ..Rules::default() };
        let effort = Effort { repeat: 4, truth: S, levels: vec![level], seed, ..Effort::default() };
        for cell in judge(&program, &free(shares.len()), &rules, &effort, 1).cells {
            prop_assert!(cell.error().abs() < 0.3, "{cell:?}");
        }
    }
}

/// The machine itself: the same seed gives the same run, CPUs are shared evenly, locks exclude.
#[test]
fn the_machine_is_fair_and_repeatable() {
    let mut program = Program::new();
    for _ in 0..6 {
        program.thread(&[Cpu(OTHER, Span::Even(50 * US, 900 * US)), Progress]);
    }
    let machine = free(2);
    let run = || {
        let mut world = World::plain(&program, &machine, 0, 7);
        world.record_visits();
        world.run_until(2 * S);
        (world.visit_times().to_vec(), world.visits_of().to_vec())
    };
    let (times, each) = run();
    assert_eq!(run().0, times, "the same seed");
    let (most, least) = (each.iter().max().unwrap(), each.iter().min().unwrap());
    assert!(most - least <= most / 10, "six alike threads get alike shares: {each:?}");
    // 2 CPUs for 2 s, less the switches.
    let done: u64 = each.iter().sum();
    let expected = 4 * S / (475 * US);
    assert!(done.abs_diff(expected) < expected / 20, "{done} rounds of 475 us in 4 s of CPU time");
}

#[test]
fn a_lock_lets_in_one_at_a_time() {
    for fairness in
        [Fairness::Fifo, Fairness::Barging { spin: 0 }, Fairness::Barging { spin: 20 * US }, Fairness::Spin]
    {
        let mut program = Program::new();
        let lock = program.mutex(fairness);
        for _ in 0..4 {
            program.thread(&[Lock(lock), Cpu(HOT, Span::Fixed(100 * US)), Unlock(lock), Progress]);
        }
        let machine = free(4);
        let mut world = World::plain(&program, &machine, 0, 1);
        world.record_visits();
        world.run_until(S);
        let times = world.visit_times();
        assert!(times.len() > 5_000, "{fairness:?}: {} rounds in a second", times.len());
        assert!(
            times.windows(2).all(|pair| pair[1] - pair[0] >= 100 * US),
            "{fairness:?}: two within 100 us"
        );
    }
}

#[test]
fn a_queue_keeps_producer_and_consumer_together() {
    let mut program = Program::new();
    let queue = program.queue(4);
    program.thread(&[Cpu(OTHER, Span::Fixed(100 * US)), Put(queue), Progress]);
    program.thread(&[Get(queue), Cpu(OTHER, Span::Fixed(300 * US)), Progress]);
    let machine = free(2);
    let mut world = World::plain(&program, &machine, 0, 1);
    world.run_until(S);
    let each = world.visits_of();
    assert!(each[0] - each[1] <= 6, "never more than the queue holds ahead: {each:?}");
    assert!((2_900..3_340).contains(&each[1]), "the slower one decides: {each:?}");
}

/// Threads that share nothing are predicted within what chance allows.
#[test]
fn independent_threads_are_predicted() {
    let mut program = Program::new();
    for _ in 0..3 {
        program.thread(&[
            Cpu(HOT, Span::Even(240 * US, 360 * US)),
            Cpu(OTHER, Span::Fixed(300 * US)),
            Progress,
        ]);
    }
    let effort = Effort { repeat: 12, truth: 5 * S, levels: vec![300, 800], ..Effort::default() };
    let rules = Rules { period: S / 3989, ..Rules::default() };
    let judgement = judge(&program, &free(3), &rules, &effort, 1);
    for cell in judgement.cells {
        assert!(cell.error().abs() < 0.5 + 4.0 * cell.spread, "{cell:?}");
    }
}

/// However it is charged, the sum is speedup times the line's time, also where threads sleep for each other within a
/// sampling period.
#[test]
fn every_way_of_charging_charges_the_same_in_all() {
    let mut program = Program::new();
    let lock = program.mutex(Fairness::Barging { spin: 0 });
    for _ in 0..2 {
        program.thread(&[
            Cpu(OTHER, Span::Even(100 * US, 300 * US)),
            Lock(lock),
            Cpu(HOT, Span::Even(100 * US, 200 * US)),
            Unlock(lock),
            Progress,
        ]);
    }
    let machine = free(2);
    for charging in [Charging::Fluid, Charging::Places, Charging::Kinds, Charging::Exact] {
        // A weight of CPU time since the last sample would see 0.9 of it at either rate: too little of what follows a wait.
        for rate in [1382, 3989] {
            let rules = Rules { charging, period: S / rate, ..Rules::default() };
            let mut world = World::profiled(&program, &machine, &rules, 5);
            world.run_until(20 * MS);
            world.begin(500);
            world.run_until(world.now() + 4 * S);
            let expected = world.totals().line as f64 / 2.0;
            let charged = world.totals().charged as f64;
            assert!((charged / expected - 1.0).abs() < 0.03, "{charging:?}, {rate}: {charged} of {expected}");
        }
    }
}

/// Judges one of the named programs with little effort.
fn judged(name: &str, rules: &Rules) -> Vec<(f64, f64)> {
    judged_with(name, rules, Effort::default().settle)
}

/// The same, with so much time to settle.
fn judged_with(name: &str, rules: &Rules, settle: Ns) -> Vec<(f64, f64)> {
    let shape = shapes().into_iter().find(|shape| shape.name == name).expect("a shape");
    let effort = Effort { repeat: 6, truth: 2 * S, levels: vec![500, 1000], settle, ..Effort::default() };
    let machine = Machine { cpus: shape.cpus, ..Machine::default() };
    let cells = judge(&shape.program(shape.cpus), &machine, rules, &effort, shape.cycle).cells;
    cells.into_iter().map(|cell| (cell.truth, cell.predicted)).collect()
}

/// What an experiment leaves in a queue feeds the consumer in the baseline after it, which is then as fast as if the line were.
#[test]
fn a_long_queue_needs_time_to_settle() {
    for (truth, predicted) in judged_with("pipeline_deep", &Rules::default(), 0) {
        assert!(truth - predicted > 8.0, "the test can not tell: {predicted} predicted, {truth} true");
    }
    for (truth, predicted) in judged_with("pipeline_deep", &Rules::default(), 480 * MS) {
        assert!((predicted - truth).abs() < 4.0, "{predicted} predicted, {truth} true");
    }
}

#[test]
fn who_spins_for_one_in_the_line_waits_for_it() {
    // Rates at which a lock's hold time is longer than a sampling period; below, a wait is over before it is noticed.
    let rules = Rules { period: S / 3001, ..Rules::default() };
    let working = Rules { spinning: false, ..rules.clone() };
    for name in ["spinlock", "barrier_spin"] {
        for (truth, predicted) in judged(name, &rules) {
            assert!((predicted - truth).abs() < 4.0, "{name}: {predicted} predicted, {truth} true");
        }
    }
    for (truth, predicted) in judged("spinlock", &working) {
        assert!(truth - predicted > 8.0, "taken for work: {predicted} predicted, {truth} true");
    }
}

/// What is known of some programs without simulating them, and what the engine says.
#[test]
fn known_programs_have_known_answers() {
    // Name, what half the line and no line bring, by how much the simulated truth and the prediction may differ from it.
    let known = [
        ("single", [25.0, 50.0], 0.3, 1.5),
        ("cpu_sleep", [20.0, 40.0], 0.7, 1.5),
        ("independent", [25.0, 50.0], 0.3, 4.0),
        ("barrier", [4.5, 4.5], 0.3, 3.0),
        ("pipeline", [38.0, 38.0], 0.5, 1.5),
        ("ferret", [42.5, 84.0], 1.5, 3.0),
        ("background", [0.0, 0.0], 0.1, 6.0),
        ("rwlock", [31.7, 64.0], 1.0, 20.0),
    ];
    for (name, answers, truth_within, prediction_within) in known {
        for (answer, (truth, predicted)) in answers.into_iter().zip(judged(name, &Rules::default())) {
            assert!((truth - answer).abs() < truth_within, "{name}: {truth} instead of {answer}");
            assert!(
                (predicted - truth).abs() < prediction_within,
                "{name}: {predicted} predicted, {truth} true"
            );
        }
    }
}

/// A contended mutex needs a share for each kind of stretch: one for all a thread's time charges outside the lock what
/// belongs inside.
#[test]
fn a_contended_mutex_needs_stretches() {
    let error = |rules: &Rules| judged("mutex", rules).into_iter().map(|(t, p)| p - t).collect::<Vec<_>>();
    let smeared = error(&Rules { charging: Charging::Fluid, ..Rules::default() });
    assert!(smeared[0] < -8.0, "{smeared:?}");
    let errors = error(&Rules::default());
    assert!(errors.iter().all(|error| error.abs() < 4.0), "{errors:?}");
}

/// Where threads outnumber CPUs, a CPU needs a virtual clock.
#[test]
fn a_crowded_mutex_needs_a_clock_for_each_cpu() {
    let error =
        |rules: &Rules| judged("mutex_many", rules).into_iter().map(|(t, p)| p - t).collect::<Vec<_>>();
    let without = error(&Rules { cpu_edge: CpuEdge::Owes, ..Rules::default() });
    assert!(without[1] > 8.0, "the test can not tell: {without:?}");
    let errors = error(&Rules::default());
    assert!(errors.iter().all(|error| error.abs() < 4.0), "{errors:?}");
}
