//! The table of lines, and what is counted by it.

/// One entry of the line table: where the stretch of code begins, and its line.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineEntry {
    /// First address, relative to the start of its page of code (0 to 4095).
    pub start: u32,
    /// `LineId`; 0 where no line in scope is. From [`MAX_LINES`](super::MAX_LINES) on: the number of a [`Nest`].
    pub line: u32,
}

/// A line within another one: the code is of the function that was inlined where the outer one says (`--inclusive`). The first
/// has the number [`MAX_LINES`](super::MAX_LINES).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Nest {
    /// `LineId`.
    pub line: u32,
    /// `LineId`, or the number of another nest.
    pub outer: u32,
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
