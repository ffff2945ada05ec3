//! How the program of a running process was put together, as far as it matters for entering it.

use std::{fs, path::PathBuf};

use object::{Object, read::elf::ElfFile64};

use super::elf::{Elf, Linkage};

/// How a process's program begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Linking {
    /// A loader begins, which brings the shim along where it was told to. Also what cannot be looked at.
    Dynamic,
    /// It begins by itself.
    Static,
    /// It begins by itself, and Go's runtime handles every signal then: what was put in place before is lost.
    Go,
}

impl Linking {
    /// Of the program that a process runs now.
    #[must_use]
    pub fn of(pid: u32) -> Self {
        let path = PathBuf::from(format!("/proc/{pid}/exe"));
        match Elf::read(&path) {
            Ok(Elf { linkage: Linkage::Static, bits: 64, machine: None, .. }) if is_go(&path) => Self::Go,
            Ok(Elf { linkage: Linkage::Static, bits: 64, machine: None, .. }) => Self::Static,
            _ => Self::Dynamic,
        }
    }
}

fn is_go(path: &PathBuf) -> bool {
    let Ok(file) = fs::File::open(path) else { return false };
    // SAFETY: only looked at while it is read here; a file that somebody cuts meanwhile is a program being replaced in place, which
    // the kernel forbids while it runs.
    let Ok(data) = (unsafe { memmap2::Mmap::map(&file) }) else { return false };
    ElfFile64::<object::Endianness>::parse(&*data).is_ok_and(|file| {
        [".note.go.buildid", ".go.buildinfo"].iter().any(|name| file.section_by_name(name).is_some())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn we_are_linked_dynamically() {
        assert_eq!(Linking::of(std::process::id()), Linking::Dynamic);
        assert_eq!(Linking::of(u32::MAX), Linking::Dynamic, "nobody");
    }
}
