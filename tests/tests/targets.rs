//! The target's output, input, exit code and surroundings are those of a plain run.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use coz_tests::program;
use coz_tests::run::{Ended, Place};

/// The same program, plain and profiled.
fn both(place: &Place, name: &str, args: &[&str]) -> (Ended, Ended) {
    let plain = place.run(place.plain(program(name), args));
    let mut command = place.profiled(["--"]);
    command.arg(program(name)).args(args);
    (plain, place.run(command))
}

fn assert_same(name: &str, args: &[&str]) {
    let (plain, profiled) = both(&Place::new(), name, args);
    assert_eq!(profiled.code(), plain.code(), "{name} {args:?}:\n{}", profiled.words());
    assert!(
        profiled.stdout == plain.stdout,
        "{name} {args:?}: `{}` is not `{}`",
        profiled.output(),
        plain.output()
    );
}

/// Every number after `ns` is a time, which no two runs share.
fn masked(output: &str) -> String {
    output.split(" ns ").next().unwrap_or_default().to_owned()
}

#[test]
fn programs_with_a_known_answer_print_what_they_print() {
    let next = AtomicUsize::new(0);
    let each = || {
        while let Some(&name) = xtask::truth::CASES.get(next.fetch_add(1, Relaxed)) {
            prints_what_it_prints(name);
        }
    };
    std::thread::scope(|scope| (0..2).for_each(|_| drop(scope.spawn(each))));
}

fn prints_what_it_prints(name: &str) {
    let rounds = if matches!(name, "barrier" | "cpu_sleep") { "300" } else { "1200" };
    let place = Place::new();
    let mut command = place.profiled(["-P", "progress", "--"]);
    command.arg(program(name)).args(["--rounds", rounds]);
    let profiled = place.run(command);
    profiled.assert_says(0, &[]);
    assert_eq!(masked(&profiled.output()), format!("rounds {rounds}"), "{name}");
}

#[test]
fn exit_codes_are_passed_on() {
    for code in ["0", "1", "42", "255"] {
        assert_same("behave", &["exit", code]);
    }
}

#[test]
fn death_by_signal_is_128_and_the_signal() {
    for signal in [libc::SIGTERM, libc::SIGSEGV, libc::SIGABRT, libc::SIGKILL] {
        let (plain, profiled) = both(&Place::new(), "behave", &["signal", &signal.to_string()]);
        assert_eq!((plain.code(), profiled.code()), (128 + signal, 128 + signal), "{}", profiled.words());
    }
}

#[test]
fn input_and_output_are_passed_byte_for_byte() {
    let input: Vec<u8> = (0..300_000u32).map(|i| (i * 7 % 251) as u8).collect();
    let place = Place::new();
    let mut command = place.profiled(["---"]);
    command.arg(program("behave")).arg("cat");
    let ended = place.run_with(command, &input);
    ended.assert_says(0, &[]);
    assert!(ended.stdout == input, "{} bytes of {}", ended.stdout.len(), input.len());
    assert_same("behave", &["bytes"]);
}

#[test]
fn the_program_sees_the_environment_of_a_plain_run() {
    assert_same("behave", &["environment"]);
}

#[test]
fn the_program_has_the_descriptors_of_a_plain_run() {
    assert_same("behave", &["descriptors"]);
}

#[test]
fn the_program_inherits_what_a_plain_run_inherits() {
    let place = Place::new();
    let (plain, profiled) = both(&place, "behave", &["inherited"]);
    assert_eq!(profiled.output(), plain.output());
}

#[test]
fn under_sudo_the_program_is_the_persons_own_and_so_are_the_files() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    let place = Place::new();
    std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o777)).expect("it is ours");
    // The build's folder may be closed to others.
    let behave = place.path().join("behave");
    std::fs::copy(program("behave"), &behave).expect("it can be copied");
    let mut command = place.profiled(["--"]);
    command.arg(behave).arg("inherited");
    command.env("SUDO_UID", "65534").env("SUDO_GID", "65534").env("SUDO_USER", "nobody");
    let ended = place.run(command);
    ended.assert_says(0, &[]);
    assert!(ended.output().contains("uid 65534 65534 gid 65534 65534"), "{}", ended.output());
    let profile = std::fs::metadata(place.profile()).expect("a profile is written");
    assert_eq!((profile.uid(), profile.gid()), (65534, 65534));
}

/// Rust's runtime gives every thread an alternate signal stack of just the size that the kernel names as the least
/// (`AT_MINSIGSTKSZ`): that must not keep our signal away, or no Rust program ever pays a delay.
#[test]
fn the_threads_of_a_rust_program_pay() {
    let place = Place::new();
    let mut command = place.profiled(["-P", "progress", "--"]);
    command.arg(program("pipeline_std")).args(["--seconds", "6"]);
    place.run(command).assert_says(0, &[]);
    let profile = std::fs::read_to_string(place.profile()).expect("a profile is written");
    let mut records = profile.lines().map(|line| serde_json::from_str(line).expect("every line is JSON"));
    let runtime: serde_json::Value =
        records.rfind(|record: &serde_json::Value| record["type"] == "runtime").expect("a last record");
    assert!(runtime["signals_sent"].as_u64() > Some(0) && runtime["paid_ns"].as_u64() > Some(0), "{runtime}");
}
