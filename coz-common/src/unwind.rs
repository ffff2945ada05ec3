//! From a frame to its caller, without frame pointers: the rules that a compiler writes into `.eh_frame`, cut down to
//! what x86-64 code needs, eight bytes each.
//!
//! The controller prepares them, a 4 KiB page of a module at a time, and the kernel follows them. Of the registers only
//! three are kept: instruction, stack and frame pointer. That is enough for what compilers write; what needs more
//! (hand-written assembly, mostly) is [`kind::UNKNOWN`] and is left to the frame pointer.

use core::{hint::black_box, mem::size_of};

use crate::lookup::{PAGE_SIZE, SEARCH_STEPS};

/// Modules from this number on are code that a process makes while it runs: what is known of it can change.
pub const FIRST_JIT: u32 = 1 << 31;
/// How many executable mappings of a process the kernel can know. A power of two: they are searched by halving.
pub const MAX_RANGES: usize = 512;
/// How many frames of a call chain are followed. Deeper ones are cut, as by perf (its default is 127).
pub const MAX_FRAMES: u32 = 128;
/// How many rows the table holds, over all pages of code that were met on the way outwards.
pub const MAX_ROWS: u32 = 1 << 20;
/// How many pages of code can have rows.
pub const MAX_ROW_PAGES: u32 = 1 << 16;
/// How many address spaces there can be: more than processes, since one is replaced before it is removed.
pub const MAX_SPACES: u32 = 8192;
/// How many requests ([`Wanted`]) can be open at once.
pub const MAX_WANTED: u32 = 4096;
/// [`crate::abi::Event::kind`]: the kernel needs the rows of a page (`tid` is the module, `other` the page), or, where
/// `tid` is 0, the mappings of the process `tgid`, or, where it is [`OTHER_USER`], a book for that process.
pub const EVENT_WANTED: u32 = 4;
/// In place of a module: a thread of a process is another user's than the one whose book the process has.
pub const OTHER_USER: u32 = u32::MAX;

/// An executable mapping of a process.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// First address; the largest below 2^63 where unused.
    pub start: u64,
    /// One past the last address; 0 where unused.
    pub end: u64,
    /// Subtract this from an address to get the module-relative one (ELF virtual address).
    pub bias: u64,
    /// The controller's number of the module, from 1 on.
    pub module: u32,
    /// 1: lines of the module can be in scope.
    pub scope: u32,
}

impl Range {
    /// None: no address is in it.
    pub const UNUSED: Self = Self { start: i64::MAX as u64, end: 0, bias: 0, module: 0, scope: 0 };

    /// The address within the module (ELF virtual address) of `ip`; `None` where `ip` is outside.
    #[must_use]
    #[inline(always)]
    pub const fn relative(&self, ip: u64) -> Option<u64> {
        if self.start <= ip && ip < self.end { Some(ip.wrapping_sub(self.bias)) } else { None }
    }
}

/// Where the code of a process is; shared by the children that it forks.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct AddressSpace {
    /// By address; unused ones at the end.
    pub ranges: [Range; MAX_RANGES],
}

impl AddressSpace {
    /// Of these mappings, sorted by address; those that find no place are left out.
    #[must_use]
    pub fn of(sorted: &[Range]) -> Self {
        let mut ranges = [Range::UNUSED; MAX_RANGES];
        for (place, range) in ranges.iter_mut().zip(sorted) {
            *place = *range;
        }
        Self { ranges }
    }

    /// The last range that begins at or before `ip`, else the first one: whether `ip` is in it is to be seen.
    ///
    /// Without a branch, for a verifier that would follow all 512 ways through them. Addresses of user space are below
    /// 2^63, so the sign of a difference tells which one is larger.
    #[must_use]
    #[inline(always)]
    pub fn before(&self, ip: u64) -> &Range {
        let (mut at, mut step) = (0, MAX_RANGES / 2);
        while step > 0 {
            let start = self.ranges[(at + step) & (MAX_RANGES - 1)].start;
            // What the compiler does not know to be 0 or 1 it does not turn into a branch.
            at += black_box(start.wrapping_sub(ip).wrapping_sub(1) >> 63) as usize * step;
            step /= 2;
        }
        &self.ranges[at & (MAX_RANGES - 1)]
    }
}

/// Key of a request of the kernel's.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Wanted {
    /// The module whose page is wanted; 0: the mappings of a process.
    pub module: u32,
    /// The page, or the process's id.
    pub what: u32,
}

/// How a stretch of code finds its caller.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// Where in its page it begins (upper 12 bits), and its [`kind`].
    place: u16,
    /// The caller's `rbp`: a multiple of 8, and a `bp` rule in the lowest bits.
    bp: i16,
    /// Offset of the canonical frame address.
    cfa: i32,
}

/// Kinds of rows: from where the canonical frame address (CFA) is counted. Below it stands the return address.
pub mod kind {
    /// There are no rules, or they cannot be expressed: what is left is the frame pointer.
    pub const UNKNOWN: u16 = 0;
    /// Nobody called this: the chain ends.
    pub const END: u16 = 1;
    /// From `rsp`.
    pub const SP: u16 = 2;
    /// From `rbp`.
    pub const BP: u16 = 3;
    /// From what stands at `rbp` and the offset (functions that align their stack).
    pub const AT_BP: u16 = 4;
    /// An entry of the procedure linkage table: it has pushed a word from so many bytes of its 16 on.
    pub const PLT: u16 = 5;
    /// Where a signal handler returns to: the kernel has left all registers on the stack.
    pub const SIGNAL: u16 = 6;
}

/// Where the caller's frame pointer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallerBp {
    /// Still in the register.
    Kept,
    /// Saved at this offset from the CFA.
    AtCfa(i64),
    /// Saved at this offset from `rbp`.
    AtBp(i64),
    /// Nowhere.
    Lost,
}

const BP_KEPT: i16 = 0;
const BP_AT_CFA: i16 = 1;
const BP_AT_BP: i16 = 2;
const BP_LOST: i16 = 3;
const BP_RULES: i16 = 7;

impl Row {
    /// No rules.
    pub const UNKNOWN: Self = Self { place: kind::UNKNOWN, bp: BP_KEPT, cfa: 0 };

    /// A row of this kind; [`kind::UNKNOWN`] where an offset is beyond what a row can say.
    ///
    /// `start` is an offset in its page.
    #[must_use]
    pub fn new(start: u32, kind: u16, cfa: i64, bp: CallerBp) -> Self {
        let start = (start % PAGE_SIZE as u32) as u16;
        let aligned = |offset: i64, rule| i16::try_from(offset).ok().filter(|o| o % 8 == 0).map(|o| o | rule);
        let bp = match bp {
            CallerBp::Kept => Some(BP_KEPT),
            CallerBp::AtCfa(offset) => aligned(offset, BP_AT_CFA),
            CallerBp::AtBp(offset) => aligned(offset, BP_AT_BP),
            CallerBp::Lost => Some(BP_LOST),
        };
        match (i32::try_from(cfa), bp) {
            (Ok(cfa), Some(bp)) => Self { place: start << 4 | kind, bp, cfa },
            _ => Self { place: start << 4 | kind::UNKNOWN, bp: BP_KEPT, cfa: 0 },
        }
    }

    /// The same at another place.
    #[must_use]
    pub const fn at(self, start: u32) -> Self {
        Self { place: (start as u16) << 4 | self.place & 15, ..self }
    }

    /// Where in its page it begins.
    #[must_use]
    #[inline(always)]
    pub const fn start(self) -> u32 {
        (self.place >> 4) as u32
    }

    /// Offset of the CFA.
    #[must_use]
    pub const fn cfa(self) -> i32 {
        self.cfa
    }

    /// Its [`kind`].
    #[must_use]
    #[inline(always)]
    pub const fn kind(self) -> u16 {
        self.place & 15
    }
}

/// What is known of a frame.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// Instruction pointer.
    pub ip: u64,
    /// Stack pointer.
    pub sp: u64,
    /// Frame pointer, or whatever is in that register.
    pub bp: u64,
    /// 1: `ip` is the instruction that was interrupted; 0: it follows the one that is under way (a call).
    pub exact: u64,
}

impl Registers {
    /// An address within the instruction that is under way.
    #[must_use]
    #[inline(always)]
    pub const fn place(&self) -> u64 {
        self.ip.wrapping_sub(1 - (self.exact & 1))
    }
}

/// The stack of a thread.
pub trait Stack {
    /// The word at an address.
    fn word(&self, address: u64) -> Option<u64>;
    /// The two words from an address on.
    fn pair(&self, address: u64) -> Option<[u64; 2]>;
}

/// Why there is no caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The chain ends here.
    End,
    /// No rule: the frame pointer may tell.
    Unknown,
    /// The stack could not be read.
    Unreadable,
}

/// Offsets in the frame of a signal, from where its handler returns to (`struct ucontext` of x86-64: `rbp`, `rsp`, `rip`).
const SIGNAL_BP: u64 = 120;
const SIGNAL_SP: u64 = 160;

/// The caller's registers, by the row of the code that a frame is in.
#[inline(always)]
pub fn step(row: Row, frame: &Registers, stack: &impl Stack) -> Result<Registers, Stop> {
    let offset = row.cfa as i64 as u64;
    let cfa = match row.kind() {
        kind::SP => frame.sp.wrapping_add(offset),
        kind::BP => frame.bp.wrapping_add(offset),
        kind::AT_BP => stack.word(frame.bp.wrapping_add(offset)).ok_or(Stop::Unreadable)?,
        kind::PLT => {
            let pushed = if frame.ip & 15 >= offset & 15 { 16 } else { 8 };
            frame.sp.wrapping_add(pushed)
        }
        kind::SIGNAL => {
            let bp = stack.word(frame.sp.wrapping_add(SIGNAL_BP)).ok_or(Stop::Unreadable)?;
            let [sp, ip] = stack.pair(frame.sp.wrapping_add(SIGNAL_SP)).ok_or(Stop::Unreadable)?;
            return Ok(Registers { ip, sp, bp, exact: 1 });
        }
        kind::END => return Err(Stop::End),
        _ => return Err(Stop::Unknown),
    };
    let saved = (row.bp & !BP_RULES) as i64 as u64;
    let rule = row.bp & BP_RULES;
    // Where the prologue begins with `push rbp` both words stand side by side.
    if rule == BP_AT_CFA
        && saved == 16u64.wrapping_neg()
        && let Some([bp, ip]) = stack.pair(cfa.wrapping_sub(16))
    {
        return called(ip, cfa, bp);
    }
    let ip = stack.word(cfa.wrapping_sub(8)).ok_or(Stop::Unreadable)?;
    // Without it the chain may still go on: most rows count from `rsp`.
    let bp = match rule {
        BP_AT_CFA => stack.word(cfa.wrapping_add(saved)).unwrap_or(0),
        BP_AT_BP => stack.word(frame.bp.wrapping_add(saved)).unwrap_or(0),
        BP_LOST => 0,
        _ => frame.bp,
    };
    called(ip, cfa, bp)
}

/// A frame beyond this many bytes is none.
const LARGEST_FRAME: u64 = 1 << 20;

/// The caller's registers, if the frame pointer is one: it points into the stack, above `rsp` and not far.
#[inline(always)]
pub fn by_frame_pointer(frame: &Registers, stack: &impl Stack) -> Result<Registers, Stop> {
    let plausible = frame.bp >= frame.sp && frame.bp - frame.sp < LARGEST_FRAME && frame.bp & 7 == 0;
    if !plausible {
        return Err(Stop::Unknown);
    }
    let [bp, ip] = stack.pair(frame.bp).ok_or(Stop::Unreadable)?;
    called(ip, frame.bp.wrapping_add(16), bp)
}

/// A caller, unless the return address is none: where a thread begins, the stack ends with a zero.
#[inline(always)]
const fn called(ip: u64, sp: u64, bp: u64) -> Result<Registers, Stop> {
    if ip == 0 { Err(Stop::End) } else { Ok(Registers { ip, sp, bp, exact: 0 }) }
}

/// A search for the row at an offset of a page, a step at a time (see [`crate::lookup::Search`]).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RowSearch {
    low: u32,
    high: u32,
    offset: u32,
    _pad: u32,
    row: Row,
}

impl RowSearch {
    /// A search for `offset` among `len` rows.
    #[must_use]
    #[inline(always)]
    pub const fn new(len: u32, offset: u32) -> Self {
        let high = if len < PAGE_SIZE as u32 { len } else { PAGE_SIZE as u32 };
        Self { low: 0, high, offset, _pad: 0, row: Row { place: 0, bp: 0, cfa: 0 } }
    }

    /// Looks at one row; `false` when there is nothing more to look at. [`SEARCH_STEPS`] steps are always enough.
    #[inline(always)]
    pub fn step(&mut self, get: impl FnOnce(u32) -> Option<Row>) -> bool {
        if self.low >= self.high {
            return false;
        }
        let middle = self.low + (self.high - self.low) / 2;
        let Some(row) = get(middle) else {
            self.row = Row { place: 0, bp: 0, cfa: 0 };
            return false;
        };
        if row.start() <= self.offset {
            self.row = row;
            self.low = middle + 1;
        } else {
            self.high = middle;
        }
        true
    }

    /// What has been found; [`kind::UNKNOWN`] where there is none.
    #[must_use]
    #[inline(always)]
    pub const fn row(&self) -> Row {
        self.row
    }
}

/// The row at an offset of a page.
#[must_use]
pub fn row_at(rows: &[Row], offset: u32) -> Row {
    let mut search = RowSearch::new(rows.len() as u32, offset);
    for _ in 0..SEARCH_STEPS {
        if !search.step(|index| rows.get(index as usize).copied()) {
            break;
        }
    }
    search.row()
}

const _: () = assert!(size_of::<Row>() == 8 && size_of::<Range>() == 32 && size_of::<Wanted>() == 8);
const _: () = assert!(size_of::<Registers>() == 32 && MAX_RANGES.is_power_of_two());
const _: () = assert!(size_of::<AddressSpace>() == MAX_RANGES * 32);

#[cfg(test)]
mod tests;
