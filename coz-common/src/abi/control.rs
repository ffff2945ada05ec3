//! What the controller tells everybody, and what the kernel tells everybody.

/// `Control::state`: nothing runs, nobody owes.
pub const STATE_IDLE: u32 = 0;

/// `Control::state`: an experiment runs.
pub const STATE_RUNNING: u32 = 1;

/// What the controller tells the kernel and the shim: one page, and a copy of it for the target.
///
/// Written by the controller alone. An experiment starts by writing the other fields first and `epoch` last.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Control {
    /// [`super::ABI_VERSION`].
    pub abi_version: u32,
    /// Number of the experiment, from 1 on; 0 before the first. A slot of another epoch counts as all zero.
    pub epoch: u32,
    /// [`STATE_IDLE`] or [`STATE_RUNNING`].
    pub state: u32,
    /// The selected line (`LineId`).
    pub selected: u32,
    /// The virtual speedup, thousandths.
    pub speedup: u32,
    /// The signal that asks a thread to pay.
    pub signal: u32,
    /// A thread is asked to pay from this debt on, nanoseconds.
    pub threshold_ns: u64,
    /// Nominal distance of two samples of one CPU, nanoseconds of CPU time: the weight of a thread's first sample.
    pub period_ns: u64,
    /// Nobody pays after this time (`CLOCK_MONOTONIC`, nanoseconds): what a dead controller leaves behind ends here.
    pub deadline_ns: u64,
    /// When this epoch began (`CLOCK_MONOTONIC`, nanoseconds).
    pub started_ns: u64,
    /// How long a wake-up takes on an idle machine, nanoseconds: the part of a woken thread's latency that can be
    /// waking, and not waiting for a CPU.
    pub wake_latency_ns: u64,
    /// What a sample takes from the thread that it meets, nanoseconds: the interrupt and all that it does.
    pub sample_cost_ns: u64,
    /// What a visit of a probe takes from the thread that passes it, nanoseconds.
    pub visit_cost_ns: u64,
    /// The process that is the first of the profiled set from its next exec on; 0 = none.
    pub root: u32,
    /// Which processes join the set by themselves, when they execute a program: one of [`rule`].
    pub rule: u32,
    /// The profiler's own process: it never joins, and who waits for a CPU that it has waits for nobody.
    pub ourselves: u32,
    /// For [`rule::NAMED`]: how many of `comms` count.
    pub comm_count: u16,
    /// And of `groups`.
    pub group_count: u16,
    /// Control groups.
    pub groups: [Group; MAX_NAMED],
    /// Names of processes, filled up with zeros.
    pub comms: [[u8; COMM_LEN]; MAX_NAMED],
    /// To the end of the page.
    pub _reserved: [u64; 436],
}

/// A control group of version 2, as the kernel's programs know it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// Its number.
    pub number: u64,
    /// How deep it lies; the root is at 0.
    pub level: u32,
    /// Explicit padding.
    pub _pad: u32,
}

/// How many names, and how many control groups, a rule can have.
pub const MAX_NAMED: usize = 16;

/// Length of a process's name, the zero at its end included (`TASK_COMM_LEN`).
pub const COMM_LEN: usize = 16;

/// Values of [`Control::rule`].
pub mod rule {
    /// Nobody but `root` and the descendants of members.
    pub const NONE: u32 = 0;
    /// Processes of one of the names, and those in one of the control groups or below it.
    pub const NAMED: u32 = 1;
    /// Everybody but ourselves.
    pub const ALL: u32 = 2;
}

/// What is true of the whole profile, written by the kernel: one page, mapped read-only in the target.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Global {
    /// `G`, the delay that everyone must have absorbed, tagged with its epoch: see [`crate::clock::TaggedDelay`].
    /// Raised by the kernel with compare-and-exchange; the first hit of an experiment replaces the last one's.
    pub required: u64,
    /// When a sample last fell on the selected line (`CLOCK_MONOTONIC`, nanoseconds).
    pub hit_at: u64,
    /// The thread that it was a sample of; 0 once that thread has been sampled elsewhere.
    pub hit_tid: u64,
    /// To the end of the page.
    pub _reserved: [u64; 509],
}
