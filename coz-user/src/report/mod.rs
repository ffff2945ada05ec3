//! From estimates to text: pure functions over what was read from the file, but for source lines, which are
//! read where they are at hand.

pub mod coz;
pub mod csv;
pub mod diff;
pub mod folded;
pub mod health;
pub mod html;
pub mod json;
pub mod names;
pub mod source;
pub mod style;
pub mod terminal;
pub mod why_empty;
pub mod words;

use crate::{
    estimate::{self, Estimate, MIN_SPEEDUPS, Settings, Sort},
    experiment::record::{self, Profile},
};
use anyhow::{Context, Result};
use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};
pub use style::{Color, Style};

/// Where a profile is looked for when no file is named.
pub const DEFAULT_FILE: &str = "profile.jsonl";

/// What to print.
#[derive(Clone, Debug)]
pub struct Options {
    /// At most so many lines for each point; 0: all.
    pub top: usize,
    /// Their order.
    pub sort: Sort,
    /// Also the lines that the thresholds hide.
    pub all: bool,
    /// Least number of different speedups of a line that is shown; `None`: as the profile says, else 5.
    pub min_speedups: Option<u32>,
    /// How many bootstrap replicates.
    pub replicates: u32,
    /// Colours and width.
    pub style: Style,
    /// Whether to look for the source files.
    pub sources: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            top: 15,
            sort: Sort::Slope,
            all: false,
            min_speedups: None,
            replicates: Settings::default().replicates,
            style: Style::default(),
            sources: true,
        }
    }
}

/// What `coz-bpf report` was asked for.
#[derive(Clone, Debug)]
pub struct ReportOptions {
    /// The profile.
    pub file: PathBuf,
    /// What to print.
    pub options: Options,
    /// Print JSON instead of text.
    pub json: bool,
    /// Write coz's text form there; `-` is the standard output.
    pub coz: Option<PathBuf>,
    /// Write a table of all curves there; `-` is the standard output.
    pub csv: Option<PathBuf>,
    /// Write the page there; `-` is the standard output.
    pub html: Option<PathBuf>,
    /// Write folded stacks there; `-` is the standard output.
    pub folded: Option<PathBuf>,
    /// What their numbers are.
    pub folded_by: folded::Weight,
}

impl Default for ReportOptions {
    fn default() -> Self {
        Self {
            file: DEFAULT_FILE.into(),
            options: Options::default(),
            json: false,
            coz: None,
            csv: None,
            html: None,
            folded: None,
            folded_by: folded::Weight::default(),
        }
    }
}

/// Reads the profile, writes what was asked for, and gives back what belongs on the standard output. `tell` is told what one
/// should know of the files besides.
///
/// # Errors
/// When the profile cannot be read or a file cannot be written.
pub fn run(request: &ReportOptions, tell: impl Fn(&str)) -> Result<String> {
    let files = [&request.coz, &request.csv, &request.html, &request.folded];
    let printed = files.iter().filter(|file| file.as_deref() == Some(Path::new("-"))).count();
    anyhow::ensure!(
        printed + usize::from(request.json) <= 1,
        "only one of --json and of outputs to - can go to the standard output: give the others a file"
    );
    let profile = record::read(&request.file)?;
    let mut out = String::new();
    if let Some(path) = &request.coz {
        out += &deliver(path, &coz::text(&profile))?;
        if let Some(remark) = coz::remark(&profile) {
            tell(&format!("{}: {remark}", path.display()));
        }
    }
    if let Some(path) = &request.csv {
        out += &deliver(path, &csv::text(&estimate_profile(&profile, &request.options)))?;
    }
    if let Some(path) = &request.html {
        out += &deliver(path, &html_from_profile(&profile, &request.options, &request.file))?;
    }
    if let Some(path) = &request.folded {
        let estimate = estimate_profile(&profile, &request.options);
        out += &deliver(path, &folded::text(&estimate, request.folded_by))?;
    }
    if request.json {
        out += &json_from_profile(&profile, &request.options);
    } else if files.iter().all(|file| file.is_none()) {
        out += &from_profile(&profile, &request.options);
    }
    Ok(out)
}

/// Writes `text` to `path`, or gives it back if that is `-`.
fn deliver(path: &Path, text: &str) -> Result<String> {
    if path == Path::new("-") {
        return Ok(text.to_owned());
    }
    fs::write(path, text)
        .with_context(|| format!("cannot write {}; name another place, or - to print it", path.display()))?;
    Ok(String::new())
}

/// The report as text for a terminal.
#[must_use]
pub fn from_profile(profile: &Profile, options: &Options) -> String {
    let estimate = estimate_profile(profile, options);
    let mut out = String::new();
    let shows = options.all || is_fixed(profile);
    // Writing to a String cannot fail.
    let _ =
        write!(out, "{}", terminal::Report { profile, estimate: &estimate, options, shows_hidden: shows });
    out
}

/// The report as JSON, ending with a new line. Nothing is hidden.
#[must_use]
pub fn json_from_profile(profile: &Profile, options: &Options) -> String {
    json::text(profile, &estimate_profile(profile, options))
}

/// The report as a page that stands alone. `file` is the profile's name.
#[must_use]
pub fn html_from_profile(profile: &Profile, options: &Options, file: &Path) -> String {
    let estimate = estimate_profile(profile, options);
    let file = file.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let served = html::Served::No;
    let page =
        html::Page { profile, estimate: &estimate, file: &file, sources: options.sources, served, number: 0 };
    html::text(&page.json(), served)
}

/// The estimates that a report with these options shows.
#[must_use]
pub fn estimate_profile(profile: &Profile, options: &Options) -> Estimate {
    let recorded = (profile.startup.min_speedups > 0).then_some(profile.startup.min_speedups);
    let settings = Settings {
        min_speedups: options.min_speedups.or(recorded).unwrap_or(MIN_SPEEDUPS),
        replicates: options.replicates,
        seed: profile.startup.seed,
        sort: options.sort,
        ..Settings::default()
    };
    estimate::estimate(profile, &settings)
}

/// Whether the user chose lines or levels, so that thresholds hide nothing.
fn is_fixed(profile: &Profile) -> bool {
    profile.startup.fixed || profile.startup.end_to_end
}

#[cfg(test)]
mod tests;
