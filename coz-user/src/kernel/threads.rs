//! Which threads and processes belong to the profiled set.

use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, bail};
use aya::maps::{Array, HashMap, MapError};
use coz_common::abi::{Process, SLOT_PROBES, slot_key, slot_place};

use super::load::Kernel;

/// A `Process` as aya wants it.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct PodProcess(Process);
// SAFETY: repr(C), integers only, explicit padding: every bit pattern is a value and no byte is uninitialised.
unsafe impl aya::Pod for PodProcess {}

impl Kernel {
    /// Takes a thread that exists already into the set. It must not run yet, or at least not change its id.
    ///
    /// `pid_namespace` and `inner_tid`: as the thread sees itself.
    ///
    /// # Errors
    /// Where the table is full.
    pub fn adopt(&mut self, tid: u32, tgid: u32, pid_namespace: u32, inner_tid: u32) -> Result<()> {
        let key = slot_key(pid_namespace, inner_tid);
        for probe in 0..SLOT_PROBES {
            let index = slot_place(key, probe);
            let (Some(slot), Some(payment)) =
                (self.slots.get(index as usize), self.payments.read(index as usize))
            else {
                continue;
            };
            // SAFETY: an aligned word of the mapping, claimed by compare-and-exchange on both sides.
            let claim = unsafe { AtomicU64::from_ptr(&raw mut (*slot).key) };
            if claim.compare_exchange(0, key, Ordering::SeqCst, Ordering::SeqCst).is_err() {
                continue;
            }
            // SAFETY: the slot is ours; the kernel looks at it only through the index that is written next.
            unsafe { (*slot).reset(tid, tgid, &payment) };
            let mut tids: Array<_, u32> = Array::try_from(self.ebpf.map_mut("TIDS").context("no map TIDS")?)?;
            return tids.set(tid, index + 1, 0).with_context(|| format!("cannot take thread {tid} into the set"));
        }
        bail!("no free slot for thread {tid}: more threads than this version can follow")
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

    /// Forgets a process that has ended.
    pub fn forget_process(&mut self, tgid: u32) {
        if let Some(Ok(mut map)) = self.ebpf.map_mut("PROCESSES").map(HashMap::<_, u32, PodProcess>::try_from) {
            // It may never have been known.
            let _ = map.remove(&tgid);
        }
    }
}
