//! What the child does between `fork` and `execve`.
//!
//! The process that forked has other threads, which may hold any lock: nothing here allocates, locks or panics,
//! everything was prepared by the parent, and system calls are made directly (libc's `setuid` and its kind
//! want to reach every thread of a process that is not ours any more).

use std::{
    ffi::{CString, c_char},
    os::fd::RawFd,
};

use super::inherited::{Inherited, KernelAction, MAX_SIGNAL, SET_SIZE};

/// Where the child failed; the number goes through the pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(super) enum Stage {
    /// Set the supplementary groups.
    Groups = 1,
    /// Set the group id.
    Group = 2,
    /// Set the user id.
    User = 3,
    /// Make sure of the ids.
    Verify = 4,
    /// Put the inherited descriptor in its place.
    Descriptor = 5,
    /// Execute the program.
    Exec = 6,
}

impl Stage {
    pub(super) fn from_number(number: i32) -> Option<Self> {
        use Stage::{Descriptor, Exec, Group, Groups, User, Verify};
        [Groups, Group, User, Verify, Descriptor, Exec].into_iter().find(|&s| s as i32 == number)
    }
}

/// C strings and the array of pointers to them, ended by a null pointer.
pub(super) struct StringArray {
    pointers: Vec<*const c_char>,
    // Owns what the pointers point to.
    _strings: Vec<CString>,
}

impl StringArray {
    pub(super) fn new(strings: Vec<CString>) -> Self {
        let pointers = strings.iter().map(|s| s.as_ptr()).chain([std::ptr::null()]).collect();
        Self { pointers, _strings: strings }
    }
}

/// Everything that the child needs.
pub(super) struct Plan {
    pub(super) file: CString,
    pub(super) argv: StringArray,
    pub(super) environment: StringArray,
    /// User id, group id, supplementary groups; `None` = stay who we are.
    pub(super) become_user: Option<(u32, u32, Vec<u32>)>,
    /// The descriptor to hand over, and its number in the target.
    pub(super) inherit: Option<(RawFd, RawFd)>,
    pub(super) inherited: Inherited,
    /// Read end of the pipe that releases the child; its end of file means that the parent is gone.
    pub(super) release: RawFd,
    /// The parent's end of that pipe, which the child must not hold open.
    pub(super) release_parent: RawFd,
    /// Write end of the pipe for failures; closed by a successful `execve`.
    pub(super) failure: RawFd,
}

/// The child's life. All signals are blocked on entry.
///
/// # Safety
/// Only in the child of a `fork`, which has one thread.
pub(super) unsafe fn run(plan: &Plan) -> ! {
    // SAFETY: plain system calls on descriptors and memory that `plan` keeps alive; see the module's text.
    unsafe {
        libc::syscall(libc::SYS_close, plan.release_parent);
        restore_dispositions(plan.inherited.ignored);
        if !wait_for_release(plan.release) {
            exit(super::super::exit::OUR_FAILURE);
        }
        let (stage, errno) = match start(plan) {
            Err(failure) => failure,
            Ok(never) => match never {},
        };
        let message = [stage as i32, errno];
        libc::syscall(libc::SYS_write, plan.failure, message.as_ptr(), size_of_val(&message));
        exit(super::super::exit::NOT_FOUND)
    }
}

/// # Safety
/// As [`run`].
unsafe fn start(plan: &Plan) -> Result<std::convert::Infallible, (Stage, i32)> {
    // SAFETY: as in `run`; the arrays end in a null pointer.
    unsafe {
        if let Some((uid, gid, groups)) = &plan.become_user {
            let (uid, gid) = (*uid, *gid);
            // Groups first: without root's rights neither they nor the group could be set.
            check(Stage::Groups, libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()))?;
            check(Stage::Group, libc::syscall(libc::SYS_setresgid, gid, gid, gid))?;
            check(Stage::User, libc::syscall(libc::SYS_setresuid, uid, uid, uid))?;
            if !ids_are(uid, gid) {
                return Err((Stage::Verify, libc::EPERM));
            }
        }
        if let Some((from, to)) = plan.inherit {
            // dup2 leaves a descriptor alone that is in its place already: take close-on-exec off then.
            let done = if from == to {
                libc::syscall(libc::SYS_fcntl, to, libc::F_SETFD, 0)
            } else {
                libc::syscall(libc::SYS_dup2, from, to)
            };
            check(Stage::Descriptor, done)?;
        }
        for fd in 0..3 {
            if plan.inherited.closed & (1 << fd) != 0 {
                libc::syscall(libc::SYS_close, fd);
            }
        }
        // Last: what is pending by now (Ctrl-C while suspended) acts as it would have on the program.
        set_mask(plan.inherited.blocked);
        let done = libc::syscall(
            libc::SYS_execve,
            plan.file.as_ptr(),
            plan.argv.pointers.as_ptr(),
            plan.environment.pointers.as_ptr(),
        );
        check(Stage::Exec, done)?;
        Err((Stage::Exec, libc::EINVAL))
    }
}

fn check(stage: Stage, result: i64) -> Result<(), (Stage, i32)> {
    if result == -1 {
        // SAFETY: errno is this thread's own.
        return Err((stage, unsafe { *libc::__errno_location() }));
    }
    Ok(())
}

/// # Safety
/// As [`run`].
unsafe fn ids_are(uid: u32, gid: u32) -> bool {
    let (mut u, mut g) = ([!uid; 3], [!gid; 3]);
    let [ru, eu, su] = &mut u;
    let [rg, eg, sg] = &mut g;
    // SAFETY: six valid places of the kernel's type.
    unsafe {
        libc::syscall(libc::SYS_getresuid, ru as *mut u32, eu as *mut u32, su as *mut u32);
        libc::syscall(libc::SYS_getresgid, rg as *mut u32, eg as *mut u32, sg as *mut u32);
    }
    u == [uid; 3] && g == [gid; 3]
}

/// # Safety
/// As [`run`].
unsafe fn restore_dispositions(ignored: u64) {
    for signal in 1..=MAX_SIGNAL {
        let was_ignored = ignored & (1 << (signal - 1)) != 0;
        let handler = if was_ignored { libc::SIG_IGN } else { libc::SIG_DFL };
        let action = KernelAction { handler, flags: 0, restorer: 0, mask: 0 };
        // SAFETY: the layout is the kernel's. It refuses SIGKILL and SIGSTOP, which nobody can change anyway.
        unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, &raw const action, 0usize, SET_SIZE) };
    }
}

/// Sets the calling thread's signal mask; gives the old one.
pub(super) fn set_mask(mask: u64) -> u64 {
    let mut old = 0u64;
    // SAFETY: both sets are as large as the kernel's.
    unsafe {
        libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const mask, &raw mut old, SET_SIZE);
    }
    old
}

/// Whether the parent said go; `false` where it is gone.
///
/// # Safety
/// As [`run`].
unsafe fn wait_for_release(fd: RawFd) -> bool {
    let mut byte = 0u8;
    loop {
        // SAFETY: one byte of room.
        let got = unsafe { libc::syscall(libc::SYS_read, fd, &raw mut byte, 1usize) };
        // SAFETY: errno is this thread's own.
        if got != -1 || unsafe { *libc::__errno_location() } != libc::EINTR {
            return got == 1;
        }
    }
}

/// # Safety
/// As [`run`].
unsafe fn exit(code: u8) -> ! {
    // SAFETY: ends the process without running anything of the parent's (destructors, buffers).
    unsafe { libc::_exit(i32::from(code)) }
}
