//! The control page as the target sees it: a memory file that only this process can write.

use std::{
    ffi::CString,
    os::fd::{AsFd, OwnedFd},
};

use anyhow::{Context, Result};
use coz_common::abi::Control;
use nix::{
    fcntl::{FcntlArg, SealFlag, fcntl},
    sys::memfd::{MFdFlags, memfd_create},
    unistd::ftruncate,
};

use super::mapped::MappedArray;

/// One page, mapped here before it was sealed: no other mapping of it can be written (`F_SEAL_FUTURE_WRITE`).
#[derive(Debug)]
pub struct ControlFile {
    file: OwnedFd,
    page: MappedArray<Control>,
}

impl ControlFile {
    /// A new one, all zero.
    ///
    /// # Errors
    /// Where memory files can not be made or sealed (Linux 5.1).
    pub fn new() -> Result<Self> {
        let name = CString::new("coz-bpf-control").context("a name without NUL")?;
        let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
        let file =
            memfd_create(name.as_c_str(), flags).context("cannot make the control page (memfd_create)")?;
        ftruncate(&file, size_of::<Control>() as i64).context("cannot size the control page")?;
        let page = MappedArray::new(&file, 1, "the control page")?;
        let seals = SealFlag::F_SEAL_SHRINK
            | SealFlag::F_SEAL_GROW
            | SealFlag::from_bits_retain(libc::F_SEAL_FUTURE_WRITE)
            | SealFlag::F_SEAL_SEAL;
        fcntl(&file, FcntlArg::F_ADD_SEALS(seals)).context("cannot seal the control page")?;
        Ok(Self { file, page })
    }

    /// A descriptor to hand out.
    ///
    /// # Errors
    /// Where there are no more.
    pub fn descriptor(&self) -> Result<OwnedFd> {
        self.file.as_fd().try_clone_to_owned().context("cannot copy the control page's descriptor")
    }

    /// The page.
    pub fn page(&self) -> *mut Control {
        self.page.get(0).expect("the control page has one element")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_else_can_write_it() {
        let control = ControlFile::new().expect("memory files are there");
        // SAFETY: our own page, which nobody else uses.
        unsafe { (*control.page()).epoch = 7 };
        let copy = control.descriptor().expect("a descriptor");
        assert!(MappedArray::<Control>::new(&copy, 1, "the copy").is_err(), "a mapping to write is refused");
        let seen = MappedArray::<Control>::read_only(&copy, 1, "the copy").expect("one to read is not");
        assert_eq!(seen.read(0).map(|page| page.epoch), Some(7));
    }
}
