//! What a command line means: plain values, checked, with defaults filled in.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::ValueEnum;
use coz_common::units::{Nanos, Speedup};

/// A command to carry out.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// `coz-bpf run`
    Run(Box<RunConfig>),
    /// `coz-bpf attach`
    Attach(Box<RunConfig>),
    /// `coz-bpf report`
    Report(ReportConfig),
    /// `coz-bpf view`
    View(ViewConfig),
    /// `coz-bpf diff`
    Diff(DiffConfig),
    /// `coz-bpf points`
    Points(PointsConfig),
    /// `coz-bpf points --run`
    Watch(WatchConfig),
    /// `coz-bpf doctor`
    Doctor(DoctorConfig),
    /// `coz-bpf completions`
    Completions(clap_complete::Shell),
    /// `coz-bpf man`: the folder that the manual pages go to.
    Man(PathBuf),
}

/// What is profiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A program, to be run.
    Program {
        /// The program and its arguments, at least one word.
        words: Vec<OsString>,
        /// Run it as this user; `None`: as the one who called sudo.
        user: Option<String>,
    },
    /// Programs that run already.
    Running(Whom),
}

impl Subject {
    /// The user whom a program is to run as, where one was named.
    #[must_use]
    pub fn user(&self) -> Option<&str> {
        match self {
            Self::Program { user, .. } => user.as_deref(),
            Self::Running(_) => None,
        }
    }
}

/// Which of the programs that run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whom {
    /// These processes and all that they have started or will, at least one, each once.
    Pids(Vec<u32>),
    /// Every process of one of these names, every process of one of these control groups and those below them, and all that they
    /// start: at least one of either.
    Named {
        /// Names, each once.
        comms: Vec<String>,
        /// Control groups, each once.
        groups: Vec<PathBuf>,
    },
    /// Everything but ourselves and the kernel's threads.
    All,
}

/// What is profiled, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct RunConfig {
    /// What.
    pub subject: Subject,
    /// Back off when delays and our own load take more than this part of the time, above 0; `None`: never.
    pub max_overhead: Option<f64>,
    /// Specs of the throughput points, as typed.
    pub progress: Vec<String>,
    /// Latency points, as typed.
    pub latency: Vec<String>,
    /// Each whole run is one experiment, and the program is run so often.
    pub end_to_end: Option<u32>,
    /// Where the profile goes.
    pub output: PathBuf,
    /// Serve the page while the program runs, on this port of 127.0.0.1; 0: one that is free.
    pub live: Option<u16>,
    /// Stop experimenting after this time.
    pub duration: Option<Nanos>,
    /// Stop experimenting when the first line's effect at 50 % is known to within so many points, above 0.
    pub until: Option<f64>,
    /// Draw every line in proportion to its samples, whatever is known by now.
    pub random_lines: bool,
    /// The line or function to experiment on; `None`: lines are drawn.
    pub fixed: Option<Fixed>,
    /// Virtual speedups to draw from besides the baseline, which is half of the draws: ascending, each once,
    /// never 0. Empty: baselines only.
    pub speedups: Vec<Speedup>,
    /// Seed of the random choices; `None`: to be drawn, and recorded.
    pub seed: Option<u64>,
    /// Samples per second of CPU time; `None`: to be chosen from the cost of a sample.
    pub rate: Option<u32>,
    /// What is sped up.
    pub granularity: Granularity,
    /// A sample counts for every line in scope of its call chain, not for the innermost only.
    pub inclusive: bool,
    /// Globs of source files in scope, `!GLOB` excludes; empty: the main executable's own sources.
    pub scope_source: Vec<String>,
    /// Globs of binaries in scope, `!GLOB` excludes; empty: the main executable.
    pub scope_binary: Vec<String>,
    /// More folders with debug information.
    pub debug_dirs: Vec<PathBuf>,
    /// How the report at the end looks. `all` is set where a line or speedups were fixed.
    pub view: View,
    /// How much is said.
    pub talk: Talk,
}

/// A single thing to experiment on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fixed {
    /// A source line.
    Line {
        /// The file, in full or its last components.
        file: String,
        /// The line's number, from 1 on.
        line: u32,
    },
    /// A function, by its mangled or demangled name.
    Function(String),
}

/// What is printed or written of which profile.
#[derive(Clone, Debug, PartialEq)]
pub struct ReportConfig {
    /// The profile.
    pub file: PathBuf,
    /// Print JSON instead of text.
    pub json: bool,
    /// Write coz's text format here; `-` is the standard output.
    pub coz: Option<PathBuf>,
    /// Write CSV here; `-` is the standard output.
    pub csv: Option<PathBuf>,
    /// Write folded stacks here; `-` is the standard output.
    pub folded: Option<PathBuf>,
    /// What their numbers are.
    pub folded_by: FoldedBy,
    /// Write the page here; `-` is the standard output.
    pub html: Option<PathBuf>,
    /// How the text looks.
    pub view: View,
    /// Hide lines with fewer different speedups; `None`: as the run did.
    pub min_speedups: Option<u32>,
    /// How much is said.
    pub talk: Talk,
}

/// Which two profiles are compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiffConfig {
    /// The profile before the change.
    pub before: PathBuf,
    /// The profile after it.
    pub after: PathBuf,
    /// At most so many lines; 0: all.
    pub top: usize,
    /// Print JSON instead of text.
    pub json: bool,
    /// Write the page here; `-` is the standard output.
    pub html: Option<PathBuf>,
    /// How much is said.
    pub talk: Talk,
}

/// What is served as a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewConfig {
    /// The profile.
    pub file: PathBuf,
    /// Port on 127.0.0.1; `None`: one that is free.
    pub port: Option<u16>,
    /// Open a browser, where there is one.
    pub open: bool,
    /// How much is said.
    pub talk: Talk,
}

/// Whose candidates for progress points are listed.
#[derive(Clone, Debug, PartialEq)]
pub struct PointsConfig {
    /// The program.
    pub program: PathBuf,
    /// Only what contains this.
    pub filter: Option<String>,
    /// More folders with debug information.
    pub debug_dirs: Vec<PathBuf>,
    /// How much is said.
    pub talk: Talk,
}

/// Which program is run to see what makes a good progress point.
#[derive(Clone, Debug, PartialEq)]
pub struct WatchConfig {
    /// The program and its arguments, at least one word.
    pub program: Vec<OsString>,
    /// Run it as this user; `None`: as the one who called sudo.
    pub user: Option<String>,
    /// For so long.
    pub duration: Nanos,
    /// More folders with debug information.
    pub debug_dirs: Vec<PathBuf>,
    /// How much is said.
    pub talk: Talk,
}

/// What is checked.
#[derive(Clone, Debug, PartialEq)]
pub struct DoctorConfig {
    /// A program too.
    pub program: Option<PathBuf>,
    /// How much is said.
    pub talk: Talk,
}

/// How a report looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// At most so many lines.
    pub top: usize,
    /// In this order.
    pub sort: Sort,
    /// Hide what rests on fewer visits.
    pub min_visits: u64,
    /// Hide lines with fewer different speedups.
    pub min_speedups: usize,
    /// Hide nothing.
    pub all: bool,
}

/// How much is said, and in which colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Talk {
    /// Errors only.
    pub quiet: bool,
    /// 0 normal, 1 more, 2 the kernel side's messages too.
    pub verbose: u8,
    /// Colours.
    pub color: Color,
}

/// When to use colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless `NO_COLOR` is set
    #[default]
    Auto,
    /// In any case
    Always,
    /// Never
    Never,
}

impl Color {
    /// Whether to colour what goes to a stream that is a terminal or not. `NO_COLOR` counts if it is set and not
    /// empty (no-color.org).
    #[must_use]
    pub fn enabled(self, is_terminal: bool) -> bool {
        match self {
            Self::Auto => is_terminal && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty()),
            Self::Always => true,
            Self::Never => false,
        }
    }
}

/// What an experiment speeds up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Granularity {
    /// Source lines (needs debug information)
    #[default]
    Line,
    /// Functions (needs a symbol table only)
    Function,
}

/// What the numbers of folded stacks are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum FoldedBy {
    /// CPU time, in microseconds: where the time goes
    #[default]
    Time,
    /// What a line is worth, in hundredths of a percent: what would be saved
    Worth,
}

/// Order of a report's lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Sort {
    /// How fast the effect grows with the speedup
    #[default]
    Slope,
    /// The largest effect
    Effect,
    /// Samples
    Samples,
}
