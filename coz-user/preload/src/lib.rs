//! The shim.
#![cfg_attr(panic = "abort", no_std)]
#[cfg(panic = "abort")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
