//! The bare limit: a software clock that interrupts every thread of a program, and nothing else.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// `struct perf_event_attr` in its first published version.
#[repr(C)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    config1: u64,
}

/// Makes the command's program, and all that it starts, be interrupted `rate` times a second of CPU time from its
/// first instruction on. There is no buffer and no BPF program: the interrupts do nothing.
pub fn interrupted(command: &mut Command, rate: u32) {
    const PERF_TYPE_SOFTWARE: u32 = 1;
    const PERF_COUNT_SW_CPU_CLOCK: u64 = 0;
    const DISABLED: u64 = 1;
    const INHERIT: u64 = 1 << 1;
    const ENABLE_ON_EXEC: u64 = 1 << 12;
    let attributes = Attributes {
        kind: PERF_TYPE_SOFTWARE,
        size: size_of::<Attributes>() as u32,
        config: PERF_COUNT_SW_CPU_CLOCK,
        sample_period: 1_000_000_000 / u64::from(rate.max(1)),
        sample_type: 0,
        read_format: 0,
        flags: DISABLED | INHERIT | ENABLE_ON_EXEC,
        wakeup_events: 0,
        breakpoint_type: 0,
        config1: 0,
    };
    let open = move || {
        let (this, any_cpu, no_group, no_flags) = (0, -1, -1, 0u64);
        // The descriptor stays open in the program: closing it would end the interrupts.
        // SAFETY: the kernel reads `size` bytes, all initialised.
        let fd = unsafe {
            libc::syscall(libc::SYS_perf_event_open, &raw const attributes, this, any_cpu, no_group, no_flags)
        };
        if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    };
    // SAFETY: only a system call is made between fork and exec.
    unsafe { command.pre_exec(open) };
}
