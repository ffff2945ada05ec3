//! A control group for the time of a measurement or a test.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context as _, Result};

/// A folder of the control group file system.
#[derive(Debug)]
pub struct Group(PathBuf);

impl Group {
    /// A new one, of version 2 if there is any.
    ///
    /// # Errors
    /// When none can be made.
    pub fn new() -> Result<Self> {
        let mounts = fs::read_to_string("/proc/mounts")?;
        let mut roots: Vec<(bool, &str)> = mounts
            .lines()
            .filter_map(|line| {
                let words: Vec<&str> = line.split(' ').collect();
                let (folder, kind) = (words.get(1)?, words.get(2)?);
                let writable = words.get(3)?.split(',').any(|option| option == "rw");
                (writable && kind.starts_with("cgroup")).then_some((*kind != "cgroup2", *folder))
            })
            .collect();
        roots.sort_unstable();
        static MADE: AtomicU32 = AtomicU32::new(0);
        let name = format!("coz-bpf-{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let mut made = roots.into_iter().map(|(_, root)| Path::new(root).join(&name));
        made.find(|folder| fs::create_dir(folder).is_ok()).map(Self).context("no control group can be made")
    }

    /// Its folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Moves a process into it.
    ///
    /// # Errors
    /// When the kernel does not let it.
    pub fn add(&self, pid: i32) -> Result<()> {
        fs::write(self.0.join("cgroup.procs"), pid.to_string())
            .with_context(|| format!("process {pid} cannot be moved into {}", self.0.display()))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A process that has ended a moment ago still counts.
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}
