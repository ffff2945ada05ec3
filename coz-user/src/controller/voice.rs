//! What is said on the standard error while the program runs, around the status line. A closed standard error is the
//! reader's own wish: nothing here fails or panics because of it.

use std::io::Write;

use crate::status::{Status, StatusLine};

/// The standard error, and the status line on it.
#[derive(Debug)]
pub struct Voice {
    quiet: bool,
    line: StatusLine,
}

impl Voice {
    /// No status line and nothing but errors if `quiet`.
    #[must_use]
    pub fn new(quiet: bool) -> Self {
        Self { quiet, line: StatusLine::new(quiet) }
    }

    /// Says it, whatever the user has asked for: something went wrong.
    pub fn complain(&self, text: &str) {
        self.line.suspend(|| say(text));
    }

    /// Says it unless the user wants quiet.
    pub fn mention(&self, text: &str) {
        if !self.quiet {
            self.complain(text);
        }
    }

    /// Prints a text of several lines as it is, unless the user wants quiet. Nothing more is shown before it.
    pub fn print(&self, text: &str) {
        self.line.clear();
        if !self.quiet {
            let _ = std::io::stderr().write_all(text.as_bytes());
        }
    }

    /// Whether there is a status line to be computed.
    #[must_use]
    pub fn has_status(&self) -> bool {
        self.line.is_shown()
    }

    /// Shows it.
    pub fn status(&self, status: &Status) {
        self.line.set(status);
    }
}

/// One line of ours.
pub fn say(text: &str) {
    let _ = std::io::stderr().write_all(format!("coz-bpf: {text}\n").as_bytes());
}
