//! coz-bpf: reads the command line, carries it out, says what went wrong, exits with the right code.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Context as _;
use coz_user::cli::{self, Command, Usage};
use coz_user::{commands, controller, target::inject, view};
use nix::sys::signal::{SigHandler, Signal, signal};

fn main() -> ExitCode {
    match cli::parse(std::env::args_os()) {
        Ok(command) => match carry_out(command) {
            Ok(code) => ExitCode::from(code),
            Err(error) => fail(&error),
        },
        Err(Usage::Clap(answer)) => {
            // Help goes to the standard output, errors to the other; neither matters if nobody reads it.
            let _ = answer.print();
            ExitCode::from(u8::try_from(answer.exit_code()).unwrap_or(2))
        }
        Err(Usage::Exit(error)) => fail(&error.into()),
    }
}

fn carry_out(command: Command) -> anyhow::Result<u8> {
    if !matches!(command, Command::Run(_) | Command::Attach(_)) {
        die_of_closed_pipes();
    }
    match command {
        Command::Run(config) | Command::Attach(config) => {
            let result = controller::run(*config);
            // Whatever has gone wrong: no thread of anybody's may be in our hands when we end.
            inject::finish();
            result
        }
        Command::Report(config) => commands::report(&config).and_then(|text| print(&text, 0)),
        Command::Diff(config) => commands::diff(&config).and_then(|text| print(&text, 0)),
        Command::View(config) => {
            let options = commands::page();
            view::run(&config, options, |text| print(text, 0).map(drop)).map(|()| 0)
        }
        Command::Points(config) => commands::points(&config).and_then(|text| print(&text, 0)),
        Command::Watch(config) => controller::watch::run(&config).and_then(|text| print(&text, 0)),
        Command::Completions(shell) => print(&commands::completions(shell), 0),
        Command::Man(folder) => commands::man(&folder).map(|()| 0),
        Command::Doctor(config) => {
            let (text, code) = commands::doctor(&config);
            print(&text, code)
        }
    }
}

fn print(text: &str, code: u8) -> anyhow::Result<u8> {
    std::io::stdout().write_all(text.as_bytes()).context("cannot write to the standard output")?;
    Ok(code)
}

/// So that `coz-bpf report | head` ends as any other program does. Not for `run` and `attach`: a closed standard error must not
/// end a profile.
fn die_of_closed_pipes() {
    // SAFETY: the default action is no code of ours, and no other thread runs yet.
    let _ = unsafe { signal(Signal::SIGPIPE, SigHandler::SigDfl) };
}

fn fail(error: &anyhow::Error) -> ExitCode {
    let (text, code) = cli::exit::explain(error);
    let _ = std::io::stderr().write_all(text.as_bytes());
    ExitCode::from(code)
}
