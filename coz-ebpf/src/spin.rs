//! Who spins: a thread that waits for another one without the kernel's knowledge.

use aya_ebpf::helpers::bpf_probe_read_user;

/// `pause`, which processors want in a loop that only waits, and what C, C++ and Rust libraries put there. A processor
/// rests at it for longer than all the rest of such a loop takes.
const PAUSE: [u8; 2] = [0xF3, 0x90];

/// Whether user code was interrupted at a `pause`, or right behind one.
#[inline(always)]
pub fn at_pause(ip: u64) -> bool {
    // SAFETY: a helper that reads memory of the program, or fails.
    match unsafe { bpf_probe_read_user::<[u8; 4]>(ip.wrapping_sub(2) as *const _) } {
        Ok([a, b, c, d]) => [a, b] == PAUSE || [c, d] == PAUSE,
        Err(_) => false,
    }
}
