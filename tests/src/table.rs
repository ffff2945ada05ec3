//! Files without a name that are mapped here as tables: what a process shares with its profiler, without a kernel side.

use std::fs::File;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::sync::Arc;

/// A table of `T`, shared with whoever gets its file.
#[derive(Debug)]
pub struct Table<T> {
    file: Arc<OwnedFd>,
    address: *mut T,
}
// SAFETY: shared memory, accessed by volatile operations.
unsafe impl<T> Send for Table<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Table<T> {}

impl<T: Copy> Table<T> {
    /// So many of zeros; the name is for `/proc/PID/maps`.
    ///
    /// # Panics
    /// When there is no memory.
    #[must_use]
    pub fn new(name: &std::ffi::CStr, count: usize) -> Self {
        let length = count * size_of::<T>();
        // SAFETY: a new descriptor and a new mapping; never unmapped, the test's end does that.
        unsafe {
            let fd = libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC);
            assert!(fd >= 0, "memory files are there");
            let file = File::from_raw_fd(fd);
            file.set_len(length as u64).expect("there is memory");
            let access = libc::PROT_READ | libc::PROT_WRITE;
            let address = libc::mmap(std::ptr::null_mut(), length, access, libc::MAP_SHARED, fd, 0);
            assert_ne!(address, libc::MAP_FAILED, "it can be mapped");
            Self { file: Arc::new(file.into()), address: address.cast() }
        }
    }

    /// The value at an index that there is.
    #[must_use]
    pub fn read(&self, index: usize) -> T {
        // SAFETY: within the map; others write whole words.
        unsafe { self.address.add(index).read_volatile() }
    }

    /// Changes the value at an index that there is.
    pub fn change(&self, index: usize, change: impl FnOnce(&mut T)) {
        let mut value = self.read(index);
        change(&mut value);
        // SAFETY: as above.
        unsafe { self.address.add(index).write_volatile(value) }
    }

    /// Its file.
    #[must_use]
    pub fn file(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.file)
    }

    /// The file, opened so that nobody can write to it.
    ///
    /// # Panics
    /// When `/proc` is not there.
    #[must_use]
    pub fn read_only(&self) -> Arc<OwnedFd> {
        let path = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        Arc::new(File::open(path).expect("/proc is there").into())
    }
}
