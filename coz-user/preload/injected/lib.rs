//! The handler that is put into processes that run already, or that load no libraries: machine code for any address, which
//! imports nothing. `coz-user/build.rs` makes a flat image of it; `coz-user/src/target/inject` puts it into the target.
//!
//! It pays as the shim does, from the same source. It stands in front of nothing: what the program does with its signals and
//! masks is its own affair, and the kernel side looks before it sends.
#![cfg_attr(panic = "abort", no_std)]

#[path = "../src/pay.rs"]
#[allow(dead_code, reason = "the shim uses all of it")]
mod pay;
#[path = "../src/slot.rs"]
#[allow(dead_code, reason = "the shim uses all of it")]
mod slot;
#[path = "../src/sys.rs"]
#[allow(dead_code, reason = "the shim uses all of it")]
mod sys;

mod clock;
mod maps;
mod params;

use core::ffi::{c_int, c_void};
use core::sync::atomic::Ordering::{Acquire, Release};

/// `si_code` of a signal that the kernel itself raises: ours. Other processes cannot forge it.
const FROM_KERNEL: c_int = 0x80;

/// The handler. Runs with every signal blocked.
///
/// # Safety
/// Called by the kernel.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coz_handle(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    maps::inside().fetch_add(1, Acquire);
    // SAFETY: the kernel's.
    if unsafe { (*info).si_code } == FROM_KERNEL {
        pay::asked();
    } else {
        // SAFETY: as above.
        unsafe { forward(signal, info, context) };
    }
    maps::inside().fetch_sub(1, Release);
}

/// Does with a signal that is not from us what was done with it before.
///
/// # Safety
/// With what the kernel gave the handler.
#[inline(never)]
unsafe fn forward(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    match maps::before() {
        libc::SIG_IGN => {}
        libc::SIG_DFL => {
            // To end the process, or whatever the default is: it is sent again, to this thread.
            let default = [0u64; 4];
            let arguments = [signal as usize, &raw const default as usize, 0, 8, 0, 0];
            // SAFETY: the kernel's struct, all zero: the default.
            unsafe { sys::call(libc::SYS_rt_sigaction, arguments) };
            sys::requeue(signal, info.cast(), false);
            sys::change_mask(libc::SIG_UNBLOCK, sys::bit(signal));
        }
        handler => {
            // SAFETY: what the program had put in place. One without SA_SIGINFO takes the first argument and ignores the others.
            unsafe {
                let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
                    core::mem::transmute::<usize, _>(handler);
                handler(signal, info, context);
            }
        }
    }
}

/// Where the handler returns to. Unwinders know a signal's frame by these very bytes: `mov rax, 15` (the long form),
/// `syscall`.
///
/// # Safety
/// Called by the kernel's doing, with a signal's frame on the stack.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn coz_restore() {
    core::arch::naked_asm!(".byte 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05")
}

/// There is nothing in here that panics; if it did, there would be no going on.
#[cfg(panic = "abort")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: ends the process.
    unsafe { core::arch::asm!("ud2", options(noreturn)) }
}
