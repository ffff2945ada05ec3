//! The stages, in their order: the quick ones first.

use std::process::Command;

use super::Outcome;
use crate::{ebpf, package, sh};

/// One stage.
#[derive(Clone, Copy, Debug)]
pub struct Stage {
    /// Its name on the command line.
    pub name: &'static str,
    body: fn() -> (Outcome, String),
}

impl Stage {
    /// Runs it: what came of it, and all that it printed.
    #[must_use]
    pub fn run(&self) -> (Outcome, String) {
        (self.body)()
    }
}

/// All of them.
pub const STAGES: &[Stage] = &[
    Stage { name: "format", body: || one(sh::cargo().args(["fmt", "--all", "--check"])) },
    Stage { name: "object", body: object },
    Stage { name: "licences", body: || deny(&["licenses", "bans", "sources"]) },
    Stage { name: "advisories", body: advisories },
    Stage { name: "lints", body: lints },
    Stage { name: "docs", body: docs },
    Stage { name: "tests", body: tests },
    Stage { name: "loom", body: loom },
    Stage { name: "static", body: statically },
    Stage { name: "page", body: super::page::page },
    Stage { name: "root", body: root },
];

/// Runs a command that is one check.
fn one(command: &mut Command) -> (Outcome, String) {
    let (success, words) = captured(command);
    (Outcome::one(success), words)
}

/// Runs `cargo test` of some kind.
fn counted(command: &mut Command) -> (Outcome, String) {
    let (success, words) = captured(command);
    (Outcome::of_tests(success, &words), words)
}

pub(super) fn captured(command: &mut Command) -> (bool, String) {
    match command.output() {
        Ok(output) => {
            let words = [output.stderr, output.stdout].concat();
            (output.status.success(), String::from_utf8_lossy(&words).into_owned())
        }
        Err(error) => (false, format!("cannot start `{}`: {error}", sh::shown(command))),
    }
}

/// The committed object is that of the sources.
fn object() -> (Outcome, String) {
    match ebpf::stale() {
        Ok(None) => (Outcome::one(true), String::new()),
        Ok(Some(why)) => {
            (Outcome::one(false), format!("the kernel side's object: {why}; mend it with `{}`", ebpf::MEND))
        }
        Err(error) => (Outcome::one(false), format!("{error:#}")),
    }
}

const GET_DENY: &str = "cargo install cargo-deny --version 0.20.2 --locked";

fn deny(checks: &[&str]) -> (Outcome, String) {
    if sh::find("cargo-deny").is_none() {
        let notes = vec![format!("cargo-deny is missing, {} not checked: {GET_DENY}", checks.join(", "))];
        return (Outcome { notes, ..Outcome::default() }, String::new());
    }
    one(sh::cargo().args(["deny", "--locked", "check", "--hide-inclusion-graph"]).args(checks))
}

/// Known holes in dependencies. Their database is on the network: where it cannot be had, that is said.
fn advisories() -> (Outcome, String) {
    let (mut outcome, words) = deny(&["advisories"]);
    if outcome.failed > 0 && words.contains("failed to fetch advisory database") {
        outcome = Outcome::default();
        outcome.notes.push("the advisory database cannot be reached, advisories are not checked".into());
    }
    (outcome, words)
}

/// The whole workspace, the kernel side as far as the host compiles it, the root tests, too.
fn lints() -> (Outcome, String) {
    let everything = ["clippy", "--locked", "--workspace", "--all-targets", "--features", "coz-tests/root"];
    one(sh::cargo().args(everything).args(["--", "-D", "warnings"]))
}

fn docs() -> (Outcome, String) {
    let mut cargo = sh::cargo();
    cargo.args(["doc", "--locked", "--workspace", "--no-deps", "--document-private-items"]);
    one(cargo.env("RUSTDOCFLAGS", "-D warnings"))
}

/// Unit and property tests, and the integration tests that need no root.
fn tests() -> (Outcome, String) {
    counted(sh::cargo().args(["test", "--locked", "--no-fail-fast"]))
}

/// The protocols of shared memory under every interleaving.
fn loom() -> (Outcome, String) {
    let mut cargo = sh::cargo();
    cargo.args(["test", "--locked", "-p", "coz-common", "--release", "--lib", "slot::model"]);
    // Other flags mean other artefacts: apart, so that neither build throws the other's away.
    counted(cargo.env("RUSTFLAGS", "--cfg loom").env("CARGO_TARGET_DIR", sh::target_dir().join("loom")))
}

/// The profiler as one file that needs no library. Where the standard library for that is not installed, that is said.
fn statically() -> (Outcome, String) {
    match package::check_static() {
        Ok(true) => (Outcome::one(true), String::new()),
        Ok(false) => {
            let notes = vec![format!("the static build is not checked: {}", package::STATIC_MEND)];
            (Outcome { notes, ..Outcome::default() }, String::new())
        }
        Err(error) => (Outcome::one(false), format!("{error:#}")),
    }
}

/// The tests that load BPF programs. Never left out: without root they fail.
fn root() -> (Outcome, String) {
    if !sh::is_root() {
        let words = "the root tests load BPF programs: run this as root, or the other stages only, by name";
        return (Outcome::one(false), words.into());
    }
    let profiler = match crate::profiler(true) {
        Ok(profiler) => profiler,
        Err(error) => return (Outcome::one(false), format!("{error:#}")),
    };
    let (mut outcome, mut words) = (Outcome::default(), String::new());
    for (names, threads) in [(SIDE_BY_SIDE, "--test-threads=3"), (ALONE, "--test-threads=1")] {
        let mut cargo = sh::cargo();
        // Of the same packages as in the stage before: with another choice, other features of what all depend on would be
        // wanted, and all that would be compiled once more.
        cargo.args(["test", "--locked", "--no-fail-fast", "--features", "coz-tests/root"]);
        cargo.args(names.iter().flat_map(|name| ["--test", name])).args(["--", threads]);
        let (part, said) = counted(cargo.env("COZ_BPF_BIN", &profiler));
        outcome.add(&part);
        words += &said;
    }
    (outcome, words)
}

/// The files in `tests/tests` that need the feature `root`, and of whose tests many are content to share the machine: each test takes
/// its turn (`coz_tests::turn`).
const SIDE_BY_SIDE: &[&str] = &["session", "points", "chains", "attach", "inject"];

/// The others, one test at a time: they judge time, or count what the kernel holds.
const ALONE: &[&str] = &[
    "clean",
    "targets",
    "bad_input",
    "others",
    "truth",
    "quota",
    "loaded",
    "diff",
    "whole_runs",
    "trees",
    "users",
    "overhead",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_root_test_is_run() {
        let manifest = std::fs::read_to_string(sh::root().join("tests/Cargo.toml")).expect("it is there");
        let sections =
            manifest.split("[[").filter(|section| section.contains("required-features = [\"root\"]"));
        let mut declared: Vec<&str> = sections.filter_map(|section| section.split('"').nth(1)).collect();
        let mut run = [SIDE_BY_SIDE, ALONE].concat();
        declared.sort_unstable();
        run.sort_unstable();
        assert_eq!(declared, run, "declared in tests/Cargo.toml, run by `cargo xtask test`");
    }
}
