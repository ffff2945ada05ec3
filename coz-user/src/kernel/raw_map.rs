//! A map that is made by hand: for what the loader does not make, and to ask what the kernel can.

use std::{
    io,
    os::fd::{FromRawFd, OwnedFd, RawFd},
};

pub(super) const HASH: u32 = 1;
pub(super) const ARRAY: u32 = 2;
/// `BPF_F_NO_PREALLOC`
pub(super) const NO_PREALLOC: u32 = 1;
/// `BPF_F_MMAPABLE`
pub(super) const MMAPABLE: u32 = 1024;

/// The members of `union bpf_attr` that `BPF_MAP_CREATE` looks at (include/uapi/linux/bpf.h).
#[repr(C)]
#[derive(Default)]
pub(super) struct RawMap {
    /// `enum bpf_map_type`.
    pub kind: u32,
    /// Bytes of a key.
    pub key_size: u32,
    /// Bytes of a value.
    pub value_size: u32,
    /// How many.
    pub max_entries: u32,
    /// Of those above.
    pub flags: u32,
    /// 0: no map of maps.
    pub inner_map_fd: u32,
    /// 0 without the flag that asks for it.
    pub numa_node: u32,
    /// As `bpftool` shows it.
    pub name: [u8; 16],
}

impl RawMap {
    /// Makes it.
    ///
    /// # Errors
    /// The kernel's.
    pub fn create(&self) -> io::Result<OwnedFd> {
        const BPF_MAP_CREATE: libc::c_long = 0;
        let attr: *const Self = self;
        // SAFETY: the kernel reads as many bytes as it is told, all initialised; it answers with a new descriptor or an error.
        let fd = unsafe { libc::syscall(libc::SYS_bpf, BPF_MAP_CREATE, attr, size_of::<Self>()) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just given it to us.
        Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
    }
}
