//! An error that knows which code the process should exit with, and what the user can do about it.

use std::error::Error;
use std::fmt;

/// How our own failures end the process. Everything else ends with the target's own code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Code {
    /// Wrong usage.
    Usage = 2,
    /// coz-bpf failed.
    Failure = 125,
    /// The program is there but cannot be executed.
    NotExecutable = 126,
    /// There is no such program.
    NotFound = 127,
}

/// What failed, why, with which exit code, and the ways out.
#[derive(Debug)]
pub struct Exit {
    code: Code,
    what: String,
    why: Option<Box<dyn Error + Send + Sync>>,
    hints: Vec<String>,
}

impl Exit {
    /// An error with this code; `what` says what failed, on what.
    #[must_use]
    pub fn new(code: Code, what: impl Into<String>) -> Self {
        Self { code, what: what.into(), why: None, hints: Vec::new() }
    }

    /// Wrong usage: 2.
    #[must_use]
    pub fn usage(what: impl Into<String>) -> Self {
        Self::new(Code::Usage, what)
    }

    /// A failure of ours: 125.
    #[must_use]
    pub fn failure(what: impl Into<String>) -> Self {
        Self::new(Code::Failure, what)
    }

    /// A program that cannot be executed: 126.
    #[must_use]
    pub fn not_executable(what: impl Into<String>) -> Self {
        Self::new(Code::NotExecutable, what)
    }

    /// A program that is not there: 127.
    #[must_use]
    pub fn not_found(what: impl Into<String>) -> Self {
        Self::new(Code::NotFound, what)
    }

    /// The same, because of `why`.
    #[must_use]
    pub fn because(mut self, why: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.why = Some(why.into());
        self
    }

    /// The same, with a way out: a command to type, or what to change.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// The exit code.
    #[must_use]
    pub fn code(&self) -> u8 {
        self.code as u8
    }

    /// The ways out.
    #[must_use]
    pub fn hints(&self) -> &[String] {
        &self.hints
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl Error for Exit {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.why.as_deref().map(|e| e as _)
    }
}

/// An error as the user sees it: the text, ending in a newline, and the exit code.
///
/// The code is that of the outermost [`Exit`] in the chain, else 125; hints are those of all of them.
#[must_use]
pub fn explain(error: &anyhow::Error) -> (String, u8) {
    let mut text = String::from("coz-bpf");
    let mut last = String::new();
    for cause in error.chain() {
        let part = without_number(cause.to_string());
        // Some errors repeat their cause in their own text.
        if !last.ends_with(&part) {
            text.push_str(": ");
            text.push_str(&part);
        }
        last = part;
    }
    text.push('\n');
    let exits = || error.chain().filter_map(|cause| cause.downcast_ref::<Exit>());
    for hint in exits().flat_map(|e| e.hints()) {
        text.push_str("  hint: ");
        text.push_str(hint);
        text.push('\n');
    }
    (text, exits().next().map_or(Code::Failure as u8, Exit::code))
}

/// What the system says of an error, without its number, which says the same to nobody.
fn without_number(mut text: String) -> String {
    while let Some(from) = text.find(" (os error ") {
        let Some(length) = text[from..].find(')') else { break };
        text.replace_range(from..=from + length, "");
    }
    text
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    #[test]
    fn the_chain_is_one_line_and_hints_follow() {
        let io = std::io::Error::from_raw_os_error(2);
        let error =
            anyhow::Error::new(Exit::not_found("cannot run ./app").because(io).hint("build it: make app"));
        assert_eq!(error.to_string(), "cannot run ./app");
        let (text, code) = explain(&error.context("starting the target"));
        assert_eq!(code, 127);
        assert_eq!(
            text,
            "coz-bpf: starting the target: cannot run ./app: No such file or directory\n  \
             hint: build it: make app\n"
        );
    }

    #[test]
    fn numbers_of_errors_are_left_out_wherever_they_stand() {
        let text = "cannot open a (os error 2): it is (os error 13) gone";
        assert_eq!(without_number(text.into()), "cannot open a: it is gone");
        assert_eq!(without_number("a (os error 2".into()), "a (os error 2", "cut off");
    }

    #[test]
    fn an_error_without_a_code_is_our_failure() {
        let result: anyhow::Result<()> = Err(std::io::Error::other("no")).context("cannot write p.jsonl");
        assert_eq!(explain(&result.unwrap_err()), ("coz-bpf: cannot write p.jsonl: no\n".into(), 125));
    }

    #[test]
    fn a_cause_that_was_already_said_is_not_said_again() {
        let inner = Exit::failure("no BTF");
        let outer = Exit::failure("cannot load: no BTF").because(inner);
        assert_eq!(explain(&outer.into()).0, "coz-bpf: cannot load: no BTF\n");
    }

    #[test]
    fn the_outermost_code_holds_and_all_hints_are_shown() {
        let error = Exit::usage("a").hint("1").because(Exit::failure("b").hint("2"));
        assert_eq!(explain(&error.into()), ("coz-bpf: a: b\n  hint: 1\n  hint: 2\n".into(), 2));
    }
}
