//! Going first while a thread is stopped: if either it or whoever stops it waits for a CPU, it stays stopped for longer.

/// The priority of a thread, put back when dropped.
#[derive(Debug)]
pub struct First {
    thread: libc::id_t,
    before: Option<i32>,
}

impl First {
    /// Raises the calling thread's as far as we may.
    #[must_use]
    pub fn go() -> Self {
        Self::thread(0)
    }

    /// Raises another thread's.
    #[must_use]
    pub fn thread(tid: i32) -> Self {
        let thread = tid.cast_unsigned();
        // SAFETY: numbers only.
        let raise = || unsafe { libc::setpriority(libc::PRIO_PROCESS, thread, -20) == 0 };
        Self { thread, before: nice(tid).filter(|_| raise()) }
    }
}

/// A thread's priority, a nice value; 0: the calling thread's.
pub fn nice(tid: i32) -> Option<i32> {
    // SAFETY: numbers only; -1 may be an answer.
    unsafe {
        *libc::__errno_location() = 0;
        let nice = libc::getpriority(libc::PRIO_PROCESS, tid.cast_unsigned());
        (*libc::__errno_location() == 0).then_some(nice)
    }
}

impl Drop for First {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            // SAFETY: numbers only.
            unsafe { libc::setpriority(libc::PRIO_PROCESS, self.thread, before) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn priority() -> i32 {
        nice(0).unwrap()
    }

    #[test]
    fn it_is_put_back() {
        let before = priority();
        let first = First::go();
        assert!(priority() <= before);
        drop(first);
        assert_eq!(priority(), before);
    }
}
