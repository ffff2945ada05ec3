//! From a frame to its caller, by the rows that the controller has prepared, else by the frame pointer.

use aya_ebpf::{
    EbpfContext,
    helpers::{
        bpf_ktime_get_ns, bpf_probe_read_user,
        generated::{bpf_get_current_task_btf, bpf_task_pt_regs},
    },
    programs::PerfEventContext,
};
use coz_common::{
    abi::{Event, PageKey, Stat},
    unwind::{self, EVENT_WANTED, Registers, Row, RowSearch, Stack, Stop, Wanted},
};

use crate::{
    chain::{CUT, ENDED, Walk, Way},
    kernel::read,
    maps::{EVENTS, ROW_PAGES, ROWS, WANTED, count},
    steps::{self, Step},
};

/// Words of the interrupted registers (x86-64 `struct pt_regs`).
const BP: usize = 4;
/// See [`BP`]. The number of the system call; negative in any other trap.
const ORIG_AX: usize = 15;
/// See [`BP`].
const IP: usize = 16;
/// See [`BP`]. The code segment: its lowest bits are 3 in user mode.
const CS: usize = 17;
/// See [`BP`].
const SP: usize = 19;

/// User code from here on is none of the program's: where the kernel executes what a probe's breakpoint stands for (its mapping is
/// the highest that there can be, on machines with four levels of page tables at this address).
const HIGHEST_PAGE: u64 = 0x7FFF_FFFF_E000;
/// `orig_ax` in a trap without an error code: a breakpoint or its single step. Page faults have one, interrupts have their vector there.
const NO_ERROR_CODE: u64 = u64::MAX;
/// System calls that the kernel's own trampolines make in place of breakpoints: `uretprobe`, `uprobe`.
const PROBE_CALLS: [u64; 2] = [335, 336];

/// Where a sample met a thread.
#[derive(Clone, Copy)]
pub enum Place {
    /// Below this frame of its own code, or in it.
    Program(Registers),
    /// In a probe: that time is the profiler's, and no line's.
    Probe,
    /// It cannot be told.
    Unknown,
}

/// Whether a sample interrupted user mode.
#[inline(always)]
pub fn is_user_mode(ctx: &PerfEventContext) -> bool {
    // SAFETY: a perf event's context begins with the interrupted registers.
    unsafe { *ctx.as_ptr().cast::<u64>().add(CS) & 3 == 3 }
}

/// The innermost frame of the current thread in user mode.
#[inline(always)]
pub fn innermost(ctx: &PerfEventContext, user_mode: bool) -> Place {
    let frame = if user_mode {
        let registers = ctx.as_ptr().cast::<u64>();
        // SAFETY: as in `is_user_mode`.
        unsafe {
            Registers { ip: *registers.add(IP), sp: *registers.add(SP), bp: *registers.add(BP), exact: 1 }
        }
    } else {
        // SAFETY: helpers; the task is the current one, so its registers stay where they are.
        let registers = unsafe { bpf_task_pt_regs(bpf_get_current_task_btf()) } as *const u8;
        let Some(words) = read::<[u64; SP - BP + 1]>(registers, (BP * 8) as u32) else {
            return Place::Unknown;
        };
        let call = words[ORIG_AX - BP];
        if call == NO_ERROR_CODE || call == PROBE_CALLS[0] || call == PROBE_CALLS[1] {
            return Place::Probe;
        }
        // In a system call the instruction pointer is behind it, in any other trap at the instruction.
        Registers { ip: words[IP - BP], sp: words[SP - BP], bp: words[0], exact: call >> 63 }
    };
    if frame.ip >= HIGHEST_PAGE { Place::Probe } else { Place::Program(frame) }
}

/// The stack of the current thread.
struct Own;

impl Stack for Own {
    #[inline(always)]
    fn word(&self, address: u64) -> Option<u64> {
        // SAFETY: the helper checks the address itself; the pointer is never used here.
        unsafe { bpf_probe_read_user(address as *const u64) }.ok()
    }

    #[inline(always)]
    fn pair(&self, address: u64) -> Option<[u64; 2]> {
        // SAFETY: as above.
        unsafe { bpf_probe_read_user(address as *const [u64; 2]) }.ok()
    }
}

/// On to the caller by the row, if there is one; 1 ends the walk.
#[inline(always)]
pub fn go_on(walk: &mut Walk, row: Row) -> i64 {
    match unwind::step(row, &walk.frame, &Own) {
        Err(Stop::Unknown) => go_on_by_frame_pointer(walk),
        caller => go_to(walk, caller),
    }
}

/// On to the caller, where there is no row.
#[inline(always)]
pub fn go_on_by_frame_pointer(walk: &mut Walk) -> i64 {
    walk.by_frame_pointer = walk.by_frame_pointer.wrapping_add(1);
    let caller = unwind::by_frame_pointer(&walk.frame, &Own);
    go_to(walk, caller)
}

#[inline(always)]
fn go_to(walk: &mut Walk, caller: Result<Registers, Stop>) -> i64 {
    match caller {
        Ok(caller) => {
            walk.frame = caller;
            0
        }
        Err(stop) => {
            walk.outcome = if stop == Stop::End { ENDED } else { CUT };
            1
        }
    }
}

/// The row of a place; `None` where its page has none yet.
#[inline(always)]
pub fn row(way: &mut Way, key: &PageKey, offset: u32) -> Option<Row> {
    let slice = ROW_PAGES.get_ptr(key)?;
    // SAFETY: a pointer into the map; the controller never changes a slice that is in use.
    let (first, len) = unsafe { ((*slice).first, (*slice).len) };
    let walk = way.walk();
    walk.first = first;
    walk.row = RowSearch::new(len, offset);
    steps::repeat::<InPage>(way);
    Some(way.walk().row.row())
}

/// The search within the rows of a page.
struct InPage;

impl Step for InPage {
    #[inline(always)]
    fn step(way: &mut Way) -> i64 {
        let walk = way.walk();
        let first = walk.first;
        i64::from(!walk.row.step(|index| ROWS.get(first.wrapping_add(index)).copied()))
    }
}

/// Asks the controller for the rows of a page.
#[inline(always)]
pub fn want_rows(tgid: u32, key: &PageKey) {
    want(tgid, Wanted { module: key.module, what: key.page });
}

/// Asks the controller for the mappings of a process: some code of it is not known.
#[inline(always)]
pub fn want_mappings(tgid: u32) {
    want(tgid, Wanted { module: 0, what: tgid });
}

/// Asks once: until the controller takes the request away.
#[inline(never)]
pub fn want(tgid: u32, wanted: Wanted) {
    if WANTED.get_ptr(&wanted).is_some() {
        return;
    }
    /// `BPF_NOEXIST` (include/uapi/linux/bpf.h).
    const ONLY_NEW: u64 = 1;
    // SAFETY: a helper without arguments.
    let time = unsafe { bpf_ktime_get_ns() };
    if WANTED.insert(&wanted, &time, ONLY_NEW).is_err() {
        count(Stat::WantedLost, 1);
        return;
    }
    let event = Event { kind: EVENT_WANTED, tgid, tid: wanted.module, other: wanted.what, time };
    if EVENTS.output::<Event>(event, 0).is_err() {
        count(Stat::EventsLost, 1);
        // The next sample asks again.
        let _ = WANTED.remove(&wanted);
    }
}
