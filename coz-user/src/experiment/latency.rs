//! What latency points count in an experiment, and the mean latency that follows.

use coz_common::latency::LatencyCounts;

use coz_common::units::Nanos;

use super::data::PointId;

/// What a latency point has counted so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LatencyTotals {
    /// Which point.
    pub point: PointId,
    /// Intervals that have begun and not ended.
    pub under_way: u64,
    /// Begins within experiments.
    pub arrivals: u64,
    /// Ends within experiments.
    pub departures: u64,
    /// From which the mean number under way follows.
    pub sums: Sums,
    /// Intervals in `buckets`: they began and ended in the same thread.
    pub measured: u64,
    /// Their sum, nanoseconds.
    pub measured_ns: u64,
    /// The histogram (see [`coz_common::latency::bucket`]); empty where nothing can be measured.
    pub buckets: Vec<u64>,
}

/// Running sums of a latency point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sums {
    /// Virtual times of all arrivals and departures, since their experiment's begin, nanoseconds, wrapping.
    Times {
        /// Of arrivals.
        arrived_at: u64,
        /// Of departures.
        departed_at: u64,
    },
    /// How many were under way, looked at time and again.
    Looks {
        /// Number times virtual time, nanoseconds.
        area: u64,
        /// Virtual time, nanoseconds.
        time: u64,
    },
}

impl LatencyTotals {
    /// Of a point with probes.
    #[must_use]
    pub fn of_probes(point: PointId, counts: &LatencyCounts) -> Self {
        Self {
            point,
            under_way: counts.begins.saturating_sub(counts.ends.saturating_add(counts.abandoned)),
            arrivals: counts.arrivals,
            departures: counts.departures,
            sums: Sums::Times { arrived_at: counts.arrived_at, departed_at: counts.departed_at },
            measured: counts.measured,
            measured_ns: counts.measured_ns,
            buckets: counts.buckets.to_vec(),
        }
    }

    /// What has been counted since `earlier`; everything where there was nothing. The sums' times run from when the experiment
    /// was begun, `age` before `earlier`; what is seen counts from `earlier` on.
    #[must_use]
    pub fn since(&self, earlier: Option<&Self>, age: Nanos) -> LatencySeen {
        let before = |of: fn(&Self) -> u64| earlier.map_or(0, of);
        let less = |now: u64, of: fn(&Self) -> u64| now.wrapping_sub(before(of));
        let arrivals = less(self.arrivals, |e| e.arrivals);
        let departures = less(self.departures, |e| e.departures);
        let level = match (self.sums, earlier.map(|e| e.sums)) {
            (Sums::Times { arrived_at, departed_at }, was) => {
                let (a, d) = match was {
                    Some(Sums::Times { arrived_at, departed_at }) => (arrived_at, departed_at),
                    _ => (0, 0),
                };
                let before = arrivals.wrapping_sub(departures).wrapping_mul(age.0);
                let area =
                    departed_at.wrapping_sub(d).wrapping_sub(arrived_at.wrapping_sub(a)).wrapping_add(before);
                Level::Area(area.cast_signed())
            }
            (Sums::Looks { area, time }, was) => {
                let (a, t) = match was {
                    Some(Sums::Looks { area, time }) => (area, time),
                    _ => (0, 0),
                };
                Level::Mean { area: area.saturating_sub(a), time: time.saturating_sub(t) }
            }
        };
        let old = earlier.map_or(&[][..], |e| &e.buckets);
        let counted = self.buckets.iter().enumerate().filter_map(|(index, &now)| {
            let fresh = now.saturating_sub(old.get(index).copied().unwrap_or(0));
            (fresh > 0).then_some((index as u32, fresh))
        });
        LatencySeen {
            point: self.point,
            // Not what is under way now: between an experiment's end and this look, one may have begun or ended that the sums
            // do not have.
            under_way: (before(|e| e.under_way) + arrivals).saturating_sub(departures),
            arrivals,
            departures,
            level,
            measured: less(self.measured, |e| e.measured),
            measured_ns: less(self.measured_ns, |e| e.measured_ns),
            histogram: counted.collect(),
        }
    }
}

/// What a latency point has counted in an experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct LatencySeen {
    /// Which point.
    pub point: PointId,
    /// Intervals under way at its end.
    pub under_way: u64,
    /// How many began.
    pub arrivals: u64,
    /// How many ended.
    pub departures: u64,
    /// From which the mean number under way follows.
    pub level: Level,
    /// How many of those that ended were measured.
    pub measured: u64,
    /// Their sum, nanoseconds of virtual time.
    pub measured_ns: u64,
    /// Bucket and number of those, ascending.
    pub histogram: Vec<(u32, u64)>,
}

/// How many were under way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Level {
    /// The area below that number over virtual time, less what those under way at the end have of it: nanoseconds.
    Area(i64),
    /// The area as far as it was looked at, and the time.
    Mean {
        /// Number times virtual time, nanoseconds.
        area: u64,
        /// Virtual time, nanoseconds.
        time: u64,
    },
}

/// From this share of its ends on, a point counts as measured: of the others it is not known where they began.
pub const MOSTLY: f64 = 0.95;

impl LatencySeen {
    /// How many were under way on average over this much effective time, nanoseconds.
    #[must_use]
    pub fn mean_under_way(&self, effective: f64) -> Option<f64> {
        let mean = match self.level {
            Level::Area(area) => (area as f64 + self.under_way as f64 * effective) / effective,
            Level::Mean { area, time } => area as f64 / time as f64,
        };
        (mean.is_finite() && mean >= 0.0).then_some(mean)
    }

    /// Whether the single intervals are known.
    #[must_use]
    pub fn is_measured(&self) -> bool {
        self.measured > 0 && self.measured as f64 >= MOSTLY * self.departures as f64
    }

    /// The mean latency, nanoseconds of virtual time: of the intervals themselves where these are known, else what follows
    /// from the mean number under way (Little's law, `W = L / lambda`).
    #[must_use]
    pub fn mean_ns(&self, effective: f64) -> Option<f64> {
        if self.is_measured() {
            return Some(self.measured_ns as f64 / self.measured as f64);
        }
        let under_way = self.mean_under_way(effective).filter(|_| self.departures > 0)?;
        Some(under_way * effective / self.departures as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(arrived_at: u64, departed_at: u64, counts: [u64; 3]) -> LatencyTotals {
        let [under_way, arrivals, departures] = counts;
        LatencyTotals {
            point: PointId(1),
            under_way,
            arrivals,
            departures,
            sums: Sums::Times { arrived_at, departed_at },
            measured: 0,
            measured_ns: 0,
            buckets: Vec::new(),
        }
    }

    #[test]
    fn littles_law_holds_for_a_timeline_that_can_be_counted_by_hand() {
        // Over 100 ns: one is there from before until 10, one from 20 to 50, one from 60 on.
        let before = totals(1_000, 2_000, [1, 5, 4]);
        let after = totals(1_000 + 20 + 60, 2_000 + 10 + 50, [1, 7, 6]);
        let seen = after.since(Some(&before), Nanos(0));
        assert_eq!((seen.arrivals, seen.departures), (2, 2));
        assert_eq!(seen.mean_under_way(100.0), Some((10.0 + 30.0 + 40.0) / 100.0));
        assert_eq!(seen.mean_ns(100.0), Some(40.0));
    }

    #[test]
    fn what_was_counted_while_the_program_settled_is_taken_off() {
        // The same 100 ns, at the end of an experiment that was begun 1,000 ns before: all times are later by as much.
        let before = totals(300, 200, [1, 5, 4]);
        let after = totals(300 + 1_020 + 1_060, 200 + 1_010 + 1_050, [1, 7, 6]);
        let seen = after.since(Some(&before), Nanos(1_000));
        assert_eq!(seen.mean_under_way(100.0), Some((10.0 + 30.0 + 40.0) / 100.0));
        // And where more arrive than leave: one is there all along, another from 60 on.
        let after = totals(300 + 1_060, 200, [2, 6, 4]);
        assert_eq!(after.since(Some(&before), Nanos(1_000)).mean_under_way(100.0), Some(1.4));
    }

    #[test]
    fn what_ends_after_the_experiment_was_under_way_at_its_end() {
        // Over 100 ns: one that was there before ends at 1, the next one begins there and ends when the experiment is over.
        let before = totals(0, 0, [1, 0, 0]);
        let seen = totals(1, 1, [0, 1, 1]).since(Some(&before), Nanos(0));
        assert_eq!((seen.under_way, seen.mean_under_way(100.0)), (1, Some(1.0)));
    }

    #[test]
    fn sums_may_wrap() {
        let before = totals(u64::MAX - 5, 10, [0, 0, 0]);
        let after = totals(14, 60, [0, 1, 1]);
        assert_eq!(after.since(Some(&before), Nanos(0)).level, Level::Area(50 - 20));
    }

    #[test]
    fn what_was_measured_goes_before_what_follows_from_the_sums() {
        let mut after = totals(20, 50, [0, 2, 2]);
        (after.measured, after.measured_ns) = (2, 60);
        after.buckets = vec![0, 0, 3];
        let mut before = totals(0, 0, [0, 0, 0]);
        before.buckets = vec![0, 0, 1];
        let seen = after.since(Some(&before), Nanos(0));
        assert_eq!(seen.mean_ns(100.0), Some(30.0));
        assert_eq!(seen.histogram, [(2, 2)]);
        let few = LatencySeen { measured: 1, ..seen };
        assert_eq!(few.mean_ns(100.0), Some(15.0), "half of them is not enough");
    }

    #[test]
    fn counters_that_are_only_looked_at_have_a_mean_too() {
        let looks = |area, time, counts: [u64; 3]| LatencyTotals {
            sums: Sums::Looks { area, time },
            ..totals(0, 0, counts)
        };
        let seen = looks(900, 300, [2, 9, 8]).since(Some(&looks(300, 100, [2, 4, 4])), Nanos(0));
        assert_eq!(seen.mean_under_way(50.0), Some(3.0));
        assert_eq!(seen.mean_ns(80.0), Some(3.0 * 80.0 / 4.0));
        let none = looks(0, 0, [0, 0, 0]).since(None, Nanos(0));
        assert_eq!((none.mean_under_way(50.0), none.mean_ns(50.0)), (None, None));
    }
}
