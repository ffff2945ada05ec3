//! The command line: what users type ([`args`]), what it means ([`config`]), and how it ends ([`exit`]).
//!
//! [`parse`] goes the whole way, from the words to a validated [`Command`].

pub mod args;
pub mod config;
pub mod exit;
mod not_yet;
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
/// [`Usage::Exit`] for options that this version does not have yet or that contradict each other.
pub fn parse<I>(words: I) -> Result<Command, Usage>
where
    I: IntoIterator,
    I::Item: Into<OsString>,
{
    let words = words::with_plain_separator(words.into_iter().map(Into::into).collect());
    let clap = |e| Usage::Clap(Box::new(e));
    let matches = not_yet::hidden(args::Cli::command()).try_get_matches_from(words).map_err(clap)?;
    not_yet::refuse(&matches).map_err(Usage::Exit)?;
    let cli = args::Cli::from_arg_matches(&matches).map_err(clap)?;
    validate::command(cli).map_err(Usage::Exit)
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
