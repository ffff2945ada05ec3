//! Whether a process still runs the program that it ran: looked at before every injection. After an `exec`, an address that
//! was right is in the middle of something else.

use std::{fs, io, os::unix::fs::MetadataExt, path::Path};

/// Key of the vDSO's address in the auxiliary vector.
const AT_SYSINFO_EHDR: u64 = 33;

/// What tells one program in a process from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program {
    /// When the process began, in clock ticks: process ids are used again.
    pub started: u64,
    /// Device and inode of its file.
    pub file: (u64, u64),
    /// Where its vDSO is, at random in each program; 0: it has none.
    pub vdso: u64,
}

impl Program {
    /// What the process runs now.
    ///
    /// # Errors
    /// It is gone, or may not be looked at.
    pub fn of(pid: i32) -> io::Result<Self> {
        let folder = Path::new("/proc").join(pid.to_string());
        let stat = fs::read(folder.join("stat"))?;
        let file = fs::metadata(folder.join("exe"))?;
        let auxiliary = fs::read(folder.join("auxv"))?;
        Ok(Self {
            started: started(&stat).ok_or(io::ErrorKind::InvalidData)?,
            file: (file.dev(), file.ino()),
            vdso: auxiliary_value(&auxiliary, AT_SYSINFO_EHDR).unwrap_or(0),
        })
    }
}

/// Field 22 of `/proc/PID/stat`. The second may hold anything, brackets and blanks too.
fn started(stat: &[u8]) -> Option<u64> {
    let end = stat.iter().rposition(|&byte| byte == b')')?;
    let rest = str::from_utf8(stat.get(end + 1..)?).ok()?;
    rest.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// A value of `/proc/PID/auxv`.
fn auxiliary_value(bytes: &[u8], wanted: u64) -> Option<u64> {
    bytes.chunks_exact(16).find_map(|pair| {
        let word = |at: usize| Some(u64::from_ne_bytes(pair.get(at..at + 8)?.try_into().ok()?));
        (word(0)? == wanted).then(|| word(8)).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_anything() {
        let stat = b"7 (a) b 9 (c) S 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4242 5 6";
        assert_eq!(started(stat), Some(4242));
        assert_eq!(started(b"7 (a"), None);
        assert_eq!(started(b"7 (a) S 1"), None);
    }

    #[test]
    fn a_process_is_the_same_until_it_executes() {
        let pid = std::process::id().cast_signed();
        let me = Program::of(pid).unwrap();
        assert_eq!(me, Program::of(pid).unwrap());
        assert_ne!(me.vdso, 0, "every x86-64 program has one");
        let mut child = std::process::Command::new("sleep").arg("9").spawn().unwrap();
        let other = Program::of(child.id().cast_signed()).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_ne!(me, other);
    }
}
