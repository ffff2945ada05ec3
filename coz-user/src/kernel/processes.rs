//! What the kernel must know of the processes of the profiled set.

use std::collections::HashSet;

use anyhow::{Context, Result};
use aya::maps::{HashMap, Map, MapData, MapError};
use coz_common::abi::Process;

use super::load::{Kernel, fd};

/// A `Process` as aya wants it.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
struct PodProcess(Process);
// SAFETY: repr(C), integers only, explicit padding: every bit pattern is a value and no byte is uninitialised.
unsafe impl aya::Pod for PodProcess {}

/// Who is of the set, for those that need to know no more.
#[derive(Debug)]
pub struct Known(HashMap<MapData, u32, PodProcess>);

impl Known {
    /// Whether this process is.
    #[must_use]
    pub fn has(&self, tgid: u32) -> bool {
        self.0.get(&tgid, 0).is_ok()
    }
}

impl Kernel {
    /// Who is of the set, now and later.
    ///
    /// # Errors
    /// There is no descriptor left for it.
    pub fn known(&self) -> Result<Known> {
        let copy =
            fd(&self.ebpf, "PROCESSES")?.try_clone_to_owned().context("cannot copy a map's descriptor")?;
        Ok(Known(HashMap::try_from(Map::HashMap(MapData::from_fd(copy)?))?))
    }

    /// Says what is known of a process.
    ///
    /// # Errors
    /// Where the map refuses it.
    pub fn set_process(&mut self, tgid: u32, process: &Process) -> Result<()> {
        let mut map: HashMap<_, u32, PodProcess> =
            HashMap::try_from(self.ebpf.map_mut("PROCESSES").context("no map PROCESSES")?)?;
        map.insert(tgid, PodProcess(*process), 0).with_context(|| format!("cannot register process {tgid}"))
    }

    /// What the kernel knows of a process; `None` if it is not of the set.
    ///
    /// # Errors
    /// Where the map can not be read.
    pub fn process(&self, tgid: u32) -> Result<Option<Process>> {
        let map: HashMap<_, u32, PodProcess> =
            HashMap::try_from(self.ebpf.map("PROCESSES").context("no map PROCESSES")?)?;
        match map.get(&tgid, 0) {
            Ok(process) => Ok(Some(process.0)),
            Err(MapError::KeyNotFound) => Ok(None),
            Err(error) => Err(error).with_context(|| format!("cannot read what is known of process {tgid}")),
        }
    }

    /// The address spaces that processes have.
    ///
    /// # Errors
    /// Where the map can not be read.
    pub(super) fn spaces_in_use(&self) -> Result<HashSet<u32>> {
        let map: HashMap<_, u32, PodProcess> =
            HashMap::try_from(self.ebpf.map("PROCESSES").context("no map PROCESSES")?)?;
        map.iter()
            .map(|entry| Ok(entry.context("cannot list the processes that the kernel knows")?.1.0.space))
            .collect()
    }

    /// Forgets a process that has ended.
    pub fn forget_process(&mut self, tgid: u32) {
        if let Some(Ok(mut map)) = self.ebpf.map_mut("PROCESSES").map(HashMap::<_, u32, PodProcess>::try_from)
        {
            // It may never have been known.
            let _ = map.remove(&tgid);
        }
    }
}
