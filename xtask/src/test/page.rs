//! The page in a browser: `tests/page`, with Node.js, Debian's Chromium and Playwright.

use std::{fmt::Write as _, process::Command};

use super::{Outcome, stages::captured};
use crate::sh;

const MEND: &str = "apt-get install -y --no-install-recommends nodejs npm chromium";

/// Never left out: without what it needs it fails.
pub(super) fn page() -> (Outcome, String) {
    let missing: Vec<&str> =
        ["node", "npm", "chromium"].into_iter().filter(|program| sh::find(program).is_none()).collect();
    if !missing.is_empty() {
        let words = format!("the page's tests need {}: `{MEND}`", missing.join(", "));
        return (Outcome::one(false), words);
    }
    let profiler = match crate::profiler(true) {
        Ok(profiler) => profiler,
        Err(error) => return (Outcome::one(false), format!("{error:#}")),
    };
    let folder = sh::root().join("tests/page");
    let mut packages = Command::new("npm");
    packages.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]).current_dir(&folder);
    let (installed, mut words) = captured(&mut packages);
    if !installed {
        return (Outcome::one(false), words);
    }
    let mut node = Command::new("node");
    node.args(["--test", "--test-reporter=tap", "page.test.mjs", "exports.test.mjs"])
        .current_dir(folder)
        .env("COZ_BPF_BIN", profiler);
    let (success, said) = captured(&mut node);
    let _ = write!(words, "{said}");
    (counted(success, &said), words)
}

/// Of what `node --test` prints in the end (Test Anything Protocol). What was skipped counts as failed.
fn counted(success: bool, tap: &str) -> Outcome {
    let count = |name: &str| -> u64 {
        let after = |line: &str| line.strip_prefix("# ")?.strip_prefix(name)?.trim().parse().ok();
        tap.lines().rev().find_map(after).unwrap_or(0)
    };
    let failed = ["fail ", "cancelled ", "skipped ", "todo "].into_iter().map(count).sum();
    let mut outcome = Outcome { passed: count("pass "), failed, notes: Vec::new() };
    if outcome.failed == 0 && (!success || outcome.passed == 0) {
        outcome.failed = 1;
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAP: &str = "ok 1 - keyboard alone\n# opened in 900 ms\n1..3\n# tests 3\n# suites 0\n# pass 2\n# fail 0\n# cancelled 0\n# skipped 1\n# todo 0\n";

    #[test]
    fn the_last_lines_are_counted() {
        let outcome = counted(true, TAP);
        assert_eq!((outcome.passed, outcome.failed), (2, 1), "what was skipped was not tested");
        assert_eq!(counted(false, &TAP.replace("skipped 1", "skipped 0")).failed, 1, "node itself failed");
        assert_eq!(counted(true, "").failed, 1, "no test is no success");
    }
}
