//! The control page and `G`: how the controller starts and ends experiments, and what it reads at their edges.

use std::{
    fmt,
    sync::atomic::{AtomicU32, AtomicU64, Ordering},
};

use anyhow::{Context, Result};
use aya::maps::PerCpuArray;
use coz_common::{
    abi::{
        ABI_VERSION, COMM_LEN, Control, CounterSlot, Group, LineCount, MAX_NAMED, MAX_POINTS, STAT_COUNT,
        STATE_IDLE, STATE_RUNNING, Stat,
    },
    clock::{self, TaggedDelay},
    units::{LineId, Nanos, Speedup},
};

use super::{
    load::Kernel,
    standing::{Standing, Stood, standing_of},
};

/// What stays the same during a whole profile.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The signal that asks a thread to pay.
    pub signal: u32,
    /// Debt from which a thread is asked.
    pub threshold: Nanos,
    /// Nominal distance of two samples.
    pub period: Nanos,
    /// Wake-up latency of the idle machine.
    pub wake_latency: Nanos,
    /// What a sample takes from the thread that it meets.
    pub sample_cost: Nanos,
}

/// The rule by which processes join the set at their exec.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// One of [`coz_common::abi::rule`].
    pub rule: u32,
    /// For [`coz_common::abi::rule::NAMED`]: names, at most [`MAX_NAMED`].
    pub comms: Vec<[u8; COMM_LEN]>,
    /// And control groups, at most as many.
    pub groups: Vec<Group>,
}

/// What an experiment tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trial {
    /// Its number, from 1 on.
    pub epoch: u32,
    /// The selected line.
    pub line: LineId,
    /// Its virtual speedup.
    pub speedup: Speedup,
    /// Nobody pays after this.
    pub deadline: Nanos,
}

/// Values of all [`Stat`]s, summed over the CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stats([u64; STAT_COUNT as usize]);

impl Default for Stats {
    fn default() -> Self {
        Self([0; STAT_COUNT as usize])
    }
}

impl Stats {
    /// Made up.
    #[cfg(test)]
    pub fn of(counts: &[(Stat, u64)]) -> Self {
        let mut stats = Self::default();
        for (stat, count) in counts {
            stats.0[*stat as usize] = *count;
        }
        stats
    }

    /// One of them.
    #[must_use]
    pub fn get(&self, stat: Stat) -> u64 {
        self.0[stat as usize]
    }
}

impl Stats {
    /// Samples that count for nothing because something was full or not there yet.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.get(Stat::PendingLost) + self.get(Stat::NoStack) + self.get(Stat::ChainPending)
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for stat in Stat::ALL {
            write!(f, "{separator}{stat:?} {}", self.get(stat))?;
            separator = ", ";
        }
        Ok(())
    }
}

impl Kernel {
    /// Both copies of the control page: the kernel's programs read one, the target the other.
    fn pages(&self) -> [*mut Control; 2] {
        [self.control.get(0).expect("the control map has one element"), self.notice.page()]
    }

    /// Writes what stays the same. Before anything is attached.
    pub fn configure(&self, settings: &Settings) {
        for page in self.pages() {
            // SAFETY: this process is the page's only writer, and nobody reads it yet.
            unsafe {
                (*page).abi_version = ABI_VERSION;
                (*page).signal = settings.signal;
                (*page).threshold_ns = settings.threshold.0;
                (*page).period_ns = settings.period.0;
                (*page).wake_latency_ns = settings.wake_latency.0;
                (*page).sample_cost_ns = settings.sample_cost.0;
                (*page).ourselves = std::process::id();
            }
        }
    }

    /// What a visit of a probe takes from the thread that passes it. Before the first experiment.
    pub fn set_visit_cost(&self, cost: Nanos) {
        for page in self.pages() {
            // SAFETY: this process is the page's only writer; a word that is read whole.
            unsafe { (&raw mut (*page).visit_cost_ns).write_volatile(cost.0) };
        }
    }

    /// From now on samples are so far apart, and each takes so much from the thread that it meets. Between experiments.
    pub(super) fn set_period(&self, period: Nanos, cost: Nanos) {
        for page in self.pages() {
            // SAFETY: this process is the page's only writer; words that are read whole.
            unsafe {
                (&raw mut (*page).period_ns).write_volatile(period.0);
                (&raw mut (*page).sample_cost_ns).write_volatile(cost.0);
            }
        }
    }

    /// From its exec on, this process and its descendants are the profiled set.
    pub fn follow(&self, process: u32) {
        for page in self.pages() {
            // SAFETY: as in `begin`.
            unsafe { AtomicU32::from_ptr(&raw mut (*page).root).store(process, Ordering::SeqCst) };
        }
    }

    /// From now on, processes join by this rule, we ourselves excepted.
    pub fn follow_rule(&self, rule: &Rule) {
        for page in self.pages() {
            // SAFETY: as in `begin`.
            unsafe {
                let (mut comms, mut groups) = (0, 0);
                for (index, comm) in rule.comms.iter().enumerate().take(MAX_NAMED) {
                    (&raw mut (*page).comms[index]).write_volatile(*comm);
                    comms += 1;
                }
                for (index, group) in rule.groups.iter().enumerate().take(MAX_NAMED) {
                    (&raw mut (*page).groups[index]).write_volatile(*group);
                    groups += 1;
                }
                (&raw mut (*page).comm_count).write_volatile(comms);
                (&raw mut (*page).group_count).write_volatile(groups);
                AtomicU32::from_ptr(&raw mut (*page).rule).store(rule.rule, Ordering::SeqCst);
            }
        }
    }

    /// Starts an experiment; the time at which it began.
    pub fn begin(&self, trial: &Trial) -> Nanos {
        let started = now();
        for page in self.pages() {
            // SAFETY: this process is the page's only writer; the fields that readers act on come last.
            unsafe {
                (&raw mut (*page).selected).write_volatile(trial.line.0);
                (&raw mut (*page).speedup).write_volatile(trial.speedup.permille());
                (&raw mut (*page).started_ns).write_volatile(started.0);
                (&raw mut (*page).deadline_ns).write_volatile(trial.deadline.0);
                AtomicU32::from_ptr(&raw mut (*page).epoch).store(trial.epoch, Ordering::SeqCst);
                AtomicU32::from_ptr(&raw mut (*page).state).store(STATE_RUNNING, Ordering::SeqCst);
            }
        }
        started
    }

    /// The running experiment may go on until then.
    pub fn extend(&self, deadline: Nanos) {
        for page in self.pages() {
            // SAFETY: as in `begin`.
            unsafe { AtomicU64::from_ptr(&raw mut (*page).deadline_ns).store(deadline.0, Ordering::SeqCst) };
        }
    }

    /// Ends it: from now on nobody is charged and nobody pays.
    pub fn end(&self) {
        for page in self.pages() {
            // SAFETY: as in `begin`.
            unsafe { AtomicU32::from_ptr(&raw mut (*page).state).store(STATE_IDLE, Ordering::SeqCst) };
        }
    }

    /// `G` of an experiment.
    #[must_use]
    pub fn required(&self, epoch: u32) -> Nanos {
        Nanos(TaggedDelay(self.global.read(0).map_or(0, |global| global.required)).in_epoch(epoch))
    }

    /// Where the virtual clocks stand in this experiment, `now`.
    #[must_use]
    pub fn standing(&self, epoch: u32, now: Nanos) -> Standing {
        let required = self.required(epoch).0;
        let books = self.books.open();
        let threads = (0..self.slots.len()).filter_map(|index| {
            let slot = self.slots.get(index)?;
            // SAFETY: within the mapping and aligned. Most of the table is free: two words tell.
            let (key, of) = unsafe {
                ((&raw const (*slot).key).read_volatile(), (&raw const (*slot).epoch).read_volatile())
            };
            let slot = if key != 0 && of == epoch { self.slots.read(index) } else { None }?;
            let paid = books.read(&slot, index).map_or(slot.paid_seen, |target| target.paid);
            Some(Stood {
                absorbed: standing_of(&slot, paid, required, now.0),
                visits: slot.visits.map(u64::from),
                ran: slot.share.weight.into(),
            })
        });
        Standing::of(threads, required)
    }

    /// What the first thread of a process has absorbed in this experiment, also one that has ended: its slot is free then, but keeps
    /// what stood in it until another thread takes it. `None` where one has.
    #[must_use]
    pub fn absorbed_by(&self, process: u32, epoch: u32) -> Option<Nanos> {
        (0..self.slots.len()).find_map(|index| {
            let slot = self.slots.get(index)?;
            // SAFETY: within the mapping and aligned; numbers only.
            let (tid, of) = unsafe {
                ((&raw const (*slot).tid).read_volatile(), (&raw const (*slot).epoch).read_volatile())
            };
            let slot = if tid == process && of == epoch { self.slots.read(index) } else { None }?;
            Some(Nanos(clock::absorbed(&slot)))
        })
    }

    /// Samples of a line so far.
    #[must_use]
    pub fn line_count(&self, line: LineId) -> LineCount {
        self.line_counts.read(line.0 as usize).unwrap_or_default()
    }

    /// Visits of each uprobe point so far, `count` of them.
    ///
    /// # Errors
    /// Where the map can not be read.
    pub fn visits(&self, count: usize) -> Result<Vec<u64>> {
        let map: PerCpuArray<_, u64> =
            PerCpuArray::try_from(self.ebpf.map("VISITS").context("no map VISITS")?)?;
        (0..count.min(MAX_POINTS as usize))
            .map(|point| {
                Ok(map.get(&(point as u32), 0).context("cannot read a point's visits")?.iter().sum())
            })
            .collect()
    }

    /// All counters of the kernel side.
    ///
    /// # Errors
    /// Where the map can not be read.
    pub fn stats(&self) -> Result<Stats> {
        let map: PerCpuArray<_, u64> =
            PerCpuArray::try_from(self.ebpf.map("STATS").context("no map STATS")?)?;
        let mut stats = Stats::default();
        for (index, value) in stats.0.iter_mut().enumerate() {
            *value =
                map.get(&(index as u32), 0).context("cannot read the kernel side's counters")?.iter().sum();
        }
        Ok(stats)
    }

    /// coz.h counters in use: index and content.
    pub fn counters_in_use(&self) -> impl Iterator<Item = (usize, CounterSlot)> + '_ {
        (0..self.counters.len()).filter_map(|index| {
            self.counters.read(index).filter(|counter| counter.state == 2).map(|c| (index, c))
        })
    }
}

/// `CLOCK_MONOTONIC`, which is what the kernel's programs and the shim read too.
#[must_use]
pub fn now() -> Nanos {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid pointer; the call can not fail for this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}
