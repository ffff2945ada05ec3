//! The code that the kernel puts into every process (`[vdso]`): the same in all of them, in no file.

use std::{
    ffi::CStr,
    fs::File,
    io::{self, Write},
    os::{fd::FromRawFd, unix::fs::FileExt},
};

/// Its name in `/proc/PID/maps`.
pub const NAME: &str = "[vdso]";
/// It has a few pages; more is not believed.
const MAX_SIZE: u64 = 1 << 20;

/// Our own copy of it, as a file.
///
/// # Errors
/// When there is none, or no memory for it.
pub fn file() -> io::Result<File> {
    const FILE: &CStr = c"vdso";
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let line = maps.lines().find(|line| line.ends_with(NAME)).ok_or(io::ErrorKind::NotFound)?;
    let range = line.split_once(' ').and_then(|(range, _)| range.split_once('-'));
    let hex = |digits| u64::from_str_radix(digits, 16).ok();
    let (start, end) = range.and_then(|(s, e)| Some((hex(s)?, hex(e)?))).ok_or(io::ErrorKind::InvalidData)?;
    let mut image = vec![0; end.saturating_sub(start).min(MAX_SIZE) as usize];
    File::open("/proc/self/mem")?.read_exact_at(&mut image, start)?;
    // SAFETY: a valid string; what the call returns is a new descriptor, or an error.
    let fd = unsafe { libc::memfd_create(FILE.as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and nobody else's.
    let mut file = unsafe { File::from_raw_fd(fd) };
    file.write_all(&image)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_an_elf_file() {
        let mut magic = [0; 4];
        file().expect("every x86-64 kernel has one").read_exact_at(&mut magic, 0).expect("it has a header");
        assert_eq!(&magic, b"\x7fELF");
    }
}
