//! Going first while a thread is stopped: whoever stops it and then loses the CPU keeps it stopped.

/// The priority of the calling thread, put back when dropped.
#[derive(Debug)]
pub struct First {
    before: Option<i32>,
}

impl First {
    /// Raises it as far as we may.
    #[must_use]
    pub fn go() -> Self {
        // SAFETY: numbers only; 0 is the calling thread.
        unsafe {
            *libc::__errno_location() = 0;
            let before = libc::getpriority(libc::PRIO_PROCESS, 0);
            let known = *libc::__errno_location() == 0;
            let raised = libc::setpriority(libc::PRIO_PROCESS, 0, -20) == 0;
            Self { before: (known && raised).then_some(before) }
        }
    }
}

impl Drop for First {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            // SAFETY: numbers only.
            unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, before) };
        }
    }
}
