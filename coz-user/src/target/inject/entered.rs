//! A process that was entered, and how it is left.

use std::{fmt, io};

use coz_common::units::Nanos;

use super::{
    gate::Gate,
    leave,
    program::Program,
    refused::{Filtered, Refused},
    seat::Seat,
};

/// A process that has our code. Nothing happens when this is dropped: the process keeps an inert mapping and a handler that
/// nobody calls. [`Entered::leave`] undoes it all.
#[derive(Clone, Debug)]
pub struct Entered {
    pub(super) pid: i32,
    pub(super) program: Program,
    pub(super) gate: Gate,
    pub(super) seat: Seat,
    pub(super) book: u32,
    pub(super) signal: u32,
    pub(super) seccomp_filters: u32,
    pub(super) stopped_for: Nanos,
    pub(super) notices: Vec<String>,
}

/// How a process was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// Everything is as it was before.
    Undone {
        /// How long a thread was stopped for it.
        stopped_for: Nanos,
    },
    /// It has ended, or has executed another program: nothing of ours is left in it.
    Gone,
}

/// Why a process could not be left. What is still in it is inert once nobody sends the signal; `leave` can be called again.
#[derive(Debug)]
pub enum LeaveError {
    /// Somebody traces it now.
    Traced {
        /// Who.
        by: i32,
    },
    /// None of its threads could be stopped in time.
    Unstoppable,
    /// Its control group is frozen.
    Frozen,
    /// Threads are still in the handler: somebody still makes them pay.
    StillInside,
    /// A filter that has been installed since does not allow it.
    Filtered(Filtered),
    /// A step failed.
    Failed {
        /// Which.
        what: &'static str,
        /// Why.
        error: io::Error,
    },
}

impl fmt::Display for LeaveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Traced { by } => write!(f, "process {by} traces it"),
            Self::Unstoppable => f.write_str("none of its threads could be stopped in time"),
            Self::Filtered(why) => why.fmt(f),
            Self::Frozen => f.write_str("its control group is frozen"),
            Self::StillInside => f.write_str("threads are still in the handler"),
            Self::Failed { what, error } => write!(f, "cannot {what}: {error}"),
        }
    }
}

impl std::error::Error for LeaveError {}

impl From<Refused> for LeaveError {
    fn from(why: Refused) -> Self {
        match why {
            Refused::Traced { by } => Self::Traced { by },
            Refused::Filtered(why) => Self::Filtered(why),
            Refused::Frozen => Self::Frozen,
            Refused::Failed { what: leave::STILL_INSIDE, .. } => Self::StillInside,
            Refused::Failed { what, error } => Self::Failed { what, error },
            Refused::NoPrivileges => {
                Self::Failed { what: "trace it", error: io::ErrorKind::PermissionDenied.into() }
            }
            _ => Self::Unstoppable,
        }
    }
}

impl Entered {
    /// The process, as we see it.
    #[must_use]
    pub const fn pid(&self) -> i32 {
        self.pid
    }

    /// Address of the handler: `Process::handler`. With [`Self::pid`] all that a registration says (`Registered`).
    #[must_use]
    pub const fn handler(&self) -> u64 {
        self.seat.handler()
    }

    /// `Process::book`: which it was given.
    #[must_use]
    pub const fn book(&self) -> u32 {
        self.book
    }

    /// `Process::seccomp_filters`.
    #[must_use]
    pub const fn seccomp_filters(&self) -> u32 {
        self.seccomp_filters
    }

    /// How long the thread was stopped.
    #[must_use]
    pub const fn stopped_for(&self) -> Nanos {
        self.stopped_for
    }

    /// What the user is to know: a call that may have been broken off, threads that block the signal and so never pay.
    #[must_use]
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// The same of a process that was forked by this one since (it has mappings and handler by inheritance and must be left
    /// too). `None` where it has ended, has executed another program, or has nothing of ours.
    #[must_use]
    pub fn inherited_by(&self, pid: i32) -> Option<Self> {
        let program = Program::of(pid).ok()?;
        let child = Self { pid, program, stopped_for: Nanos(0), notices: Vec::new(), ..self.clone() };
        // The vDSO is where the parent's is, unless it has executed something.
        let same = child.program.vdso == self.program.vdso && child.program.file == self.program.file;
        (same && leave::is_there(&child)).then_some(child)
    }

    /// The same, where it has been given another book since ([`super::rebook()`]).
    #[must_use]
    pub fn with_book(self, book: u32) -> Self {
        Self { book, ..self }
    }

    /// Undoes everything. The caller has seen to it that nobody sends the signal any more (`Process::handler` is 0, the
    /// process is out of the set) and that no experiment runs. Blocks up to a second or so.
    ///
    /// # Errors
    /// [`LeaveError`]; it can be tried again.
    pub fn leave(&self) -> Result<Left, LeaveError> {
        leave::leave(self)
    }
}
