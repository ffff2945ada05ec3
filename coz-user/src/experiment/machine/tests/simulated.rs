//! The machine and the plan against a simulated program whose answers are known.
//!
//! Two threads that never wait for each other. The first spends half of its CPU time on line 1 and three tenths on
//! line 2, the second four tenths on line 3; each visits its own point once per unit of its work. A line of share
//! `f` in a thread makes that thread's point faster by `s * f` at speedup `s`, and the other thread's by nothing.

use std::collections::BTreeMap;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use coz_common::abi::LineCount;

use super::*;

/// A line, its share in the time of its thread, and the thread.
type Share = (LineId, f64, usize);

const LINES: [Share; 3] = [(LineId(1), 0.5, 0), (LineId(2), 0.3, 0), (LineId(3), 0.4, 1)];

struct Target {
    now: f64,
    /// Undelayed time per visit, of each thread's point.
    period: [f64; 2],
    /// The selected line's speedup while an experiment runs.
    running: Option<(LineId, f64)>,
    /// Speed of the machine at the moment: it wanders.
    speed: f64,
    required: f64,
    visits: [f64; 2],
    samples: BTreeMap<LineId, f64>,
    read: BTreeMap<LineId, u64>,
    cpu: f64,
    rng: ChaCha8Rng,
    /// Shares by line, as in [`LINES`].
    lines: Vec<Share>,
    /// From when on they are others.
    second_phase: Option<(f64, Vec<Share>)>,
}

impl Target {
    fn new(period: [f64; 2]) -> Self {
        Self {
            now: 0.0,
            period,
            running: None,
            speed: 1.0,
            required: 0.0,
            visits: [0.0; 2],
            samples: BTreeMap::new(),
            read: BTreeMap::new(),
            cpu: 0.0,
            rng: ChaCha8Rng::seed_from_u64(99),
            lines: LINES.to_vec(),
            second_phase: None,
        }
    }

    /// Lets the program run for `dt` nanoseconds of wall time.
    fn advance(&mut self, dt: f64) {
        if let Some((_, lines)) = self.second_phase.take_if(|(from, _)| self.now >= *from) {
            self.lines = lines;
        }
        // The thread with the selected line absorbs its delays by its own hits; the other one pays them.
        let (hit, delay) = match self.running {
            Some((line, speedup)) => {
                let &(_, share, thread) =
                    self.lines.iter().find(|l| l.0 == line).expect("a line of this program");
                (Some(thread), speedup * share * dt)
            }
            None => (None, 0.0),
        };
        for thread in 0..2 {
            let ran = if hit == Some(thread) { dt } else { dt - delay };
            self.visits[thread] += self.speed * ran / self.period[thread];
            self.cpu += ran;
            for &(line, share, _) in self.lines.iter().filter(|l| l.2 == thread) {
                // A sample per millisecond of CPU time.
                *self.samples.entry(line).or_default() += ran * share / 1e6;
            }
        }
        self.required += delay;
        self.now += dt;
        self.speed = (self.speed + self.rng.random_range(-0.01..0.01)).clamp(0.9, 1.1);
    }

    fn snapshot(&self, line: LineId) -> Snapshot {
        let samples = self.samples.get(&line).copied().unwrap_or(0.0);
        Snapshot {
            latencies: Vec::new(),
            at: Nanos(self.now as u64),
            required: Nanos(self.required as u64),
            absorbed: Nanos(self.required as u64),
            unpaid: Nanos(0),
            points: (0..2).map(|i| PointVisits::of(PointId(i as u32), self.visits[i] as u64)).collect(),
            selected: LineCount { samples: samples as u64, weight_ns: (samples * 1e6) as u64 },
            set: SetTotals {
                samples: (self.cpu / 1e6) as u64,
                cpu: Nanos(self.cpu as u64),
                ..SetTotals::default()
            },
        }
    }

    fn lines_seen(&mut self) -> Vec<(LineId, u64)> {
        let read = &mut self.read;
        let delta =
            |(&line, &n): (&LineId, &f64)| (line, n as u64 - read.insert(line, n as u64).unwrap_or(0));
        self.samples.iter().map(delta).collect()
    }

    /// Runs under the machine until `end` (nanoseconds), then exits: what was recorded.
    fn profile(&mut self, m: &mut Machine, end: f64) -> Vec<Experiment> {
        let mut records = Vec::new();
        let mut timer = None;
        let mut events = vec![Event::TableReady, Event::PointsKnown];
        loop {
            while let Some(event) = if events.is_empty() { None } else { Some(events.remove(0)) } {
                for action in m.on(event, Nanos(self.now as u64)) {
                    match action {
                        Action::Begin(b) => {
                            self.required = 0.0;
                            self.running = Some((b.line, b.speedup.fraction()));
                        }
                        Action::End => self.running = None,
                        Action::TakeSnapshot { line } => {
                            // Reading the maps takes time, and the program goes on.
                            self.advance(50_000.0);
                            events.push(Event::Snapshot(self.snapshot(line)));
                        }
                        Action::ReadLines => events.push(Event::LinesSeen(self.lines_seen())),
                        Action::Record(e) => records.push(*e),
                        Action::SetTimer(at) => timer = Some(at.0 as f64),
                        Action::Extend { .. } => {}
                        Action::RunAgain => panic!("there is one run"),
                        Action::Finish => return records,
                    }
                }
            }
            let wake = timer.take().unwrap_or(end);
            // Timers are late by up to a millisecond.
            let late = self.rng.random_range(0.0..1e6);
            self.advance((wake.min(end) - self.now).max(0.0) + late);
            events.push(if self.now >= end { Event::TargetExited } else { Event::Tick });
        }
    }
}

/// Effective nanoseconds per visit of a point, over all experiments taken together.
fn per_visit<'a>(experiments: impl Iterator<Item = &'a Experiment>, point: usize) -> f64 {
    let (time, visits) = experiments
        .fold((0.0, 0.0), |(t, v), e| (t + e.effective() as f64, v + e.points[point].visits as f64));
    time / visits
}

#[test]
fn the_effects_of_independent_threads_are_found() {
    let mut target = Target::new([1e6, 1.3e6]);
    let records = target.profile(&mut machine(MachineConfig::default()), 1_000e9);
    // 300 ms each, 10 to 20 between them, and 60 to settle but for a baseline after another.
    assert!(records.len() > 2_600, "{}", records.len());
    for (line, share, thread) in LINES {
        let of_line: Vec<_> = records.iter().filter(|e| e.line == line && e.invalid.is_none()).collect();
        for point in 0..2 {
            let baseline = per_visit(of_line.iter().copied().filter(|e| e.speedup.is_baseline()), point);
            for percent in [25, 50, 75, 100] {
                let speedup = Speedup::from_percent(percent).unwrap();
                let with = per_visit(of_line.iter().copied().filter(|e| e.speedup == speedup), point);
                let effect = 1.0 - with / baseline;
                let truth = if point == thread { speedup.fraction() * share } else { 0.0 };
                assert!(
                    (effect - truth).abs() < 0.03,
                    "{line:?} at {percent} %, point {point}: {effect}, truth {truth}"
                );
            }
        }
    }
}

#[test]
fn experiments_fall_on_lines_as_samples_do() {
    let mut target = Target::new([1e6, 1.3e6]);
    let records = target.profile(&mut machine(MachineConfig::default()), 2_000e9);
    let all: f64 = LINES.iter().map(|l| l.1).sum();
    for (line, share, _) in LINES {
        let part = records.iter().filter(|e| e.line == line).count() as f64 / records.len() as f64;
        assert!((part - share / all).abs() < 0.05, "{line:?}: {part}, expected {}", share / all);
    }
    let baselines = records.iter().filter(|e| e.speedup.is_baseline()).count() as f64 / records.len() as f64;
    assert!((baselines - 0.5).abs() < 0.01, "{baselines}");
}

#[test]
fn forty_seconds_answer_for_every_hot_line() {
    for seed in 0..20 {
        let levels: Vec<_> = (1..=20).filter_map(|i| Speedup::from_percent(i * 5)).collect();
        let plan = Plan::new(seed, Lines::Sampled, &levels);
        let mut m = Machine::new(MachineConfig::default(), plan, ms(0));
        let records = Target::new([1e6, 1e6]).profile(&mut m, 40e9);
        for (line, _, _) in LINES {
            let of_line = |e: &&Experiment| e.line == line && e.invalid.is_none();
            let speedups: std::collections::BTreeSet<_> =
                records.iter().filter(of_line).map(|e| e.speedup).filter(|s| !s.is_baseline()).collect();
            assert!(speedups.len() >= 5, "seed {seed}: {line:?} was tried with {} speedups", speedups.len());
        }
    }
}

#[test]
fn only_the_last_experiment_is_truncated_and_it_says_how_long_it_was() {
    let records = Target::new([1e6, 1e6]).profile(&mut machine(MachineConfig::default()), 20e9);
    let (last, others) = records.split_last().unwrap();
    assert!(others.iter().all(|e| e.invalid.is_none()));
    assert_eq!(last.invalid, Some(Why::Truncated));
    assert!(last.wall() < last.planned);
}

#[test]
fn slow_points_get_long_experiments() {
    // A visit each 200 ms: 300 and 600 ms are too short for five of them, 1200 ms suffice.
    let mut m = machine(MachineConfig::default());
    let records = Target::new([200e6, 200e6]).profile(&mut m, 60e9);
    assert_eq!(m.length(), ms(1_200));
    assert_eq!(records[0].planned, ms(300));
    assert!(records.iter().rev().skip(1).take(10).all(|e| e.most_visits() >= 5));
}

#[test]
fn a_line_that_is_everything_leaves_no_time_and_that_is_said() {
    let mut target = Target::new([1e6, 1e6]);
    target.lines = vec![(LineId(1), 1.0, 0)];
    let records = target.profile(&mut machine(MachineConfig::default()), 60e9);
    let full: Vec<_> = records.iter().filter(|e| e.speedup == Speedup::FULL).collect();
    assert!(!full.is_empty());
    for e in full.iter().filter(|e| e.invalid != Some(Why::Truncated)) {
        assert!(e.effective() < 1_000_000, "no more than the reading of the maps: {}", e.effective());
    }
}

#[test]
fn a_phase_that_begins_late_gets_its_experiments() {
    let mut target = Target::new([1e6, 1e6]);
    target.lines = vec![(LineId(1), 0.9, 0), (LineId(3), 0.0, 1)];
    target.second_phase = Some((30e9, vec![(LineId(1), 0.0, 0), (LineId(3), 0.9, 1)]));
    let records = target.profile(&mut machine(MachineConfig::default()), 60e9);
    let of = |line| move |e: &&Experiment| e.line == LineId(line);
    let first = records.iter().find(|e| e.line == LineId(3)).expect("the late line is found");
    assert!((30e9..36e9).contains(&(first.begin.0 as f64)), "within a few half-lives: {:?}", first.begin);
    let late = |e: &&Experiment| e.begin.0 as f64 > 45e9;
    assert_eq!(records.iter().filter(of(1)).filter(late).count(), 0, "and the old one is left alone");
    assert!(records.iter().filter(of(3)).count() > 60);
}
