//! The plain values that go into the experiment's state machine, and the one that comes out of it.

use std::fmt;

use coz_common::abi::LineCount;
use coz_common::units::{LineId, Nanos, Speedup};

use super::latency::{LatencySeen, LatencyTotals};

/// A progress point, as the controller numbers them. Numbers are never used again within a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PointId(pub u32);

impl PointId {
    /// The run itself as a point: visited once, when the program ends.
    pub const WHOLE_RUN: Self = Self(u32::MAX);
}

/// Visits of one progress point: all in all in a [`Snapshot`], within an experiment in an [`Experiment`].
/// A latency point's are its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PointVisits {
    /// Which point.
    pub point: PointId,
    /// Visits.
    pub visits: u64,
    /// Mean delay that those who made them have absorbed, where these are told apart from who visited other points:
    /// see [`Snapshot::absorbed`].
    pub absorbed: Option<Nanos>,
}

impl PointVisits {
    /// Who made them is not told apart.
    #[must_use]
    pub const fn of(point: PointId, visits: u64) -> Self {
        Self { point, visits, absorbed: None }
    }
}

/// What was counted over all threads of the profiled set: all in all in a [`Snapshot`], within an
/// experiment in an [`Experiment`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetTotals {
    /// Samples taken.
    pub samples: u64,
    /// Samples that could not be counted for their line (no place left, unreadable call chain).
    pub lost_samples: u64,
    /// Signals sent.
    pub signals_sent: u64,
    /// Signals that the kernel refused to send.
    pub signals_failed: u64,
    /// CPU time.
    pub cpu: Nanos,
    /// Time spent waiting for a CPU.
    pub runqueue: Nanos,
    /// Delay charged by hits.
    pub charged: Nanos,
    /// Delay paid.
    pub paid: Nanos,
    /// Delay absorbed by wake-ups.
    pub inherited: Nanos,
}

impl SetTotals {
    /// What has been added since `earlier`; a total that shrank counts as unchanged.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            samples: self.samples.saturating_sub(earlier.samples),
            lost_samples: self.lost_samples.saturating_sub(earlier.lost_samples),
            signals_sent: self.signals_sent.saturating_sub(earlier.signals_sent),
            signals_failed: self.signals_failed.saturating_sub(earlier.signals_failed),
            cpu: self.cpu.since(earlier.cpu),
            runqueue: self.runqueue.since(earlier.runqueue),
            charged: self.charged.since(earlier.charged),
            paid: self.paid.since(earlier.paid),
            inherited: self.inherited.since(earlier.inherited),
        }
    }
}

/// What the controller read from the maps at one moment. All totals run from the start of the profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// When it was read (`CLOCK_MONOTONIC`).
    pub at: Nanos,
    /// `G`: the delay that everyone must have absorbed in the present experiment; 0 before the first.
    pub required: Nanos,
    /// Mean delay that the threads that visited a point in this experiment have absorbed, weighted by their visits: what
    /// their clocks are short of wall time. `required` where it is not known who visited.
    pub absorbed: Nanos,
    /// What is missing to `required`, over the same threads.
    pub unpaid: Nanos,
    /// Every point known by now. One that was not in an earlier snapshot had no visits then.
    pub points: Vec<PointVisits>,
    /// What latency points have counted.
    pub latencies: Vec<LatencyTotals>,
    /// Samples and CPU time of the line that the snapshot was asked for.
    pub selected: LineCount,
    /// Everything else.
    pub set: SetTotals,
}

impl Snapshot {
    /// The visits of each point since `earlier`, in the order of this snapshot.
    #[must_use]
    pub fn visits_since(&self, earlier: &Self) -> Vec<PointVisits> {
        let since = |now: &PointVisits| {
            let before = earlier.points.iter().find(|before| before.point == now.point);
            let absorbed = now.absorbed.zip(before.and_then(|before| before.absorbed));
            PointVisits {
                point: now.point,
                visits: now.visits.saturating_sub(before.map_or(0, |before| before.visits)),
                absorbed: absorbed.map(|(now, before)| now.since(before)),
            }
        };
        self.points.iter().map(since).collect()
    }

    /// Samples and CPU time of the selected line since `earlier`, which was asked for the same one.
    #[must_use]
    pub fn selected_since(&self, earlier: &Self) -> LineCount {
        LineCount {
            samples: self.selected.samples.saturating_sub(earlier.selected.samples),
            weight_ns: self.selected.weight_ns.saturating_sub(earlier.selected.weight_ns),
        }
    }

    /// What each latency point has counted since `earlier`, of an experiment that was `age` old then, in effective time.
    #[must_use]
    pub fn latencies_since(&self, earlier: &Self, age: Nanos) -> Vec<LatencySeen> {
        let before = |point| earlier.latencies.iter().find(|l| l.point == point);
        self.latencies.iter().map(|totals| totals.since(before(totals.point), age)).collect()
    }
}

/// Why an experiment must not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Why {
    /// The program ended within it.
    Truncated,
    /// The time for experiments was over, or the user interrupted it.
    Interrupted,
    /// The delay was as long as the experiment: no effective time is left.
    NoTime,
    /// No progress point was visited.
    NoVisits,
    /// Too many samples were lost: see [`LOST_SAMPLES_LIMIT`].
    LostSamples,
    /// The threads that visited points had not paid what they owed: see [`UNPAID_LIMIT`].
    Unpaid,
}

impl Why {
    /// As it is written in the profile.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Truncated => "truncated",
            Self::Interrupted => "interrupted",
            Self::NoTime => "no-time",
            Self::NoVisits => "no-visits",
            Self::LostSamples => "lost-samples",
            Self::Unpaid => "unpaid",
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The largest share of an experiment's effective time that may be unpaid.
///
/// A debt `u` that the visiting threads never paid makes the effective time wrong by at most `u`, so the effect
/// is wrong by at most `u / effective`. A tenth is where the answer stops being one: ten points.
pub const UNPAID_LIMIT: f64 = 0.10;

/// The largest share of the samples that may be lost: what is lost was perhaps the selected line's, and then
/// the delay is too short by the same share.
pub const LOST_SAMPLES_LIMIT: f64 = 0.05;

/// What an experiment had counted when half of its time was over.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Half {
    /// Effective time, nanoseconds.
    pub effective: i64,
    /// Visits of every point known by then.
    pub points: Vec<PointVisits>,
}

/// One experiment, ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Experiment {
    /// Its number, from 1 on: the epoch of the virtual clocks. 0 for a run that was never experimented on.
    pub epoch: u32,
    /// The group of experiments on the same line that it belongs to (see [`super::plan`]), from 1 on.
    pub round: u32,
    /// The selected line; [`LineId::NONE`] for a run that was never experimented on.
    pub line: LineId,
    /// The virtual speedup.
    pub speedup: Speedup,
    /// How long it was meant to last; 0 where it lasts as long as the run.
    pub planned: Nanos,
    /// When what counts began (`CLOCK_MONOTONIC`): its delays were there for some time before (see [`super::settling`]).
    pub begin: Nanos,
    /// When it ended.
    pub end: Nanos,
    /// How long that was; not so long where nothing had changed (a baseline after another).
    pub settle: Nanos,
    /// The delay that had been required by then, in its time to settle.
    pub delay_before: Nanos,
    /// `G_end - G_begin`: the delay required of every thread.
    pub delay: Nanos,
    /// Mean delay that the threads that visited a point have absorbed; `delay` where all have absorbed all of it.
    pub absorbed: Nanos,
    /// Mean delay that these had not absorbed at the end.
    pub unpaid: Nanos,
    /// Visits within it, of every known point.
    pub points: Vec<PointVisits>,
    /// What latency points have counted within it.
    pub latencies: Vec<LatencySeen>,
    /// Samples and CPU time of the selected line within it.
    pub selected: LineCount,
    /// What was counted over all threads within it.
    pub set: SetTotals,
    /// How it stood halfway, where it was looked at then.
    pub half: Option<Half>,
    /// `None`: it counts. Else the first reason why it must not.
    pub invalid: Option<Why>,
}

impl Experiment {
    /// Time between begin and end.
    #[must_use]
    pub fn wall(&self) -> Nanos {
        self.end.since(self.begin)
    }

    /// Effective time, nanoseconds: what would have passed had the line been faster, by the clocks of those who made the
    /// progress. Zero or less where the line ran all the time and was sped up by all of it.
    ///
    /// The paper (section 3.4) subtracts the delay that was required; that is the same once everyone has absorbed it. A
    /// thread that has not (one that hardly runs is hardly asked to pay) has made its visits in so much more
    /// virtual time.
    #[must_use]
    pub fn effective(&self) -> i64 {
        let signed = |n: Nanos| i64::try_from(n.0).unwrap_or(i64::MAX);
        signed(self.wall()).saturating_sub(signed(self.absorbed))
    }

    /// The same by the clocks of those who visited this point, where they are told apart.
    #[must_use]
    pub fn effective_for(&self, point: &PointVisits) -> i64 {
        let signed = |n: Nanos| i64::try_from(n.0).unwrap_or(i64::MAX);
        signed(self.wall()).saturating_sub(signed(point.absorbed.unwrap_or(self.absorbed)))
    }

    /// Which part of its time was delay.
    #[must_use]
    pub fn delayed_share(&self) -> f64 {
        share(self.delay.0 as f64, self.wall().0 as f64)
    }

    /// `unpaid / effective`; infinite where no effective time is left and something is unpaid.
    #[must_use]
    pub fn unpaid_share(&self) -> f64 {
        share(self.unpaid.0 as f64, self.effective().max(0) as f64)
    }

    /// Share of the samples that were lost.
    #[must_use]
    pub fn lost_share(&self) -> f64 {
        share(self.set.lost_samples as f64, self.set.samples as f64)
    }

    /// How fast its halves were, by the point that was visited most: logarithms of visits by effective time. `None` where too little
    /// was counted, or hardly any effective time is left.
    #[must_use]
    pub fn halves(&self) -> Option<[f64; 2]> {
        let half = self.half.as_ref()?;
        let point = self.points.iter().max_by_key(|p| p.visits)?;
        let first = half.points.iter().find(|p| p.point == point.point).map_or(0, |p| p.visits);
        let second = point.visits.saturating_sub(first);
        let (early, late) = (half.effective as f64, (self.effective() - half.effective) as f64);
        let least = self.wall().0 as f64 / 20.0;
        let enough = first.min(second) >= 5 && early.min(late) >= least;
        enough.then(|| [first as f64 / early, second as f64 / late].map(f64::ln))
    }

    /// By how much its first half was faster than its second, of [`Experiment::halves`].
    #[must_use]
    pub fn drift(&self) -> Option<f64> {
        self.halves().map(|[first, second]| first - second)
    }

    /// The largest number of visits that any point had.
    #[must_use]
    pub fn most_visits(&self) -> u64 {
        self.points.iter().map(|p| p.visits).max().unwrap_or(0)
    }

    /// Why it must not count, as far as its own figures say.
    #[must_use]
    pub fn defect(&self) -> Option<Why> {
        if self.effective() <= 0 {
            Some(Why::NoTime)
        } else if self.most_visits() == 0 {
            Some(Why::NoVisits)
        } else if self.lost_share() > LOST_SAMPLES_LIMIT {
            Some(Why::LostSamples)
        } else if self.unpaid_share() > UNPAID_LIMIT {
            Some(Why::Unpaid)
        } else {
            None
        }
    }
}

fn share(part: f64, whole: f64) -> f64 {
    if part == 0.0 { 0.0 } else { part / whole }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sound() -> Experiment {
        Experiment {
            line: LineId(1),
            speedup: Speedup::FULL,
            begin: Nanos(1000),
            end: Nanos(1300),
            delay: Nanos(100),
            absorbed: Nanos(100),
            points: vec![PointVisits::of(PointId(0), 9)],
            set: SetTotals { samples: 100, ..SetTotals::default() },
            ..Experiment::default()
        }
    }

    #[test]
    fn effective_time_is_what_the_delay_leaves() {
        assert_eq!(sound().effective(), 200);
        assert_eq!(sound().defect(), None);
    }

    #[test]
    fn a_delay_longer_than_the_experiment_is_negative_time_not_a_huge_one() {
        let e = Experiment { delay: Nanos(301), absorbed: Nanos(301), ..sound() };
        assert_eq!(e.effective(), -1);
        assert_eq!(e.defect(), Some(Why::NoTime));
    }

    #[test]
    fn unpaid_delay_counts_against_effective_time() {
        assert_eq!(Experiment { unpaid: Nanos(20), ..sound() }.defect(), None, "exactly a tenth of 200");
        assert_eq!(Experiment { unpaid: Nanos(21), ..sound() }.defect(), Some(Why::Unpaid));
    }

    #[test]
    fn lost_samples_spoil_it_from_a_twentieth_on() {
        let lost = |lost_samples| Experiment {
            set: SetTotals { samples: 100, lost_samples, ..sound().set },
            ..sound()
        };
        assert_eq!(lost(5).defect(), None);
        assert_eq!(lost(6).defect(), Some(Why::LostSamples));
    }

    #[test]
    fn no_samples_at_all_are_no_lost_ones() {
        assert_eq!(Experiment { set: SetTotals::default(), ..sound() }.defect(), None);
    }

    #[test]
    fn halves_are_compared_in_effective_time() {
        let half =
            |effective, visits| Some(Half { effective, points: vec![PointVisits::of(PointId(0), visits)] });
        let points = vec![PointVisits::of(PointId(0), 30)];
        let e = Experiment { points, half: half(50, 10), ..sound() };
        let drift = e.drift().unwrap();
        assert!((drift - (10.0_f64 / 50.0 / (20.0 / 150.0)).ln()).abs() < 1e-12, "{drift}");
        assert_eq!(Experiment { half: half(50, 26), ..e.clone() }.drift(), None, "4 visits are too few");
        assert_eq!(Experiment { half: half(10, 10), ..e.clone() }.drift(), None, "no effective time");
        assert_eq!(Experiment { half: None, ..e }.drift(), None);
    }

    #[test]
    fn visits_of_a_point_that_appeared_meanwhile_count_from_zero() {
        let at = |points: &[(u32, u64)]| Snapshot {
            points: points.iter().map(|&(p, visits)| PointVisits::of(PointId(p), visits)).collect(),
            ..Snapshot::default()
        };
        let visits = at(&[(0, 12), (1, 3)]).visits_since(&at(&[(0, 10)]));
        assert_eq!(visits.iter().map(|p| p.visits).collect::<Vec<_>>(), [2, 3]);
    }
}
