//! The progress points of a run: uprobes that were asked for, and coz.h counters as they appear.

use anyhow::Result;

use crate::{
    experiment::data::{PointId, PointVisits},
    kernel::load::Kernel,
};

/// Numbers of coz.h counters begin here: above those of uprobes.
const COUNTERS: u32 = 1 << 16;
/// coz.h's throughput kind.
const THROUGHPUT: u32 = 1;

/// All points, by number.
#[derive(Debug, Default)]
pub struct Points {
    probes: Vec<String>,
    counters: Vec<(usize, String)>,
}

impl Points {
    /// The uprobe points, in the order of their cookies.
    #[must_use]
    pub fn new(probes: Vec<String>) -> Self {
        Self { probes, counters: Vec::new() }
    }

    /// A point's name.
    #[must_use]
    pub fn name(&self, point: PointId) -> Option<&str> {
        match point.0.checked_sub(COUNTERS) {
            None => self.probes.get(point.0 as usize).map(String::as_str),
            Some(counter) => self
                .counters
                .iter()
                .find(|(index, _)| *index == counter as usize)
                .map(|(_, name)| name.as_str()),
        }
    }

    /// Whether there is none at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.probes.is_empty() && self.counters.is_empty()
    }

    /// Names of all points known by now.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.probes.iter().chain(self.counters.iter().map(|(_, name)| name)).map(String::as_str)
    }

    /// Visits so far, coz.h counters that have appeared included.
    ///
    /// # Errors
    /// Where a map can not be read.
    pub fn visits(&mut self, kernel: &Kernel) -> Result<Vec<PointVisits>> {
        let mut all: Vec<PointVisits> = (0..)
            .map(PointId)
            .zip(kernel.visits(self.probes.len())?)
            .map(|(point, visits)| PointVisits { point, visits })
            .collect();
        for (index, counter) in kernel.counters_in_use() {
            if counter.kind != THROUGHPUT {
                continue;
            }
            if !self.counters.iter().any(|(known, _)| *known == index) {
                let name: Vec<u8> = counter.name.iter().copied().take_while(|&byte| byte != 0).collect();
                self.counters.push((index, String::from_utf8_lossy(&name).into_owned()));
            }
            // What the user has named counts; the same place instrumented would count twice.
            let named = |probe: &String| self.name(PointId(COUNTERS + index as u32)) == Some(probe);
            if self.probes.iter().any(named) {
                continue;
            }
            all.push(PointVisits { point: PointId(COUNTERS + index as u32), visits: counter.count });
        }
        Ok(all)
    }
}
