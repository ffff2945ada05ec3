//! What the kernel side, the shim, the controller and the simulator share: the structs that cross a
//! boundary, the rules of the virtual clock, the search from an address to its line, from a frame to its caller. Pure, without `std`.
#![cfg_attr(not(test), no_std)]

pub mod abi;
pub mod clock;
pub mod latency;
pub mod lookup;
pub mod memory;
pub mod point;
#[cfg(not(target_arch = "bpf"))]
pub mod slot;
pub mod stretch;
pub mod units;
pub mod unwind;
