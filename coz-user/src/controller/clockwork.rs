//! What is read from the kernel at the edges of experiments, and what is kept from one to the next.

use anyhow::Result;
use coz_common::{
    abi::{LineCount, Stat},
    units::{LineId, Nanos},
};

use super::{
    attribution::Attribution,
    pace::Pace,
    points::{Points, place_of},
};
use crate::{
    experiment::data::{SetTotals, Snapshot},
    kernel::{control::now, load::Kernel},
};

/// Line counts over time: what was seen last, and what fell into delayed time.
#[derive(Debug, Default)]
pub struct Counts {
    seen: Vec<u64>,
    at_begin: Vec<u64>,
    begun: Nanos,
    samples_at_begin: u64,
    delayed: Vec<u64>,
    delayed_wall: Nanos,
    delayed_samples: u64,
}

impl Counts {
    /// A line's samples and CPU time so far.
    #[must_use]
    pub fn total(kernel: &Kernel, attribution: &Attribution, line: LineId) -> LineCount {
        let (counted, late) = (kernel.line_count(line), attribution.late(line));
        LineCount { samples: counted.samples + late.samples, weight_ns: counted.weight_ns + late.weight_ns }
    }

    /// Samples of every line since the last call.
    pub fn since_last(&mut self, kernel: &Kernel, attribution: &Attribution) -> Vec<(LineId, u64)> {
        let lines = attribution.lines().len();
        self.seen.resize(lines + 1, 0);
        (1..=lines)
            .filter_map(|index| {
                let line = LineId(index as u32);
                let total = Self::total(kernel, attribution, line).samples;
                let fresh = total - self.seen[index];
                self.seen[index] = total;
                (fresh > 0).then_some((line, fresh))
            })
            .collect()
    }

    /// An experiment with delays begins.
    ///
    /// # Errors
    /// Where a map cannot be read.
    pub fn delayed_begin(&mut self, kernel: &Kernel, attribution: &Attribution) -> Result<()> {
        let lines = attribution.lines().len();
        self.at_begin.clear();
        self.at_begin.extend((0..=lines).map(|index| kernel.line_count(LineId(index as u32)).weight_ns));
        self.samples_at_begin = kernel.stats()?.get(Stat::Samples);
        self.begun = now();
        Ok(())
    }

    /// It has ended. The time in which the program settled was delayed too. It was sampled at the present `pace`.
    ///
    /// # Errors
    /// Where a map cannot be read.
    pub fn delayed_end(&mut self, kernel: &Kernel, attribution: &Attribution, pace: &Pace) -> Result<()> {
        let lines = attribution.lines().len();
        self.delayed.resize(lines + 1, 0);
        for index in 0..=lines {
            let before = self.at_begin.get(index).copied().unwrap_or(0);
            self.delayed[index] += kernel.line_count(LineId(index as u32)).weight_ns - before;
        }
        self.delayed_wall.0 += now().since(self.begun).0;
        let samples = kernel.stats()?.get(Stat::Samples).saturating_sub(self.samples_at_begin);
        self.delayed_samples += pace.scaled(samples);
        Ok(())
    }

    /// CPU time of a line within undelayed time, of this total.
    #[must_use]
    pub fn undelayed(&self, line: LineId, total: u64) -> u64 {
        total.saturating_sub(self.delayed.get(line.0 as usize).copied().unwrap_or(0))
    }

    /// Wall time of all experiments with delays.
    #[must_use]
    pub fn delayed_wall(&self) -> Nanos {
        self.delayed_wall
    }

    /// Samples of the profiled set in them, as if taken at the first rate.
    #[must_use]
    pub fn delayed_samples(&self) -> u64 {
        self.delayed_samples
    }
}

/// Reads what an experiment's edge needs. `epoch` is the running or last experiment's.
///
/// # Errors
/// Where a map can not be read.
pub fn snapshot(
    kernel: &Kernel,
    attribution: &Attribution,
    points: &mut Points,
    epoch: u32,
    line: LineId,
) -> Result<Snapshot> {
    let stats = kernel.stats()?;
    let (at, required) = (now(), kernel.required(epoch));
    let standing = kernel.standing(epoch, at);
    let absorbed = standing.absorbed.unwrap_or(required);
    let mut visits = points.visits(kernel)?;
    for point in &mut visits {
        // Before its first visit, who will make it is not known either.
        point.absorbed = place_of(point.point).map(|place| standing.by_place[place].unwrap_or(absorbed));
    }
    Ok(Snapshot {
        at,
        required,
        absorbed,
        points: visits,
        latencies: points.latency_totals(kernel)?,
        selected: Counts::total(kernel, attribution, line),
        set: SetTotals {
            samples: stats.get(Stat::Samples),
            lost_samples: stats.lost(),
            signals_sent: stats.get(Stat::SignalsSent),
            signals_failed: stats.get(Stat::SignalsFailed),
            cpu: Nanos(stats.get(Stat::CpuNs)),
            runqueue: Nanos(stats.get(Stat::RunqueueNs)),
            charged: Nanos(stats.get(Stat::ChargedNs)),
            paid: Nanos(stats.get(Stat::PaidNs)),
            inherited: Nanos(stats.get(Stat::InheritedNs)),
        },
        unpaid: standing.unpaid,
    })
}
