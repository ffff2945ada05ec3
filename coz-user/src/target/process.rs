//! What `/proc` says of a process: mappings (`mappings`), threads, namespace, signals, seccomp, cgroup.
//!
//! Processes end while they are looked at. Every function gives `Ok(None)` then: that is no error.

mod mappings;

use std::{
    ffi::OsStr,
    io::{self, ErrorKind},
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

pub use mappings::{CodeMapping, code_mappings, parse_mappings, reachable};

/// What `/proc/PID/status` says of signals, seccomp and ids. Bit `n - 1` of a set is signal `n`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Process id in the namespace of whoever mounted `/proc`.
    pub tgid: i32,
    /// The parent's process id; 0 where it is outside that namespace.
    pub parent: i32,
    /// One letter: R, S, D, T (stopped), t (traced), Z (ended, not yet waited for), ...
    pub state: char,
    /// Who traces it; 0 = nobody.
    pub tracer: i32,
    /// Real, effective, saved and file-system user id.
    pub uids: [u32; 4],
    /// Real, effective, saved and file-system group id.
    pub gids: [u32; 4],
    /// Signals that the thread blocks.
    pub blocked: u64,
    /// Signals that the process ignores.
    pub ignored: u64,
    /// Signals for which the process has a handler.
    pub caught: u64,
    /// 0 none, 1 strict, 2 filters.
    pub seccomp_mode: u32,
    /// Number of seccomp filters; `None` on kernels that do not say (before 5.9).
    pub seccomp_filters: Option<u32>,
    /// Number of threads.
    pub threads: u32,
}

/// The value of a `Key:` line of `/proc/PID/status`, without blanks around it.
#[must_use]
pub fn status_field<'a>(status: &'a str, key: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':')).map(str::trim)
}

impl Status {
    /// Reads the text of `/proc/PID/status`. A field that is missing or malformed stays 0.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let number = |key: &str| status_field(text, key).and_then(|v| v.parse().ok()).unwrap_or(0);
        let set =
            |key: &str| status_field(text, key).and_then(|v| u64::from_str_radix(v, 16).ok()).unwrap_or(0);
        let ids = |key: &str| {
            let mut four = [0; 4];
            let found = status_field(text, key).unwrap_or("").split_ascii_whitespace();
            for (slot, value) in four.iter_mut().zip(found) {
                *slot = value.parse().unwrap_or(0);
            }
            four
        };
        Self {
            tgid: number("Tgid"),
            parent: number("PPid"),
            state: status_field(text, "State").and_then(|v| v.chars().next()).unwrap_or('?'),
            tracer: number("TracerPid"),
            uids: ids("Uid"),
            gids: ids("Gid"),
            blocked: set("SigBlk"),
            ignored: set("SigIgn"),
            caught: set("SigCgt"),
            seccomp_mode: number("Seccomp").unsigned_abs(),
            seccomp_filters: status_field(text, "Seccomp_filters").and_then(|v| v.parse().ok()),
            threads: number("Threads").unsigned_abs(),
        }
    }

    /// Whether it has ended and only waits to be waited for.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }
}

/// `/proc/PID/status`, read and parsed.
///
/// # Errors
/// The file cannot be read for another reason than the process's end.
pub fn status(pid: i32) -> Result<Option<Status>> {
    Ok(read(pid, "status")?.map(|text| Status::parse(&String::from_utf8_lossy(&text))))
}

/// The ids of its threads, the main thread's included while it lives.
///
/// # Errors
/// The folder cannot be read for another reason than the process's end.
pub fn threads(pid: i32) -> Result<Option<Vec<i32>>> {
    let folder = format!("/proc/{pid}/task");
    let Some(entries) = still_there(std::fs::read_dir(&folder)).with_context(|| format!("list {folder}"))?
    else {
        return Ok(None);
    };
    // A process that ends meanwhile makes the listing stop early or fail: either way it is gone.
    let found: Vec<i32> =
        entries.map_while(Result::ok).filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    Ok((!found.is_empty()).then_some(found))
}

/// The ids of all processes, in ascending order.
///
/// # Errors
/// `/proc` cannot be listed.
pub fn all() -> Result<Vec<u32>> {
    let entries = std::fs::read_dir("/proc").context("list /proc")?;
    let mut found: Vec<u32> =
        entries.map_while(Result::ok).filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    found.sort_unstable();
    Ok(found)
}

/// What `/proc/PID/stat` says of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// Its name, as the kernel keeps it: at most 15 bytes.
    pub comm: Vec<u8>,
    /// One letter, as in [`Status::state`].
    pub state: char,
    /// The parent's process id.
    pub parent: u32,
    /// A thread of the kernel: no program.
    pub of_kernel: bool,
}

/// `/proc/PID/stat`, read and parsed; `None` where the process is gone or the text is malformed.
#[must_use]
pub fn stat(pid: u32) -> Option<Stat> {
    parse_stat(&read(i32::try_from(pid).ok()?, "stat").ok()??)
}

fn parse_stat(text: &[u8]) -> Option<Stat> {
    /// `PF_KTHREAD` (include/linux/sched.h).
    const OF_KERNEL: u64 = 0x0020_0000;
    let begin = text.iter().position(|&b| b == b'(')?;
    // A name may hold brackets and blanks.
    let end = text.iter().rposition(|&b| b == b')')?;
    let mut words = str::from_utf8(text.get(end + 1..)?).ok()?.split_ascii_whitespace();
    let (state, parent) = (words.next()?.chars().next()?, words.next()?.parse().ok()?);
    let flags: u64 = words.nth(4)?.parse().ok()?;
    Some(Stat {
        comm: text.get(begin + 1..end)?.to_owned(),
        state,
        parent,
        of_kernel: flags & OF_KERNEL != 0,
    })
}

/// The number (inode) of its pid namespace.
///
/// # Errors
/// The link cannot be read for another reason than the process's end.
pub fn pid_namespace(pid: i32) -> Result<Option<u32>> {
    let path = format!("/proc/{pid}/ns/pid");
    let found = still_there(std::fs::metadata(&path)).with_context(|| format!("look at {path}"))?;
    Ok(found.and_then(|meta| u32::try_from(meta.ino()).ok()))
}

/// Its cgroup (version 2), as a path below the cgroup file system; `None` also where there is only version 1.
///
/// # Errors
/// The file cannot be read for another reason than the process's end.
pub fn cgroup(pid: i32) -> Result<Option<PathBuf>> {
    Ok(read(pid, "cgroup")?.and_then(|text| unified_cgroup(&text)))
}

fn unified_cgroup(text: &[u8]) -> Option<PathBuf> {
    let path = text.split(|&b| b == b'\n').find_map(|line| line.strip_prefix(b"0::"))?;
    Some(PathBuf::from(OsStr::from_bytes(path)))
}

/// Its executable file, as its own mount namespace names it.
///
/// # Errors
/// The link cannot be read for another reason than the process's end.
pub fn executable(pid: i32) -> Result<Option<PathBuf>> {
    let path = format!("/proc/{pid}/exe");
    still_there(std::fs::read_link(&path)).with_context(|| format!("read the link {path}"))
}

fn read(pid: i32, file: &str) -> Result<Option<Vec<u8>>> {
    let path = Path::new("/proc").join(pid.to_string()).join(file);
    still_there(std::fs::read(&path)).with_context(|| format!("read {}", path.display()))
}

/// A process that is gone gives ENOENT when its folder is opened and ESRCH when it went after that.
fn still_there<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(e) if e.kind() == ErrorKind::NotFound || e.raw_os_error() == Some(libc::ESRCH) => Ok(None),
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_text_is_read_and_gaps_are_zero() {
        let text = "Name:\tx\nState:\tT (stopped)\nTgid:\t12\nPPid:\t3\nTracerPid:\t0\nUid:\t1\t2\t3\t4\n\
                    SigBlk:\t0000000200000000\nSigIgn:\t0000000000001000\nSeccomp:\t2\nSeccomp_filters:\t3\nThreads:\t5\n";
        let status = Status::parse(text);
        assert_eq!((status.tgid, status.parent, status.state), (12, 3, 'T'));
        assert_eq!(status.uids, [1, 2, 3, 4]);
        // Bit 33 is signal 34, bit 12 is SIGPIPE.
        assert_eq!((status.blocked, status.ignored, status.caught), (1 << 33, 1 << 12, 0));
        assert_eq!((status.seccomp_mode, status.seccomp_filters, status.threads), (2, Some(3), 5));
        assert_eq!(Status::parse("Seccomp:\t0\n").seccomp_filters, None);
        assert_eq!(status_field("Seccomp_filters:\t3\n", "Seccomp"), None);
    }

    #[test]
    fn a_name_may_look_like_anything() {
        let text = b"12 (a) R (b) S 3 12 12 0 -1 2097216 0 0";
        let stat = parse_stat(text).unwrap();
        assert_eq!(
            (stat.comm.as_slice(), stat.state, stat.parent, stat.of_kernel),
            (&b"a) R (b"[..], 'S', 3, true)
        );
        assert_eq!(parse_stat(b"12 (x) S"), None);
        let me = super::stat(std::process::id()).unwrap();
        assert!(!me.of_kernel && all().unwrap().contains(&std::process::id()));
    }

    #[test]
    fn only_the_unified_cgroup_counts() {
        assert_eq!(unified_cgroup(b"1:name=systemd:/a\n0::/b/c\n"), Some(PathBuf::from("/b/c")));
        assert_eq!(unified_cgroup(b"3:cpu:/a\n"), None);
    }

    #[test]
    fn we_find_ourselves() {
        let pid = i32::try_from(std::process::id()).unwrap();
        let me = std::env::current_exe().unwrap();
        let mappings = code_mappings(pid).unwrap().unwrap();
        let here = we_find_ourselves as fn() as usize as u64;
        assert!(mappings.iter().any(|m| m.path == me && (m.start..m.end).contains(&here)));
        assert!(threads(pid).unwrap().unwrap().contains(&pid));
        assert_eq!(status(pid).unwrap().unwrap().tgid, pid);
        assert_eq!(executable(pid).unwrap().unwrap(), me);
        let link = std::fs::read_link("/proc/self/ns/pid").unwrap();
        assert_eq!(format!("pid:[{}]", pid_namespace(pid).unwrap().unwrap()), link.to_str().unwrap());
    }

    #[test]
    fn a_process_that_is_gone_is_no_error() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        child.wait().unwrap();
        assert_eq!(status(pid).unwrap(), None);
        assert_eq!(code_mappings(pid).unwrap(), None);
        assert_eq!(threads(pid).unwrap(), None);
        assert_eq!(pid_namespace(pid).unwrap(), None);
        assert_eq!(cgroup(pid).unwrap(), None);
        assert_eq!(executable(pid).unwrap(), None);
    }
}
