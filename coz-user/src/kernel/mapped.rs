//! A BPF array map, mapped into this process.

use std::{
    io,
    marker::PhantomData,
    os::fd::{AsFd, AsRawFd},
};

use anyhow::{Context, Result};
use memmap2::{MmapOptions, MmapRaw};

/// An array of `T`, shared with the kernel's programs. Elements are plain integers that others change at any time:
/// they are reached through raw pointers, word by word.
#[derive(Debug)]
pub struct MappedArray<T> {
    memory: MmapRaw,
    len: usize,
    of: PhantomData<T>,
}

impl<T> MappedArray<T> {
    /// Maps `len` elements of a map that was made with `BPF_F_MMAPABLE`, or of a memory file; to be read and written.
    ///
    /// # Errors
    /// Where the kernel refuses the mapping.
    pub fn new(fd: impl AsFd, len: u32, what: &str) -> Result<Self> {
        Self::map(len, what, |options| options.map_raw(fd.as_fd().as_raw_fd()))
    }

    /// The same, to be read only: writing to it kills this process.
    ///
    /// # Errors
    /// As [`MappedArray::new`].
    pub fn read_only(fd: impl AsFd, len: u32, what: &str) -> Result<Self> {
        Self::map(len, what, |options| options.map_raw_read_only(fd.as_fd().as_raw_fd()))
    }

    fn map(len: u32, what: &str, map: impl FnOnce(&MmapOptions) -> io::Result<MmapRaw>) -> Result<Self> {
        let len = len as usize;
        let bytes = len * size_of::<T>();
        let memory = map(MmapOptions::new().len(bytes))
            .with_context(|| format!("cannot map {what} ({bytes} bytes)"))?;
        Ok(Self { memory, len, of: PhantomData })
    }

    /// Number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Address of an element; `None` behind the end. Aligned for `T`, valid as long as `self`.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<*mut T> {
        (index < self.len).then(|| self.memory.as_mut_ptr().cast::<T>().wrapping_add(index))
    }

    /// A copy of an element, as it is at some moment; words of it can be of different moments.
    #[must_use]
    pub fn read(&self, index: usize) -> Option<T>
    where
        T: Copy,
    {
        // SAFETY: within the mapping and aligned (maps begin at a page, elements are multiples of 8 bytes); `T` is
        // a plain struct of integers, for which every bit pattern is a value.
        self.get(index).map(|element| unsafe { element.read_volatile() })
    }
}
