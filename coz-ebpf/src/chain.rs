//! A sample's call chain, from the innermost frame outwards, and the lines in scope that it counts for.
//!
//! The chain is followed only as far as it takes: a sample in the program's own code unwinds nothing.
//!
//! What changes from step to step is in a map. On the stack the verifier would tell apart every value that it can
//! have, and follow each on its own way through the next steps.

use core::intrinsics::{AtomicOrdering, atomic_xadd};

use coz_common::{
    abi::{MAX_LINES, PageKey, Stat},
    lookup::Search,
    memory::{Counted, Known, Memory},
    unwind::{AddressSpace, FIRST_JIT, Registers, Row, RowSearch},
};

use crate::{
    lines::{self, Found},
    maps::{LINE_COUNTS, NESTS, SPACES, WALK, count, is_inclusive},
    steps::{self, Step},
    unwind,
};

/// A call chain on its way outwards, one a CPU.
#[repr(C)]
pub struct Walk {
    /// The frame that is looked at.
    pub frame: Registers,
    /// CPU time that the sample stands for, nanoseconds.
    pub weight: u64,
    /// Process id.
    pub tgid: u32,
    /// Number of its address space.
    space: u32,
    selected: u32,
    /// Whether the selected line was met.
    hit: u32,
    /// How many lines the sample has counted for.
    found: u32,
    /// One of `ENDED`, ....
    pub outcome: u32,
    /// Index of the first entry, or row, of the page that is searched.
    pub first: u32,
    /// Whether it went through code that is in no file, and of which no function is known.
    in_no_file: u32,
    /// How many frames were left by their frame pointers.
    pub by_frame_pointer: u32,
    /// Of lines within each other: which one is next.
    number: u32,
    /// The search for a line within its page.
    pub line: Search,
    /// The search for a row within its page.
    pub row: RowSearch,
    /// The lines that the sample has counted for.
    counted: Counted,
    /// What is known of places that this CPU has met before.
    memory: Memory,
}

/// What the steps are handed over: it must be on the stack, and stays as it is.
#[repr(C)]
pub struct Way {
    walk: *mut Walk,
    space: *const AddressSpace,
}

impl Way {
    /// This CPU's walk.
    #[inline(always)]
    pub fn walk(&mut self) -> &mut Walk {
        // SAFETY: this CPU's own element of a map; nothing interrupts a sample to take another.
        unsafe { &mut *self.walk }
    }
}

/// `Walk::outcome`: under way, or cut at [`MAX_FRAMES`](coz_common::unwind::MAX_FRAMES).
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
    let mut way = Way { walk, space };
    let walk = way.walk();
    walk.frame = sample.frame;
    walk.weight = sample.weight;
    walk.tgid = sample.tgid;
    walk.space = sample.space;
    walk.selected = sample.selected;
    walk.hit = 0;
    walk.found = 0;
    walk.by_frame_pointer = 0;
    walk.in_no_file = 0;
    walk.outcome = UNDER_WAY;
    if is_inclusive() {
        walk.counted.begin();
    }
    let frames = steps::repeat::<Frame>(&mut way);
    let walk = way.walk();
    if frames > 1 {
        count(Stat::Frames, u64::from(frames) - 1);
        count(Stat::FramePointers, u64::from(walk.by_frame_pointer));
    }
    if walk.in_no_file != 0 {
        count(Stat::MadeAtRunTime, 1);
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
    let walk = way.walk();
    let place = walk.frame.place();
    let known = match walk.memory.get(walk.space, place) {
        Some(known) => known,
        None => match look_up(way, place) {
            Some(known) => known,
            None => {
                way.walk().in_no_file = 1;
                unwind::want_mappings(way.walk().tgid);
                return unwind::go_on_by_frame_pointer(way.walk());
            }
        },
    };
    if known.line != 0 {
        note_all(way, known.line);
        if !is_inclusive() {
            way.walk().outcome = FOUND;
        }
    }
    let walk = way.walk();
    if walk.outcome != UNDER_WAY { 1 } else { unwind::go_on(walk, known.row) }
}

/// Looks up what is known of a place, and remembers it if that is all; else the walk's outcome says what is missing. `None` where the
/// place is in no mapping.
#[inline(always)]
fn look_up(way: &mut Way, place: u64) -> Option<Known> {
    // SAFETY: a pointer into a map.
    let space = unsafe { &*way.space };
    let range = space.before(place);
    let address = range.relative(place)?;
    let module = range.module;
    let mut line = 0;
    // What is known of code that is made at run time can change.
    let mut stays = module < FIRST_JIT;
    if range.scope != 0 {
        match lines::of(way, module, address) {
            Found::Line(found) => line = found,
            Found::Later if is_inclusive() => stays = false,
            Found::Later => {
                way.walk().outcome = LATER;
                return Some(Known::default());
            }
        }
    }
    if line == 0 && module >= FIRST_JIT {
        way.walk().in_no_file = 1;
    }
    let mut row = Row::UNKNOWN;
    // Code that is made at run time has no rows: it is left by the frame pointer.
    if module < FIRST_JIT && (line == 0 || is_inclusive()) {
        let key = PageKey { module, page: (address >> 12) as u32 };
        match unwind::row(way, &key, (address & 0xFFF) as u32) {
            Some(found) => row = found,
            None => {
                unwind::want_rows(way.walk().tgid, &key);
                way.walk().outcome = ASKED;
                stays = false;
            }
        }
    }
    let walk = way.walk();
    let known = Known::new(walk.space, place, line, row);
    if stays {
        walk.memory.set(known);
    }
    Some(known)
}

/// Counts a line, or all lines of a nest.
#[inline(always)]
fn note_all(way: &mut Way, number: u32) {
    if !is_inclusive() || number < MAX_LINES {
        note(way.walk(), number);
        return;
    }
    way.walk().number = number;
    steps::repeat::<Outwards>(way);
}

/// One of the lines within each other: counts it, and on to the one around it.
struct Outwards;

impl Step for Outwards {
    #[inline(always)]
    fn step(way: &mut Way) -> i64 {
        let walk = way.walk();
        let number = walk.number;
        // A line's own number is below those of nests: it wraps to one that there is not.
        let nest = NESTS.get(number.wrapping_sub(MAX_LINES));
        let line = nest.map_or(number, |nest| nest.line);
        walk.number = nest.map_or(0, |nest| nest.outer);
        note(walk, line);
        i64::from(nest.is_none())
    }
}

/// A line of the chain is found: counts it, unless the sample has counted for it already (recursion).
#[inline(always)]
fn note(walk: &mut Walk, line: u32) {
    if is_inclusive() && !walk.counted.is_new(line) {
        return;
    }
    walk.found = walk.found.wrapping_add(1);
    walk.hit |= u32::from(line == walk.selected);
    let Some(counts) = LINE_COUNTS.get_ptr_mut(line) else { return };
    // SAFETY: words of a map that every CPU adds to: one instruction each.
    unsafe {
        atomic_xadd::<u64, u64, { AtomicOrdering::Relaxed }>(&raw mut (*counts).samples, 1);
        atomic_xadd::<u64, u64, { AtomicOrdering::Relaxed }>(&raw mut (*counts).weight_ns, walk.weight);
    }
}
