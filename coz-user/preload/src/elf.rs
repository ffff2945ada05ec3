//! Whether a program, once executed, would load a preloaded library. One that would not is left alone: it
//! would only see our variables.

use core::ffi::{CStr, c_int};

use crate::sys;

/// How often a script may name another script as its interpreter (the kernel's own limit).
const SCRIPTS: u32 = 5;

/// `false` if the program certainly would not: static, not x86-64, or running with more rights than its user's.
/// In doubt `true`: an unreadable file, a format that something else knows.
pub fn loads_preload(path: &CStr) -> bool {
    sys::open(path).is_none_or(|fd| file_loads_preload(fd.0, SCRIPTS))
}

/// The same of an open file.
pub fn descriptor_loads_preload(fd: c_int) -> bool {
    file_loads_preload(fd, SCRIPTS)
}

fn file_loads_preload(fd: c_int, scripts: u32) -> bool {
    if sys::gains_rights(fd) {
        return false;
    }
    let mut head = [0u8; 256];
    let length = sys::read_at(fd, &mut head, 0);
    let head = &mut head[..length.min(256)];
    if head.starts_with(b"#!") {
        return match interpreter(head) {
            Some(path) if scripts > 0 => {
                sys::open(path).is_none_or(|fd| file_loads_preload(fd.0, scripts - 1))
            }
            _ => true,
        };
    }
    !head.starts_with(b"\x7fELF") || (is_x86_64(head) && names_a_linker(fd, head))
}

/// The path after `#!`, made a string in place.
fn interpreter(head: &mut [u8]) -> Option<&CStr> {
    let start = head.iter().skip(2).position(|&b| b != b' ' && b != b'\t')? + 2;
    let end = head.iter().skip(start).position(|&b| matches!(b, b' ' | b'\t' | b'\n' | 0))? + start;
    *head.get_mut(end)? = 0;
    CStr::from_bytes_with_nul(head.get(start..=end)?).ok().filter(|path| !path.is_empty())
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<u64> {
    let mut wide = [0; 8];
    wide.get_mut(..N)?.copy_from_slice(bytes.get(at..at.checked_add(N)?)?);
    Some(u64::from_le_bytes(wide))
}

fn is_x86_64(head: &[u8]) -> bool {
    const CLASS_64: u8 = 2;
    const MACHINE: u64 = 62;
    head.get(4) == Some(&CLASS_64) && number::<2>(head, 18) == Some(MACHINE)
}

/// Whether a dynamic linker is asked for, by a program header.
fn names_a_linker(fd: c_int, head: &[u8]) -> bool {
    const PT_INTERP: u64 = 3;
    let (Some(table), Some(size), Some(count)) =
        (number::<8>(head, 32), number::<2>(head, 54), number::<2>(head, 56))
    else {
        return false;
    };
    (0..count).any(|i| {
        let mut kind = [0u8; 4];
        let offset = table.wrapping_add(i * size);
        sys::read_at(fd, &mut kind, offset) == kind.len() && u64::from(u32::from_le_bytes(kind)) == PT_INTERP
    })
}
