//! Coz writes `---` where others write `--`. Both end the options of `run`.

use std::ffi::OsString;

use clap::{Arg, CommandFactory};

use super::args::Cli;

/// The same words, with a `---` that ends the options of `run` turned into `--`. One that belongs to the program
/// (after `--`, after the program's name) or is an option's value stays.
pub(super) fn with_plain_separator(mut words: Vec<OsString>) -> Vec<OsString> {
    let cli = Cli::command();
    let globals: Vec<&Arg> = cli.get_arguments().collect();
    let Some(run) = first_word(&words, 1, &globals) else { return words };
    let Some(command) = cli.find_subcommand("run").filter(|_| words[run] == "run") else { return words };
    let args: Vec<&Arg> = globals.into_iter().chain(command.get_arguments()).collect();
    if let Some(separator) = first_word(&words, run + 1, &args).filter(|&i| words[i] == "---") {
        words[separator] = "--".into();
    }
    words
}

/// Index of the first word from `from` on that is neither an option nor an option's value. Here `---` is no option.
fn first_word(words: &[OsString], from: usize, args: &[&Arg]) -> Option<usize> {
    let mut i = from;
    while let Some(word) = words.get(i) {
        let text = word.to_string_lossy();
        i += match text.strip_prefix("--") {
            Some("" | "-") => return Some(i),
            Some(long) => 1 + usize::from(args.iter().any(|a| a.get_long() == Some(long) && wants_word(a))),
            None => match text.strip_prefix('-') {
                None | Some("") => return Some(i),
                Some(shorts) => 1 + usize::from(short_wants_word(shorts, args)),
            },
        };
    }
    None
}

/// Whether the option takes the next word as its value.
fn wants_word(arg: &Arg) -> bool {
    arg.get_action().takes_values() && !arg.is_require_equals_set()
}

/// Whether a cluster like `qvo` ends in an option that takes the next word as its value (`-qo FILE`, not `-qoFILE`).
fn short_wants_word(shorts: &str, args: &[&Arg]) -> bool {
    let takes = |c| args.iter().any(|a| a.get_short() == Some(c) && wants_word(a));
    shorts.char_indices().find(|&(_, c)| takes(c)).is_some_and(|(at, c)| at + c.len_utf8() == shorts.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turned(line: &str) -> String {
        let words = line.split(' ').map(OsString::from).collect();
        let words: Vec<_> =
            with_plain_separator(words).into_iter().map(|w| w.into_string().unwrap()).collect();
        words.join(" ")
    }

    #[test]
    fn three_dashes_end_the_options_of_run() {
        assert_eq!(turned("coz-bpf run --- ./app"), "coz-bpf run -- ./app");
        assert_eq!(
            turned("coz-bpf -q run -P x -vo f --seed=3 --all --- a ---"),
            "coz-bpf -q run -P x -vo f --seed=3 --all -- a ---"
        );
    }

    #[test]
    fn elsewhere_they_are_left_alone() {
        for line in [
            "coz-bpf run -- ./app ---",
            "coz-bpf run ./app ---",
            "coz-bpf run -o --- ./app",
            "coz-bpf run --output --- ./app",
            "coz-bpf report ---",
            "coz-bpf",
            "coz-bpf run",
        ] {
            assert_eq!(turned(line), line);
        }
    }
}
