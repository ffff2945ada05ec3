//! The code in a process's address space, and the files that it comes from.

use std::{
    ffi::OsStr,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
};

use anyhow::Result;

use super::{super::vdso, read};
use crate::symbols::ANONYMOUS;

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
    fn our_own_program_is_reached_under_its_name() {
        let me = std::process::id();
        let (mappings, own) = (code_mappings(me as i32).unwrap().unwrap(), std::env::current_exe().unwrap());
        let mapping = mappings.iter().find(|m| m.path == own).unwrap();
        assert_eq!(reachable(me, mapping), own);
        let gone = CodeMapping { deleted: true, ..mapping.clone() };
        assert!(reachable(me, &gone).starts_with(format!("/proc/{me}/map_files")));
    }
}
