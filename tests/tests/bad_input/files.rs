//! Damaged files and a full disk.

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// The bytes of an ELF file whose section of this name says to be half as long as it is.
pub fn with_half_of(path: &Path, section: &str) -> Vec<u8> {
    let mut file = fs::read(path).expect("it can be read");
    let word = |file: &[u8], at: usize, size: usize| {
        file[at..at + size].iter().rev().fold(0usize, |value, &byte| value << 8 | usize::from(byte))
    };
    // e_shoff, e_shentsize, e_shnum, e_shstrndx of a 64-bit little-endian file
    let (table, entry) = (word(&file, 0x28, 8), word(&file, 0x3a, 2));
    let (count, names) = (word(&file, 0x3c, 2), word(&file, 0x3e, 2));
    let names_at = word(&file, table + names * entry + 0x18, 8);
    for header in (0..count).map(|index| table + index * entry) {
        let name = names_at + word(&file, header, 4);
        if file[name..].starts_with(section.as_bytes()) && file[name + section.len()] == 0 {
            let half = word(&file, header + 0x20, 8) / 2;
            file[header + 0x20..header + 0x28].copy_from_slice(&(half as u64).to_le_bytes());
            return file;
        }
    }
    panic!("{} has no {section}", path.display());
}

/// A file system of 16 KiB, gone when this is dropped.
pub struct SmallDisk {
    path: PathBuf,
}

impl SmallDisk {
    pub fn new(path: &Path) -> Self {
        fs::create_dir(path).expect("it can be made");
        let target = CString::new(path.as_os_str().as_bytes()).expect("no NUL");
        // SAFETY: all strings end with NUL and outlive the call.
        let result = unsafe {
            libc::mount(c"none".as_ptr(), target.as_ptr(), c"tmpfs".as_ptr(), 0, c"size=16k".as_ptr().cast())
        };
        assert_eq!(result, 0, "a tmpfs can be mounted: {}", std::io::Error::last_os_error());
        let disk = Self { path: path.to_path_buf() };
        // One page is left, so that the file can be made and the first records fit.
        fs::write(disk.path.join("ballast"), [0; 12 * 1024]).expect("it fits");
        disk
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let target = CString::new(self.path.as_os_str().as_bytes()).expect("no NUL");
        // SAFETY: the string ends with NUL and outlives the call.
        unsafe { libc::umount2(target.as_ptr(), libc::MNT_DETACH) };
    }
}
