//! What is counted.

/// Counters of what happened and of everything that was dropped or failed: `STATS`, one array per CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
pub enum Stat {
    /// Samples of threads of the profiled set.
    Samples,
    /// Of these, with no in-scope line in the call chain.
    OutOfScope,
    /// Of these, taken in the kernel.
    InKernel,
    /// Of these, whose call chain could not be followed at all: the process's mappings are not known.
    NoStack,
    /// Of these, on pages that were not in the line table yet.
    Pending,
    /// Pending addresses that found no place: lost samples.
    PendingLost,
    /// Signals sent.
    SignalsSent,
    /// Signals that the kernel refused to send.
    SignalsFailed,
    /// Signals not sent: one is pending.
    HeldPending,
    /// Signals not sent: the handler is not ours.
    HeldHandler,
    /// Signals not sent: blocked by the thread, or there is no room for them on its alternate stack.
    HeldBlocked,
    /// Signals not sent: seccomp.
    HeldSeccomp,
    /// Threads for which no slot was free.
    SlotsFull,
    /// Events that found no place in the ring buffer.
    EventsLost,
    /// Wake-ups with an edge from a thread of the set.
    WakeEdges,
    /// Wake-ups by interrupts, other programs, timers.
    WakeOther,
    /// Nanoseconds of CPU time of the set.
    CpuNs,
    /// Nanoseconds that threads of the set waited for a CPU.
    RunqueueNs,
    /// Nanoseconds of delay that wake-ups absorbed.
    InheritedNs,
    /// Nanoseconds of delay that were charged by hits.
    ChargedNs,
    /// Nanoseconds of delay paid.
    PaidNs,
    /// Payments beyond what can be true (a confused or hostile target).
    PaidAbsurd,
    /// Reads of kernel memory that failed.
    ReadFailed,
    /// Visits of uprobe points by threads outside the set.
    ForeignVisits,
    /// A thread ran that had not been seen to get its CPU, or got one without having been seen to lose it.
    SwitchesMissed,
    /// Samples for no line whose call chain could not be followed to its end.
    ChainCut,
    /// Samples for no line whose call chain led to a page without rows yet.
    ChainPending,
    /// Frames that were left for their callers.
    Frames,
    /// Of these, by their frame pointers, for want of rows.
    FramePointers,
    /// Requests for rows or mappings that found no place.
    WantedLost,
    /// Threads that ran already when they joined the set.
    Admitted,
    /// Processes that could not join: the table of processes was full.
    ProcessesFull,
    /// Samples that met a thread in a probe: they count for no line.
    InProbe,
    /// Samples that met a thread waiting by spinning, at a `pause`.
    Spinning,
    /// Samples whose call chain went through code that is in no file, and of which no function is known.
    MadeAtRunTime,
}

impl Stat {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; STAT_COUNT as usize] = [
        Self::Samples,
        Self::OutOfScope,
        Self::InKernel,
        Self::NoStack,
        Self::Pending,
        Self::PendingLost,
        Self::SignalsSent,
        Self::SignalsFailed,
        Self::HeldPending,
        Self::HeldHandler,
        Self::HeldBlocked,
        Self::HeldSeccomp,
        Self::SlotsFull,
        Self::EventsLost,
        Self::WakeEdges,
        Self::WakeOther,
        Self::CpuNs,
        Self::RunqueueNs,
        Self::InheritedNs,
        Self::ChargedNs,
        Self::PaidNs,
        Self::PaidAbsurd,
        Self::ReadFailed,
        Self::ForeignVisits,
        Self::SwitchesMissed,
        Self::ChainCut,
        Self::ChainPending,
        Self::Frames,
        Self::FramePointers,
        Self::WantedLost,
        Self::Admitted,
        Self::ProcessesFull,
        Self::InProbe,
        Self::Spinning,
        Self::MadeAtRunTime,
    ];
}

/// Number of [`Stat`]s.
pub const STAT_COUNT: u32 = Stat::MadeAtRunTime as u32 + 1;
