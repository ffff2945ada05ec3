//! Asking the kernel for the real thing, once and small: words in `/proc` do not show what a seccomp filter or a
//! security module forbids.

use std::{
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
};

use crate::kernel::{
    probe,
    raw_map::{ARRAY, MMAPABLE, RawMap},
};

/// Why the kernel did not do what it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// We may not: privileges, a seccomp filter, a security module. Says nothing about what the kernel can do.
    NotPermitted,
    /// This kernel cannot.
    NotSupported,
    /// Anything else, the errno.
    Other(i32),
}

impl Refusal {
    pub(super) const fn from_errno(errno: i32) -> Self {
        match errno {
            libc::EPERM | libc::EACCES => Self::NotPermitted,
            libc::ENOSYS | libc::EOPNOTSUPP | libc::ENODEV => Self::NotSupported,
            other => Self::Other(other),
        }
    }
}

/// Answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probes {
    /// A BPF map that the target can share by `mmap`.
    pub map: Result<(), Refusal>,
    /// Sampling every thread on a CPU by the software clock.
    pub sampling: Result<(), Refusal>,
    /// An unnamed file in memory that can be mapped executable, as the loader does with the shim.
    pub shim: Result<(), Refusal>,
    /// Probes in programs, as far as privileges go.
    pub uprobe: Result<(), Refusal>,
}

impl Probes {
    /// Asks. Everything that is made for it is gone again when this returns.
    #[must_use]
    pub fn ask() -> Self {
        let uprobe = probe::allowed()
            .map_err(|error| Refusal::from_errno(error.raw_os_error().unwrap_or(libc::EPERM)));
        Self { map: shared_map(), sampling: sampling(), shim: executable_memory(), uprobe }
    }
}

/// `struct perf_event_attr` in its first published version.
#[repr(C)]
#[derive(Default)]
struct PerfAttributes {
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

fn shared_map() -> Result<(), Refusal> {
    let wanted = RawMap {
        kind: ARRAY,
        key_size: 4,
        value_size: 8,
        max_entries: 1,
        flags: MMAPABLE,
        ..RawMap::default()
    };
    let refused = |error: io::Error| Refusal::from_errno(error.raw_os_error().unwrap_or(0));
    wanted.create().map(drop).map_err(refused).map_err(|refusal| match refusal {
        // Kernels before 5.5 do not know the flag.
        Refusal::Other(libc::EINVAL) => Refusal::NotSupported,
        other => other,
    })
}

fn sampling() -> Result<(), Refusal> {
    // Every process, on the CPU that we are on: CPU 0 may be offline.
    // SAFETY: takes no argument that could be wrong.
    let cpu = unsafe { libc::sched_getcpu() };
    software_clock(Whom::Cpu(cpu), 1_000_000_000, false).map(drop)
}

/// Whose time a clock counts.
pub(in crate::kernel) enum Whom {
    /// That of every process on this CPU.
    Cpu(i32),
    /// That of this thread, wherever it runs.
    Us,
}

/// A software clock that interrupts every `period` nanoseconds, for nobody: no program, no buffer.
pub(in crate::kernel) fn software_clock(whom: Whom, period: u64, running: bool) -> Result<OwnedFd, Refusal> {
    const PERF_TYPE_SOFTWARE: u32 = 1;
    const PERF_FLAG_FD_CLOEXEC: u64 = 8;
    /// Bit 0 of the flags: count nothing until told to.
    const DISABLED: u64 = 1;
    let wanted = PerfAttributes {
        kind: PERF_TYPE_SOFTWARE,
        size: size_of::<PerfAttributes>() as u32,
        sample_period: period,
        flags: if running { 0 } else { DISABLED },
        ..Default::default()
    };
    let (pid, cpu) = match whom {
        Whom::Cpu(cpu) => (-1, cpu),
        Whom::Us => (0, -1),
    };
    let no_group = -1;
    // SAFETY: the kernel reads `size` bytes, all initialised.
    let fd = unsafe {
        libc::syscall(libc::SYS_perf_event_open, &raw const wanted, pid, cpu, no_group, PERF_FLAG_FD_CLOEXEC)
    };
    descriptor(fd)
}

fn executable_memory() -> Result<(), Refusal> {
    // Kernels before 6.3 do not know the flag; those that do can insist on it (vm.memfd_noexec). It forbids
    // to execute the file, not to map its code.
    const MFD_NOEXEC_SEAL: u32 = 8;
    let create = |flags: u32| {
        // SAFETY: the name ends in NUL.
        descriptor(unsafe { libc::syscall(libc::SYS_memfd_create, c"coz-bpf".as_ptr(), flags) })
    };
    let file = match create(libc::MFD_CLOEXEC | MFD_NOEXEC_SEAL) {
        Err(Refusal::Other(libc::EINVAL)) => create(libc::MFD_CLOEXEC),
        other => other,
    }?;
    const LENGTH: usize = 4096;
    // SAFETY: a new file of ours is made a page long.
    if unsafe { libc::ftruncate(file.as_raw_fd(), LENGTH as i64) } == -1 {
        return Err(last_refusal());
    }
    let protection = libc::PROT_READ | libc::PROT_EXEC;
    // SAFETY: a new mapping, where the kernel likes; nothing is executed.
    let place = unsafe {
        libc::mmap(std::ptr::null_mut(), LENGTH, protection, libc::MAP_PRIVATE, file.as_raw_fd(), 0)
    };
    if place == libc::MAP_FAILED {
        return Err(last_refusal());
    }
    // SAFETY: the mapping just made, whole; nobody has its address.
    unsafe { libc::munmap(place, LENGTH) };
    Ok(())
}

fn descriptor(result: i64) -> Result<OwnedFd, Refusal> {
    match RawFd::try_from(result) {
        // SAFETY: the kernel has just given it to us.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(last_refusal()),
    }
}

fn last_refusal() -> Refusal {
    Refusal::from_errno(io::Error::last_os_error().raw_os_error().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn not_allowed_is_not_unsupported() {
        assert_eq!(Refusal::from_errno(libc::EPERM), Refusal::NotPermitted);
        assert_eq!(Refusal::from_errno(libc::EACCES), Refusal::NotPermitted);
        assert_eq!(Refusal::from_errno(libc::ENOSYS), Refusal::NotSupported);
        assert_eq!(Refusal::from_errno(libc::ENOMEM), Refusal::Other(libc::ENOMEM));
    }

    #[test]
    fn nothing_stays_behind() {
        let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
        let _ = Probes::ask();
        // Other tests of this process open files meanwhile: one calm look is enough.
        let calm = (0..100).any(|_| {
            let before = open();
            let _ = Probes::ask();
            open() <= before
        });
        assert!(calm);
    }
}
