//! A target that has begun: its end, its stops, signals to it.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    time::Duration,
};

use nix::{
    sys::signal::{Signal, raise},
    unistd::{getpgrp, getpid},
};
use tokio::{
    io::{Interest, unix::AsyncFd},
    signal::unix::{Signal as SignalStream, SignalKind, signal},
};

use crate::target::{exit::ExitStatus, inject::unless_held, process};

/// While a thread of it is held (`inject`), which takes a millisecond, it is asked again after this time.
const HELD: Duration = Duration::from_millis(1);

/// What happened to the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// This signal stopped it (Ctrl-Z, `kill -STOP`).
    Stopped(i32),
    /// It goes on after a stop.
    Continued,
    /// It is over.
    Ended(ExitStatus),
}

/// The running target. Dropping it leaves it running.
#[derive(Debug)]
pub struct Running {
    pid: i32,
    pidfd: OwnedFd,
    ended: Option<ExitStatus>,
    watch: Option<Watch>,
}

#[derive(Debug)]
struct Watch {
    /// Readable when the process has ended.
    end: AsyncFd<OwnedFd>,
    /// Also tells of stops, which the descriptor does not.
    child_signals: SignalStream,
}

impl Running {
    pub(super) fn new(pid: i32, pidfd: OwnedFd) -> Self {
        Self { pid, pidfd, ended: None, watch: None }
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// A descriptor that means this process and never another one with the same id.
    #[must_use]
    pub fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// Waits until it stops, goes on or ends. After its end, always gives the end. Can be dropped while it waits:
    /// nothing is lost. Needs a Tokio runtime with I/O and signals.
    ///
    /// # Errors
    /// The system refuses to watch or to wait.
    pub async fn changed(&mut self) -> io::Result<Change> {
        if self.watch.is_none() {
            let descriptor = self.pidfd.try_clone()?;
            // SAFETY: the descriptor is owned by the `AsyncFd`, stays open and the same as long as that lives.
            let end = unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) }?;
            self.watch = Some(Watch { end, child_signals: signal(SignalKind::child())? });
        }
        loop {
            let options = libc::WNOHANG | libc::WEXITED | libc::WSTOPPED | libc::WCONTINUED;
            let Some(seen) = unless_held(self.pid, || self.look(options)) else {
                tokio::time::sleep(HELD).await;
                continue;
            };
            if let Some(change) = seen? {
                return Ok(change);
            }
            let Some(watch) = &mut self.watch else { continue };
            tokio::select! {
                ready = watch.end.readable() => ready?.clear_ready(),
                _ = watch.child_signals.recv() => {}
            }
        }
    }

    /// Waits for its end, whatever stops come before.
    ///
    /// # Errors
    /// As [`Running::changed`].
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        loop {
            if let Change::Ended(status) = self.changed().await? {
                return Ok(status);
            }
        }
    }

    /// Waits for its end and blocks the calling thread meanwhile.
    ///
    /// # Errors
    /// The system refuses to wait.
    pub fn wait_blocking(&mut self) -> io::Result<ExitStatus> {
        loop {
            if let Some(Change::Ended(status)) = self.look(libc::WEXITED)? {
                return Ok(status);
            }
        }
    }

    /// Whether it has ended, without waiting.
    ///
    /// # Errors
    /// The system refuses to look.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        let seen = unless_held(self.pid, || self.look(libc::WEXITED | libc::WNOHANG));
        match seen.unwrap_or(Ok(None))? {
            Some(Change::Ended(status)) => Ok(Some(status)),
            _ => Ok(None),
        }
    }

    /// Sends it a signal.
    ///
    /// # Errors
    /// It has ended (ESRCH), or has become somebody whom we may not signal (EPERM).
    pub fn send(&self, number: i32) -> io::Result<()> {
        let info = std::ptr::null::<libc::siginfo_t>();
        // SAFETY: no information goes along, the descriptor is ours.
        let sent =
            unsafe { libc::syscall(libc::SYS_pidfd_send_signal, self.pidfd.as_raw_fd(), number, info, 0) };
        if sent == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Kills it. That it has ended already is no failure.
    pub(super) fn kill(&self) {
        let _ = self.send(libc::SIGKILL);
    }

    /// Stops ourselves where the target alone was stopped, so that the shell gets its prompt back as it would in a
    /// plain run; returns when we go on. Does nothing where no shell watches us as a job of its own in the foreground: nobody
    /// would make us go on. Call it after [`Change::Stopped`].
    ///
    /// # Errors
    /// We cannot signal ourselves.
    pub async fn mirror_stop(&self) -> io::Result<()> {
        let job = getpgrp();
        let foreground = std::fs::File::open("/dev/tty").is_ok_and(|tty| {
            // SAFETY: asks about an open descriptor.
            unsafe { libc::tcgetpgrp(tty.as_raw_fd()) == job.as_raw() }
        });
        if job != getpid() || !foreground {
            return Ok(());
        }
        // Ctrl-Z stops us as well: having gone on together, we must not stop again for the old news.
        tokio::time::sleep(Duration::from_millis(50)).await;
        let stopped = process::status(self.pid).ok().flatten().is_some_and(|s| s.state == 'T');
        if stopped {
            raise(Signal::SIGSTOP)?;
        }
        Ok(())
    }

    fn look(&mut self, options: i32) -> io::Result<Option<Change>> {
        if let Some(status) = self.ended {
            return Ok(Some(Change::Ended(status)));
        }
        let Some((code, status)) = wait_id(self.pidfd.as_fd(), options)? else { return Ok(None) };
        Ok(match code {
            // Of a thread that was about to be held.
            libc::CLD_TRAPPED => None,
            libc::CLD_STOPPED => Some(Change::Stopped(status)),
            libc::CLD_CONTINUED => Some(Change::Continued),
            _ => {
                self.ended = ExitStatus::from_wait(code, status);
                self.ended.map(Change::Ended)
            }
        })
    }
}

/// `waitid` on a process descriptor: `si_code` and `si_status`, or `None` where nothing happened.
fn wait_id(pidfd: BorrowedFd<'_>, options: i32) -> io::Result<Option<(i32, i32)>> {
    let id = libc::id_t::try_from(pidfd.as_raw_fd()).map_err(io::Error::other)?;
    loop {
        // SAFETY: a `siginfo_t` of zeros is a valid one: plain numbers.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        // SAFETY: `info` is the kernel's to fill.
        if unsafe { libc::waitid(libc::P_PIDFD, id, &raw mut info, options) } == 0 {
            // SAFETY: `waitid` has filled it, or left the zeros: nothing happened.
            let (pid, status) = unsafe { (info.si_pid(), info.si_status()) };
            return Ok((pid != 0).then_some((info.si_code, status)));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}
