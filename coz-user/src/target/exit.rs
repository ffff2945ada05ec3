//! How the target ended, and what our own exit code says about it.

use std::fmt;

use nix::sys::signal::Signal;

/// Our own failure: the target was not started, or could not be profiled in a way that had to be.
pub const OUR_FAILURE: u8 = 125;
/// The program exists and cannot be executed.
pub const NOT_EXECUTABLE: u8 = 126;
/// There is no such program.
pub const NOT_FOUND: u8 = 127;
/// The command line makes no sense.
pub const USAGE: u8 = 2;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitStatus {
    /// It left with this code (0 to 255).
    Code(u8),
    /// A signal killed it.
    Signal {
        /// The signal's number, 1 to 64.
        number: u8,
        /// Whether the kernel dumped its memory.
        core: bool,
    },
}

impl ExitStatus {
    /// The code that we leave with: the target's own, or 128 + n on signal n, as a shell reports it.
    #[must_use]
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Code(code) => code,
            Self::Signal { number, .. } => number.saturating_add(128),
        }
    }

    /// Whether it left with code 0.
    #[must_use]
    pub const fn success(self) -> bool {
        matches!(self, Self::Code(0))
    }

    /// From `waitid`: `code` is `si_code`, `status` is `si_status`. `None` where the process has not ended.
    #[must_use]
    pub(crate) fn from_wait(code: i32, status: i32) -> Option<Self> {
        let low_byte = (status & 0xff) as u8;
        match code {
            libc::CLD_EXITED => Some(Self::Code(low_byte)),
            libc::CLD_KILLED => Some(Self::Signal { number: low_byte, core: false }),
            libc::CLD_DUMPED => Some(Self::Signal { number: low_byte, core: true }),
            _ => None,
        }
    }
}

impl fmt::Display for ExitStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal { number, core } => {
                match Signal::try_from(i32::from(number)) {
                    Ok(signal) => write!(f, "killed by {signal} (signal {number})")?,
                    Err(_) => write!(f, "killed by signal {number}")?,
                }
                if core { write!(f, ", memory dumped") } else { Ok(()) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_passed_on_and_a_signal_is_128_more() {
        assert_eq!(ExitStatus::from_wait(libc::CLD_EXITED, 3).map(ExitStatus::exit_code), Some(3));
        assert_eq!(ExitStatus::from_wait(libc::CLD_KILLED, 9).map(ExitStatus::exit_code), Some(137));
        assert_eq!(ExitStatus::from_wait(libc::CLD_DUMPED, 11).map(ExitStatus::exit_code), Some(139));
        // The highest real-time signal is still a number of its own.
        assert_eq!(ExitStatus::Signal { number: 64, core: false }.exit_code(), 192);
    }

    #[test]
    fn a_stop_is_not_an_end() {
        assert_eq!(ExitStatus::from_wait(libc::CLD_STOPPED, libc::SIGTSTP), None);
        assert_eq!(ExitStatus::from_wait(libc::CLD_CONTINUED, libc::SIGCONT), None);
    }

    #[test]
    fn the_text_names_the_signal() {
        assert_eq!(ExitStatus::Code(1).to_string(), "exit code 1");
        let killed = ExitStatus::Signal { number: 9, core: false };
        assert_eq!(killed.to_string(), "killed by SIGKILL (signal 9)");
        let crashed = ExitStatus::Signal { number: 11, core: true };
        assert_eq!(crashed.to_string(), "killed by SIGSEGV (signal 11), memory dumped");
        // Real-time signals have no name.
        let real_time = ExitStatus::Signal { number: 40, core: false };
        assert_eq!(real_time.to_string(), "killed by signal 40");
    }
}
