//! Every struct that crosses a boundary: kernel maps, the shim's memory, the registration socket.
//!
//! All are `repr(C)` without implicit padding, their sizes are asserted at compile time, and no `Option`,
//! `bool`, `usize` or enum crosses. Fields that two sides touch are plain integers, read and written as
//! atomics of their own width; each has **one writer**, named in its comment.
//!
//! Three kinds of memory meet here:
//!
//! | struct | map | kernel | controller | target (shim) |
//! | --- | --- | --- | --- | --- |
//! | [`Control`] | `CONTROL`, and its copy in a sealed memory file | reads the map | writes both | reads the file |
//! | [`Global`], [`KernelSlot`] | `GLOBAL`, `SLOTS` (frozen) | writes | reads | reads |
//! | [`TargetSlot`], [`CounterSlot`] | `PAYMENTS`, `COUNTERS` | reads | reads | writes |
//!
//! Seal and freeze forbid every other mapping to write, whoever has the descriptor. The target can therefore spoil nothing but what it says it has paid, that is, its own results.

use core::mem::{align_of, offset_of, size_of};

/// Version of everything in this file. The shim refuses to work for a controller with another one.
pub const ABI_VERSION: u32 = 1;

/// How many threads can be alive at once in the profiled set. A power of two: slots are found by hashing.
pub const MAX_SLOTS: u32 = 16384;
/// How many places a thread's slot can be in: `home`, `home + 1`, ... (see [`slot_home`]).
pub const SLOT_PROBES: u32 = 16;
/// How many coz.h counters the processes of one profile can register.
pub const MAX_COUNTERS: u32 = 256;
/// Longest name of a coz.h counter, in bytes; longer ones are cut.
pub const COUNTER_NAME: usize = 104;
/// How many uprobe progress points one profile can have.
pub const MAX_POINTS: u32 = 256;
/// How many lines can be told apart in one profile.
pub const MAX_LINES: u32 = 1 << 18;
/// How many entries the line table holds, over all pages of code that were seen.
pub const MAX_ENTRIES: u32 = 1 << 20;
/// How many pages of code can be in the line table.
pub const MAX_PAGES: u32 = 1 << 16;

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
    /// [`ABI_VERSION`].
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
    /// The process that is the first of the profiled set from its next exec on; 0 = none.
    pub root: u32,
    /// Which processes join the set by themselves, when they execute a program: one of [`rule`].
    pub rule: u32,
    /// The profiler's own process: it never joins, and who waits for a CPU that it has waits for nobody.
    pub ourselves: u32,
    /// How deep the control group `cgroup` lies; the root is at 0.
    pub cgroup_level: u32,
    /// For [`rule::CGROUP`]: the control group's number (version 2).
    pub cgroup: u64,
    /// For [`rule::COMM`]: the name, filled up with zeros.
    pub comm: [u8; COMM_LEN],
    /// To the end of the page.
    pub _reserved: [u64; 499],
}

/// Length of a process's name, the zero at its end included (`TASK_COMM_LEN`).
pub const COMM_LEN: usize = 16;

/// Values of [`Control::rule`].
pub mod rule {
    /// Nobody but `root` and the descendants of members.
    pub const NONE: u32 = 0;
    /// Processes of this name.
    pub const COMM: u32 = 1;
    /// Processes in this control group or one below it.
    pub const CGROUP: u32 = 2;
    /// Everybody but ourselves.
    pub const ALL: u32 = 3;
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

/// A thread's virtual clock and what belongs to it; written by the kernel, in the thread's own context
/// (or on its CPU) except where a comment says otherwise. Mapped read-only in the target.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct KernelSlot {
    /// Whose slot this is: see [`slot_key`]; 0 = free. Claimed with compare-and-exchange.
    pub key: u64,
    /// Thread id, as the initial pid namespace sees it.
    pub tid: u32,
    /// Process id, as the initial pid namespace sees it.
    pub tgid: u32,
    /// The delay absorbed in this epoch, nanoseconds; at most `G`.
    pub local: u64,
    /// What was paid beyond `G`: kept apart, so that the next hit does not bill it to everyone.
    pub credit: u64,
    /// `TargetSlot::paid` up to which payments have gone into `local` and `credit`.
    pub paid_seen: u64,
    /// The epoch that `local`, `credit` and the shares of the selected line belong to.
    pub epoch: u32,
    /// CPU time of the thread's whole life, up to `on_cpu_since`, nanoseconds; stays at its largest value.
    pub lived: u32,
    /// Of all the thread's CPU time, whatever stretch it is in.
    pub share: Share,
    /// The share of its CPU time in which it waits by spinning while another thread is in the selected line.
    pub spinning: Share,
    /// When the thread last got its CPU; 0 while it has none.
    pub on_cpu_since: u64,
    /// Up to when its samples stand for it: the time of the last one, put forward by what it has paid since.
    pub counted_to: u64,
    /// CPU time since it was last charged, up to `on_cpu_since`.
    pub cpu_uncharged: u64,
    /// When it blocked; 0 while it runs or waits for a CPU only.
    pub blocked_at: u64,
    /// When it was last woken by a thread of the profiled set; 0 once that has been applied. Written by the waker's CPU.
    pub woken_at: u64,
    /// The waker's `local` then. Written by the waker's CPU.
    pub woken_local: u64,
    /// The epoch of `woken_local`. Written by the waker's CPU.
    pub woken_epoch: u32,
    /// Number of the last signal sent; one is pending while `TargetSlot::acked` differs.
    pub sent: u32,
    /// When it was sent; 0 if the thread has lost its CPU since, before its handler began.
    pub sent_at: u64,
    /// Time spent waiting for a CPU while paying, all in all: no delay of ours.
    pub pay_wait: u64,
    /// When it became ready to run; 0 while it runs or is blocked.
    pub ready_at: u64,
    /// Visits of uprobe points in this epoch.
    pub visits: u32,
    /// Which of `kinds` the present stretch is of; [`STRETCH_KINDS`] where none was free.
    pub stretch: u16,
    /// Bits of [`flags`].
    pub flags: u16,
    /// What it owed when it last came back from a wait that no thread of the set has ended (input, output, a timer).
    pub private: u64,
    /// The kinds of stretches seen in this epoch.
    pub kinds: [Kind; STRETCH_KINDS as usize],
}

/// The place where a thread's life begins.
pub const PLACE_START: u32 = 1;

/// How many kinds of stretches a thread's slot tells apart: places where it blocks or wakes somebody. A thread with more
/// of them is charged at its share of all its time in the others.
pub const STRETCH_KINDS: u16 = 8;

/// A running share of CPU time.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// In 1/65536.
    pub value: u32,
    /// CPU time behind it, capped, in units of 1024 ns; 0: nothing is known.
    pub weight: u32,
}

/// The stretches of a thread's CPU time that begin at the same place of its code.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kind {
    /// The place; 0: none, the entry is free.
    pub place: u32,
    /// Of the CPU time in these stretches.
    pub share: Share,
}

impl KernelSlot {
    /// The slot gets a new owner: everything but the claimed key is set anew. What the owner before has paid, and
    /// the signals that it was sent, are behind us.
    #[inline(always)]
    pub fn reset(&mut self, tid: u32, tgid: u32, target: &TargetSlot) {
        let key = self.key;
        *self = Self { key, tid, tgid, paid_seen: target.paid, sent: target.acked, ..Self::default() };
        self.kinds[0].place = PLACE_START;
    }
}

/// Bits of [`KernelSlot::flags`].
pub mod flags {
    /// The thread is on its way out: its memory is gone, it has no call chain any more.
    pub const LEAVING: u16 = 1;
}

/// What a thread says of itself: written by the shim in the thread's own context, never by anyone else.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct TargetSlot {
    /// Delay paid in this slot, all in all, nanoseconds. Only ever grows, also when the slot gets a new owner.
    pub paid: u64,
    /// `KernelSlot::sent` as the handler saw it at its end: no signal is pending when they are equal.
    pub acked: u32,
    /// 1 while the handler runs.
    pub paying: u32,
    /// What the program believes about our signal in this thread: 1 = it asked to have it blocked.
    pub wants_blocked: u32,
    /// Explicit padding.
    pub _pad: u32,
    /// `KernelSlot::key` of the thread that `wants_blocked` belongs to: slots are used again.
    pub owner: u64,
    /// When the handler last ended: CPU time before it was ours, not the program's.
    pub ended_at: u64,
    /// To a cache line: two threads never write the same one.
    pub _reserved: [u64; 3],
}

/// A coz.h counter: written by the shim (name) and by the program's own macros (count).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CounterSlot {
    /// 0 free, 1 being claimed, 2 in use: claimed with compare-and-exchange.
    pub state: u32,
    /// 1 throughput, 2 begin, 3 end (coz.h).
    pub kind: u32,
    /// What the program increments: coz.h's `struct { size_t count; size_t backoff; }` begins here.
    pub count: u64,
    /// Unused since long, part of the ABI.
    pub backoff: u64,
    /// The name, without a NUL where it is that long.
    pub name: [u8; COUNTER_NAME],
}

/// One entry of the line table: where the stretch of code begins, and its line.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineEntry {
    /// First address, relative to the start of its page of code (0 to 4095).
    pub start: u32,
    /// `LineId`; 0 where no line in scope is.
    pub line: u32,
}

/// Key of the page index: 4 KiB of a module's address space.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PageKey {
    /// The controller's number of the module.
    pub module: u32,
    /// Module-relative address (ELF virtual address) divided by 4096.
    pub page: u32,
}

/// Where a page's entries stand in `LINES`: sorted by `start`, the first starts at 0.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageSlice {
    /// Index of the first entry.
    pub first: u32,
    /// Number of entries, at least 1.
    pub len: u32,
}

/// An address that was sampled before its page was in the line table.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PendingKey {
    /// The controller's number of the module.
    pub module: u32,
    /// Explicit padding.
    pub _pad: u32,
    /// Module-relative address (ELF virtual address).
    pub address: u64,
}

/// Samples and CPU time of a line (or of a pending address).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineCount {
    /// Samples.
    pub samples: u64,
    /// CPU time that they stand for, nanoseconds.
    pub weight_ns: u64,
}

/// What the kernel must know of a process; inherited at fork, emptied at exec.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// Address of the shim's handler; 0 = none: send no signal.
    pub handler: u64,
    /// Number of seccomp filters when the shim registered; more now = send no signal.
    pub seccomp_filters: u32,
    /// Number of its address space (`crate::unwind::AddressSpace`); 0 = not known.
    pub space: u32,
}

/// `Event::kind`: a thread or process of the profiled set was born; `tid` is the child, `other` its parent.
pub const EVENT_FORK: u32 = 1;
/// `Event::kind`: a process of the set has executed another program: its mappings are to be read again.
pub const EVENT_EXEC: u32 = 2;
/// `Event::kind`: a process of the set is gone.
pub const EVENT_EXIT: u32 = 3;
/// `Event::kind`: a process has left the set alive: it has executed a program with other rights than its own (set-user-ID).
pub const EVENT_LEFT: u32 = 5;

/// Byte offsets of the kernel's own structs, from its BTF: handed to the programs as a read-only global.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offsets {
    /// `task_struct.pid`.
    pub task_pid: u32,
    /// `task_struct.tgid`.
    pub task_tgid: u32,
    /// `task_struct.thread_pid`.
    pub task_thread_pid: u32,
    /// `task_struct.sighand`.
    pub task_sighand: u32,
    /// `task_struct.blocked`.
    pub task_blocked: u32,
    /// `task_struct.seccomp.mode`.
    pub task_seccomp_mode: u32,
    /// `task_struct.seccomp.filter_count`.
    pub task_seccomp_filters: u32,
    /// `sighand_struct.action`.
    pub sighand_action: u32,
    /// Size of `k_sigaction`.
    pub k_sigaction_size: u32,
    /// `k_sigaction.sa.sa_handler`.
    pub k_sigaction_handler: u32,
    /// `pid.level`.
    pub pid_level: u32,
    /// `pid.numbers`.
    pub pid_numbers: u32,
    /// Size of `upid`.
    pub upid_size: u32,
    /// `upid.nr`.
    pub upid_nr: u32,
    /// `upid.ns`.
    pub upid_ns: u32,
    /// `pid_namespace.ns.inum`.
    pub pid_namespace_inum: u32,
    /// `task_struct.__state` (`state` before 5.14).
    pub task_state: u32,
    /// `task_struct.flags`.
    pub task_flags: u32,
    /// `task_struct.cred`.
    pub task_cred: u32,
    /// `cred.uid`.
    pub cred_uid: u32,
    /// `cred.euid`.
    pub cred_euid: u32,
    /// `cred.gid`.
    pub cred_gid: u32,
    /// `cred.egid`.
    pub cred_egid: u32,
    /// `task_struct.sas_ss_size`: the size of a thread's alternate signal stack.
    pub task_alternate: u32,
    /// Not an offset: the least size of an alternate stack that has room for a signal's frame and the handler, bytes.
    pub alternate_least: u32,
}

/// Rare things that the kernel tells the controller, through the ring buffer `EVENTS`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Event {
    /// `EVENT_*`.
    pub kind: u32,
    /// Process id.
    pub tgid: u32,
    /// Thread id.
    pub tid: u32,
    /// See `kind`.
    pub other: u32,
    /// When, `CLOCK_MONOTONIC` nanoseconds.
    pub time: u64,
}

/// What the shim sends over the registration socket when a program starts: one datagram, no reply but [`Welcome`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Hello {
    /// [`ABI_VERSION`].
    pub abi_version: u32,
    /// [`HELLO_REGISTER`] or [`HELLO_SHIM`].
    pub request: u32,
    /// Address of the shim's signal handler in this process.
    pub handler: u64,
}

/// `Hello::request`: a program has started, wants the maps. Reply: [`Welcome`] and the descriptors of
/// `CONTROL`, `GLOBAL`, `SLOTS` (read-only), `PAYMENTS`, `COUNTERS`, in this order.
pub const HELLO_REGISTER: u32 = 1;
/// `Hello::request`: this process is about to exec. Reply: [`Welcome`] and the descriptor of the shim itself.
pub const HELLO_SHIM: u32 = 2;

/// The controller's answer; the descriptors come along as `SCM_RIGHTS`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Welcome {
    /// [`ABI_VERSION`].
    pub abi_version: u32,
    /// The signal to listen to; 0 = refused, stay idle.
    pub signal: u32,
    /// Number of the pid namespace: the upper half of this process's slot keys.
    pub pid_namespace: u32,
    /// Explicit padding.
    pub _pad: u32,
}

/// Environment variable that names the registration socket (abstract, without the leading NUL). The shim
/// removes it, and what we put into `LD_PRELOAD`, before the program can see either.
pub const SOCKET_ENV: &str = "COZ_BPF_SOCKET";

/// The key of a thread's slot: number of its pid namespace, and its id in there.
#[must_use]
#[inline(always)]
pub const fn slot_key(pid_namespace: u32, tid: u32) -> u64 {
    ((pid_namespace as u64) << 32) | tid as u64
}

/// The first of the [`SLOT_PROBES`] places where a slot with this key can be (Fibonacci hashing, Knuth 6.4).
#[must_use]
#[inline(always)]
pub const fn slot_home(key: u64) -> u32 {
    (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as u32 & (MAX_SLOTS - 1)
}

/// The `probe`-th place where a slot with this key can be.
#[must_use]
#[inline(always)]
pub const fn slot_place(key: u64, probe: u32) -> u32 {
    (slot_home(key) + probe) & (MAX_SLOTS - 1)
}

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
    ];
}

/// Number of [`Stat`]s.
pub const STAT_COUNT: u32 = Stat::InProbe as u32 + 1;

const _: () = assert!(size_of::<Control>() == 4096 && align_of::<Control>() == 8);
const _: () = assert!(offset_of!(Control, threshold_ns) == 24);
const _: () = assert!(offset_of!(Control, cgroup) == 80 && offset_of!(Control, _reserved) == 104);
const _: () = assert!(size_of::<Global>() == 4096);
const _: () = assert!(size_of::<KernelSlot>() == 256);
const _: () = assert!(size_of::<TargetSlot>() == 64);
const _: () = assert!(size_of::<CounterSlot>() == 128 && offset_of!(CounterSlot, count) == 8);
const _: () = assert!(size_of::<LineEntry>() == 8 && size_of::<PageKey>() == 8);
const _: () = assert!(size_of::<PageSlice>() == 8 && size_of::<PendingKey>() == 16);
const _: () = assert!(size_of::<LineCount>() == 16 && size_of::<Process>() == 16);
const _: () = assert!(size_of::<Offsets>() == 100);
const _: () = assert!(size_of::<Event>() == 24 && size_of::<Hello>() == 16 && size_of::<Welcome>() == 16);
const _: () = assert!(MAX_SLOTS.is_power_of_two() && SLOT_PROBES < MAX_SLOTS);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_always_within_the_table() {
        for tid in 0..100_000 {
            for probe in 0..SLOT_PROBES {
                assert!(slot_place(slot_key(0xF000_0001, tid), probe) < MAX_SLOTS);
            }
        }
    }

    #[test]
    fn neighbouring_threads_do_not_crowd() {
        let mut load = [0u32; MAX_SLOTS as usize];
        for tid in 1000..5000 {
            let key = slot_key(4_026_531_836, tid);
            let place = (0..SLOT_PROBES).map(|p| slot_place(key, p)).find(|&i| load[i as usize] == 0);
            load[place.expect("4000 threads fit in 16384 slots") as usize] = 1;
        }
    }
}
