//! Processes of several users in one set: what one of them writes is no other's affair.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

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
        assert!(could.contains("cannot write 4194304\n") && could.contains("cannot write 4096\n"), "{could}");
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
