//! The points of a run: those that were asked for, and coz.h counters as they appear.

use anyhow::Result;
use coz_common::{
    abi::VISIT_PLACES,
    point::MAX_LEVELS,
    units::{LineId, Nanos},
};

use crate::{
    experiment::{
        data::{PointId, PointVisits},
        latency::{LatencyTotals, Sums},
        record::{PointKind, PointSpec},
    },
    kernel::load::Kernel,
};

/// Numbers of coz.h counters begin here: above those of probes and system calls.
const COUNTERS: u32 = 1 << 16;
/// Latency points.
const LATENCIES: u32 = 1 << 17;
/// Lines that are counted by their samples.
const SAMPLED: u32 = 1 << 18;
/// Latency points of coz.h.
const LEVELS: u32 = 1 << 19;
/// coz.h's kinds.
const THROUGHPUT: u32 = 1;
const BEGIN: u32 = 2;
const END: u32 = 3;

/// A latency point of coz.h, by the indexes of its counters.
#[derive(Debug)]
struct Level {
    name: String,
    begin: usize,
    end: usize,
}

/// All points, by number.
#[derive(Debug, Default)]
pub struct Points {
    probes: Vec<String>,
    /// Latency points, in the order of their codes.
    pub latencies: Vec<String>,
    /// Lines.
    pub sampled: Vec<(String, LineId)>,
    period: u64,
    counters: Vec<(usize, String)>,
    levels: Vec<Level>,
}

/// In which place the kernel counts who visits a point; `None` where it tells these not apart from who visits others.
#[must_use]
pub fn place_of(point: PointId) -> Option<usize> {
    usize::try_from(point.0).ok().filter(|&index| index < VISIT_PLACES - 1)
}

impl Points {
    /// Probes and system calls of these names, in the order of their codes. `period`: CPU time that a sample stands for at first: as much is a visit of a line that is counted by its
    /// samples, also when they get rarer.
    #[must_use]
    pub fn new(probes: Vec<String>, period: Nanos) -> Self {
        Self { probes, period: period.0.max(1), ..Self::default() }
    }

    /// A point's name.
    #[must_use]
    pub fn name(&self, point: PointId) -> Option<&str> {
        let within = |base: u32| point.0.checked_sub(base).map(|index| index as usize);
        if let Some(index) = within(LEVELS) {
            return self.levels.get(index).map(|level| level.name.as_str());
        }
        if let Some(index) = within(SAMPLED) {
            return self.sampled.get(index).map(|(name, _)| name.as_str());
        }
        if let Some(index) = within(LATENCIES) {
            return self.latencies.get(index).map(String::as_str);
        }
        match within(COUNTERS) {
            Some(index) => self.counters.iter().find(|(i, _)| *i == index).map(|(_, name)| name.as_str()),
            None => self.probes.get(point.0 as usize).map(String::as_str),
        }
    }

    /// A point's kind.
    #[must_use]
    pub fn kind(&self, point: PointId) -> PointKind {
        if point.0 >= LEVELS || (LATENCIES..SAMPLED).contains(&point.0) {
            PointKind::Latency
        } else {
            PointKind::Throughput
        }
    }

    /// Whether each visit of the point is a trap into the kernel.
    #[must_use]
    pub fn is_probed(&self, point: PointId) -> bool {
        point.0 < COUNTERS || (LATENCIES..SAMPLED).contains(&point.0)
    }

    /// Whether there is none at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.specs().next().is_none()
    }

    /// All points known by now.
    pub fn specs(&self) -> impl Iterator<Item = PointSpec> + '_ {
        let sampled = self.sampled.iter().map(|(name, _)| name);
        let throughput = self.probes.iter().chain(sampled).map(|name| (name, false));
        let counters = self.counters.iter().map(|(_, name)| (name, false));
        let latency = self.latencies.iter().chain(self.levels.iter().map(|level| &level.name));
        throughput.chain(counters).chain(latency.map(|name| (name, true))).map(|(name, is_latency)| {
            PointSpec {
                name: name.clone(),
                kind: if is_latency { PointKind::Latency } else { PointKind::Throughput },
            }
        })
    }

    /// Visits so far, coz.h counters that have appeared included.
    ///
    /// # Errors
    /// Where a map can not be read.
    pub fn visits(&mut self, kernel: &Kernel) -> Result<Vec<PointVisits>> {
        let mut all: Vec<PointVisits> = (0..)
            .map(PointId)
            .zip(kernel.visits(self.probes.len())?)
            .map(|(point, visits)| PointVisits::of(point, visits))
            .collect();
        self.notice_counters(kernel);
        let counters: Vec<_> = kernel.counters_in_use().collect();
        let count = |wanted: usize| counters.iter().find(|(i, _)| *i == wanted).map_or(0, |(_, c)| c.count);
        for (index, name) in &self.counters {
            // What the user has named counts; the same place instrumented would count twice.
            if !self.probes.contains(name) {
                all.push(PointVisits::of(PointId(COUNTERS + *index as u32), count(*index)));
            }
        }
        all.extend((0..self.latencies.len()).filter_map(|index| {
            let counts = kernel.latency(index)?;
            Some(PointVisits::of(PointId(LATENCIES + index as u32), counts.ends))
        }));
        // How often a line is visited is not known, but visits go with the CPU time that its samples stand for.
        all.extend((0..).zip(&self.sampled).map(|(index, (_, line))| {
            PointVisits::of(PointId(SAMPLED + index), kernel.line_count(*line).weight_ns / self.period)
        }));
        all.extend(
            (0..)
                .zip(&self.levels)
                .map(|(index, level)| PointVisits::of(PointId(LEVELS + index), count(level.end))),
        );
        Ok(all)
    }

    /// What latency points have counted so far.
    ///
    /// # Errors
    /// Where a map can not be read.
    pub fn latency_totals(&self, kernel: &Kernel) -> Result<Vec<LatencyTotals>> {
        let mut all: Vec<LatencyTotals> = (0..self.latencies.len())
            .filter_map(|index| {
                let counts = kernel.latency(index)?;
                Some(LatencyTotals::of_probes(PointId(LATENCIES + index as u32), &counts))
            })
            .collect();
        for (index, level) in self.levels.iter().enumerate() {
            let count = |index: usize| kernel.counters.read(index).map_or(0, |counter| counter.count);
            let (area, time) = kernel.level_sum(index)?;
            let (arrivals, departures) = (count(level.begin), count(level.end));
            all.push(LatencyTotals {
                point: PointId(LEVELS + index as u32),
                under_way: arrivals.saturating_sub(departures),
                arrivals,
                departures,
                sums: Sums::Looks { area, time },
                measured: 0,
                measured_ns: 0,
                buckets: Vec::new(),
            });
        }
        Ok(all)
    }

    /// Takes note of coz.h counters that are new; of a begin and an end of one name, ticks are to see how far they are apart.
    fn notice_counters(&mut self, kernel: &Kernel) {
        let in_use: Vec<(usize, u32, String)> = kernel
            .counters_in_use()
            .map(|(index, counter)| {
                let name: Vec<u8> = counter.name.iter().copied().take_while(|&byte| byte != 0).collect();
                (index, counter.kind, String::from_utf8_lossy(&name).into_owned())
            })
            .collect();
        for (index, kind, name) in &in_use {
            if *kind == THROUGHPUT && !self.counters.iter().any(|(known, _)| known == index) {
                self.counters.push((*index, name.clone()));
            }
            let end = in_use.iter().find(|(_, kind, other)| *kind == END && other == name);
            if *kind == BEGIN
                && let Some((end, ..)) = end
                && !self.levels.iter().any(|level| level.begin == *index)
                && self.levels.len() < MAX_LEVELS as usize
            {
                kernel.watch_level(self.levels.len(), *index as u32, *end as u32);
                self.levels.push(Level { name: name.clone(), begin: *index, end: *end });
            }
        }
    }
}
