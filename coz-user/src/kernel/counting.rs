//! Counting how often a place is passed, by the kernel alone: no BPF program, and nothing is loaded into the target.

use std::{
    fs::File,
    io::{self, Read},
    os::fd::OwnedFd,
};

use super::probe::{self, Spot};

/// Whose visits are counted.
#[derive(Clone, Copy, Debug)]
pub enum Whose {
    /// Everyone's, on this CPU.
    Cpu(u32),
    /// This thread's.
    Thread(i32),
}

/// Counts until it is dropped.
#[derive(Debug)]
pub struct Counter(File);

impl Counter {
    /// Begins to count.
    ///
    /// # Errors
    /// Where the kernel refuses a probe there, or the thread is gone.
    pub fn new(spot: &Spot<'_>, whose: Whose) -> io::Result<Self> {
        let event: OwnedFd = match whose {
            Whose::Cpu(cpu) => probe::event(spot, -1, cpu as i32)?,
            Whose::Thread(thread) => probe::event(spot, thread, -1)?,
        };
        Ok(Self(event.into()))
    }

    /// The visits so far.
    ///
    /// # Errors
    /// Where the kernel does not say.
    pub fn visits(&self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        (&self.0).read_exact(&mut bytes)?;
        Ok(u64::from_ne_bytes(bytes))
    }
}
