//! The command line: what users type ([`args`]), what it means ([`config`]), and how it ends ([`exit`]).
//!
//! [`parse`] goes the whole way, from the words to a validated [`Command`].

pub mod args;
pub mod config;
pub mod exit;
mod senseless;
mod validate;
mod words;

use std::ffi::OsString;

use clap::{CommandFactory, FromArgMatches};

pub use config::{
    Color, Command, DiffConfig, DoctorConfig, Fixed, FoldedBy, Granularity, PointsConfig, ReportConfig,
    RunConfig, Sort, Subject, Talk, View, ViewConfig, WatchConfig, Whom,
};
pub use exit::Exit;

/// Reads a command line, program name first.
///
/// # Errors
///
/// [`Usage::Clap`] for what the parser itself answers: `--help`, `--version`, unknown options and bad values.
/// [`Usage::Exit`] for options that contradict each other.
pub fn parse<I>(words: I) -> Result<Command, Usage>
where
    I: IntoIterator,
    I::Item: Into<OsString>,
{
    let words = words::with_plain_separator(words.into_iter().map(Into::into).collect());
    if wants_a_program(&words) {
        return Err(Usage::Exit(which_program()));
    }
    let clap = |e| Usage::Clap(Box::new(e));
    let matches = parser().try_get_matches_from(words).map_err(clap)?;
    let cli = args::Cli::from_arg_matches(&matches).map_err(clap)?;
    validate::command(cli).map_err(Usage::Exit)
}

/// The parser: what help, completions and manual pages are made of.
#[must_use]
pub fn parser() -> clap::Command {
    senseless::hidden(args::Cli::command())
}

/// Whether this is `coz-bpf run` and nothing else.
fn wants_a_program(words: &[OsString]) -> bool {
    words.len() == 2 && words[1] == "run"
}

/// What `run` is, in five lines.
fn which_program() -> Exit {
    Exit::usage("run: which program? It is started, profiled until it ends, and a report is printed")
        .hint("sudo coz-bpf run -P handle_request ./server --port 80    each call of handle_request is a piece of work done")
        .hint("coz-bpf points ./server     what else can serve as such a progress point")
        .hint("coz-bpf doctor ./server     what this machine and this program allow")
        .hint("coz-bpf run --help          all options")
}

/// Why a command line leads to no command.
#[derive(Debug)]
pub enum Usage {
    /// The parser's own answer, with its own text and exit code (0 for help, 2 for wrong usage).
    Clap(Box<clap::Error>),
    /// Ours.
    Exit(Exit),
}

#[cfg(test)]
mod tests;
