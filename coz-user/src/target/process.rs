//! What `/proc` says of a process: mappings, threads, namespace, signals, seccomp, cgroup.
//!
//! Processes end while they are looked at. Every function gives `Ok(None)` then: that is no error.

use std::{
    ffi::OsStr,
    io::{self, ErrorKind},
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use crate::symbols::ANONYMOUS;

use super::vdso;

/// A stretch of a process's address space that can be executed and comes from a file, or from the kernel (`[vdso]`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeMapping {
    /// First address.
    pub start: u64,
    /// One past the last address.
    pub end: u64,
    /// Where in the file `start` is.
    pub offset: u64,
    /// The file, as the process's own mount namespace names it.
    pub path: PathBuf,
    /// The file is no longer there under this name; `/proc/PID/map_files` still reaches it.
    pub deleted: bool,
    /// Major and minor number of its device.
    pub device: (u32, u32),
    /// Its inode.
    pub inode: u64,
}

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

/// The executable mappings that come from files, are the kernel's (`[vdso]`) or have no file ([`ANONYMOUS`]), in order of address. Empty for a process that has ended
/// but was not waited for, and for kernel threads.
///
/// # Errors
/// The file cannot be read for another reason than the process's end (without `CAP_SYS_PTRACE`, another user's process).
pub fn code_mappings(pid: i32) -> Result<Option<Vec<CodeMapping>>> {
    Ok(read(pid, "maps")?.map(|text| parse_mappings(&text)))
}

/// The same of the text of `/proc/PID/maps`. What is malformed is left out.
#[must_use]
pub fn parse_mappings(text: &[u8]) -> Vec<CodeMapping> {
    text.split(|&b| b == b'\n').filter_map(code_mapping).collect()
}

/// One line of `/proc/PID/maps`; `None` where it is not executable, not from a file, or malformed.
///
/// Read as bytes and by hand: a path need not be UTF-8 and a target may choose any name for its files,
/// which procfs's parser answers with an error for all of them, or a panic (`/SYSV`).
fn code_mapping(line: &[u8]) -> Option<CodeMapping> {
    let mut rest = line;
    let mut word = || {
        let end = rest.iter().position(|&b| b == b' ').unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        rest = after.strip_prefix(b" ").unwrap_or(after);
        str::from_utf8(word).ok()
    };
    let (start, end) = word()?.split_once('-')?;
    let permissions = word()?;
    let offset = word()?;
    let (major, minor) = word()?.split_once(':')?;
    let inode = word()?.parse().ok()?;
    let path = rest.trim_ascii_start();
    // Memory without a file may have a name (`prctl(PR_SET_VMA_ANON_NAME)`).
    let is_anonymous = path.is_empty() || path.starts_with(b"[anon:") || path == b"[heap]";
    let is_known = path.first() == Some(&b'/') || path == vdso::NAME.as_bytes() || is_anonymous;
    if permissions.as_bytes().get(2) != Some(&b'x') || !is_known {
        return None;
    }
    let path = if is_anonymous { ANONYMOUS.as_bytes() } else { path };
    let kept = path.strip_suffix(b" (deleted)");
    let hex = |digits| u64::from_str_radix(digits, 16).ok();
    Some(CodeMapping {
        start: hex(start)?,
        end: hex(end)?,
        offset: hex(offset)?,
        path: unescape(kept.unwrap_or(path)),
        deleted: kept.is_some(),
        device: (u32::from_str_radix(major, 16).ok()?, u32::from_str_radix(minor, 16).ok()?),
        inode,
    })
}

/// The kernel writes a newline in a path as `\012`.
fn unescape(path: &[u8]) -> PathBuf {
    let mut plain = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((&first, after)) = rest.split_first() {
        if let Some(after_escape) = rest.strip_prefix(br"\012") {
            plain.push(b'\n');
            rest = after_escape;
        } else {
            plain.push(first);
            rest = after;
        }
    }
    PathBuf::from(OsStr::from_bytes(&plain))
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

/// Where one of a process's files can be reached from here: under its name, if that is the same file for us; through the
/// process's own root folder; by the mapping itself, if it has no name any more.
#[must_use]
pub fn reachable(pid: u32, mapping: &CodeMapping) -> PathBuf {
    let is_it = |path: &Path| std::fs::metadata(path).is_ok_and(|meta| meta.ino() == mapping.inode);
    if !mapping.deleted {
        let within = PathBuf::from(format!("/proc/{pid}/root"))
            .join(mapping.path.strip_prefix("/").unwrap_or(&mapping.path));
        if is_it(&mapping.path) || !within.exists() {
            return mapping.path.clone();
        }
        // Some file systems number a file differently in a mapping: what has its name there is it.
        return within;
    }
    PathBuf::from(format!("/proc/{pid}/map_files/{:x}-{:x}", mapping.start, mapping.end))
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
    fn a_mapping_line_is_taken_apart() {
        let line =
            b"5581c0c00000-5581c0c05000 r-xp 00002000 fe:01 1835021                    /usr/bin/my cat";
        let mapping = code_mapping(line).unwrap();
        assert_eq!(mapping.start, 0x5581_c0c0_0000);
        assert_eq!(mapping.end, 0x5581_c0c0_5000);
        assert_eq!(mapping.offset, 0x2000);
        assert_eq!(mapping.device, (0xfe, 1));
        assert_eq!(mapping.inode, 1_835_021);
        assert_eq!(mapping.path, Path::new("/usr/bin/my cat"));
        assert!(!mapping.deleted);
    }

    #[test]
    fn a_replaced_file_is_known_as_deleted() {
        let mapping = code_mapping(b"1000-2000 r-xp 0 00:01 7  /tmp/a.so (deleted)").unwrap();
        assert!(mapping.deleted);
        assert_eq!(mapping.path, Path::new("/tmp/a.so"));
    }

    #[test]
    fn names_that_a_target_chooses_do_no_harm() {
        assert_eq!(code_mapping(b"1000-2000 r-xp 0 00:01 7 /SYSV").unwrap().path, Path::new("/SYSV"));
        let odd = code_mapping(b"1000-2000 r-xp 0 00:01 7 /tmp/\xff\\012x").unwrap();
        assert_eq!(odd.path.as_os_str().as_bytes(), b"/tmp/\xff\nx");
    }

    #[test]
    fn the_kernels_own_code_is_in_no_file() {
        let vdso = code_mapping(b"7fff0000-7fff1000 r-xp 00000000 00:00 0   [vdso]").unwrap();
        assert_eq!((vdso.path.as_path(), vdso.inode), (Path::new(vdso::NAME), 0));
    }

    #[test]
    fn what_is_not_code_from_a_file_is_left_out() {
        assert_eq!(code_mapping(b"1000-2000 r--p 0 00:01 7 /lib/a.so"), None);
        assert_eq!(code_mapping(b"7fff0000-7fff1000 r-xp 00000000 00:00 0   [vsyscall]"), None);
        for made in [
            "1000-2000 rwxp 0 00:00 0 ",
            "1000-2000 r-xp 0 00:00 0   [anon:v8]",
            "1000-2000 rwxp 0 00:00 0 [heap]",
        ] {
            assert_eq!(code_mapping(made.as_bytes()).unwrap().path, Path::new(ANONYMOUS), "{made}");
        }
        for broken in
            [&b""[..], b"x", b"1000 r-xp", b"1000-2000 r-xp 0 0001 7 /a", b"z-2000 r-xp 0 00:01 7 /a"]
        {
            assert_eq!(code_mapping(broken), None);
        }
    }

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
    fn our_own_program_is_reached_under_its_name() {
        let me = std::process::id();
        let (mappings, own) = (code_mappings(me as i32).unwrap().unwrap(), std::env::current_exe().unwrap());
        let mapping = mappings.iter().find(|m| m.path == own).unwrap();
        assert_eq!(reachable(me, mapping), own);
        let gone = CodeMapping { deleted: true, ..mapping.clone() };
        assert!(reachable(me, &gone).starts_with(format!("/proc/{me}/map_files")));
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
