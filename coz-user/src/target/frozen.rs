//! Whether a process is frozen by its control group: `docker pause`, `systemctl freeze`.
//!
//! Such a process sleeps wherever it is, and where it is stopped it goes on sleeping: nothing can be run in it.

use std::{fs, path::Path};

use super::cgroup;

/// Whether this process is, or will be in a moment.
#[must_use]
pub fn is_frozen(pid: i32) -> bool {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    cgroup::folders(&text, "freezer").iter().any(|folder| is_group_frozen(folder))
}

/// Whether this group was told to freeze. That of version 1 says so of those above it, too.
fn is_group_frozen(folder: &Path) -> bool {
    let says = |file, words: &[&str]| {
        fs::read_to_string(folder.join(file)).is_ok_and(|text| words.contains(&text.trim()))
    };
    says("cgroup.freeze", &["1"]) || says("freezer.state", &["FROZEN", "FREEZING"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_are_understood() {
        for (file, text, frozen) in [
            ("cgroup.freeze", "1\n", true),
            ("cgroup.freeze", "0\n", false),
            ("freezer.state", "FROZEN\n", true),
            ("freezer.state", "FREEZING\n", true),
            ("freezer.state", "THAWED\n", false),
            ("cgroup.procs", "1\n", false),
        ] {
            let folder = tempfile::tempdir().unwrap();
            fs::write(folder.path().join(file), text).unwrap();
            assert_eq!(is_group_frozen(folder.path()), frozen, "{file}: {text}");
        }
    }
}
