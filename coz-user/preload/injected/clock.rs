//! The time. Where the vDSO is differs from process to process; a system call is always there.

use crate::sys;

/// The time of `CLOCK_MONOTONIC`.
#[inline(always)]
pub fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let arguments = [libc::CLOCK_MONOTONIC as usize, &raw mut time as usize, 0, 0, 0, 0];
    // SAFETY: `time` lives through the call.
    unsafe { sys::call(libc::SYS_clock_gettime, arguments) };
    (time.tv_sec as u64) * 1_000_000_000 + time.tv_nsec as u64
}
