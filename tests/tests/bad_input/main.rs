//! Bad input: each kind has its exit code and its message, and where the program can run, it does. Programs made here
//! are called `app`, so that no phrase that is looked for is part of a path.

mod elf32;
mod files;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use coz_tests::program;
use coz_tests::run::{Ended, Place};

/// `coz-bpf run -- PROGRAM ARGS...` in a place of its own.
fn profiled(program: impl AsRef<Path>, args: &[&str]) -> Ended {
    let place = Place::new();
    let mut command = place.profiled(["--"]);
    command.arg(program.as_ref()).args(args);
    place.run(command)
}

fn tool(program: &str, args: &[&str]) {
    let output =
        Command::new(program).args(args).output().unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(output.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn executable(place: &Place, name: &str, bytes: &[u8]) -> PathBuf {
    let path = place.path().join(name);
    fs::write(&path, bytes).expect("the place is writable");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is ours");
    path
}

#[test]
fn no_such_program() {
    profiled("/no/such/program", &[]).assert_says(127, &["/no/such/program"]);
    profiled("no-such-program-on-path", &[]).assert_says(127, &["no-such-program-on-path"]);
}

#[test]
fn not_executable() {
    let place = Place::new();
    let path = executable(&place, "app", b"just text");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("it is ours");
    profiled(&path, &[]).assert_says(126, &["app", "chmod"]);
    profiled(place.path(), &[]).assert_says(126, &["folder"]);
}

#[test]
fn wrong_usage() {
    for args in [&["run"][..], &["run", "--speedups", "0,200", "--", "/bin/true"], &["no-such-command"]] {
        let place = Place::new();
        place.run(place.plain(coz_tests::profiler(), args)).assert_says(2, &["--help"]);
    }
}

#[test]
fn an_unknown_symbol_gives_the_nearest_names_and_nothing_is_started() {
    let place = Place::new();
    let mut command = place.profiled(["-P", "progres", "--"]);
    command.arg(program("single")).args(["--rounds", "10"]);
    let ended = place.run(command);
    ended.assert_says(ended.code(), &["progres", "progress"]);
    assert!([2, 125].contains(&ended.code()), "{}", ended.code());
    assert_eq!(ended.output(), "", "the program was not started");
}

#[test]
fn a_script_runs_and_its_interpreter_is_said_to_be_what_is_profiled() {
    let place = Place::new();
    let script = executable(&place, "app", b"#!/bin/sh\necho from the script $1\nexit 3\n");
    let ended = profiled(script, &["word"]);
    ended.assert_says(3, &["script", "/bin/sh"]);
    assert_eq!(ended.output(), "from the script word\n");
}

#[test]
fn a_static_program_that_ends_at_once_is_as_without_us() {
    let place = Place::new();
    let path = place.path().join("app");
    let source = xtask::sh::root().join("tests/programs/behave.c");
    tool("gcc", &["-static", "-O2", "-g", "-o", &path.to_string_lossy(), &source.to_string_lossy()]);
    profiled(path, &["exit", "9"]).assert_says(9, &["ended after"]);
}

#[test]
fn a_32_bit_program_runs_and_is_said_to_be_32_bit() {
    let place = Place::new();
    let path = executable(&place, "app", &elf32::exits_with(7));
    // Kernels can be built without the means to run it; then it is "not executable" for everyone.
    let plain = Command::new(&path).status();
    let code = if plain.is_ok() { 7 } else { 126 };
    profiled(path, &[]).assert_says(code, &["32-bit"]);
}

#[test]
fn a_stripped_program_runs_and_the_way_out_is_said() {
    let place = Place::new();
    let path = place.path().join("app");
    tool("strip", &["-o", &path.to_string_lossy(), &program("single").to_string_lossy()]);
    let ended = profiled(path, &["--rounds", "1500"]);
    ended.assert_says(0, &["stripped", "-g"]);
    assert!(ended.output().starts_with("rounds 1500 "), "{}", ended.output());
}

#[test]
fn without_debug_information_functions_are_shown_and_the_way_to_lines_is_said() {
    let place = Place::new();
    let path = place.path().join("app");
    tool("strip", &["--strip-debug", "-o", &path.to_string_lossy(), &program("single").to_string_lossy()]);
    let mut command = place.profiled(["-P", "progress", "--"]);
    command.arg(path).args(["--seconds", "4"]);
    let ended = place.run(command);
    ended.assert_says(0, &["functions are shown instead of lines", "compile with -g", "main"]);
    let advice = ended.words().matches("compile with -g").count();
    assert_eq!(advice, 1, "one line, once:\n{}", ended.words());
}

#[test]
fn truncated_debug_information_is_no_catastrophe() {
    for part in [".debug_info", ".debug_line", ".debug_abbrev", ".debug_str"] {
        let place = Place::new();
        let path = executable(&place, "app", &files::with_half_of(&program("single"), part));
        let ended = profiled(path, &["--rounds", "1500"]);
        ended.assert_says(0, &["main"]);
        let words = ended.words();
        let told = words.contains("damaged") || words.contains("debug information that cannot be read");
        // Of the strings, the half that is left can be all that is needed.
        let unharmed = part == ".debug_str" && words.contains("single.c:");
        assert!(told || unharmed, "{part}:\n{words}");
        assert!(ended.output().starts_with("rounds 1500 "), "{part}: {}", ended.output());
    }
}

#[test]
fn not_root() {
    let place = Place::new();
    let copy = |path: PathBuf, name: &str| {
        fs::copy(path, place.path().join(name)).expect("it can be copied");
    };
    // Where nobody can reach them.
    copy(coz_tests::profiler(), "coz-bpf");
    copy(program("single"), "single");
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o777)).expect("it is ours");
    let as_nobody = ["--reuid=65534", "--regid=65534", "--clear-groups", "./coz-bpf", "run", "./single"];
    let ended = place.run(place.plain("setpriv", as_nobody));
    ended.assert_says(125, &["root", "sudo"]);
    assert_eq!(ended.output(), "", "the program was not started");
}

#[test]
fn an_output_that_cannot_be_written_is_said_before_the_start() {
    for output in ["/no/such/folder/profile.jsonl", "/proc/profile.jsonl"] {
        let place = Place::new();
        let mut command = place.profiled(["-o", output, "--"]);
        command.arg(program("single")).args(["--rounds", "10"]);
        let ended = place.run(command);
        ended.assert_says(125, &[output]);
        assert_eq!(ended.output(), "", "the program was not started");
    }
}

#[test]
fn an_old_profile_is_kept_aside() {
    let place = Place::new();
    fs::write(place.profile(), "precious\n").expect("the place is writable");
    let mut command = place.profiled(["--"]);
    command.arg(program("behave")).args(["exit", "0"]);
    place.run(command).assert_says(0, &["profile.jsonl.1"]);
    let files = fs::read_dir(place.path()).expect("it is there").flatten().map(|entry| entry.path());
    let texts: Vec<_> = files.filter_map(|path| Some((fs::read_to_string(&path).ok()?, path))).collect();
    let kept = texts.iter().find(|(text, _)| text == "precious\n").expect("the old profile is somewhere");
    assert_ne!(kept.1, place.profile(), "and a new one in its place");
    assert!(place.profile().exists());
}

#[test]
fn a_full_disk_does_not_hurt_the_program() {
    let place = Place::new();
    let disk = files::SmallDisk::new(&place.path().join("disk"));
    let mut command = place.profiled(["-P", "progress", "-o"]);
    command
        .arg(disk.path().join("profile.jsonl"))
        .arg("--")
        .arg(program("single"))
        .args(["--rounds", "3000"]);
    let ended = place.run(command);
    let path = disk.path().join("profile.jsonl");
    ended.assert_says(0, &[&path.display().to_string(), "no space", "experiments"]);
    let words = ended.words();
    assert_eq!(words.matches("No space").count(), 1, "said once:\n{words}");
    // What did not fit is reported all the same.
    assert!(words.contains("single.c:") && words.contains("visits of progress"), "{words}");
    assert!(ended.output().starts_with("rounds 3000 "), "{}", ended.output());
}

#[test]
fn a_program_that_ends_before_the_first_experiment_is_told_so() {
    let ended = profiled(program("behave"), &["exit", "4"]);
    ended.assert_says(4, &["experiment"]);
}

#[test]
fn a_child_outlives_its_parent() {
    let place = Place::new();
    let mut command = place.profiled(["--"]);
    command.arg(program("behave")).arg("fork");
    let mut running = place.start(command);
    running.wait().assert_says(5, &[]);
    running.wait_for_output("the child speaks\n");
}

#[test]
fn a_program_that_executes_another_is_followed() {
    let single = program("single");
    let ended = profiled(program("behave"), &["exec", &single.to_string_lossy(), "--rounds", "1500"]);
    ended.assert_says(0, &[]);
    assert!(ended.output().starts_with("rounds 1500 "), "{}", ended.output());
}
