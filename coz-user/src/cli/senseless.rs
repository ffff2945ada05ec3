//! Options that make no sense with a command that shares its others: nobody can run again what runs already, and it has neither
//! beginning nor end. [`super::validate`] refuses them.

use clap::Command;

/// The command, and the argument's name in [`super::args`].
const OPTIONS: [(&str, &str); 2] = [("attach", "runs"), ("attach", "end_to_end")];

/// The same parser, with all of these left out of its help.
pub(super) fn hidden(mut cli: Command) -> Command {
    for (name, id) in OPTIONS {
        cli = cli.mut_subcommand(name, |command| command.mut_arg(id, |arg| arg.hide(true)));
    }
    cli
}
