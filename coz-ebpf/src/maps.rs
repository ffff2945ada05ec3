//! Every map, and why it has its size.

use aya_ebpf::{
    btf_maps,
    macros::{btf_map, map},
    maps::{Array, HashMap, PerCpuArray, RingBuf},
};
use coz_common::abi::{
    Control, CounterSlot, Global, KernelSlot, LineCount, LineEntry, MAX_BOOKS, MAX_COUNTERS, MAX_ENTRIES,
    MAX_LINES, MAX_PAGES, MAX_POINTS, MAX_SLOTS, Nest, Offsets, PageKey, PageSlice, PendingKey, Process,
    STAT_COUNT, Stat, TargetSlot,
};
use coz_common::{
    clock::CpuClock,
    latency::{LatencyCounts, MAX_LATENCIES, MAX_OPEN, Open, OpenKey},
    point::{LastTick, Level, LevelSum, MAX_LEVELS, MAX_SYSCALLS, SYSCALL_POINTS},
    unwind::{AddressSpace, MAX_FRAMES, MAX_ROW_PAGES, MAX_ROWS, MAX_SPACES, MAX_WANTED, Row, Wanted},
};

/// Pages that user space maps.
const MMAPABLE: u32 = 1024;
/// Entries are allocated when they are made: only user space makes them.
const NO_PREALLOC: u32 = 1;
/// Offsets in the kernel's structs; set at load.
#[unsafe(no_mangle)]
static OFFSETS: Offsets = Offsets {
    task_pid: 0,
    task_tgid: 0,
    task_thread_pid: 0,
    task_sighand: 0,
    task_blocked: 0,
    task_seccomp_mode: 0,
    task_seccomp_filters: 0,
    sighand_action: 0,
    k_sigaction_size: 0,
    k_sigaction_handler: 0,
    pid_level: 0,
    pid_numbers: 0,
    upid_size: 0,
    upid_nr: 0,
    upid_ns: 0,
    pid_namespace_inum: 0,
    task_state: 0,
    task_flags: 0,
    task_cred: 0,
    cred_uid: 0,
    cred_euid: 0,
    cred_gid: 0,
    cred_egid: 0,
    task_alternate: 0,
    alternate_least: 0,
};

/// 1: a sample counts for every line in scope of its call chain; 0: for the innermost. Set at load.
#[unsafe(no_mangle)]
static INCLUSIVE: u32 = 0;

/// 1: the kernel has `bpf_loop`. Set at load.
#[unsafe(no_mangle)]
static LOOPS: u32 = 0;

/// 1: a switch tells what state the thread is in that loses its CPU. Set at load.
#[unsafe(no_mangle)]
static SWITCH_STATE: u32 = 0;

/// Whether a switch tells what state the thread is in that loses its CPU.
#[inline(always)]
pub fn switch_has_state() -> bool {
    // SAFETY: as below.
    unsafe { core::ptr::read_volatile(&raw const SWITCH_STATE) != 0 }
}

/// Whether the kernel has `bpf_loop`.
#[inline(always)]
pub fn has_loops() -> bool {
    // SAFETY: as below.
    unsafe { core::ptr::read_volatile(&raw const LOOPS) != 0 }
}

/// Whether a sample counts for every line in scope of its call chain.
#[inline(always)]
pub fn is_inclusive() -> bool {
    // SAFETY: as below. The verifier knows the value, and leaves out what is not used.
    unsafe { core::ptr::read_volatile(&raw const INCLUSIVE) != 0 }
}

/// The offsets that the controller has found.
#[inline(always)]
pub fn offsets() -> Offsets {
    // SAFETY: a static of plain integers; volatile, because its value is set in the object before it is loaded.
    unsafe { core::ptr::read_volatile(&raw const OFFSETS) }
}

/// One page.
#[map]
pub static CONTROL: Array<Control> = Array::with_max_entries(1, MMAPABLE);
/// One page.
#[map]
pub static GLOBAL: Array<Global> = Array::with_max_entries(1, MMAPABLE);
/// A slot for every thread that can be alive at once.
#[map]
pub static SLOTS: Array<KernelSlot> = Array::with_max_entries(MAX_SLOTS, MMAPABLE);
/// What each of them says that it has paid: a book for every user, which nobody else can write. A thread's place is the same in
/// all of them, and its slot says which one is its own. The controller makes them.
#[btf_map]
pub static PAYMENTS: btf_maps::ArrayOfMaps<Book, { MAX_BOOKS as usize }> = btf_maps::ArrayOfMaps::new();
/// One of them: of [`TargetSlot`]s. In the type information a value is an array of numbers, for kernels before 6.3 take it for
/// another kind of map than those of the controller (which have no type information) where it is a struct.
pub type Book =
    btf_maps::Array<[u64; size_of::<TargetSlot>() / 8], { MAX_SLOTS as usize }, { MMAPABLE as usize }>;
/// By book: how many payments were not credible.
#[map]
pub static DISBELIEVED: Array<u64> = Array::with_max_entries(MAX_BOOKS, MMAPABLE);
/// The counters of coz.h.
#[map]
pub static COUNTERS: Array<CounterSlot> = Array::with_max_entries(MAX_COUNTERS, MMAPABLE);
/// Thread id -> index of its slot + 1; the controller sets the size from `kernel.pid_max`. An array, not a hash:
/// this look-up is all that a switch between other programs' threads costs.
#[map]
pub static TIDS: Array<u32> = Array::with_max_entries(32768, 0);
/// Processes of the set. As many as there can be slots; made by the kernel at fork.
#[map]
pub static PROCESSES: HashMap<u32, Process> = HashMap::with_max_entries(4096, NO_PREALLOC);
/// Pages of code whose lines are known.
#[map]
pub static PAGES: HashMap<PageKey, PageSlice> = HashMap::with_max_entries(MAX_PAGES, NO_PREALLOC);
/// The lines of these pages: 8 MiB, enough for 5,000 dense pages.
#[map]
pub static LINES: Array<LineEntry> = Array::with_max_entries(MAX_ENTRIES, 0);
/// Lines within others, by number; the controller sets the size, where they count (`--inclusive`).
#[map]
pub static NESTS: Array<Nest> = Array::with_max_entries(1, 0);
/// Samples and CPU time by line.
#[map]
pub static LINE_COUNTS: Array<LineCount> = Array::with_max_entries(MAX_LINES, MMAPABLE);
/// Addresses that were sampled before their page was known; the controller empties it every few milliseconds.
#[map]
pub static PENDING: HashMap<PendingKey, LineCount> = HashMap::with_max_entries(16384, 0);
/// Latency points: 9.5 KiB each.
#[map]
pub static LATENCIES: Array<LatencyCounts> = Array::with_max_entries(MAX_LATENCIES, MMAPABLE);
/// Intervals of latency points under way, by thread and point; made when a thread first begins one.
#[map]
pub static OPEN: HashMap<OpenKey, Open> = HashMap::with_max_entries(MAX_OPEN, NO_PREALLOC);
/// An empty one to begin with: too large for the stack of a BPF program.
#[map]
pub static NO_OPEN: PerCpuArray<Open> = PerCpuArray::with_max_entries(1, 0);
/// Slot + 1 of the thread whose slot is being changed on this CPU outside of any interrupt: a tick must leave it alone.
#[map]
pub static BUSY: PerCpuArray<u32> = PerCpuArray::with_max_entries(1, 0);
/// System call number -> the `point::Code`s of the points that it is.
#[map]
pub static SYSCALLS: Array<[u32; SYSCALL_POINTS]> = Array::with_max_entries(MAX_SYSCALLS, 0);
/// Latency points of coz.h.
#[map]
pub static LEVELS: Array<Level> = Array::with_max_entries(MAX_LEVELS, MMAPABLE);
/// What ticks have seen of them.
#[map]
pub static LEVEL_SUMS: PerCpuArray<LevelSum> = PerCpuArray::with_max_entries(MAX_LEVELS, 0);
/// When this CPU last ticked.
#[map]
pub static LAST_TICK: PerCpuArray<LastTick> = PerCpuArray::with_max_entries(1, 0);
/// Visits by progress point.
#[map]
pub static VISITS: PerCpuArray<u64> = PerCpuArray::with_max_entries(MAX_POINTS, 0);
/// `Stat`s.
#[map]
pub static STATS: PerCpuArray<u64> = PerCpuArray::with_max_entries(STAT_COUNT, 0);
/// Births, execs, deaths: rare.
#[map]
pub static EVENTS: RingBuf = RingBuf::with_byte_size(256 * 1024, 0);
/// The call chain of the sample that is looked at.
#[map]
pub static WALK: PerCpuArray<crate::chain::Walk> = PerCpuArray::with_max_entries(1, 0);
/// There for its length only: see `steps`.
#[map]
pub static STEPS: Array<u32> = Array::with_max_entries(MAX_FRAMES, 0);
/// Where the code of processes is: made by the controller, named by `PROCESSES`, shared by children.
#[map]
pub static SPACES: HashMap<u32, AddressSpace> = HashMap::with_max_entries(MAX_SPACES, NO_PREALLOC);
/// Pages of code whose rows are known.
#[map]
pub static ROW_PAGES: HashMap<PageKey, PageSlice> = HashMap::with_max_entries(MAX_ROW_PAGES, NO_PREALLOC);
/// The rows of these pages: 8 MiB, enough for 7,000 dense pages.
#[map]
pub static ROWS: Array<Row> = Array::with_max_entries(MAX_ROWS, 0);
/// What the controller has been asked for, and when.
#[map]
pub static WANTED: HashMap<Wanted, u64> = HashMap::with_max_entries(MAX_WANTED, 0);
/// Interrupt depth.
#[map]
pub static INTERRUPTS: PerCpuArray<crate::interrupts::Interrupts> = PerCpuArray::with_max_entries(1, 0);

/// The CPU's virtual clock.
#[map]
pub static CPU_CLOCK: PerCpuArray<CpuClock> = PerCpuArray::with_max_entries(1, 0);

/// Adds to a counter of this CPU.
#[inline(always)]
pub fn count(stat: Stat, by: u64) {
    if let Some(counter) = STATS.get_ptr_mut(stat as u32) {
        // SAFETY: the pointer is into this CPU's own element.
        unsafe { *counter += by };
    }
}

/// What the controller says. `None` can not happen, but the verifier wants to see it handled.
#[inline(always)]
pub fn control() -> Option<&'static Control> {
    CONTROL.get_ptr(0).map(|control| {
        // SAFETY: the map lives as long as the programs do.
        unsafe { &*control }
    })
}
