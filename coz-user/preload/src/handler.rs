//! The signal handler.

use core::ffi::{c_int, c_void};

use crate::sys;
use crate::{action, pay};

/// `si_code` of a signal that the kernel itself raises: ours. Other processes cannot forge it.
pub const FROM_KERNEL: c_int = 0x80;

/// Runs with every signal blocked. Allocates nothing, locks nothing, remembers nothing.
pub extern "C" fn handle(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let errno = sys::errno();
    // SAFETY: the thread's own errno, and what the kernel has put on its stack.
    unsafe {
        let before = *errno;
        if (*info).si_code == FROM_KERNEL {
            pay::asked();
        } else {
            action::forward(signal, info, context.cast());
        }
        // Only if need be: a thread without a thread-local area of its own shares its parent's errno.
        if *errno != before {
            *errno = before;
        }
    }
}
