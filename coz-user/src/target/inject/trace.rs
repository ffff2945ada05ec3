//! `ptrace`, as far as it is needed. Every call must come from the thread that has seized the tracee.

use std::{
    io,
    mem::{MaybeUninit, size_of},
    thread,
    time::{Duration, Instant},
};

pub use libc::user_regs_struct as Registers;

/// What libc takes the number of a request as.
#[cfg(target_env = "gnu")]
type Request = libc::c_uint;
#[cfg(not(target_env = "gnu"))]
type Request = libc::c_int;

/// Not in libc: `include/uapi/linux/ptrace.h`.
const GET_SIGMASK: Request = 0x420a;
const SET_SIGMASK: Request = 0x420b;
const GET_RSEQ: Request = 0x420f;
/// How long a stop is waited for without sleeping.
const SPIN: Duration = Duration::from_micros(300);

/// What a tracee was met at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// On its way back to its own code: asked to stop, or stopped with its whole process.
    Event,
    /// At a system call's beginning or end.
    Call,
    /// About to receive a signal.
    Signal(i32),
    /// It is gone.
    Gone,
}

/// `struct ptrace_rseq_configuration`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct RseqConfiguration {
    /// Address of the thread's `struct rseq`; 0: none.
    pub area: u64,
    /// Its size.
    pub size: u32,
    /// Of abort handlers.
    pub signature: u32,
    /// None so far.
    pub flags: u32,
    /// Explicit padding.
    pub pad: u32,
}

fn request(number: Request, tid: i32, address: usize, data: usize) -> io::Result<()> {
    // SAFETY: callers pass what the request takes: a number, or memory that lives through the call.
    let result = unsafe { libc::ptrace(number, tid, address, data) };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Which thread traces a process's first one, if any does.
pub fn tracer(pid: i32) -> Option<i32> {
    let status = crate::target::process::status(pid).ok().flatten()?;
    (status.tracer != 0).then_some(status.tracer)
}

/// Takes a thread over, without stopping it.
pub fn seize(tid: i32) -> io::Result<()> {
    request(libc::PTRACE_SEIZE, tid, 0, libc::PTRACE_O_TRACESYSGOOD as usize)
}

/// Asks it to stop on its next way back to its own code, without a signal.
pub fn interrupt(tid: i32) -> io::Result<()> {
    request(libc::PTRACE_INTERRUPT, tid, 0, 0)
}

/// Lets it run on.
pub fn go_on(tid: i32, signal: i32) -> io::Result<()> {
    request(libc::PTRACE_CONT, tid, 0, signal as usize)
}

/// Lets it run to the next beginning or end of a system call.
pub fn go_to_call(tid: i32) -> io::Result<()> {
    request(libc::PTRACE_SYSCALL, tid, 0, 0)
}

/// Lets it go.
pub fn detach(tid: i32) -> io::Result<()> {
    request(libc::PTRACE_DETACH, tid, 0, 0)
}

/// Its registers.
pub fn registers(tid: i32) -> io::Result<Registers> {
    let mut found = MaybeUninit::<Registers>::zeroed();
    request(libc::PTRACE_GETREGS, tid, 0, found.as_mut_ptr() as usize)?;
    // SAFETY: the kernel has filled it.
    Ok(unsafe { found.assume_init() })
}

/// Sets them.
pub fn set_registers(tid: i32, registers: &Registers) -> io::Result<()> {
    request(libc::PTRACE_SETREGS, tid, 0, std::ptr::from_ref(registers) as usize)
}

/// Its own mask of signals: not the one that a call such as `sigsuspend` has put in its place.
pub fn mask(tid: i32) -> io::Result<u64> {
    let mut mask = 0u64;
    request(GET_SIGMASK, tid, size_of::<u64>(), &raw mut mask as usize)?;
    Ok(mask)
}

/// Sets it.
pub fn set_mask(tid: i32, mask: u64) -> io::Result<()> {
    request(SET_SIGMASK, tid, size_of::<u64>(), &raw const mask as usize)
}

/// Where its restartable sequences are; `None` on kernels that do not say (before 5.13).
pub fn rseq(tid: i32) -> Option<RseqConfiguration> {
    let mut found = RseqConfiguration::default();
    request(GET_RSEQ, tid, size_of::<RseqConfiguration>(), &raw mut found as usize).ok()?;
    (found.area != 0).then_some(found)
}

/// Waits until it stops; `None` where that takes too long.
///
/// Only stops are taken note of: of a child that has ended, whoever started it wants to hear himself.
pub fn wait(tid: i32, patience: Duration) -> io::Result<Option<Stop>> {
    let began = Instant::now();
    loop {
        // SAFETY: plain integers, all zero.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        let options = libc::WSTOPPED | libc::__WALL | libc::WNOHANG;
        // SAFETY: `info` is the kernel's to fill.
        let result = unsafe { libc::waitid(libc::P_PID, tid.cast_unsigned(), &raw mut info, options) };
        if result == -1 {
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                Some(libc::ECHILD) => return Ok(Some(Stop::Gone)),
                Some(libc::EINTR) => continue,
                _ => return Err(error),
            }
        }
        // SAFETY: the kernel has filled it, or left the zeros: nothing has happened.
        let (pid, status) = unsafe { (info.si_pid(), info.si_status()) };
        if pid == tid {
            return Ok(Some(meaning(status)));
        }
        let waited = began.elapsed();
        if waited > patience {
            return Ok(None);
        }
        if waited < SPIN {
            thread::yield_now();
        } else if is_over(tid) {
            return Ok(Some(Stop::Gone));
        } else {
            thread::sleep(Duration::from_micros(50));
        }
    }
}

/// Whether a thread has ended.
fn is_over(tid: i32) -> bool {
    crate::target::process::status(tid).ok().flatten().is_none_or(|status| status.is_over())
}

/// What the kernel calls a stop.
const fn meaning(status: i32) -> Stop {
    let (signal, event) = (status & 0xff, status >> 8);
    if event == libc::PTRACE_EVENT_STOP {
        Stop::Event
    } else if signal == libc::SIGTRAP | 0x80 {
        Stop::Call
    } else {
        Stop::Signal(signal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stops_are_told_apart() {
        let stopped = |signal: i32, event: i32| signal | (event << 8);
        assert_eq!(meaning(stopped(libc::SIGTRAP, libc::PTRACE_EVENT_STOP)), Stop::Event);
        assert_eq!(meaning(stopped(libc::SIGSTOP, libc::PTRACE_EVENT_STOP)), Stop::Event, "with its process");
        assert_eq!(meaning(stopped(libc::SIGTRAP | 0x80, 0)), Stop::Call);
        assert_eq!(meaning(stopped(libc::SIGTRAP, 0)), Stop::Signal(libc::SIGTRAP));
    }

    #[test]
    fn whoever_started_it_hears_of_its_end() {
        let mut child = std::process::Command::new("sleep").arg("9").spawn().unwrap();
        let pid = child.id().cast_signed();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                seize(pid).unwrap();
                child.kill().unwrap();
                assert_eq!(wait(pid, Duration::from_secs(9)).unwrap(), Some(Stop::Gone));
            });
        });
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&child.wait().unwrap()), Some(9));
    }
}
