//! Where in a process there is a `syscall` instruction, for us to use, and room for code that makes its use safe.

use std::{fs::File, io, os::unix::fs::FileExt};

use super::rescue;
use crate::target::{process, vdso};

/// `syscall`.
const INSTRUCTION: [u8; 2] = [0x0f, 0x05];
/// As much of a mapping is searched.
const SEARCHED: u64 = 4 << 20;

/// What a process's code offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gate {
    /// Address of a `syscall` instruction.
    pub call: u64,
    /// Address and length of the room for a [`rescue::Rescue`]; `None`: there is none.
    pub room: Option<(u64, usize)>,
}

impl Gate {
    /// Looks for one: in the vDSO, which is always mapped and has no pages that must be read first, else in any other code.
    ///
    /// # Errors
    /// The process is gone, may not be looked at, or has none.
    pub fn find(pid: i32) -> io::Result<Self> {
        let memory = File::open(format!("/proc/{pid}/mem"))?;
        let mappings = process::code_mappings(pid).map_err(io::Error::other)?.unwrap_or_default();
        search(&memory, &mappings)
    }

    /// Whether it is there still.
    #[must_use]
    pub fn is_in(&self, memory: &File) -> bool {
        let mut bytes = [0; INSTRUCTION.len()];
        memory.read_exact_at(&mut bytes, self.call).is_ok() && bytes == INSTRUCTION
    }
}

/// A process that ends meanwhile has no memory any more: then nothing can be read, wherever something was mapped.
fn search(memory: &File, mappings: &[process::CodeMapping]) -> io::Result<Gate> {
    let is_vdso = |mapping: &&process::CodeMapping| mapping.path.as_os_str() == vdso::NAME;
    let others = mappings.iter().filter(|mapping| !is_vdso(mapping) && mapping.inode != 0);
    let (mut is_there, mut room) = (false, None);
    for mapping in mappings.iter().filter(is_vdso).chain(others) {
        let mut code = vec![0; mapping.end.saturating_sub(mapping.start).min(SEARCHED) as usize];
        let length = memory.read_at(&mut code, mapping.start).unwrap_or(0);
        is_there |= length > 0;
        let code = &code[..length];
        if is_vdso(&mapping) && mapping.start + length as u64 == mapping.end {
            room = room_in(code).map(|(at, length)| (mapping.start + at as u64, length));
        }
        let found = code.windows(INSTRUCTION.len()).position(|bytes| bytes == INSTRUCTION);
        if let Some(at) = found {
            return Ok(Gate { call: mapping.start + at as u64, room });
        }
    }
    Err(io::Error::from_raw_os_error(if is_there { libc::ENOSYS } else { libc::ESRCH }))
}

/// Where the vDSO's last page is filled up with zeros: offset and length. What somebody who was killed has left there may still be in
/// use, so the room is before that.
fn room_in(vdso: &[u8]) -> Option<(usize, usize)> {
    const PAGE: usize = 4096;
    const ALIGNED: usize = 16;
    // A byte of the image's own end may be zero.
    const MARGIN: usize = 16;
    let last_page = vdso.len().checked_sub(PAGE)?;
    let left = vdso[last_page..].chunks_exact(ALIGNED).position(|bytes| bytes.starts_with(rescue::MARK));
    let end = left.map_or(vdso.len(), |place| last_page + place * ALIGNED);
    let used = vdso[..end].iter().rposition(|&byte| byte != 0)? + 1;
    let start =
        (used + MARGIN).next_multiple_of(ALIGNED).max(last_page).max(end.saturating_sub(rescue::MOST));
    let length = end.saturating_sub(start);
    (length >= rescue::least()).then_some((start, length))
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
        let found = Gate::find(pid).unwrap();
        let memory = File::open("/proc/self/mem").unwrap();
        assert!(found.is_in(&memory));
        assert!(!Gate { call: found.call + 1, ..found }.is_in(&memory));
        assert!(!Gate { call: 1, ..found }.is_in(&memory));
    }

    #[test]
    fn the_room_is_at_the_end_of_the_last_page_and_nothing_is_overwritten() {
        let image = |used: usize| [vec![1; used], vec![0; 8192 - used]].concat();
        assert_eq!(room_in(&image(5000)), Some((8192 - rescue::MOST, rescue::MOST)));
        assert_eq!(room_in(&image(7990)), None, "too little");
        assert_eq!(room_in(&image(8192 - 700)), Some((8192 - 672, 672)), "with a margin");
        assert_eq!(room_in(&image(3000)), Some((8192 - rescue::MOST, rescue::MOST)));
        assert_eq!(room_in(&[0; 8192]), None, "that is no vDSO");
        assert_eq!(room_in(&[1; 100]), None);

        let mut left = image(6000);
        let at = 8192 - rescue::MOST;
        left[at..at + 8].copy_from_slice(rescue::MARK);
        left[at + 100] = 1;
        assert_eq!(room_in(&left), Some((at - rescue::MOST, rescue::MOST)), "beside what was left");
    }
}
