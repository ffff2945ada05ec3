//! A process whose control group is frozen: it is neither entered nor left, which takes no time, and both can be done afterwards.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use coz_tests::entering::Files;
use coz_user::target::inject::{self, LeaveError, Refused};

use crate::target::{KINDS, SIGNAL, Target, compile, enter, leave, surroundings};

/// A control group that can be frozen; thawed and removed when dropped.
struct Group {
    folder: PathBuf,
    /// Where it is told to freeze, by which word, and to thaw.
    file: &'static str,
    words: [&'static str; 2],
}

impl Group {
    /// One of each version that is mounted.
    fn of_each_version() -> Vec<Self> {
        let name = format!("coz-test-frozen-{}", std::process::id());
        let make = |(root, file, words)| {
            let folder = Path::new(root).join(&name);
            let is_there = Path::new(root).join("cgroup.procs").exists() && fs::create_dir(&folder).is_ok();
            let group = is_there.then_some(Self { folder, file, words })?;
            group.folder.join(file).exists().then_some(group)
        };
        let groups = [
            ("/sys/fs/cgroup", "cgroup.freeze", ["1", "0"]),
            ("/sys/fs/cgroup/unified", "cgroup.freeze", ["1", "0"]),
            ("/sys/fs/cgroup/freezer", "freezer.state", ["FROZEN", "THAWED"]),
        ];
        groups.into_iter().filter_map(make).collect()
    }

    fn take(&self, pid: i32) {
        fs::write(self.folder.join("cgroup.procs"), pid.to_string()).expect("it can be joined");
    }

    fn set(&self, frozen: bool) {
        let word = self.words[usize::from(!frozen)];
        fs::write(self.folder.join(self.file), word).expect("it can be told");
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::write(self.folder.join(self.file), self.words[1]);
        let deadline = Instant::now() + Duration::from_secs(2);
        while fs::remove_dir(&self.folder).is_err() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[test]
fn a_frozen_process_is_neither_entered_nor_left_until_it_goes_on() {
    let groups = Group::of_each_version();
    assert!(!groups.is_empty(), "no control groups that can be frozen are mounted");
    for group in &groups {
        let target = Target::begin(&compile("refuses", KINDS[0]), ["nothing"]);
        let pid = target.pid();
        let files = Files::default();
        group.take(pid);
        let before = surroundings(pid);

        group.set(true);
        let refused = inject::enter(pid, &files.maps(), SIGNAL);
        assert!(matches!(refused, Err(Refused::Frozen)), "{}: {refused:?}", group.file);
        group.set(false);
        assert_eq!(surroundings(pid), before);

        let entered = enter(pid, &files);
        group.set(true);
        let left = entered.leave();
        assert!(matches!(left, Err(LeaveError::Frozen)), "{}: {left:?}", group.file);
        group.set(false);
        leave(&entered);
        assert_eq!(surroundings(pid), before);
        assert_eq!(target.finish(), "ended\n");
    }
}
