//! The clocks that take samples: one on each CPU. Not by the loader library, which keeps no descriptor by which a clock could be made
//! slower.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
};

use anyhow::{Context, Result, anyhow};
use aya::{programs::PerfEvent, util::online_cpus};
use coz_common::units::Nanos;

use super::{
    environment::{Whom, software_clock},
    load::{Kernel, program},
};

/// The clocks of all CPUs; they stop when they are dropped.
pub(super) type Clocks = Vec<OwnedFd>;

/// `PERF_EVENT_IOC_*` (include/uapi/linux/perf_event.h).
const ENABLE: libc::Ioctl = 0x2400;
const PERIOD: libc::Ioctl = 0x4008_2404;
const SET_BPF: libc::Ioctl = 0x4004_2408;

impl Kernel {
    /// Starts sampling on every CPU that is online, once in every `period` of its clock.
    ///
    /// # Errors
    /// Where perf events are refused.
    pub fn start_sampling(&mut self, period: Nanos) -> Result<()> {
        let cpus = online_cpus().map_err(|(file, error)| anyhow!("cannot read {file}: {error}"))?;
        let sample = program::<&mut PerfEvent>(&mut self.ebpf, "sample")?.fd()?;
        let clocks = cpus.into_iter().map(|cpu| start(sample.as_fd(), cpu, period));
        self.sampling = clocks.collect::<Result<_>>()?;
        Ok(())
    }

    /// Makes all of them tick at another distance, and says so to the programs, and what a tick takes by now from the thread that it
    /// meets. Between experiments: within one, samples would stand for different times.
    ///
    /// # Errors
    /// Where a clock refuses it.
    pub fn sample_every(&self, period: Nanos, cost: Nanos) -> Result<()> {
        let refused = self.sampling.iter().filter_map(|clock| {
            // SAFETY: the kernel reads one word.
            let result = unsafe { libc::ioctl(clock.as_raw_fd(), PERIOD, &raw const period.0) };
            (result != 0).then(io::Error::last_os_error)
        });
        // Each is told, also when one has refused.
        let refused = refused.fold(None, |_, error| Some(error));
        self.set_period(period, cost);
        refused.map_or(Ok(()), |error| Err(error).context("cannot change how often is sampled"))
    }

    /// Stops sampling on every CPU.
    pub fn stop_sampling(&mut self) {
        self.sampling.clear();
    }
}

fn start(program: BorrowedFd<'_>, cpu: u32, period: Nanos) -> Result<OwnedFd> {
    let whom = Whom::Cpu(i32::try_from(cpu).unwrap_or(i32::MAX));
    let refused = || format!("cannot sample CPU {cpu} (perf_event_open of the software clock)");
    let clock = software_clock(whom, period.0, false)
        .map_err(|refusal| anyhow!("{refusal:?}"))
        .with_context(refused)?;
    for (request, argument) in [(SET_BPF, program.as_raw_fd()), (ENABLE, 0)] {
        // SAFETY: plain numbers.
        if unsafe { libc::ioctl(clock.as_raw_fd(), request, argument) } != 0 {
            return Err(io::Error::last_os_error()).with_context(refused);
        }
    }
    Ok(clock)
}
