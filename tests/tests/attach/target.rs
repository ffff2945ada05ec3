//! A program that runs, and the profiler that comes to it.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use coz_tests::run::{Place, Running, wait_until};
use coz_tests::{profiler, program};
use serde_json::Value;

/// Figures are judged by the best of so many attempts: what else the machine does spoils single ones.
pub const ATTEMPTS: usize = 3;
/// Seconds: longer than any test.
pub const LONG: &str = "600";

/// `coz-bpf attach OPTIONS...` in this place.
pub fn attach(place: &Place, options: &[&str]) -> Command {
    let mut command = place.plain(profiler(), ["attach"]);
    command.args(options).stdin(Stdio::null());
    command
}

/// A bundled program that runs for so many seconds, in a place of its own.
pub struct Target {
    pub running: Running,
    pub pid: i32,
    pub place: Place,
}

impl Target {
    pub fn start(name: &str, seconds: &str) -> Self {
        let place = Place::new();
        let running = place.start(place.plain(program(name), ["--seconds", seconds]));
        let target = Self { pid: running.pid(), running, place };
        // Its first half second it spends on measuring the machine's speed.
        wait_until("the program works", || (target.cpu_ticks() > 15).then_some(()));
        target
    }

    /// The same in a user, a pid and a mount namespace of its own, behind the filter of containers, from a file that only it can name.
    pub fn contained(name: &str) -> Self {
        let place = Place::new();
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let behind = place.path().join("behind");
        let compiled = Command::new("cc").arg("-o").args([&behind, &root.join("enter/behind.c")]).status();
        assert!(compiled.expect("a compiler").success());
        let (filter, file) = (root.join("../fuzz/corpus/seccomp/docker"), program(name));
        let script = format!(
            "mount -t tmpfs none tmp && cp {} tmp/contained && exec ./behind {} tmp/contained --seconds {LONG}",
            file.display(),
            filter.display()
        );
        let running = place
            .start(place.plain("unshare", ["-Urpmf", "--mount-proc", "--kill-child", "sh", "-c", &script]));
        let pid = wait_until("it has begun", || {
            let pid = *children(running.pid()).first()?;
            fs::read_link(format!("/proc/{pid}/exe"))
                .is_ok_and(|exe| exe.ends_with("contained"))
                .then_some(pid)
        });
        assert!(!place.path().join("tmp/contained").exists(), "it is in a file system of its own");
        let target = Self { running, pid, place };
        wait_until("the program works", || (target.cpu_ticks() > 15).then_some(()));
        target
    }

    pub fn pid(&self) -> String {
        self.pid.to_string()
    }

    /// CPU time of it so far, in hundredths of a second.
    pub fn cpu_ticks(&self) -> u64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        let words: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_ascii_whitespace().collect();
        words.get(11).and_then(|word| word.parse().ok()).unwrap_or(0)
    }

    /// Mappings and handlers, which must be afterwards what they were before.
    pub fn inside(&self) -> (Vec<String>, String) {
        let read = |file: &str| fs::read_to_string(format!("/proc/{}/{file}", self.pid)).expect("it runs");
        // The kernel's own page for instructions that carry a probe stays.
        let maps = read("maps");
        let maps = maps.lines().filter(|line| !line.ends_with("[uprobes]")).map(str::to_owned).collect();
        let status = read("status");
        let caught = status.lines().find(|line| line.starts_with("SigCgt")).expect("it is there");
        (maps, caught.to_owned())
    }

    /// It runs on until it is told to end.
    pub fn end(mut self) {
        // The first process of a namespace ignores what it has no handler for.
        let signal = if self.pid == self.running.pid() { libc::SIGTERM } else { libc::SIGKILL };
        // SAFETY: a number; it runs, or is a child of ours that was not waited for.
        assert_eq!(unsafe { libc::kill(self.pid, signal) }, 0);
        let ended = self.running.wait();
        assert!(ended.code() == 128 + signal || self.pid != self.running.pid(), "{ended:?}");
        self.place.assert_nothing_left();
    }

    /// It goes on as if nothing had been, and ends when it is told to.
    pub fn ends_as_it_should(self) {
        self.running.signal(libc::SIGUSR1);
        self.ended_as_it_should();
    }

    /// It runs to its end as if nothing had been.
    pub fn ended_as_it_should(mut self) {
        let ended = self.running.wait();
        ended.assert_says(0, &[]);
        assert_eq!(ended.words(), "");
        let output = ended.output();
        assert!(output.starts_with("rounds ") && output.lines().count() == 1, "{output}");
    }
}

pub fn runtime(place: &Place) -> Value {
    let text = fs::read_to_string(place.profile()).expect("a profile is written");
    let line = text.lines().rfind(|line| line.starts_with(r#"{"type":"runtime""#));
    serde_json::from_str(line.expect("the profile has an end")).expect("it is JSON")
}

pub fn children(pid: i32) -> Vec<i32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}
