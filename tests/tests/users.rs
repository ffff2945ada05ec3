//! Processes of several users in one set: what one of them writes is no other's affair.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use coz_common::abi::{KernelSlot, MAX_SLOTS};
use coz_tests::run::{Ended, Place, Running, wait_until};
use coz_tests::{profiler, program};
use serde_json::Value;

/// Two users who are nobody in particular.
const GOOD: u32 = 65_531;
const BAD: u32 = 65_532;
/// Figures are judged by the best of so many attempts: what else the machine does spoils single ones.
const ATTEMPTS: usize = 3;
/// Seconds: longer than a profile.
const LONG: &str = "60";

/// A copy of a bundled program that everybody can execute, and the folder that it is in.
fn copy(place: &Place, name: &str) -> PathBuf {
    let everybody = |path: &Path| {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("they are our own");
    };
    everybody(place.path());
    let copy = place.path().join(name);
    fs::copy(program(name), &copy).expect("a copy can be made");
    everybody(&copy);
    copy
}

/// Starts it as this user.
fn start(place: &Place, file: &Path, uid: u32) -> Running {
    let mut command = place.plain(file, ["--seconds", LONG]);
    command.uid(uid).gid(uid);
    let running = place.start(command);
    let exe = || fs::read_link(format!("/proc/{}/exe", running.pid())).ok();
    wait_until("it runs", || exe().filter(|exe| exe == file));
    running
}

fn last(place: &Place, kind: &str) -> Value {
    let text = fs::read_to_string(place.profile()).expect("a profile is written");
    let begin = format!(r#"{{"type":"{kind}""#);
    serde_json::from_str(text.lines().rfind(|line| line.starts_with(&begin)).expect("there is one"))
        .expect("it is JSON")
}

/// What half of the line is worth to the program called `background`, in percent.
fn effect(place: &Place) -> f64 {
    let ended = place.run(place.plain(profiler(), ["report", "--json", "--all"]));
    let report: Value = serde_json::from_str(&ended.output()).expect("it is JSON");
    let curve = report["lines"][0]["curve"].as_array().unwrap_or_else(|| panic!("a curve: {report}")).clone();
    let half = curve.iter().find(|level| level["speedup"] == 0.5).expect("it was tried");
    100.0 * half["effect"].as_f64().expect("a number")
}

/// One profile of a program in which one thread must pay for what the other does, and of one that writes whatever it can.
struct Profile {
    place: Place,
    ended: Ended,
    /// What the hostile one could do.
    could: String,
}

fn profile() -> Profile {
    let (place, good, bad) = (Place::new(), Place::new(), Place::new());
    let background = copy(&good, "background");
    let (victim, hostile) = (start(&good, &background, GOOD), start(&bad, &copy(&bad, "hostile"), BAD));
    let line = xtask::programs::Program::build("background").and_then(|program| program.marked("line"));
    let pids = format!("{},{}", victim.pid(), hostile.pid());
    let mut command = place
        .plain(profiler(), ["attach", "-p", &pids, "-P", "progress", "-d", "8", "--max-overhead", "100"]);
    command.args(["--fixed-line", &line.expect("it has one"), "--speedups", "50"]).stdin(Stdio::null());
    let ended = place.run(command);
    let could = hostile.output_so_far();
    Profile { place, ended, could }
}

#[test]
fn who_writes_what_he_can_spoils_nothing_of_another_users() {
    let mut found = Vec::new();
    while found.len() < ATTEMPTS {
        let Profile { place, ended, could } = profile();
        ended.assert_says(0, &["2 processes", &format!("of user {BAD} were not credible")]);
        assert!(!ended.words().contains(&format!("of user {GOOD} were")), "{}", ended.words());
        // It writes its own user's payments, and nothing else.
        assert!(could.contains("writes 1048576\n"), "{could}");
        let slots = format!("cannot write {}\n", size_of::<KernelSlot>() * MAX_SLOTS as usize);
        assert!(could.contains(&slots) && could.contains("cannot write 4096\n"), "{could}");
        assert!(!could.contains("MADE WRITABLE") && !could.contains("UPDATED"), "{could}");
        assert!(!could.contains("caught 4"), "nothing but payments: {could}");
        let runtime = last(&place, "runtime");
        let threads = runtime["threads"].as_array().expect("threads that owed");
        let ours = threads.iter().filter(|thread| thread["name"] == "background");
        let of = |key: &str| ours.clone().map(|thread| thread[key].as_u64().unwrap_or(0)).collect::<Vec<_>>();
        let (owed, paid, unpaid) = (of("owed_ns"), of("paid_ns"), of("unpaid_ns"));
        // The one that runs the line owes nothing and has never said that it paid.
        assert!(paid.len() == 2 && paid.contains(&0), "{runtime}");
        // The other one pays for it. Believed to have paid, it would go on undelayed and seem to gain half: 0 and 50 are told apart.
        let (owed, paid, unpaid): (u64, u64, u64) =
            (owed.iter().sum(), paid.iter().sum(), unpaid.iter().sum());
        let effect = effect(&place);
        found.push((effect, owed, paid, unpaid));
        if effect < 25.0 && paid > 0 && 5 * unpaid < owed {
            return;
        }
    }
    panic!("effect (0 is true), owed, paid, unpaid: {found:?}");
}

/// A server that runs as root, and whose child does not.
fn dropping(place: &Place) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("enter/drops.c");
    let program = place.path().join("drops");
    let mut cc = Command::new("cc");
    let compiled = cc.args(["-O1", "-g", "-pthread", "-o"]).args([&program, &source]).arg("-ldl").status();
    assert!(compiled.expect("a compiler").success());
    program
}

/// The line of `background` that is not the first process's affair.
fn line() -> String {
    xtask::programs::Program::build("background")
        .and_then(|program| program.marked("line"))
        .expect("it has one")
}

/// How its child comes to be in the set.
#[derive(Clone, Copy, PartialEq)]
enum How {
    /// The server is attached to, and forks later.
    Attached,
    /// It is started.
    Started,
}

/// A profile of so many seconds of a server whose child does `what`, and what the server has printed.
fn of_a_server(how: How, what: &str, seconds: &str) -> (Place, Ended, String) {
    let (place, outside) = (Place::new(), Place::new());
    let program = dropping(&outside);
    let line = line();
    let uid = BAD.to_string();
    let options = ["-P", "progress", "--fixed-line", &line, "--speedups", "50", "--max-overhead", "100"];
    let (ended, output) = match how {
        How::Attached => {
            let mut server = outside.start(outside.plain(&program, [&uid, what, "--seconds", LONG]));
            wait_until("it works", || (threads(server.pid()) == 3).then_some(()));
            let pid = server.pid().to_string();
            let mut command = place.plain(profiler(), ["attach", "-p", &pid, "-d", seconds]);
            command.args(options).stdin(Stdio::null());
            let mut profiler = place.start(command);
            wait_until("an experiment", || {
                let text = fs::read_to_string(place.profile()).ok()?;
                text.contains(r#""type":"experiment""#).then_some(())
            });
            server.signal(libc::SIGUSR2);
            let ended = profiler.wait();
            server.signal(libc::SIGUSR1);
            (ended, server.wait().output())
        }
        How::Started => {
            let mut command = place.profiled(["--user", "root"]);
            let what = format!("{what}-soon");
            command.args(options).arg("--").arg(&program).args([&uid, &what, "--seconds", seconds]);
            let ended = place.run(command);
            let output = ended.output();
            (ended, output)
        }
    };
    (place, ended, output)
}

fn threads(pid: i32) -> usize {
    fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count)
}

/// Of the threads of this name, what they owed, paid and left unpaid.
fn delays(place: &Place, name: &str) -> [Vec<u64>; 3] {
    let runtime = last(place, "runtime");
    let threads = runtime["threads"].as_array().cloned().unwrap_or_default();
    let ours: Vec<Value> = threads.into_iter().filter(|thread| thread["name"] == name).collect();
    ["owed_ns", "paid_ns", "unpaid_ns"]
        .map(|key| ours.iter().map(|thread| thread[key].as_u64().unwrap_or(0)).collect())
}

#[test]
fn a_child_that_gives_its_rights_up_is_delayed_as_its_new_user() {
    for how in [How::Attached, How::Started] {
        let mut found = Vec::new();
        let shown = (0..ATTEMPTS).any(|_| {
            let (place, ended, output) = of_a_server(how, "works", "7");
            ended.assert_says(0, &["visits of progress"]);
            assert!(output.contains("child "), "{output}");
            assert!(!ended.words().contains("another user's"), "{}", ended.words());
            let [owed, paid, unpaid] = delays(&place, "dropped").map(|all| all.iter().sum::<u64>());
            found.push((owed, paid, unpaid));
            paid > 20_000_000 && 3 * unpaid < owed
        });
        assert!(shown, "owed, paid, unpaid: {found:?}");
    }
}

#[test]
fn a_child_that_gives_its_rights_up_cannot_write_what_it_could() {
    for how in [How::Attached, How::Started] {
        let mut found = Vec::new();
        let shown = (0..ATTEMPTS).any(|_| {
            let (place, ended, output) = of_a_server(how, "writes", "12");
            ended.assert_says(0, &[&format!("of user {BAD} were not credible")]);
            assert!(!ended.words().contains("of user 0 were"), "{}", ended.words());
            // It has its own user's table, in the place of the other one.
            assert!(output.contains("writes 1048576\n"), "{output}");
            assert!(!output.contains("MADE WRITABLE") && !output.contains("caught 1048576"), "{output}");
            let [owed, paid, unpaid] = delays(&place, "drops").map(|all| all.iter().sum::<u64>());
            let effect = effect(&place);
            found.push((effect, owed, paid, unpaid));
            // Were the server's threads believed to have paid what the child claims, half of the line would seem to be worth half.
            effect < 25.0 && paid > 0 && 5 * unpaid < owed
        });
        assert!(shown, "effect (0 is true), owed, paid, unpaid: {found:?}");
    }
}
