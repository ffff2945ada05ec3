//! Reading the kernel's own structs, at offsets from its BTF.

use aya_ebpf::helpers::bpf_probe_read_kernel;
use coz_common::abi::Stat;

use crate::maps::count;

/// A `struct task_struct *`.
pub type Task = *const u8;

/// Reads a field. `None`: the memory was not there (counted).
#[inline(always)]
pub fn read<T>(base: *const u8, offset: u32) -> Option<T> {
    // SAFETY: the helper checks the address itself; the pointer is never used here.
    match unsafe { bpf_probe_read_kernel(base.wrapping_add(offset as usize).cast::<T>()) } {
        Ok(value) => Some(value),
        Err(_) => {
            count(Stat::ReadFailed, 1);
            None
        }
    }
}
