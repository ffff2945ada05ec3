//! What is profiled, and how a profile ends: a program that was started for it, or programs that run already.

use std::{fmt, io};

use super::members::Members;
use crate::target::{
    exit::ExitStatus,
    launch::{Change, Running, Suspended},
};

/// How the profiled set will begin.
#[derive(Debug)]
pub enum Beginning {
    /// This program is released.
    Launch(Suspended),
    /// Those that run already join.
    Attach(Members),
}

/// What is profiled.
#[derive(Debug)]
pub enum Subject {
    /// A program of ours: it has an exit code, and our signals go to it.
    Launched(Running),
    /// Programs of others.
    Attached(Members),
}

/// How a profile has ended.
#[derive(Debug, PartialEq, Eq)]
pub enum End {
    /// The program that was started.
    Program(ExitStatus),
    /// Nobody of the set is left.
    Empty,
    /// `--duration` is over, or enough is known.
    Over,
    /// Somebody wants us to end.
    Interrupted,
    /// The programs are worse off than they were before.
    Harm(String),
}

impl Subject {
    /// Waits until something happens to the program that was started. With programs of others nothing ever does.
    ///
    /// # Errors
    /// The system refuses to watch or to wait.
    pub async fn changed(&mut self) -> io::Result<Change> {
        match self {
            Self::Launched(running) => running.changed().await,
            Self::Attached(_) => std::future::pending().await,
        }
    }

    /// Whether this process is the program that was started.
    #[must_use]
    pub fn is_first(&self, pid: u32) -> bool {
        matches!(self, Self::Launched(running) if running.pid().cast_unsigned() == pid)
    }

    /// Whether these are programs of others.
    #[must_use]
    pub fn is_attached(&self) -> bool {
        matches!(self, Self::Attached(_))
    }
}

impl End {
    /// What we leave with: the program's own code; else 0, for a profile was made.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Program(status) => status.exit_code(),
            _ => 0,
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program(status) => write!(f, "the program ended: {status}"),
            Self::Empty => f.write_str("the profiled processes have ended"),
            Self::Over => f.write_str("the time is over; detached"),
            Self::Interrupted => f.write_str("interrupted; detached"),
            Self::Harm(what) => write!(f, "experiments stopped and detached, to do no harm: {what}"),
        }
    }
}
