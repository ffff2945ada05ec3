//! What a probe stands for: the cookie that comes with it says so.

use core::mem::size_of;

use crate::abi::VISIT_PLACES;

/// A visit of a throughput point.
pub const ROLE_VISIT: u32 = 0;
/// The begin of a latency point's interval.
pub const ROLE_BEGIN: u32 = 1;
/// Its end.
pub const ROLE_END: u32 = 2;

/// Numbers of system calls on x86-64 are below this (`__NR_syscalls` is far below).
pub const MAX_SYSCALLS: u32 = 1024;
/// How many points one system call can be.
pub const SYSCALL_POINTS: usize = 4;
/// How many latency points of coz.h can be watched.
pub const MAX_LEVELS: u32 = 32;

/// What a probe stands for. Never 0, so that a table with zeros in it says "nothing".
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code(pub u32);

impl Code {
    const PRESENT: u32 = 1 << 31;
    const FRAMED: u32 = 1 << 20;
    const RETURNED: u32 = 1 << 21;
    const INDEX: u32 = 0xFFFF;

    /// A visit of the throughput point of this number.
    #[must_use]
    pub const fn visit(index: u16) -> Self {
        Self(Self::PRESENT | index as u32)
    }

    /// The begin of an interval of the latency point of this number. `framed`: at a function's entry, so that the
    /// stack pointer tells which return belongs to it.
    #[must_use]
    pub const fn begin(index: u16, framed: bool) -> Self {
        Self(Self::PRESENT | ROLE_BEGIN << 16 | index as u32 | if framed { Self::FRAMED } else { 0 })
    }

    /// Its end. `framed` as in [`Code::begin`].
    #[must_use]
    pub const fn end(index: u16, framed: bool) -> Self {
        Self(Self::PRESENT | ROLE_END << 16 | index as u32 | if framed { Self::FRAMED } else { 0 })
    }

    /// The same, at a place where the function's return address is off the stack already.
    #[must_use]
    pub const fn after_return(self) -> Self {
        Self(self.0 | Self::RETURNED)
    }

    /// Whether it stands for anything.
    #[must_use]
    #[inline(always)]
    pub const fn is_some(self) -> bool {
        self.0 & Self::PRESENT != 0
    }

    /// Number of the point, among those of its kind.
    #[must_use]
    #[inline(always)]
    pub const fn index(self) -> u32 {
        self.0 & Self::INDEX
    }

    /// Which of the [`VISIT_PLACES`] a visit is counted in: the first throughput points are told apart, because who passes them
    /// may have absorbed more or less than who passes another.
    #[must_use]
    #[inline(always)]
    pub const fn place(self) -> usize {
        let (index, last) = (self.index() as usize, VISIT_PLACES - 1);
        if self.role() == ROLE_VISIT && index < last { index } else { last }
    }

    /// `ROLE_*`.
    #[must_use]
    #[inline(always)]
    pub const fn role(self) -> u32 {
        self.0 >> 16 & 3
    }

    /// What the stack pointer was at the function's entry; 0 where intervals are not told apart by it.
    #[must_use]
    #[inline(always)]
    pub const fn frame(self, stack_pointer: u64) -> u64 {
        match (self.0 & Self::FRAMED != 0, self.0 & Self::RETURNED != 0) {
            (false, _) => 0,
            (true, false) => stack_pointer,
            (true, true) => stack_pointer.wrapping_sub(8),
        }
    }
}

/// A latency point of coz.h: which two of the counters it is. Written by the controller.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Level {
    /// Index of the begin's counter.
    pub begin: u32,
    /// Index of the end's counter.
    pub end: u32,
    /// 1: in use. Written last.
    pub used: u32,
    /// Explicit padding.
    pub _pad: u32,
}

/// What one CPU's ticks have seen of a [`Level`] within experiments.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelSum {
    /// How many had begun and not ended, times virtual time, nanoseconds.
    pub area: u64,
    /// Virtual time, nanoseconds.
    pub time: u64,
}

/// When a CPU last ticked, in virtual time.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LastTick {
    /// Since the experiment's begin, nanoseconds.
    pub at: u64,
    /// The experiment.
    pub epoch: u32,
    /// Explicit padding.
    pub _pad: u32,
}

const _: () = assert!(size_of::<Level>() == 16 && size_of::<LevelSum>() == 16 && size_of::<LastTick>() == 16);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_says_what_was_put_in() {
        let visit = Code::visit(7);
        assert!(visit.is_some() && !Code(0).is_some());
        assert_eq!((visit.role(), visit.index(), visit.frame(64)), (ROLE_VISIT, 7, 0));
        let begin = Code::begin(u16::MAX, true);
        assert_eq!((begin.role(), begin.index(), begin.frame(64)), (ROLE_BEGIN, 0xFFFF, 64));
        let end = Code::end(3, true);
        assert_eq!((end.role(), end.index(), end.frame(64)), (ROLE_END, 3, 64));
        assert_eq!(end.after_return().frame(72), 64, "the return address is off the stack");
        assert_eq!(Code::end(3, false).frame(64), 0);
    }
}
