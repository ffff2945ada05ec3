//! Control groups: from what the user calls one to its folder, and who is in it.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};

/// In each group's folder: the processes in it.
const PROCS: &str = "cgroup.procs";
/// Groups below groups are followed so deep.
const MAX_DEPTH: usize = 32;

/// A control group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its folder.
    pub folder: PathBuf,
    /// Its number and how deep it lies, where it is one of version 2: what the kernel's programs know it by.
    pub unified: Option<(u64, u32)>,
}

/// A mounted hierarchy of control groups.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mount {
    folder: PathBuf,
    unified: bool,
}

impl Group {
    /// Finds the one that is meant: a folder, or a name as in `/proc/PID/cgroup`, in any hierarchy (version 2 first).
    ///
    /// # Errors
    /// There is none.
    pub fn find(name: &Path) -> Result<Self> {
        let mounts =
            mounts(&fs::read_to_string("/proc/self/mounts").context("cannot read /proc/self/mounts")?);
        let below = name.strip_prefix("/").unwrap_or(name);
        let folders =
            std::iter::once(name.to_owned()).chain(mounts.iter().map(|mount| mount.folder.join(below)));
        for folder in folders {
            if folder.is_absolute() && folder.join(PROCS).is_file() {
                let unified = mounts
                    .iter()
                    .filter(|mount| folder.starts_with(&mount.folder))
                    .max_by_key(|mount| mount.folder.as_os_str().len())
                    .filter(|mount| mount.unified)
                    .and_then(|mount| number(&folder, &mount.folder));
                return Ok(Self { folder, unified });
            }
        }
        let places: Vec<_> = mounts.iter().map(|mount| mount.folder.display().to_string()).collect();
        match places.is_empty() {
            true => bail!("no control groups are mounted: `mount -t cgroup2 none /sys/fs/cgroup`"),
            false => bail!("there is no such control group, here or in {}", places.join(", ")),
        }
    }

    /// The processes in it and in those below it. Empty also when it has been removed.
    #[must_use]
    pub fn processes(&self) -> Vec<u32> {
        let mut found = Vec::new();
        collect(&self.folder, 0, &mut found);
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Whether it is still there.
    #[must_use]
    pub fn exists(&self) -> bool {
        self.folder.is_dir()
    }
}

/// The folders of the groups that a `/proc/PID/cgroup` names, each followed by those above it: of version 2, and of that hierarchy of
/// version 1 that has this controller. Where these are mounted by custom; not all of them are there.
#[must_use]
pub fn folders(text: &str, controller: &str) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for line in text.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(group)) = (fields.next(), fields.next(), fields.next()) else {
            continue;
        };
        let base = Path::new("/sys/fs/cgroup");
        let roots = match controllers {
            // Version 2, where it is mounted alone and beside version 1.
            "" => [base.to_owned(), base.join("unified")],
            _ if controllers.split(',').any(|one| one == controller) => {
                [base.join(controllers), base.join(controller)]
            }
            _ => continue,
        };
        let relative = Path::new(group.trim_start_matches('/'));
        for root in roots {
            let group = root.join(relative);
            folders
                .extend(group.ancestors().take_while(|above| above.starts_with(&root)).map(Path::to_owned));
        }
    }
    folders
}

fn collect(folder: &Path, depth: usize, found: &mut Vec<u32>) {
    let text = fs::read_to_string(folder.join(PROCS)).unwrap_or_default();
    // 0: a process that this pid namespace does not see.
    found.extend(text.lines().filter_map(|line| line.parse::<u32>().ok()).filter(|pid| *pid != 0));
    if depth == MAX_DEPTH {
        return;
    }
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            collect(&entry.path(), depth + 1, found);
        }
    }
}

fn number(folder: &Path, root: &Path) -> Option<(u64, u32)> {
    let depth = folder.strip_prefix(root).ok()?.components().count();
    Some((fs::metadata(folder).ok()?.ino(), u32::try_from(depth).ok()?))
}

/// The hierarchies in the text of `/proc/mounts`, version 2 first.
fn mounts(text: &str) -> Vec<Mount> {
    let mut found: Vec<Mount> = text
        .lines()
        .filter_map(|line| {
            let mut words = line.split(' ');
            let (folder, kind) = (words.nth(1)?, words.next()?);
            let unified = kind == "cgroup2";
            (unified || kind == "cgroup")
                .then(|| Mount { folder: PathBuf::from(folder.replace("\\040", " ")), unified })
        })
        .collect();
    found.sort_by_key(|mount| !mount.unified);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hierarchies_of_both_versions_are_found_the_newer_first() {
        let text = "cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\ntmpfs /tmp tmpfs rw 0 0\ncgroup2 /sys/fs/cgroup/u cgroup2 rw 0 0\n";
        let found: Vec<_> = mounts(text).into_iter().map(|m| (m.folder, m.unified)).collect();
        assert_eq!(found, [("/sys/fs/cgroup/u".into(), true), ("/sys/fs/cgroup/cpu".into(), false)]);
    }

    #[test]
    fn the_groups_above_come_after_the_processs_own() {
        let found = folders("0::/user.slice/app.scope\n", "cpu");
        let expected = ["user.slice/app.scope", "user.slice", ""];
        assert_eq!(found[..3], expected.map(|folder| Path::new("/sys/fs/cgroup").join(folder)));
        let old = folders("4:cpu,cpuacct:/docker/x\n3:memory:/docker/x\n", "cpu");
        assert_eq!(old[0], Path::new("/sys/fs/cgroup/cpu,cpuacct/docker/x"));
        assert_eq!(old[3], Path::new("/sys/fs/cgroup/cpu/docker/x"));
        assert_eq!(old.len(), 6, "memory is another hierarchy");
        assert_eq!(folders("nonsense", "cpu"), Vec::<PathBuf>::new());
    }

    #[test]
    fn processes_of_groups_below_count_too() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("below")).unwrap();
        fs::write(folder.path().join(PROCS), "7\n0\n").unwrap();
        fs::write(folder.path().join("below").join(PROCS), "9\n7\n").unwrap();
        let group = Group::find(folder.path()).unwrap();
        assert_eq!((group.processes(), group.unified), (vec![7, 9], None));
        let gone = Group { folder: folder.path().join("gone"), unified: None };
        assert!(gone.processes().is_empty() && !gone.exists());
        assert!(Group::find(Path::new("no/such.group")).is_err());
    }
}
