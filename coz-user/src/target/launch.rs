//! Starting the target suspended: everything can be attached before its first instruction runs.
//!
//! The child is forked and waits on a pipe. [`Suspended::release`] lets it become the target's user and
//! execute the program. What the program sees (descriptors, signal dispositions and mask, process group, terminal,
//! limits, working folder, niceness) is what it would have seen had our caller started it.

mod child;
mod inherited;
mod running;

use std::{
    ffi::{CString, OsString},
    fmt,
    fs::File,
    io::{self, Read},
    os::{
        fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
        unix::ffi::OsStringExt,
    },
    path::PathBuf,
    sync::{Mutex, PoisonError},
};

use nix::{
    fcntl::OFlag,
    sys::{
        signal::{SigHandler, Signal, signal},
        socket::{AddressFamily, MsgFlags, SockFlag, SockType, send, socketpair},
    },
    unistd::pipe2,
};

use self::child::{Plan, Stage, StringArray};
pub use self::{
    inherited::Inherited,
    running::{Change, Running},
};
use super::{
    exit::{NOT_EXECUTABLE, NOT_FOUND, OUR_FAILURE},
    identity::{Identity, Variables},
};

/// What to start, and how.
#[derive(Debug)]
pub struct LaunchSpec<'a> {
    /// The file to execute: see [`super::binary::Program::command`].
    pub file: PathBuf,
    /// Its arguments; the first is the program as the user typed it.
    pub argv: Vec<OsString>,
    /// Its whole environment: see [`Identity::environment`].
    pub environment: Variables,
    /// As whom it runs.
    pub identity: &'a Identity,
    /// A descriptor of ours that it keeps open across the start.
    pub inherit: Option<Inherit<'a>>,
}

/// A descriptor to hand over.
#[derive(Debug)]
pub struct Inherit<'a> {
    /// Ours.
    pub descriptor: BorrowedFd<'a>,
    /// Its number in the target: see [`free_descriptor`].
    pub number: RawFd,
}

/// Why the target was not started.
#[derive(Debug)]
pub enum LaunchError {
    /// The kernel did not execute the file.
    Exec {
        /// The file.
        file: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// It could not become the user that it should run as.
    Identity {
        /// The user id.
        uid: u32,
        /// Which step failed.
        step: &'static str,
        /// Why.
        error: io::Error,
    },
    /// Something of ours failed.
    Ours {
        /// What we tried to do.
        what: &'static str,
        /// Why it failed.
        error: io::Error,
    },
}

impl LaunchError {
    /// What we leave with: 127 where the program is not there, 126 where it cannot be executed, 125 for our own
    /// failures.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Exec { error, .. } => match error.raw_os_error() {
                Some(libc::ENOENT | libc::ENOTDIR) => NOT_FOUND,
                _ => NOT_EXECUTABLE,
            },
            Self::Identity { .. } | Self::Ours { .. } => OUR_FAILURE,
        }
    }
}

impl fmt::Display for LaunchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exec { file, error } => {
                let path = file.display();
                match error.raw_os_error() {
                    // The file was there when it was classified: what is missing is its loader or interpreter.
                    Some(libc::ENOENT) if file.exists() => write!(
                        f,
                        "{path}: cannot be executed: its loader or interpreter is not there; \
                         `file {path}` or `head -1 {path}` names it"
                    ),
                    Some(libc::EACCES) => write!(
                        f,
                        "{path}: cannot be executed: {error}; check `ls -l {path}`, the folders above it, and whether \
                         its file system is mounted noexec (`findmnt -T {path}`)"
                    ),
                    Some(libc::E2BIG) => write!(f, "{path}: the arguments and the environment are too long"),
                    _ => write!(f, "{path}: cannot be executed: {error}"),
                }
            }
            Self::Identity { uid, step, error } => write!(
                f,
                "cannot {step} to run the program as user {uid}: {error}; coz-bpf must be started as root for that"
            ),
            Self::Ours { what, error } => write!(f, "cannot {what}: {error}"),
        }
    }
}

impl std::error::Error for LaunchError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Exec { error, .. } | Self::Identity { error, .. } | Self::Ours { error, .. } => Some(error),
        }
    }
}

fn ours(what: &'static str) -> impl Fn(io::Error) -> LaunchError {
    move |error| LaunchError::Ours { what, error }
}

/// A target that exists and has not begun. Dropping it kills it.
#[derive(Debug)]
pub struct Suspended {
    child: Option<Running>,
    release: OwnedFd,
    failure: File,
    file: PathBuf,
    uid: u32,
}

/// Held while pipes are open that the next fork must not copy: a suspended child keeps what it was forked with.
static FORKING: Mutex<()> = Mutex::new(());

impl Suspended {
    /// Forks the target. It runs nothing of its own until it is released.
    ///
    /// # Errors
    /// [`LaunchError::Ours`]: no more processes, descriptors or memory; a NUL in an argument.
    pub fn spawn(spec: &LaunchSpec<'_>) -> Result<Self, LaunchError> {
        let _guard = FORKING.lock().unwrap_or_else(PoisonError::into_inner);
        let pipe = || pipe2(OFlag::O_CLOEXEC).map_err(|e| ours("make a pipe")(e.into()));
        let (release_read, release_write) =
            socketpair(AddressFamily::Unix, SockType::Stream, None, SockFlag::SOCK_CLOEXEC)
                .map_err(|e| ours("make a socket pair")(e.into()))?;
        let (failure_read, failure_write) = pipe()?;
        let identity = spec.identity;
        let plan = Plan {
            file: c_string(spec.file.clone().into_os_string())?,
            argv: strings(spec.argv.iter().cloned())?,
            environment: strings(spec.environment.iter().map(|(name, value)| {
                let mut entry = name.clone();
                entry.push("=");
                entry.push(value);
                entry
            }))?,
            become_user: identity.is_switch().then(|| (identity.uid, identity.gid, identity.groups.clone())),
            inherit: spec.inherit.as_ref().map(|i| (i.descriptor.as_raw_fd(), i.number)),
            inherited: Inherited::at_start(),
            release: release_read.as_raw_fd(),
            release_parent: release_write.as_raw_fd(),
            failure: failure_write.as_raw_fd(),
        };
        if let Some((_, number)) = plan.inherit
            && [plan.release, plan.failure].contains(&number)
        {
            let taken = io::Error::from_raw_os_error(libc::EBUSY);
            return Err(ours("give the descriptor that number in the target")(taken));
        }
        keep_children_waitable().map_err(ours("set SIGCHLD to its default"))?;
        let pid = fork(&plan)?;
        // The pid cannot be used again before we wait for it, so this is the child and no other.
        match pidfd_open(pid) {
            Ok(pidfd) => Ok(Self {
                child: Some(Running::new(pid, pidfd)),
                release: release_write,
                failure: failure_read.into(),
                file: spec.file.clone(),
                uid: identity.uid,
            }),
            // Dropping the pipe's end makes the child leave; it must not stay as a zombie.
            Err(error) => {
                drop(release_write);
                // SAFETY: waits for our own child.
                unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
                Err(ours("watch the target (pidfd_open, Linux 5.3)")(error))
            }
        }
    }

    /// Its process id, which it keeps.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.child.as_ref().map_or(0, Running::pid)
    }

    /// Lets it become the target; returns when the program has begun.
    ///
    /// # Errors
    /// [`LaunchError`]: it could not; the child is gone then.
    pub fn release(mut self) -> Result<Running, LaunchError> {
        // A child that is gone already gives EPIPE here; the pipe for failures then says nothing. A socket and this
        // flag, because EPIPE must not come with SIGPIPE.
        let _ = send(self.release.as_raw_fd(), b"g", MsgFlags::MSG_NOSIGNAL);
        let mut message = [0u8; 8];
        let mut got = 0;
        // `read_exact` does not tell "nothing" from "cut short".
        while let Some(room) = message.get_mut(got..).filter(|room| !room.is_empty()) {
            match self.failure.read(room) {
                Ok(0) => break,
                Ok(n) => got += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(ours("learn whether the program began")(e)),
            }
        }
        let Some(mut child) = self.child.take() else {
            return Err(ours("release the target")(io::Error::from_raw_os_error(libc::ESRCH)));
        };
        if got == message.len() {
            let [a, b, c, d, e, f, g, h] = message;
            // Wait for it, or it stays as a zombie while we live.
            let _ = child.wait_blocking();
            return Err(self.failure_of(i32::from_ne_bytes([a, b, c, d]), i32::from_ne_bytes([e, f, g, h])));
        }
        // End of file: `execve` closed the pipe, or a signal killed the child (Ctrl-C while it was suspended). That
        // is its end as a plain run would have had it, and `Running::wait` will say so.
        Ok(child)
    }

    fn failure_of(&self, stage: i32, errno: i32) -> LaunchError {
        let error = io::Error::from_raw_os_error(errno);
        let step = match Stage::from_number(stage) {
            Some(Stage::Exec) => return LaunchError::Exec { file: self.file.clone(), error },
            Some(Stage::Descriptor) => return ours("hand the shim's descriptor to the target")(error),
            Some(Stage::Groups) => "set the groups",
            Some(Stage::Group) => "set the group",
            Some(Stage::User) => "set the user",
            Some(Stage::Verify) => "make sure of the user",
            None => return ours("understand the child")(error),
        };
        LaunchError::Identity { uid: self.uid, step, error }
    }
}

impl Drop for Suspended {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            child.kill();
            let _ = child.wait_blocking();
        }
    }
}

/// Where our caller ignores SIGCHLD, children vanish with their exit codes. The target gets the caller's setting.
fn keep_children_waitable() -> io::Result<()> {
    let mut now: libc::sigaction = {
        // SAFETY: a `sigaction` of zeros is a valid one.
        unsafe { std::mem::zeroed() }
    };
    // SAFETY: asks only.
    if unsafe { libc::sigaction(libc::SIGCHLD, std::ptr::null(), &raw mut now) } == -1 {
        return Err(io::Error::last_os_error());
    }
    if now.sa_sigaction == libc::SIG_IGN {
        // SAFETY: no handler of anybody is replaced: the signal was ignored.
        unsafe { signal(Signal::SIGCHLD, SigHandler::SigDfl) }?;
    }
    Ok(())
}

fn fork(plan: &Plan) -> Result<i32, LaunchError> {
    // No handler of ours (Tokio's write to a pipe that we share) may run in the child.
    let mask = child::set_mask(!0);
    // SAFETY: the child runs `child::run` only, which keeps to what is allowed after a fork.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        // SAFETY: this is the child.
        unsafe { child::run(plan) }
    }
    let error = io::Error::last_os_error();
    child::set_mask(mask);
    if pid == -1 { Err(ours("make a process for the program")(error)) } else { Ok(pid) }
}

fn pidfd_open(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: no memory is passed.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    let fd = RawFd::try_from(fd).map_err(io::Error::other)?;
    // SAFETY: the kernel has just given it to us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A high descriptor number that is free in us: out of the way of programs that count on the lowest ones.
///
/// # Errors
/// The limit cannot be read, or every number below it is taken.
pub fn free_descriptor() -> io::Result<RawFd> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is the kernel's to fill.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } == -1 {
        return Err(io::Error::last_os_error());
    }
    // Programs that close "all" descriptors one by one often stop at 1023.
    let top = RawFd::try_from(limit.rlim_cur.min(1024)).unwrap_or(1024);
    // SAFETY: asks for a descriptor's flags.
    let is_free = |fd: &RawFd| unsafe { libc::fcntl(*fd, libc::F_GETFD) } == -1;
    (3..top).rev().find(is_free).ok_or_else(|| io::Error::from_raw_os_error(libc::EMFILE))
}

fn c_string(text: OsString) -> Result<CString, LaunchError> {
    CString::new(text.into_vec())
        .map_err(|_| ours("pass an argument that holds a NUL")(io::Error::from_raw_os_error(libc::EINVAL)))
}

fn strings(list: impl Iterator<Item = OsString>) -> Result<StringArray, LaunchError> {
    Ok(StringArray::new(list.map(c_string).collect::<Result<_, _>>()?))
}
