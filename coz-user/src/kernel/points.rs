//! What the kernel has counted of points, and what it is told of those of coz.h.

use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result};
use aya::maps::PerCpuArray;
use coz_common::{latency::LatencyCounts, point::MAX_LEVELS};

use super::load::Kernel;

impl Kernel {
    /// What has been counted of a latency point so far.
    #[must_use]
    pub fn latency(&self, point: usize) -> Option<Box<LatencyCounts>> {
        self.latencies.read(point).map(Box::new)
    }

    /// Has ticks look at how far two of coz.h's counters are apart; `level` is below [`MAX_LEVELS`] and counts up from 0.
    pub fn watch_level(&self, level: usize, begin: u32, end: u32) {
        let Some(place) = self.levels.get(level) else { return };
        // SAFETY: within the mapping; this process is the only writer, and `used` comes last.
        unsafe {
            (&raw mut (*place).begin).write_volatile(begin);
            (&raw mut (*place).end).write_volatile(end);
            AtomicU32::from_ptr(&raw mut (*place).used).store(1, Ordering::SeqCst);
        }
    }

    /// What ticks have seen of it, within experiments: how many were under way times virtual time, and virtual time, both in
    /// nanoseconds and over all CPUs.
    ///
    /// # Errors
    /// Where the map can not be read.
    pub fn level_sum(&self, level: usize) -> Result<(u64, u64)> {
        let map = self.ebpf.map("LEVEL_SUMS").context("no map LEVEL_SUMS")?;
        let map: PerCpuArray<_, [u64; 2]> = PerCpuArray::try_from(map)?;
        let level = u32::try_from(level).unwrap_or(MAX_LEVELS);
        let all = map.get(&level, 0).context("cannot read a latency point's level")?;
        Ok(all.iter().fold((0, 0), |(area, time), cpu| (area + cpu[0], time + cpu[1])))
    }
}
