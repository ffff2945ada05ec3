//! The shim: what is preloaded into the profiled program. It sleeps when the kernel side says so, and keeps
//! out of sight otherwise.
//!
//! * `ctor` runs before `main`: takes us out of the environment, gets the maps, puts the handler in place.
//! * `handler` and `pay` run when a thread owes something. They call the system directly, touch memory of
//!   fixed size, and take no lock.
//! * `action`, `mask`, `wait`, `stack`, `thread` stand in front of libc's functions so that the
//!   program neither disturbs our signal nor notices it.
//! * `exec` passes the shim on to the programs that the program executes.
//! * `counters` are the functions that coz.h looks for.
//!
//! Without a profiler nothing is set up and every function hands its call on.
//!
//! Nothing is remembered of a thread or a process, so `fork` and `vfork` need no care. One exception: a `vfork`
//! child shares its parent's memory, so a disposition of our signal that it sets counts for the parent too.
#![cfg_attr(panic = "abort", no_std)]

mod action;
mod clock;
mod counters;
mod ctor;
mod elf;
mod env;
mod exec;
mod handler;
mod maps;
mod mask;
mod next;
mod pay;
mod slot;
mod socket;
mod stack;
mod sys;
mod thread;
mod wait;

/// There is nothing in here that panics; if it did, the program must not go on with half a mask.
#[cfg(panic = "abort")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: ends the process.
    unsafe { core::arch::asm!("ud2", options(noreturn)) }
}
