//! A program under a CPU quota: the report must say so, and refuse its answer.

use std::{
    fs,
    path::{Path, PathBuf},
};

use coz_tests::{program, run::Place};

/// A control group whose processes get four tenths of a CPU; removed when dropped.
struct Group(PathBuf);

impl Group {
    /// Of whichever version the machine has.
    fn new() -> Self {
        let name = format!("coz-test-{}", std::process::id());
        let old = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"].map(Path::new);
        let (root, is_old) = match old
            .into_iter()
            .find(|root| root.join("cpu.cfs_quota_us").exists() || root.join("tasks").exists())
        {
            Some(root) => (root, true),
            None => (Path::new("/sys/fs/cgroup"), false),
        };
        if !is_old {
            // Has no effect where it is on already.
            let _ = fs::write(root.join("cgroup.subtree_control"), "+cpu");
        }
        let group = root.join(name);
        fs::create_dir(&group).expect("a control group can be made");
        let group = Self(group);
        if is_old {
            group.set("cpu.cfs_period_us", "100000");
            group.set("cpu.cfs_quota_us", "40000");
        } else {
            group.set("cpu.max", "40000 100000");
        }
        group
    }

    fn set(&self, file: &str, value: &str) {
        let path = self.0.join(file);
        fs::write(&path, value).unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn a_cpu_quota_makes_the_report_refuse_its_answer() {
    let group = Group::new();
    let place = Place::new();
    let profiled = place.profiled(["-P", "progress", "--"]);
    let words = format!("echo $$ > '{}' && exec \"$0\" \"$@\"", group.0.join("cgroup.procs").display());
    let mut command = place.plain("/bin/sh", ["-c", &words]);
    command
        .arg(profiled.get_program())
        .args(profiled.get_args())
        .arg(program("single"))
        .args(["--seconds", "2"]);
    let ended = place.run(command);
    ended.assert_says(0, &["a cpu quota stopped the program", "not to be trusted", "cpu.max"]);
}

#[test]
fn without_a_quota_there_is_no_word_of_it() {
    let place = Place::new();
    let mut command = place.profiled(["-P", "progress", "--"]);
    command.arg(program("single")).args(["--seconds", "2"]);
    let ended = place.run(command);
    assert_eq!(ended.code(), 0);
    assert!(!ended.words().contains("quota"), "{}", ended.words());
}
