//! What is looked at before a process is touched.

use std::{
    fs::{self, File},
    io::{self, Read},
};

use coz_common::abi::{KernelSlot, MAX_SLOTS, TargetSlot};

use super::{
    program::Program,
    refused::{Filtered, Refused},
};
use crate::target::process::{self, Status, status_field};

/// Class and machine of a 64-bit x86-64 program, in an ELF header.
const CLASS_64: u8 = 2;
const X86_64: [u8; 2] = [62, 0];
/// Descriptors that are needed for a moment, and a few that other threads may open meanwhile.
const DESCRIPTORS: u64 = 5 + 8;
/// Bytes of address space that are needed.
const SPACE: u64 = (size_of::<KernelSlot>() + size_of::<TargetSlot>()) as u64 * MAX_SLOTS as u64 + 16 * 4096;
/// Whoever handles this many of the 31 real-time signals handles signals on principle, and uses none.
const ON_PRINCIPLE: u32 = 28;
/// `SECCOMP_MODE_STRICT`.
const STRICT: u32 = 1;
/// What every profiled process has mapped, in `/proc/PID/maps`; only the profiler itself has it to write.
const OURS: &[u8] = b"/memfd:coz-bpf-control";

/// A process that can be entered.
#[derive(Clone, Debug)]
pub struct Looked {
    /// What it runs.
    pub program: Program,
    /// Whose it is: its real user id.
    pub uid: u32,
    /// Number of its pid namespace.
    pub pid_namespace: u32,
    /// The system calls of some of its threads are filtered.
    pub is_filtered: bool,
    /// Threads that block the signal.
    pub blocking: Vec<i32>,
}

/// Looks at a process.
///
/// # Errors
/// Why it is not to be entered.
pub fn look(pid: i32, signal: u32) -> Result<Looked, Refused> {
    let text = read(pid, "status")?;
    let text = String::from_utf8_lossy(&text);
    let status = Status::parse(&text);
    if status.tgid != pid || status.is_over() {
        return Err(Refused::Gone);
    }
    if is_kernels(&status, &text) {
        return Err(Refused::KernelThread);
    }
    // Memory goes first when a process ends.
    if status_field(&text, "VmSize").is_none() {
        return Err(Refused::Gone);
    }
    state(&status)?;
    if !is_x86_64(pid)? {
        return Err(Refused::NotX86);
    }
    let maps = read(pid, "maps")?;
    let left_over = match ours(&maps) {
        Some(file) if somebody_writes(&file) => return Err(Refused::AlreadyProfiled),
        found => found.is_some(),
    };
    // What a profiler that was killed has left behind handles the signal too.
    if !left_over && is_used(status.caught, signal) {
        return Err(Refused::SignalInUse { signal });
    }
    room(pid, &text)?;
    let (blocking, is_filtered) = threads(pid, signal)?;
    Ok(Looked {
        program: Program::of(pid).map_err(trouble)?,
        uid: status.uids[0],
        pid_namespace: process::pid_namespace(pid).ok().flatten().ok_or(Refused::Gone)?,
        is_filtered,
        blocking,
    })
}

/// Whose a process is now: its real user id.
///
/// # Errors
/// It is gone.
pub fn user(pid: i32) -> Result<u32, Refused> {
    let status = process::status(pid).ok().flatten().ok_or(Refused::Gone)?;
    Ok(status.uids[0])
}

/// Whether it is a thread of the kernel: newer kernels say so, and on all of them these are kthreadd and its children.
fn is_kernels(status: &Status, text: &str) -> bool {
    const KTHREADD: i32 = 2;
    let has_memory = status_field(text, "VmSize").is_some();
    match status_field(text, "Kthread") {
        Some(answer) => answer == "1",
        None => !has_memory && [status.tgid, status.parent].contains(&KTHREADD),
    }
}

/// What a process's or a thread's state says.
fn state(status: &Status) -> Result<(), Refused> {
    if status.tracer != 0 {
        return Err(Refused::Traced { by: status.tracer });
    }
    if status.seccomp_mode == STRICT {
        return Err(Refused::Filtered(Filtered::Strict));
    }
    if matches!(status.state, 'T' | 't') {
        return Err(Refused::Stopped);
    }
    Ok(())
}

/// Threads that block the signal.
///
/// # Errors
/// Why the process is not to be entered.
pub fn blocking(pid: i32, signal: u32) -> Result<Vec<i32>, Refused> {
    Ok(threads(pid, signal)?.0)
}

/// Looks at every thread: filters and tracers are a thread's own. Those that block the signal, and whether any is filtered.
fn threads(pid: i32, signal: u32) -> Result<(Vec<i32>, bool), Refused> {
    let ids = process::threads(pid).ok().flatten().ok_or(Refused::Gone)?;
    let (mut blocking, mut is_filtered) = (Vec::new(), false);
    for tid in ids {
        // One that has ended meanwhile does not matter.
        let Some(status) = thread(pid, tid) else { continue };
        state(&status)?;
        is_filtered |= status.seccomp_mode != 0;
        if status.blocked & 1 << (signal - 1) != 0 {
            blocking.push(tid);
        }
    }
    Ok((blocking, is_filtered))
}

/// What is said of a thread, unless it has ended.
pub fn thread(pid: i32, tid: i32) -> Option<Status> {
    let text = fs::read(format!("/proc/{pid}/task/{tid}/status")).ok()?;
    let status = Status::parse(&String::from_utf8_lossy(&text));
    (!status.is_over()).then_some(status)
}

/// Whether a program with these handlers uses this signal. A runtime that handles all signals (Go's) does not.
fn is_used(caught: u64, signal: u32) -> bool {
    const REAL_TIME: u64 = !0 << (34 - 1);
    caught & (1 << (signal - 1)) != 0 && (caught & REAL_TIME).count_ones() < ON_PRINCIPLE
}

fn is_x86_64(pid: i32) -> Result<bool, Refused> {
    let mut header = [0u8; 20];
    let read = File::open(format!("/proc/{pid}/exe")).and_then(|mut file| file.read_exact(&mut header));
    match read {
        Ok(()) => Ok(header.starts_with(b"\x7fELF") && header[4] == CLASS_64 && header[18..] == X86_64),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(trouble(error)),
    }
}

/// Device and inode of a file of ours that is mapped, as `/proc/PID/maps` has them.
fn ours(maps: &[u8]) -> Option<Vec<u8>> {
    let line = maps.split(|&byte| byte == b'\n').find(|line| {
        line.iter().position(|&byte| byte == b'/').is_some_and(|at| line[at..].starts_with(OURS))
    })?;
    let words: Vec<&[u8]> = line.split(|&byte| byte == b' ').filter(|word| !word.is_empty()).collect();
    Some([*words.get(3)?, *words.get(4)?].join(&b' '))
}

/// Whether a process has this file mapped to write: the profiler that made it.
fn somebody_writes(file: &[u8]) -> bool {
    let Ok(processes) = fs::read_dir("/proc") else { return true };
    processes.flatten().any(|process| {
        let is_process = process.file_name().to_str().is_some_and(|name| name.parse::<u32>().is_ok());
        is_process && fs::read(process.path().join("maps")).is_ok_and(|maps| writes(&maps, file))
    })
}

fn writes(maps: &[u8], file: &[u8]) -> bool {
    maps.split(|&byte| byte == b'\n').any(|line| {
        let mut words = line.split(|&byte| byte == b' ').filter(|word| !word.is_empty());
        let (access, device, inode) = (words.nth(1), words.nth(1), words.next());
        access.is_some_and(|access| access.starts_with(b"rw-s"))
            && device.zip(inode).is_some_and(|(device, inode)| [device, inode].join(&b' ') == file)
    })
}

/// Descriptors and address space that are left.
fn room(pid: i32, status: &str) -> Result<(), Refused> {
    let limits = String::from_utf8_lossy(&read(pid, "limits")?).into_owned();
    let open = fs::read_dir(format!("/proc/{pid}/fd")).map_err(trouble)?.count() as u64;
    if let Some(most) = limit(&limits, "Max open files")
        && most.saturating_sub(open) < DESCRIPTORS
    {
        return Err(Refused::NoRoom {
            what: format!("{DESCRIPTORS} more descriptors: {open} of {most} are open"),
        });
    }
    let size = status_field(status, "VmSize").and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
    let size = size.unwrap_or(0).saturating_mul(1024);
    if let Some(most) = limit(&limits, "Max address space")
        && most.saturating_sub(size) < SPACE
    {
        let what = format!("{} more KiB: its address space is limited to {}", SPACE / 1024, most / 1024);
        return Err(Refused::NoRoom { what });
    }
    Ok(())
}

/// A soft limit of `/proc/PID/limits`; `None`: unlimited.
fn limit(limits: &str, name: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

fn read(pid: i32, file: &str) -> Result<Vec<u8>, Refused> {
    fs::read(format!("/proc/{pid}/{file}")).map_err(trouble)
}

/// What it means that something of a process cannot be read.
pub(super) fn trouble(error: io::Error) -> Refused {
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::ESRCH | libc::ECHILD) => Refused::Gone,
        Some(libc::EPERM | libc::EACCES) => Refused::NoPrivileges,
        _ => Refused::Failed { what: "look at the process", error },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIGNAL: u32 = 62;

    #[test]
    fn a_runtime_that_handles_everything_does_not_use_our_signal() {
        let ours = 1u64 << (SIGNAL - 1);
        assert!(!is_used(0, SIGNAL) && !is_used(!ours, SIGNAL), "no handler");
        assert!(is_used(ours, SIGNAL));
        assert!(
            is_used(ours | ours >> 1 | 0x7fff_ffff, SIGNAL),
            "with all ordinary signals, but few of the others"
        );
        // What /proc says of a Go program.
        assert!(!is_used(0xffff_ffff_7fc1_feff, SIGNAL));
    }

    #[test]
    fn states_that_forbid_it_are_told_apart() {
        let status = |text: &str| state(&Status::parse(text));
        assert!(status("State:\tS (sleeping)\nTracerPid:\t0\nSeccomp:\t0\n").is_ok());
        assert!(matches!(status("TracerPid:\t7\nSeccomp:\t2\n"), Err(Refused::Traced { by: 7 })));
        assert!(matches!(status("Seccomp:\t1\n"), Err(Refused::Filtered(Filtered::Strict))));
        assert!(status("Seccomp:\t2\n").is_ok(), "it depends");
        assert!(matches!(status("State:\tT (stopped)\n"), Err(Refused::Stopped)));
    }

    #[test]
    fn a_limit_is_a_number_or_none() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units     \n\
                      Max open files            1024                 1048576              files     \n\
                      Max address space         unlimited            unlimited            bytes     \n";
        assert_eq!(limit(limits, "Max open files"), Some(1024));
        assert_eq!(limit(limits, "Max address space"), None);
    }

    #[test]
    fn what_a_profiler_has_mapped_is_known_and_who_writes_it() {
        let target = b"7f00-7f10 r--p 0 00:01 9   /bin/x\n7f20-7f30 r--s 00000000 00:01 77    /memfd:coz-bpf-control (deleted)\n";
        let file = ours(target).unwrap();
        assert_eq!(file, b"00:01 77");
        assert!(!writes(target, &file), "who has it to read is a target");
        assert!(writes(b"7f20-7f30 rw-s 00000000 00:01 77    /memfd:coz-bpf-control (deleted)\n", &file));
        assert!(!writes(b"7f20-7f30 rw-s 00000000 00:01 78    /memfd:coz-bpf-control (deleted)\n", &file));
        assert_eq!(ours(b"7f20-7f30 r--s 0 00:01 77  /tmp/memfd:coz-bpf-control\n"), None);
    }

    #[test]
    fn we_could_be_entered_and_a_thread_of_the_kernel_could_not() {
        let me = std::process::id().cast_signed();
        let looked = look(me, SIGNAL).unwrap();
        assert_eq!(looked.program, Program::of(me).unwrap());
        assert!(looked.blocking.is_empty());
        assert!(matches!(look(2, SIGNAL), Err(Refused::KernelThread | Refused::Gone)), "kthreadd");
        assert!(matches!(look(i32::MAX, SIGNAL), Err(Refused::Gone)));
    }
}
