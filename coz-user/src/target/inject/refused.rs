//! Why a process was not entered.

use std::{fmt, io};

/// Why a process was not entered, or could not be. It is unharmed and runs on as it was; its samples and visits can be
/// counted all the same.
#[derive(Debug)]
pub enum Refused {
    /// It is not there (any more).
    Gone,
    /// It is a thread of the kernel.
    KernelThread,
    /// It is no 64-bit x86-64 program.
    NotX86,
    /// Its system calls are filtered, and one that we need is not allowed, or that cannot be told.
    Filtered(Filtered),
    /// Somebody traces it: a debugger, `strace`, another profiler.
    Traced {
        /// Who.
        by: i32,
    },
    /// It is stopped (job control).
    Stopped,
    /// Its control group is frozen.
    Frozen,
    /// It uses the signal that asks to pay.
    SignalInUse {
        /// Its number.
        signal: u32,
    },
    /// It has our code already: from this profiler or another one.
    AlreadyProfiled,
    /// We may not.
    NoPrivileges,
    /// It has no room for what has to be put into it.
    NoRoom {
        /// For what, and how much is left.
        what: String,
    },
    /// No thread of it could be stopped in time.
    Unstoppable,
    /// Its threads are different users'.
    SeveralUsers,
    /// A step failed; what had been done was undone.
    Failed {
        /// Which step.
        what: &'static str,
        /// Why.
        error: io::Error,
    },
}

impl Refused {
    /// A step that was made in the process failed.
    pub(super) fn by((what, error): (&'static str, io::Error)) -> Self {
        match error.raw_os_error() {
            Some(libc::ESRCH) => Self::Gone,
            Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM) => {
                Self::NoRoom { what: format!("what is to be put into it ({what}: {error})") }
            }
            _ => Self::Failed { what, error },
        }
    }
}

/// What is in the way of a process's seccomp filters.
#[derive(Debug)]
pub enum Filtered {
    /// It may read, write and end, and nothing else.
    Strict,
    /// A filter does not allow this call.
    Forbids(&'static str),
    /// They cannot be read.
    Unknown(io::Error),
}

impl fmt::Display for Filtered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("its system calls are filtered (seccomp)")?;
        match self {
            Self::Strict => f.write_str(": it may make none but four"),
            Self::Forbids(call) => write!(f, ", and the filter does not allow {call}, which we need in it"),
            Self::Unknown(error) => write!(
                f,
                ", and the filter cannot be read ({error}): that takes CAP_SYS_ADMIN, and no filter on coz-bpf itself"
            ),
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone => f.write_str("the process is not there any more"),
            Self::KernelThread => f.write_str("it is a thread of the kernel"),
            Self::NotX86 => f.write_str("it is not a 64-bit x86-64 program"),
            Self::Filtered(why) => why.fmt(f),
            Self::Traced { by } => {
                write!(f, "process {by} traces it already; end that one first (`ps -fp {by}`)")
            }
            Self::Stopped => f.write_str("it is stopped; let it go on first (`kill -CONT`)"),
            Self::Frozen => f.write_str(
                "its control group is frozen; let it go on first (`docker unpause`, `systemctl thaw`)",
            ),
            Self::SignalInUse { signal } => {
                write!(f, "it uses signal {signal}, which is the one that asks to pay")
            }
            Self::AlreadyProfiled => {
                f.write_str("coz-bpf's code is in it already; end the other profile first")
            }
            Self::NoPrivileges => f.write_str(
                "we may not trace it: that takes root, or its user and kernel.yama.ptrace_scope=0",
            ),
            Self::NoRoom { what } => write!(f, "it has no room for {what}"),
            Self::Unstoppable => f.write_str("none of its threads could be stopped in time"),
            Self::SeveralUsers => f.write_str("its threads act for different users"),
            Self::Failed { what, error } => write!(f, "cannot {what}: {error}"),
        }
    }
}

impl std::error::Error for Refused {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Failed { error, .. } | Self::Filtered(Filtered::Unknown(error)) => Some(error),
            _ => None,
        }
    }
}
