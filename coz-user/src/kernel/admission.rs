//! Processes that run already join the profiled set.

use std::io::Read;

use anyhow::{Context, Result};
use aya::programs::Iter;

use super::{
    load::{Kernel, program},
    programs::refused,
};

/// The program that looks at every task there is. Loaded only where running processes are profiled.
pub(super) const ADMIT: &str = "admit";

impl Kernel {
    /// Loads what [`Self::admit`] needs.
    ///
    /// # Errors
    /// Where the kernel refuses it.
    pub fn prepare_admission(&mut self) -> Result<()> {
        let btf = aya::Btf::from_sys_fs().context("cannot read the kernel's BTF")?;
        let admit = program::<&mut Iter>(&mut self.ebpf, ADMIT)?;
        admit.load("task", &btf).map_err(|error| refused(ADMIT, &error))
    }

    /// All threads of the processes that the kernel knows ([`Self::set_process`]) get their slots, unless they have one.
    ///
    /// # Errors
    /// Where the kernel refuses to go through its tasks.
    pub fn admit(&mut self) -> Result<()> {
        // A thread that was born behind the first look, of one that it had not met yet, is met by the second.
        for _ in 0..2 {
            let admit = program::<&mut Iter>(&mut self.ebpf, ADMIT)?;
            let link = admit.attach().context("cannot go through the kernel's tasks")?;
            let mut file =
                admit.take_link(link)?.into_file().context("cannot go through the kernel's tasks")?;
            // The program writes nothing: what counts is that it has seen them all.
            file.read_to_end(&mut Vec::new()).context("cannot go through the kernel's tasks")?;
        }
        Ok(())
    }
}
