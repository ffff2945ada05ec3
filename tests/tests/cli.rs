//! The built binary's answers to wrong usage, and its manners at a pipe. Nothing here needs root.

use std::env;
use std::io::Read as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

/// The built binary. It belongs to another package, so cargo does not build it for this one's tests by itself.
fn binary() -> &'static PathBuf {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        let this = env::current_exe().expect("a test knows where it is");
        let folder = this.ancestors().nth(2).expect("target/PROFILE/deps/cli-HASH");
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--quiet", "--package", "coz-user", "--bin", "coz-bpf"]);
        if folder.ends_with("release") {
            build.arg("--release");
        }
        build.arg("--target-dir").arg(folder.parent().expect("target/PROFILE"));
        assert!(build.current_dir(env!("CARGO_MANIFEST_DIR")).status().expect("cargo runs").success());
        folder.join("coz-bpf")
    })
}

fn coz_bpf(words: &[&str]) -> Output {
    Command::new(binary()).args(words).stdin(Stdio::null()).output().expect("the binary runs")
}

/// Exit code and standard error of a command line that must not write to the standard output.
fn refused(words: &[&str]) -> (Option<i32>, String) {
    let output = coz_bpf(words);
    assert!(output.stdout.is_empty(), "{words:?}: our words go to the standard error");
    (output.status.code(), String::from_utf8(output.stderr).expect("text"))
}

#[test]
fn wrong_usage_is_exit_code_2_and_says_what_is_wrong() {
    for (words, says) in [
        (&["run"][..], "which program?"),
        (&["run", "--bogus", "true"], "--bogus"),
        (&["bogus"], "bogus"),
        (&["run", "--fixed-speedup", "120", "true"], "0 to 100"),
        (&["run", "--fixed-line", "main.c", "true"], "FILE:LINE"),
        (&["run", "--fixed-line", "a:1", "-g", "function", "true"], "hint: use --fixed-function"),
        (&["run", "-d", "soon", "true"], "seconds"),
        (&["run", "--speedups", "10,x", "true"], "percentage"),
        (&["points"], "PROGRAM"),
        (&["attach"], "--pid"),
        (&["attach", "-p", "1", "--comm", "x"], "--comm"),
        (&["diff", "before.jsonl"], "AFTER"),
    ] {
        let (code, text) = refused(words);
        assert_eq!(code, Some(2), "{words:?}: {text}");
        assert!(text.contains(says), "{words:?} says {says:?}: {text}");
    }
}

#[test]
fn no_command_shows_the_commands() {
    let (code, text) = refused(&[]);
    assert_eq!(code, Some(2));
    assert!(text.contains("run") && text.contains("doctor"), "{text}");
}

#[test]
fn help_and_version_go_to_the_standard_output() {
    for (words, says) in [
        (&["--help"][..], "Exit codes"),
        (&["run", "--help"], "--progress"),
        (&["help", "report"], "--json"),
        (&["--version"], env!("CARGO_PKG_VERSION")),
    ] {
        let output = coz_bpf(words);
        assert_eq!(output.status.code(), Some(0), "{words:?}");
        assert!(String::from_utf8_lossy(&output.stdout).contains(says), "{words:?}");
        assert!(output.stderr.is_empty(), "{words:?}");
    }
}

#[test]
fn help_into_a_pipe_that_is_closed_early_does_not_panic() {
    let mut child = Command::new(binary())
        .args(["run", "--help"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    drop(child.stdout.take());
    let mut text = String::new();
    child.stderr.take().expect("piped").read_to_string(&mut text).expect("text");
    child.wait().expect("it ends");
    assert_eq!(text, "", "it may end early, but without a word");
}

#[test]
fn colours_are_for_terminals() {
    let (_, text) = refused(&["run", "--bogus"]);
    assert!(!text.contains('\x1b'), "{text:?}");
}
