//! The time. Apart from `sys`, since it takes libc to find the vDSO.

/// The time of `CLOCK_MONOTONIC`, through the vDSO.
#[inline(always)]
pub fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` lives through the call; on success libc leaves errno alone.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    (time.tv_sec as u64) * 1_000_000_000 + time.tv_nsec as u64
}
