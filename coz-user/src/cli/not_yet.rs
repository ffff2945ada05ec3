//! What the parser knows and this version cannot do: the one place. Remove an entry when it is built.

use super::args::{Cli, CommandArgs, MeasureArgs};
use super::exit::Exit;

/// # Errors
///
/// Wrong usage, if something is asked for that is not there yet.
pub(super) fn refuse(cli: &Cli) -> Result<(), Exit> {
    match missing(&cli.command) {
        Some(what) => Err(Exit::usage(format!("{what} is not in this version yet"))),
        None => Ok(()),
    }
}

fn missing(command: &CommandArgs) -> Option<&'static str> {
    match command {
        CommandArgs::Attach(_) => Some("`attach`"),
        CommandArgs::View(_) => Some("`view`"),
        CommandArgs::Diff(_) => Some("`diff`"),
        CommandArgs::Run(a) => missing_option(&a.measure),
        CommandArgs::Report(a) => first(&[(a.html.is_some(), "--html"), (a.folded.is_some(), "--folded")]),
        CommandArgs::Points(_) | CommandArgs::Doctor(_) => None,
    }
}

fn missing_option(a: &MeasureArgs) -> Option<&'static str> {
    first(&[
        (!a.latency.is_empty(), "-L, --latency"),
        (a.runs > 1, "--runs with more than 1"),
        (a.live.is_some(), "--live"),
        (a.until.is_some(), "--until"),
        (a.max_overhead.is_some(), "--max-overhead"),
        (a.inclusive, "--inclusive"),
    ])
}

fn first(asked: &[(bool, &'static str)]) -> Option<&'static str> {
    asked.iter().find(|(asked, _)| *asked).map(|(_, what)| *what)
}
