//! Programs that run already: they join, are delayed, and are let go as they were.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use coz_tests::run::{Ended, Place, Running, wait_until};
use coz_tests::{kernel, profiler, program};
use serde_json::Value;

/// Figures are judged by the best of so many attempts: what else the machine does spoils single ones.
const ATTEMPTS: usize = 3;
/// Seconds: longer than any test.
const LONG: &str = "600";

/// `coz-bpf attach OPTIONS...` in this place.
fn attach(place: &Place, options: &[&str]) -> Command {
    let mut command = place.plain(profiler(), ["attach"]);
    command.args(options).stdin(Stdio::null());
    command
}

/// A bundled program that runs for so many seconds, in a place of its own.
struct Target {
    running: Running,
    pid: i32,
    place: Place,
}

impl Target {
    fn start(name: &str, seconds: &str) -> Self {
        let place = Place::new();
        let running = place.start(place.plain(program(name), ["--seconds", seconds]));
        let target = Self { pid: running.pid(), running, place };
        // Its first half second it spends on measuring the machine's speed.
        wait_until("the program works", || (target.cpu_ticks() > 15).then_some(()));
        target
    }

    /// The same in a user, a pid and a mount namespace of its own, behind the filter of containers, from a file that only it can name.
    fn contained(name: &str) -> Self {
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

    fn pid(&self) -> String {
        self.pid.to_string()
    }

    /// CPU time of it so far, in hundredths of a second.
    fn cpu_ticks(&self) -> u64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        let words: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_ascii_whitespace().collect();
        words.get(11).and_then(|word| word.parse().ok()).unwrap_or(0)
    }

    /// Mappings and handlers, which must be afterwards what they were before.
    fn inside(&self) -> (Vec<String>, String) {
        let read = |file: &str| fs::read_to_string(format!("/proc/{}/{file}", self.pid)).expect("it runs");
        // The kernel's own page for instructions that carry a probe stays.
        let maps = read("maps");
        let maps = maps.lines().filter(|line| !line.ends_with("[uprobes]")).map(str::to_owned).collect();
        let status = read("status");
        let caught = status.lines().find(|line| line.starts_with("SigCgt")).expect("it is there");
        (maps, caught.to_owned())
    }

    /// It runs on until it is told to end.
    fn end(mut self) {
        // The first process of a namespace ignores what it has no handler for.
        let signal = if self.pid == self.running.pid() { libc::SIGTERM } else { libc::SIGKILL };
        // SAFETY: a number; it runs, or is a child of ours that was not waited for.
        assert_eq!(unsafe { libc::kill(self.pid, signal) }, 0);
        let ended = self.running.wait();
        assert!(ended.code() == 128 + signal || self.pid != self.running.pid(), "{ended:?}");
        self.place.assert_nothing_left();
    }

    /// It runs to its end as if nothing had been.
    fn ends_as_it_should(mut self) {
        let ended = self.running.wait();
        ended.assert_says(0, &[]);
        assert_eq!(ended.words(), "");
        let output = ended.output();
        assert!(output.starts_with("rounds ") && output.lines().count() == 1, "{output}");
    }
}

fn runtime(place: &Place) -> Value {
    let text = fs::read_to_string(place.profile()).expect("a profile is written");
    let line = text.lines().rfind(|line| line.starts_with(r#"{"type":"runtime""#));
    serde_json::from_str(line.expect("the profile has an end")).expect("it is JSON")
}

/// The effect of the only line at this speedup, in percent.
fn effect(place: &Place, speedup: f64) -> f64 {
    let ended = place.run(place.plain(profiler(), ["report", "--json", "--all"]));
    let report: Value = serde_json::from_str(&ended.output()).expect("it is JSON");
    let curve = report["lines"][0]["curve"].as_array().expect("a curve").clone();
    let level = curve.iter().find(|level| level["speedup"] == speedup);
    100.0
        * level.unwrap_or_else(|| panic!("{speedup} was tried: {report}"))["effect"]
            .as_f64()
            .expect("a number")
}

fn marked(name: &str) -> String {
    xtask::programs::Program::build(name).and_then(|program| program.marked("line")).expect("it has one")
}

/// Half of this program's line is worth so many percent, whatever else this machine does: one of some attempts shows it.
fn half_of_the_line(name: &str, start: impl Fn() -> Target, truth: f64) {
    let line = marked(name);
    let attempt = || {
        let (place, target) = (Place::new(), start());
        let before = target.inside();
        let options = ["-p", &target.pid(), "-P", "progress", "-d", "11", "--max-overhead", "100"];
        let options = [&options[..], &["--fixed-line", &line, "--speedups", "50"]].concat();
        place.run(attach(&place, &options)).assert_says(0, &["attached to process", &line]);
        assert_eq!(target.inside(), before, "everything is undone");
        assert!(runtime(&place)["signals_sent"].as_u64() > Some(0) || name == "single");
        target.end();
        effect(&place, 0.5)
    };
    let mut found = Vec::new();
    while found.len() < ATTEMPTS {
        found.push(attempt());
        if found.last().is_some_and(|found| (found - truth).abs() <= 10.0) {
            return;
        }
    }
    panic!("{found:?} % where {truth} are true");
}

#[test]
fn one_thread_that_runs_already() {
    half_of_the_line("single", || Target::start("single", LONG), 25.0);
}

#[test]
fn two_threads_that_run_already() {
    half_of_the_line("pipeline_condvar", || Target::start("pipeline_condvar", LONG), 37.0);
}

#[test]
fn two_threads_in_a_container() {
    half_of_the_line("pipeline_condvar", || Target::contained("pipeline_condvar"), 37.0);
}

#[test]
fn the_end_of_the_program_ends_the_profile() {
    let (place, target) = (Place::new(), Target::start("single", "4"));
    let ended = place.run(attach(&place, &["-p", &target.pid(), "-P", "progress"]));
    ended.assert_says(0, &["the profiled processes have ended", "visits of progress"]);
    target.ends_as_it_should();
}

#[test]
fn ctrl_c_ends_the_profile_only_and_at_once() {
    let attempt = || {
        let (place, target) = (Place::new(), Target::start("pipeline_condvar", "10"));
        let before = target.inside();
        let mut profiler = place.start(attach(&place, &["-v", "-p", &target.pid(), "-P", "progress"]));
        wait_until("an experiment", || {
            let text = fs::read_to_string(place.profile()).ok()?;
            text.contains(r#""type":"experiment""#).then_some(())
        });
        profiler.signal(libc::SIGINT);
        let ended = profiler.wait();
        ended.assert_says(0, &["interrupted; detached", "visits of progress"]);
        assert_eq!(target.inside(), before, "everything is undone");
        target.ends_as_it_should();
        detached_within(&ended)
    };
    // What else this machine does can make it take longer, never shorter.
    let mut took = Vec::new();
    while took.len() < ATTEMPTS {
        took.push(attempt());
        if took.last().is_some_and(|took| *took < 100.0) {
            return;
        }
    }
    panic!("{took:?} ms");
}

fn detached_within(ended: &Ended) -> f64 {
    let words = ended.words();
    let after = words.split("detached within ").nth(1).expect("-v says so");
    after.split_ascii_whitespace().next().and_then(|ms| ms.parse().ok()).expect("a number")
}

#[test]
fn after_the_duration_it_returns_at_once() {
    let (place, target) = (Place::new(), Target::start("single", "9"));
    let began = Instant::now();
    let ended = place.run(attach(&place, &["-v", "-p", &target.pid(), "-P", "progress", "-d", "2"]));
    ended.assert_says(0, &["visits of progress"]);
    assert!(began.elapsed() < Duration::from_secs(7), "{:?}", began.elapsed());
    let took = detached_within(&ended);
    assert!(took < 100.0, "{took} ms");
    target.ends_as_it_should();
}

#[test]
fn a_profiler_that_is_killed_leaves_the_program_at_full_speed() {
    let held = kernel::objects();
    let (place, target) = (Place::new(), Target::start("pipeline_condvar", "9"));
    let options = ["-p", &target.pid(), "-P", "progress", "--max-overhead", "100", "--speedups", "100"];
    let mut profiler = place.start(attach(&place, &options));
    wait_until("delays", || {
        let text = fs::read_to_string(place.profile()).ok()?;
        text.contains(r#""speedup":1.0"#).then_some(())
    });
    profiler.signal(libc::SIGKILL);
    assert_eq!(profiler.wait().code(), 128 + libc::SIGKILL);
    kernel::assert_nothing_runs_but(&held);
    target.ends_as_it_should();
}

#[test]
fn two_processes_are_one_set() {
    let (place, one, other) = (Place::new(), Target::start("single", "7"), Target::start("mutex", "7"));
    let pids = format!("{},{}", one.pid(), other.pid());
    let ended = place.run(attach(&place, &["-p", &pids, "-d", "2"]));
    ended.assert_says(
        0,
        &["2 processes", "single.c:", "mutex.c:", "no progress point", "nothing is put into them"],
    );
    one.ends_as_it_should();
    other.ends_as_it_should();
}

#[test]
fn children_that_run_already_belong_to_those_that_were_named() {
    let place = Place::new();
    let file = program("single").display().to_string();
    let script = format!("{file} --seconds 5 & wait");
    let outside = Place::new();
    let mut shell = outside.start(outside.plain("/bin/sh", ["-c", &script]));
    wait_until("the child works", || children(shell.pid()).first().copied());
    let ended = place.run(attach(&place, &["-p", &shell.pid().to_string(), "-d", "2"]));
    ended.assert_says(0, &["2 processes", "single.c:"]);
    shell.wait().assert_says(0, &[]);
}

#[test]
fn children_that_a_supervisor_starts_again_and_again_join() {
    let (place, outside) = (Place::new(), Place::new());
    let file = program("pipeline_condvar").display().to_string();
    let script = format!("n=0; while [ $n -lt 6 ]; do {file} --seconds 1.5; n=$((n + 1)); done");
    let mut supervisor = outside.start(outside.plain("/bin/sh", ["-c", &script]));
    wait_until("a child works", || children(supervisor.pid()).first().copied());
    let point = format!("{file}@progress");
    let options = ["-p", &supervisor.pid().to_string(), "-P", &point, "--max-overhead", "100"];
    place.run(attach(&place, &options)).assert_says(0, &["the profiled processes have ended"]);
    let ended = supervisor.wait();
    ended.assert_says(0, &[]);
    assert_eq!(ended.output().matches("rounds ").count(), 6, "{}", ended.output());
    // They were entered, each anew, and paid.
    let runtime = runtime(&place);
    let figure = |key: &str| runtime[key].as_u64().unwrap_or(0);
    assert!(figure("signals_sent") > 0 && figure("paid_ns") > 0, "{runtime}");
}

fn children(pid: i32) -> Vec<i32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

#[test]
fn processes_of_a_name_join_when_they_are_started_later() {
    // A name of this test's own: others may run the bundled programs, too.
    let place = Place::new();
    let name = format!("coz{}", std::process::id());
    let file = place.path().join(&name);
    fs::copy(program("single"), &file).expect("a copy can be made");
    let mut profiler = place.start(attach(&place, &["--comm", &name, "-P", "progress", "-d", "6"]));
    wait_until("it waits", || {
        profiler.words_so_far().contains("waiting for every process called").then_some(())
    });
    let start = || {
        let outside = Place::new();
        (outside.start(outside.plain(&file, ["--seconds", "4"])), outside)
    };
    let (mut first, _one) = start();
    wait_until("it is attached", || profiler.words_so_far().contains("attached to").then_some(()));
    let (mut second, _other) = start();
    profiler.wait().assert_says(0, &["visits of progress"]);
    first.wait().assert_says(0, &[]);
    second.wait().assert_says(0, &[]);
    // One of them runs for a second or more of the time: two threads of CPU time are seen.
    let cpu = runtime(&place)["cpu_ns"].as_u64().expect("it is recorded");
    let visits = runtime(&place)["points"][0]["visits"].as_u64().expect("it is recorded");
    assert!(cpu > 0 && visits > 100, "{cpu} ns, {visits} visits");
    let text = fs::read_to_string(place.profile()).expect("it is written");
    assert!(text.contains(r#""attached":true"#));
}

/// A control group of this test's own, of version 2 where one is mounted.
struct Group(PathBuf);

impl Group {
    fn new(name: &str) -> io::Result<Self> {
        let mounts = fs::read_to_string("/proc/self/mounts")?;
        let mut roots: Vec<(bool, &str)> = mounts
            .lines()
            .filter_map(|line| {
                let mut words = line.split(' ');
                let (folder, kind) = (words.nth(1)?, words.next()?);
                let writable = words.next()?.split(',').any(|option| option == "rw");
                (writable && kind.starts_with("cgroup")).then_some((kind != "cgroup2", folder))
            })
            .collect();
        roots.sort_unstable();
        let mut refusal = io::Error::other("no control groups are mounted to be written");
        for (_, root) in roots {
            let folder = PathBuf::from(root).join(format!("{name}{}", std::process::id()));
            match fs::create_dir(&folder) {
                Ok(()) => return Ok(Self(folder)),
                Err(error) => refusal = error,
            }
        }
        Err(refusal)
    }

    fn add(&self, pid: i32) {
        fs::write(self.0.join("cgroup.procs"), pid.to_string()).expect("a process can be moved into it");
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The last process's end takes it a moment to see.
        wait_until("the group is empty", || fs::remove_dir(&self.0).ok());
    }
}

#[test]
fn a_control_group_is_the_set() {
    let place = Place::new();
    let target = Target::start("single", "9");
    // A container may not make groups: then the one that we are in is there to be named.
    let (group, path) = match Group::new("coz-test") {
        Ok(group) => {
            group.add(target.running.pid());
            let path = group.0.display().to_string();
            (Some(group), path)
        }
        Err(_) => {
            let own = fs::read_to_string("/proc/self/cgroup").expect("it is there");
            let path = own.lines().last().and_then(|line| line.splitn(3, ':').nth(2)).expect("a group");
            (None, path.to_owned())
        }
    };
    let mut profiler = place.start(attach(&place, &["--cgroup", &path, "-d", "4"]));
    wait_until("it is attached", || profiler.words_so_far().contains("attached to").then_some(()));
    // One that is started in it joins.
    let outside = Place::new();
    let script = format!("read go; exec {} --seconds 4", program("mutex").display());
    let mut command = outside.plain("/bin/sh", ["-c", &script]);
    command.stdin(Stdio::piped());
    let mut later = command.stdout(Stdio::null()).spawn().expect("a shell");
    if let Some(group) = &group {
        group.add(later.id().cast_signed());
    }
    drop(later.stdin.take());
    profiler.wait().assert_says(0, &["control group", "single.c:", "mutex.c:"]);
    assert!(later.wait().expect("it ends").success());
    target.ends_as_it_should();
}

#[test]
fn who_cannot_be_attached_to_is_told_why() {
    let place = Place::new();
    let refused = |pid: &str, code, says: &[&str]| {
        place.run(attach(&place, &["-p", pid, "-d", "1"])).assert_says(code, says);
        assert!(!place.profile().exists(), "no empty profile is left");
    };
    refused("4194303", 125, &["there is none of that number", "pgrep"]);
    refused("2", 125, &["thread of the kernel"]);
    refused("0", 2, &[]);
    let target = Target::start("pipeline_condvar", "4");
    let threads = fs::read_dir(format!("/proc/{}/task", target.pid())).expect("it runs");
    let names = threads.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let thread = names.into_iter().find(|tid| *tid != target.pid()).expect("it has two");
    refused(&thread, 125, &["it is a thread of process", &format!("-p {}", target.pid())]);
    place
        .run(attach(&place, &["-p", &target.pid(), "-P", "no_such_function"]))
        .assert_says(2, &["no_such_function"]);
    assert!(!place.profile().exists());
    target.ends_as_it_should();
}

#[test]
fn who_is_traced_is_watched_and_not_delayed() {
    let (place, target) = (Place::new(), Target::start("single", "5"));
    // SAFETY: plain numbers; the tracee is our child and runs on.
    let traced = unsafe { libc::ptrace(libc::PTRACE_SEIZE, target.running.pid(), 0, 0) };
    assert_eq!(traced, 0, "{}", io::Error::last_os_error());
    let ended = place.run(attach(&place, &["-p", &target.pid(), "-P", "progress", "-d", "2"]));
    ended.assert_says(0, &["is not delayed", "traces it already", "No experiment was made", "single.c:"]);
    // SAFETY: as above. It can only be let go while it is stopped.
    unsafe {
        libc::ptrace(libc::PTRACE_INTERRUPT, target.running.pid(), 0, 0);
        libc::waitpid(target.running.pid(), std::ptr::null_mut(), libc::__WALL);
        libc::ptrace(libc::PTRACE_DETACH, target.running.pid(), 0, 0);
    }
    target.ends_as_it_should();
}

#[test]
fn a_set_user_id_program_leaves_the_set() {
    let place = Place::new();
    let file = place.path().join("other-rights");
    fs::copy(program("single"), &file).expect("a copy can be made");
    let open = |mode| fs::Permissions::from_mode(mode);
    fs::set_permissions(&file, open(0o4755)).expect("it is ours");
    fs::set_permissions(place.path(), open(0o755)).expect("it is ours");
    let script = format!("{} --seconds 1; echo ended $?", file.display());
    let ended = place.run(place.profiled(["--user", "65534", "--", "/bin/sh", "-c", &script]));
    ended.assert_says(0, &["left the profile", "other rights"]);
    assert!(ended.output().ends_with("ended 0\n"), "{}", ended.output());
}

#[test]
fn delays_stay_within_the_budget() {
    let overhead = |options: &[&str]| {
        let (place, target) = (Place::new(), Target::start("single", "9"));
        let line = marked("single");
        let all =
            ["-p", &target.pid(), "-P", "progress", "-d", "7", "--speedups", "100", "--fixed-line", &line];
        place.run(attach(&place, &[&all[..], options].concat())).assert_says(0, &["visits of progress"]);
        target.ends_as_it_should();
        let runtime = runtime(&place);
        let figure = |key: &str| runtime[key].as_u64().unwrap_or(0) as f64;
        (figure("delay_ns") / figure("time"), figure("held_back_ns"))
    };
    let (free, _) = overhead(&["--max-overhead", "100"]);
    let (bound, held_back) = overhead(&["--max-overhead", "5"]);
    // The last experiment's delays are still to be paid off. Of a busy machine there is less time to delay.
    assert!(bound < 0.08 && free > 1.2 * bound && held_back > 2e8, "{free}, {bound}, {held_back}");
}

#[test]
fn only_with_the_rights_that_it_takes() {
    let place = Place::new();
    let target = Target::start("single", "4");
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o777)).expect("it is ours");
    let binary = place.path().join("coz-bpf");
    fs::copy(profiler(), &binary).expect("a copy can be made");
    let mut command = place.plain("/usr/bin/setpriv", ["--reuid=65534", "--regid=65534", "--clear-groups"]);
    command.arg(binary).args(["attach", "-p", &target.pid(), "-d", "1"]);
    place.run(command).assert_says(125, &["CAP_BPF", "CAP_PERFMON", "setcap"]);
    target.ends_as_it_should();
}
