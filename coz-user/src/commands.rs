//! The commands that need no target: from their configuration to the text that they print.

use std::{fmt::Write as _, io::Write as _, path::Path, sync::Arc};

use anyhow::{Context, Result};

use crate::{
    cli::{
        self, Color, DiffConfig, DoctorConfig, Exit, FoldedBy, PointsConfig, ReportConfig, Sort, Talk, View,
    },
    estimate,
    kernel::{btf::Btf, doctor},
    points,
    report::{self, ReportOptions, Style},
    symbols::{Module, Scope},
    target::{binary::Program, identity::Identity},
};

/// `coz-bpf report`: what belongs on the standard output.
///
/// # Errors
/// The profile can not be read, or a file not written.
pub fn report(config: &ReportConfig) -> Result<String> {
    let request = ReportOptions {
        file: config.file.clone(),
        // What a run was asked to show it shows again.
        options: report::Options {
            min_speedups: config.min_speedups,
            ..view(&config.view, &config.talk, false)
        },
        json: config.json,
        coz: config.coz.clone(),
        csv: config.csv.clone(),
        html: config.html.clone(),
        folded: config.folded.clone(),
        folded_by: match config.folded_by {
            FoldedBy::Time => report::folded::Weight::Time,
            FoldedBy::Worth => report::folded::Weight::Worth,
        },
    };
    report::run(&request, |text| {
        if !config.talk.quiet {
            // Nobody may be there to read it, which changes nothing.
            let _ = writeln!(std::io::stderr(), "coz-bpf: {text}");
        }
    })
}

/// `coz-bpf diff`: what belongs on the standard output.
///
/// # Errors
/// A profile can not be read, or a file not written.
pub fn diff(config: &DiffConfig) -> Result<String> {
    report::diff::run(&report::diff::DiffOptions {
        before: config.before.clone(),
        after: config.after.clone(),
        json: config.json,
        html: config.html.clone(),
        top: config.top,
        style: Style::of_stream(color(config.talk.color), false),
    })
}

/// How a report looks, from the options of `run` and `report`.
#[must_use]
pub fn view(view: &View, talk: &Talk, standard_error: bool) -> report::Options {
    report::Options {
        top: view.top,
        sort: match view.sort {
            Sort::Slope => estimate::Sort::Slope,
            Sort::Effect => estimate::Sort::Effect,
            Sort::Samples => estimate::Sort::Samples,
        },
        all: view.all,
        min_speedups: u32::try_from(view.min_speedups).ok(),
        style: Style::of_stream(color(talk.color), standard_error),
        ..report::Options::default()
    }
}

/// How much the page of `view` and `run --live` shows: everything.
#[must_use]
pub fn page() -> report::Options {
    report::Options { top: 0, ..report::Options::default() }
}

fn color(color: Color) -> report::Color {
    match color {
        Color::Auto => report::Color::Auto,
        Color::Always => report::Color::Always,
        Color::Never => report::Color::Never,
    }
}

/// `coz-bpf points`: a candidate a line.
///
/// # Errors
/// The program is not there, or not an ELF file.
pub fn points(config: &PointsConfig) -> Result<String> {
    let identity = Identity::ourselves()?;
    let path = std::env::var_os("PATH");
    let program = Program::find(config.program.as_os_str(), path.as_deref(), &identity).map_err(|error| {
        if error.exit_code() == 127 {
            Exit::not_found(error.to_string())
        } else {
            Exit::not_executable(error.to_string())
        }
    })?;
    let (file, _) =
        program.image().with_context(|| format!("{} is not an ELF program", program.path.display()))?;
    let module = Arc::new(Module::open(file, &Scope::default(), &config.debug_dirs)?);
    let filter = config.filter.as_deref().unwrap_or("");
    let listing = points::Listing::of(&module, filter);
    if listing.is_empty() {
        let why = match (filter, module.advice()) {
            ("", Some(advice)) => advice,
            ("", None) => "it has no functions of its own".to_owned(),
            (filter, _) => format!("no function's name or place contains '{filter}'"),
        };
        return Err(Exit::failure(format!("{}: no candidates: {why}", file.display())).into());
    }
    let mut out = String::new();
    if listing.coz_h {
        out.push_str(
            "# coz.h: this program's own points are counted without any -P, when it first passes them\n",
        );
    }
    let entries = || listing.probes.iter().chain(&listing.lines).chain(&listing.functions);
    let width = entries().map(|entry| entry.spec.len()).max().unwrap_or(0).min(60);
    for entry in entries() {
        // Writing to a String can not fail.
        let _ = writeln!(out, "{}", format!("{:width$}  {}", entry.spec, entry.about).trim_end());
    }
    Ok(out)
}

/// `coz-bpf completions`: the script for a shell.
#[must_use]
pub fn completions(shell: clap_complete::Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut cli::parser(), "coz-bpf", &mut script);
    // It is made of our own help texts.
    String::from_utf8_lossy(&script).into_owned()
}

/// `coz-bpf man`: a page for the program and one for each command.
///
/// # Errors
/// The folder can not be written to.
pub fn man(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(cli::parser(), folder))
        .with_context(|| format!("cannot write manual pages to {}", folder.display()))
}

/// `coz-bpf doctor`: the table, and the exit code.
#[must_use]
pub fn doctor(config: &DoctorConfig) -> (String, u8) {
    let btf = Btf::load();
    let mut checks = doctor::machine(&btf);
    let programs = doctor::programs(&btf, &checks);
    checks.extend(programs);
    if let Some(program) = &config.program {
        checks.extend(doctor::program(program.as_os_str()));
    }
    let terminal = std::io::IsTerminal::is_terminal(&std::io::stdout());
    (doctor::render(&checks, config.talk.color.enabled(terminal)), doctor::exit_code(&checks))
}
