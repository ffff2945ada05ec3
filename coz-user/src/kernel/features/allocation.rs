//! May a program for samples use a map whose entries are allocated as they are made? Before kernel 6.1 the verifier says no:
//! a sample can come at a moment at which nothing can be allocated. (Ours only looks up.)

use std::{
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
};

use crate::kernel::raw_map::{HASH, NO_PREALLOC, RawMap};

const BPF_PROG_LOAD: libc::c_long = 5;
const BPF_PROG_TYPE_PERF_EVENT: u32 = 7;

/// `union bpf_attr` for `BPF_PROG_LOAD`, as far as it is needed.
#[repr(C)]
struct ProgramAttr {
    kind: u32,
    instructions: u32,
    code: u64,
    licence: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    version: u32,
    flags: u32,
}

/// Asks, with such a map and a program that names it. No, where even these cannot be made.
pub(super) fn may_be_late() -> bool {
    try_late().is_ok()
}

fn try_late() -> io::Result<()> {
    let map = RawMap {
        kind: HASH,
        key_size: 4,
        value_size: 4,
        max_entries: 1,
        flags: NO_PREALLOC,
        ..RawMap::default()
    };
    let map = map.create()?;
    let instruction = |code: u8, registers: u8, value: i32| {
        u64::from(code) | u64::from(registers) << 8 | u64::from(value.cast_unsigned()) << 32
    };
    let code = [
        // r1 = the map (of which the second half of the instruction is nothing).
        instruction(0x18, 0x11, map.as_raw_fd()),
        0,
        // r0 = 0
        instruction(0xb7, 0x00, 0),
        // exit
        instruction(0x95, 0x00, 0),
    ];
    let program = ProgramAttr {
        kind: BPF_PROG_TYPE_PERF_EVENT,
        instructions: code.len() as u32,
        code: code.as_ptr() as u64,
        licence: c"GPL".as_ptr() as u64,
        log_level: 0,
        log_size: 0,
        log: 0,
        version: 0,
        flags: 0,
    };
    // SAFETY: the kernel reads as many bytes as it is told, all initialised; what it points to outlives the call.
    owned(unsafe { libc::syscall(libc::SYS_bpf, BPF_PROG_LOAD, &raw const program, size_of_val(&program)) })
        .map(drop)
}

fn owned(result: libc::c_long) -> io::Result<OwnedFd> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a descriptor that the kernel has just made for us.
    Ok(unsafe { OwnedFd::from_raw_fd(result as i32) })
}
