//! What the parser knows and this version cannot do: the one place. Remove an entry when it is built.

use clap::parser::ValueSource;
use clap::{ArgMatches, Command};

use super::exit::Exit;

/// Options: the command, the argument's name in [`super::args`], what the user calls it.
const OPTIONS: [(&str, &str, &str); 1] = [("run", "runs", "--runs")];

/// Options that make no sense with a command: nobody can run again what runs already, and it has neither beginning nor end.
const SENSELESS: [(&str, &str); 2] = [("attach", "runs"), ("attach", "end_to_end")];

/// The same parser, with all of these left out of its help.
pub(super) fn hidden(mut cli: Command) -> Command {
    let not_yet = OPTIONS.map(|(name, id, _)| (name, id));
    for (name, id) in not_yet.into_iter().chain(SENSELESS) {
        cli = cli.mut_subcommand(name, |command| command.mut_arg(id, |arg| arg.hide(true)));
    }
    cli
}

/// # Errors
///
/// Wrong usage, if one of these is asked for.
pub(super) fn refuse(matches: &ArgMatches) -> Result<(), Exit> {
    let Some((command, matches)) = matches.subcommand() else { return Ok(()) };
    let asked = |id| matches.value_source(id) == Some(ValueSource::CommandLine);
    let option = OPTIONS.iter().find(|(of, id, _)| *of == command && asked(id)).map(|(_, _, label)| *label);
    match option {
        Some(what) => Err(Exit::usage(format!("`{what}` is not in this version yet"))),
        None => Ok(()),
    }
}
