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
//! | [`TargetSlot`] | a book of `PAYMENTS` for each user | reads | reads | writes that of its own user |
//! | [`CounterSlot`] | `COUNTERS` | reads | reads | writes, if it was started by us |
//!
//! Seal and freeze forbid every other mapping to write, whoever has the descriptor. The target can therefore spoil nothing but what the processes of its own
//! user say that they have paid.

mod control;
mod kernel;
mod lines;
mod slot;
mod stat;
mod target;

pub use control::*;
use core::mem::{align_of, offset_of, size_of};
pub use kernel::*;
pub use lines::*;
pub use slot::*;
pub use stat::*;
pub use target::*;

/// Version of everything in this module. The shim refuses to work for a controller with another one.
pub const ABI_VERSION: u32 = 5;
/// How many threads can be alive at once in the profiled set. A power of two: slots are found by hashing.
pub const MAX_SLOTS: u32 = 16384;
/// How many places a thread's slot can be in: `home`, `home + 1`, ... (see [`slot_home`]).
pub const SLOT_PROBES: u32 = 16;
/// How many books there can be: tables of payments, one for each user whose processes are delayed, and the first, which is nobody's.
pub const MAX_BOOKS: u32 = 64;
/// The book of who has none: nobody can write it, and nothing is paid in it.
pub const NO_BOOK: u8 = 0;
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
/// How many lines within others can be told apart. Beyond that only the innermost line is kept.
pub const MAX_NESTS: u32 = 1 << 18;
/// How many pages of code can be in the line table.
pub const MAX_PAGES: u32 = 1 << 16;

const _: () = assert!(size_of::<Control>() == 4096 && align_of::<Control>() == 8);
const _: () = assert!(offset_of!(Control, threshold_ns) == 24);
const _: () = assert!(offset_of!(Control, groups) == 96 && offset_of!(Control, _reserved) == 608);
const _: () = assert!(size_of::<Global>() == 4096);
const _: () = assert!(size_of::<KernelSlot>() == 832);
const _: () = assert!(size_of::<TargetSlot>() == 64);
const _: () = assert!(size_of::<CounterSlot>() == 128 && offset_of!(CounterSlot, count) == 8);
const _: () = assert!(size_of::<Nest>() == 8 && MAX_LINES.is_power_of_two());
const _: () = assert!(size_of::<LineEntry>() == 8 && size_of::<PageKey>() == 8);
const _: () = assert!(size_of::<PageSlice>() == 8 && size_of::<PendingKey>() == 16);
const _: () = assert!(size_of::<LineCount>() == 16 && size_of::<Process>() == 24);
const _: () = assert!(size_of::<Offsets>() == 100);
const _: () = assert!(size_of::<Event>() == 24 && size_of::<Hello>() == 16 && size_of::<Welcome>() == 16);
const _: () = assert!(MAX_BOOKS <= u8::MAX as u32 + 1);
const _: () = assert!(MAX_SLOTS.is_power_of_two() && SLOT_PROBES < MAX_SLOTS);
