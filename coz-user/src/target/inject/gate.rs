//! Where in a process there is a `syscall` instruction, for us to use.

use std::{fs::File, io, os::unix::fs::FileExt};

use crate::target::{process, vdso};

/// `syscall`.
const INSTRUCTION: [u8; 2] = [0x0f, 0x05];
/// As much of a mapping is searched.
const SEARCHED: u64 = 4 << 20;

/// Looks for one: in the vDSO, which is always mapped and has no pages that must be read first, else in any other code.
///
/// # Errors
/// The process is gone, may not be looked at, or has none.
pub fn find(pid: i32) -> io::Result<u64> {
    let memory = File::open(format!("/proc/{pid}/mem"))?;
    let mappings = process::code_mappings(pid).map_err(io::Error::other)?.unwrap_or_default();
    search(&memory, &mappings)
}

/// A process that ends meanwhile has no memory any more: then nothing can be read, wherever something was mapped.
fn search(memory: &File, mappings: &[process::CodeMapping]) -> io::Result<u64> {
    let is_vdso = |mapping: &&process::CodeMapping| mapping.path.as_os_str() == vdso::NAME;
    let others = mappings.iter().filter(|mapping| !is_vdso(mapping) && mapping.inode != 0);
    let mut is_there = false;
    for mapping in mappings.iter().filter(is_vdso).chain(others) {
        let mut code = vec![0; mapping.end.saturating_sub(mapping.start).min(SEARCHED) as usize];
        let length = memory.read_at(&mut code, mapping.start).unwrap_or(0);
        is_there |= length > 0;
        let found = code[..length].windows(INSTRUCTION.len()).position(|bytes| bytes == INSTRUCTION);
        if let Some(at) = found {
            return Ok(mapping.start + at as u64);
        }
    }
    Err(io::Error::from_raw_os_error(if is_there { libc::ENOSYS } else { libc::ESRCH }))
}

/// Whether it is there still.
pub fn is_at(memory: &File, address: u64) -> bool {
    let mut bytes = [0; INSTRUCTION.len()];
    memory.read_exact_at(&mut bytes, address).is_ok() && bytes == INSTRUCTION
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_ends_while_it_is_searched_is_gone() {
        let mut child = std::process::Command::new("sleep").arg("9").spawn().unwrap();
        let pid = child.id().cast_signed();
        let memory = File::open(format!("/proc/{pid}/mem")).unwrap();
        let mappings = process::code_mappings(pid).unwrap().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(search(&memory, &mappings).unwrap_err().raw_os_error(), Some(libc::ESRCH));
    }

    #[test]
    fn we_have_one_ourselves() {
        let pid = std::process::id().cast_signed();
        let found = find(pid).unwrap();
        let memory = File::open("/proc/self/mem").unwrap();
        assert!(is_at(&memory, found));
        assert!(!is_at(&memory, found + 1) && !is_at(&memory, 1));
    }
}
