//! System calls without libc: no errno, no cancellation points, no locks. Usable in a signal handler, in a
//! `vfork` child and before `main`.

use core::arch::asm;
use core::ffi::{CStr, c_char, c_int, c_void};

/// What a system call gives: not negative, or `-errno`.
pub type Answer = isize;

/// # Safety
/// As the system call itself: its arguments must be what the kernel may be told.
#[inline(always)]
pub unsafe fn call(number: i64, arguments: [usize; 6]) -> Answer {
    let [a, b, c, d, e, f] = arguments;
    let answer;
    // SAFETY: the x86-64 convention of Linux; the caller answers for what the call does.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => answer,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    answer
}

/// The calling thread's id, as its own pid namespace sees it. Never cached: `fork` would make it a lie.
#[inline(always)]
pub fn gettid() -> u32 {
    // SAFETY: takes nothing, changes nothing.
    unsafe { call(libc::SYS_gettid, [0; 6]) as u32 }
}

/// The calling process's id.
pub fn getpid() -> u32 {
    // SAFETY: takes nothing, changes nothing.
    unsafe { call(libc::SYS_getpid, [0; 6]) as u32 }
}

/// Closes a descriptor.
pub fn close(fd: c_int) {
    // SAFETY: only ever called on descriptors that are ours.
    unsafe { call(libc::SYS_close, [fd as usize, 0, 0, 0, 0, 0]) };
}

/// A descriptor that is closed when dropped.
pub struct Fd(pub c_int);

impl Drop for Fd {
    fn drop(&mut self) {
        close(self.0);
    }
}

/// Opens a file for reading.
pub fn open(path: &CStr) -> Option<Fd> {
    let flags = (libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NOCTTY | libc::O_NONBLOCK) as usize;
    let arguments = [libc::AT_FDCWD as usize, path.as_ptr() as usize, flags, 0, 0, 0];
    // SAFETY: `path` is a string that outlives the call.
    let fd = unsafe { call(libc::SYS_openat, arguments) };
    (fd >= 0).then_some(Fd(fd as c_int))
}

/// Reads at an offset; how many bytes there were (0 on any failure).
pub fn read_at(fd: c_int, buffer: &mut [u8], offset: u64) -> usize {
    let arguments = [fd as usize, buffer.as_mut_ptr() as usize, buffer.len(), offset as usize, 0, 0];
    // SAFETY: the kernel writes into `buffer` alone, as far as it is long.
    let read = unsafe { call(libc::SYS_pread64, arguments) };
    usize::try_from(read).unwrap_or(0)
}

/// Where a symbolic link points; how many bytes of it there were (0 on any failure).
pub fn read_link(path: &CStr, buffer: &mut [u8]) -> usize {
    let arguments = [path.as_ptr() as usize, buffer.as_mut_ptr() as usize, buffer.len(), 0, 0, 0];
    // SAFETY: the kernel writes into `buffer` alone, as far as it is long.
    let read = unsafe { call(libc::SYS_readlink, arguments) };
    usize::try_from(read).unwrap_or(0)
}

/// Maps `length` bytes of a descriptor, shared.
pub fn map(fd: c_int, length: usize, writable: bool) -> Option<*mut u8> {
    let access = if writable { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
    let arguments = [0, length, access as usize, libc::MAP_SHARED as usize, fd as usize, 0];
    // SAFETY: a new mapping at a place that the kernel chooses.
    let address = unsafe { call(libc::SYS_mmap, arguments) };
    (address > 0).then_some(address as *mut u8)
}

/// Undoes [`map`].
///
/// # Safety
/// Nobody may use the mapping any more.
pub unsafe fn unmap(address: *mut u8, length: usize) {
    // SAFETY: handed on to the caller.
    unsafe { call(libc::SYS_munmap, [address as usize, length, 0, 0, 0, 0]) };
}

/// The signals of a kernel mask, `1 << (signal - 1)`.
pub type Mask = u64;

/// The bit of a signal in a [`Mask`].
#[inline(always)]
pub const fn bit(signal: c_int) -> Mask {
    1 << ((signal - 1) as u32 & 63)
}

/// Changes the thread's real mask; what it was before.
pub fn change_mask(how: c_int, mask: Mask) -> Mask {
    let mut before: Mask = 0;
    let arguments = [how as usize, &raw const mask as usize, &raw mut before as usize, 8, 0, 0];
    // SAFETY: both words live through the call.
    unsafe { call(libc::SYS_rt_sigprocmask, arguments) };
    before
}

/// Sleeps until `time` of `CLOCK_MONOTONIC`, or a signal.
pub fn sleep_until(time: u64) {
    let when =
        libc::timespec { tv_sec: (time / 1_000_000_000) as i64, tv_nsec: (time % 1_000_000_000) as i64 };
    let arguments =
        [libc::CLOCK_MONOTONIC as usize, libc::TIMER_ABSTIME as usize, &raw const when as usize, 0, 0, 0];
    // SAFETY: `when` lives through the call.
    unsafe { call(libc::SYS_clock_nanosleep, arguments) };
}

/// The processor state that this process may use, as `arch_prctl` tells it; 0 where it does not.
pub fn state_permissions(option: usize) -> u64 {
    let mut granted = 0u64;
    // SAFETY: the kernel writes one word, into ours.
    unsafe { call(libc::SYS_arch_prctl, [option, &raw mut granted as usize, 0, 0, 0, 0]) };
    granted
}

/// The thread's timer slack in nanoseconds; 0 where it has none (real-time policies).
pub fn timer_slack() -> usize {
    // SAFETY: takes nothing, changes nothing.
    let slack = unsafe { call(libc::SYS_prctl, [libc::PR_GET_TIMERSLACK as usize, 0, 0, 0, 0, 0]) };
    usize::try_from(slack).unwrap_or(0)
}

/// Sets the thread's timer slack.
pub fn set_timer_slack(slack: usize) {
    // SAFETY: changes nothing but the slack of this thread.
    unsafe { call(libc::SYS_prctl, [libc::PR_SET_TIMERSLACK as usize, slack, 0, 0, 0, 0]) };
}

/// libc's errno of this thread.
#[inline(always)]
pub fn errno() -> *mut c_int {
    // SAFETY: every thread of a program that libc started has one.
    unsafe { libc::__errno_location() }
}

/// Sets errno and gives libc's sign of failure.
pub fn fail(code: c_int) -> c_int {
    // SAFETY: this thread's own errno.
    unsafe { *errno() = code };
    -1
}

/// A string of the program, if there is one.
///
/// # Safety
/// Null, or a string that lives and stays unchanged as long as the answer is used.
pub unsafe fn string<'a>(pointer: *const c_char) -> Option<&'a CStr> {
    // SAFETY: handed on to the caller.
    (!pointer.is_null()).then(|| unsafe { CStr::from_ptr(pointer) })
}

/// Queues a signal with its whole description: to this thread, or (`everyone`) to this process.
pub fn requeue(signal: c_int, info: *const c_void, everyone: bool) {
    let (pid, tid, number) = (getpid() as usize, gettid() as usize, signal as usize);
    // SAFETY: `info` is what the kernel gave; the calls only read it.
    unsafe {
        if !everyone {
            call(libc::SYS_rt_tgsigqueueinfo, [pid, tid, number, info as usize, 0, 0]);
        } else if call(libc::SYS_rt_sigqueueinfo, [pid, number, info as usize, 0, 0, 0]) < 0 {
            // Only a process's first thread may say that it repeats a `kill`.
            call(libc::SYS_kill, [pid, number, 0, 0, 0, 0]);
        }
    }
}

/// Whether executing a file gives its process rights that the caller has not: the linker then ignores
/// `LD_PRELOAD`. `false` where it cannot be found out.
pub fn gains_rights(fd: c_int) -> bool {
    let mut status = core::mem::MaybeUninit::<libc::stat>::zeroed();
    let name = c"security.capability";
    // SAFETY: the kernel writes one stat; of the attribute only the length is asked for.
    unsafe {
        let found = call(libc::SYS_fstat, [fd as usize, status.as_mut_ptr() as usize, 0, 0, 0, 0]) == 0;
        let set_id = found && status.assume_init().st_mode & (libc::S_ISUID | libc::S_ISGID) != 0;
        set_id || call(libc::SYS_fgetxattr, [fd as usize, name.as_ptr() as usize, 0, 0, 0, 0]) > 0
    }
}

/// Whether the caller may execute a file.
pub fn is_executable(path: &CStr) -> bool {
    let arguments = [libc::AT_FDCWD as usize, path.as_ptr() as usize, libc::X_OK as usize, 0, 0, 0];
    // SAFETY: `path` is a string that outlives the call.
    unsafe { call(libc::SYS_faccessat, arguments) == 0 }
}

/// A copy of a descriptor that survives exec, at a number of at least `least` if there is one.
pub fn inheritable_copy(fd: c_int, least: c_int) -> Option<Fd> {
    let arguments = [fd as usize, libc::F_DUPFD as usize, least as usize, 0, 0, 0];
    // SAFETY: a new descriptor.
    let copy = unsafe { call(libc::SYS_fcntl, arguments) };
    (copy >= 0).then_some(Fd(copy as c_int))
}
