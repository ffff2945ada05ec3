//! A sample's call chain, from the innermost frame outwards, and the lines in scope that it counts for.
//!
//! The chain is followed only as far as it takes: a sample in the program's own code unwinds nothing.
//!
//! What changes from step to step is in a map. On the stack the verifier would tell apart every value that it can
//! have, and follow each on its own way through the next steps.

use core::intrinsics::{AtomicOrdering, atomic_xadd};

use coz_common::{
    abi::{PageKey, Stat},
    lookup::Search,
    unwind::{AddressSpace, Registers, RowSearch},
};

use crate::{
    lines::{self, Found},
    maps::{LINE_COUNTS, SPACES, WALK, count, is_inclusive},
    steps::{self, Step},
    unwind,
};

/// How many different lines of a chain can count for one sample (`--inclusive`).
const MAX_LINES_OF_CHAIN: usize = 64;

/// A call chain on its way outwards, one a CPU.
#[repr(C)]
pub struct Walk {
    /// The frame that is looked at.
    pub frame: Registers,
    /// CPU time that the sample stands for, nanoseconds.
    pub weight: u64,
    /// Process id.
    pub tgid: u32,
    selected: u32,
    /// Whether the selected line was met.
    hit: u32,
    /// How many of `lines` there are.
    found: u32,
    /// One of `ENDED`, ....
    pub outcome: u32,
    /// Index of the first entry, or row, of the page that is searched.
    pub first: u32,
    /// How many frames were left by their frame pointers.
    pub by_frame_pointer: u32,
    /// How many of `lines` are others than the one that is looked for.
    compared: u32,
    /// The search for a line within its page.
    pub line: Search,
    /// The search for a row within its page.
    pub row: RowSearch,
    /// The lines that the sample has counted for.
    lines: [u32; MAX_LINES_OF_CHAIN],
}

/// What the steps are handed over: it must be on the stack, and stays as it is.
#[repr(C)]
pub struct Way {
    walk: *mut Walk,
    space: *const AddressSpace,
    /// A line that is looked for among those that have counted.
    sought: u32,
    _pad: u32,
}

impl Way {
    /// This CPU's walk.
    #[inline(always)]
    pub fn walk(&mut self) -> &mut Walk {
        // SAFETY: this CPU's own element of a map; nothing interrupts a sample to take another.
        unsafe { &mut *self.walk }
    }
}

/// `Walk::outcome`: under way, or cut at [`MAX_FRAMES`].
pub const UNDER_WAY: u32 = 0;
/// `Walk::outcome`: followed to its end.
pub const ENDED: u32 = 1;
/// `Walk::outcome`: something on the way is unknown or unreadable.
pub const CUT: u32 = 2;
/// `Walk::outcome`: rows are on their way.
pub const ASKED: u32 = 3;
/// `Walk::outcome`: the line is not known yet, its sample is kept.
const LATER: u32 = 4;
/// `Walk::outcome`: the line is found.
const FOUND: u32 = 5;

/// What a sample is to be told of.
pub struct Sample {
    /// The innermost frame.
    pub frame: Registers,
    /// Process id.
    pub tgid: u32,
    /// Number of its address space.
    pub space: u32,
    /// CPU time that it stands for, nanoseconds.
    pub weight: u64,
    /// The selected line.
    pub selected: u32,
}

/// Counts a sample for its line, or for all lines of its chain. Whether the selected one was hit.
#[inline(always)]
pub fn attribute(sample: &Sample) -> bool {
    let Some(space) = SPACES.get_ptr(&sample.space) else {
        unwind::want_mappings(sample.tgid);
        count(Stat::NoStack, 1);
        return false;
    };
    let Some(walk) = WALK.get_ptr_mut(0) else { return false };
    let mut way = Way { walk, space, sought: 0, _pad: 0 };
    let walk = way.walk();
    walk.frame = sample.frame;
    walk.weight = sample.weight;
    walk.tgid = sample.tgid;
    walk.selected = sample.selected;
    walk.hit = 0;
    walk.found = 0;
    walk.by_frame_pointer = 0;
    walk.outcome = UNDER_WAY;
    let frames = steps::repeat::<Frame>(&mut way);
    let walk = way.walk();
    if frames > 1 {
        count(Stat::Frames, u64::from(frames) - 1);
        count(Stat::FramePointers, u64::from(walk.by_frame_pointer));
    }
    if walk.found == 0 || is_inclusive() {
        match walk.outcome {
            ENDED if walk.found == 0 => count(Stat::OutOfScope, 1),
            UNDER_WAY | CUT => count(Stat::ChainCut, 1),
            ASKED => count(Stat::ChainPending, 1),
            _ => {}
        }
    }
    walk.hit != 0
}

/// A step of the walk: one frame.
struct Frame;

impl Step for Frame {
    #[inline(always)]
    fn step(way: &mut Way) -> i64 {
        visit(way)
    }
}

#[inline(always)]
fn visit(way: &mut Way) -> i64 {
    // SAFETY: a pointer into a map.
    let space = unsafe { &*way.space };
    let place = way.walk().frame.place();
    let range = space.before(place);
    let Some(address) = range.relative(place) else {
        unwind::want_mappings(way.walk().tgid);
        return unwind::go_on_by_frame_pointer(way.walk());
    };
    let module = range.module;
    if range.scope != 0 {
        let found = match lines::of(way, module, address) {
            Found::Line(0) => UNDER_WAY,
            Found::Line(line) => {
                note(way, line);
                FOUND
            }
            Found::Later => LATER,
        };
        if found != UNDER_WAY && !is_inclusive() {
            way.walk().outcome = found;
            return 1;
        }
    }
    let key = PageKey { module, page: (address >> 12) as u32 };
    match unwind::row(way, &key, (address & 0xFFF) as u32) {
        Some(row) => unwind::go_on(way.walk(), row),
        None => {
            unwind::want_rows(way.walk().tgid, &key);
            way.walk().outcome = ASKED;
            1
        }
    }
}

/// A line of the chain is found: counts it.
#[inline(always)]
fn note(way: &mut Way, line: u32) {
    if is_inclusive() && !is_new(way, line) {
        return;
    }
    let walk = way.walk();
    walk.found = walk.found.wrapping_add(1);
    walk.hit |= u32::from(line == walk.selected);
    let Some(counts) = LINE_COUNTS.get_ptr_mut(line) else { return };
    // SAFETY: words of a map that every CPU adds to: one instruction each.
    unsafe {
        atomic_xadd::<u64, u64, { AtomicOrdering::Relaxed }>(&raw mut (*counts).samples, 1);
        atomic_xadd::<u64, u64, { AtomicOrdering::Relaxed }>(&raw mut (*counts).weight_ns, walk.weight);
    }
}

/// Whether a line has not counted for this sample: recursion must not count it twice. Of more lines than are
/// remembered the outer ones do not count.
#[inline(always)]
fn is_new(way: &mut Way, line: u32) -> bool {
    let mut search = Way { walk: way.walk, space: way.space, sought: line, _pad: 0 };
    way.walk().compared = 0;
    steps::repeat::<Compare>(&mut search);
    let walk = way.walk();
    let place = walk.found as usize;
    if walk.compared != walk.found || place >= MAX_LINES_OF_CHAIN {
        return false;
    }
    walk.lines[place] = line;
    true
}

/// One of them.
struct Compare;

impl Step for Compare {
    #[inline(always)]
    fn step(way: &mut Way) -> i64 {
        let sought = way.sought;
        let walk = way.walk();
        let index = walk.compared as usize;
        if walk.compared >= walk.found || index >= MAX_LINES_OF_CHAIN || walk.lines[index] == sought {
            return 1;
        }
        walk.compared = walk.compared.wrapping_add(1);
        0
    }
}
