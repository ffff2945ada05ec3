//! What users type: clap's types. Their doc comments are the help texts.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use super::config::{Color, FoldedBy, Granularity, Sort};
use super::validate::{parse_overhead, parse_percent, parse_points, parse_seconds};

const EXIT_CODES: &str = "\
Exit codes of `run`: the program's own; 128+N if it died by signal N; 125 if coz-bpf failed, \
126 if the program cannot be executed, 127 if there is none, 2 for wrong usage.";

const RUN_EXAMPLES: &str = "\
Examples:
  sudo coz-bpf run ./server                          points of coz.h, if the program has any
  sudo coz-bpf run -P handle_request -d 60 ./server  each call of handle_request is a visit
  sudo coz-bpf run -P src/queue.rs:120 -- ./app -o out
  sudo coz-bpf run -P 'done=libq.so@queue::pop' ./app
  sudo coz-bpf run --end-to-end ./convert in out     20 runs, each of which is an experiment
  sudo coz-bpf run --live=8000 -P f ./app            the page on 127.0.0.1:8000 while it runs

A progress point is [NAME=][BINARY@]WHERE. WHERE is SYMBOL, SYMBOL+OFFSET, FILE:LINE, \
SYMBOL%return, usdt:PROVIDER:NAME, syscall:NAME or sampled:FILE:LINE. `coz-bpf points PROGRAM` lists candidates.

The program runs as the user who called sudo; its input, output and exit code are its own.";

const ATTACH_EXAMPLES: &str = "\
Examples:
  sudo coz-bpf attach -p $(pidof server) -P handle_request -d 60
  sudo coz-bpf attach --comm nginx -P syscall:sendfile     all of them, those that are started later too
  sudo coz-bpf attach --comm nginx,redis-server -P syscall:sendto      these and those, as one
  sudo coz-bpf attach --cgroup system.slice/app.service -P handle_request
  sudo coz-bpf attach -a -d 10                             where the whole machine spends its time

Ctrl-C ends the profile only; the programs run on as they were before. So do they when this is killed.
Exit codes: 0 when a profile was made, 125 if coz-bpf failed, 2 for wrong usage.";

const POINTS_EXAMPLES: &str = "\
Examples:
  coz-bpf points ./server                       functions, USDT probes
  coz-bpf points ./server request               those whose name or place contains `request`
  coz-bpf points ./server src/queue.c           functions and lines of a file
  sudo coz-bpf points --run -- ./server --port 80   which functions are entered at a steady rate";

const REPORT_EXAMPLES: &str = "\
Examples:
  coz-bpf report                               profile.jsonl of this folder
  coz-bpf report --html page.html run1.jsonl   a page for a browser: one file
  coz-bpf report --json run1.jsonl             everything, as docs/report.schema.json says
  coz-bpf report --coz out.coz run1.jsonl      for coz's own viewer (it reads run1.jsonl too)
  coz-bpf report --folded - --folded-by worth run1.jsonl | inferno-flamegraph > worth.svg
  coz-bpf report old.coz                       profiles of coz are read as well";

const VIEW_EXAMPLES: &str = "\
Examples:
  coz-bpf view                       opens a browser on profile.jsonl of this folder
  coz-bpf view --port 8000 --no-open run1.jsonl
  ssh -N -L 8000:127.0.0.1:8000 HOST   from the machine you sit at; then open the address that view has printed";

const DIFF_EXAMPLES: &str = "\
Examples:
  sudo coz-bpf run -o before.jsonl -P handle_request ./server   before the change
  sudo coz-bpf run -o after.jsonl -P handle_request ./server    after it: same points, same arguments
  coz-bpf diff before.jsonl after.jsonl
  coz-bpf diff --html diff.html before.jsonl after.jsonl

Profile as long after as before: what is compared are the experiments without delay.";

const DOCTOR_EXAMPLES: &str = "\
Examples:
  coz-bpf doctor                 this machine: kernel, privileges, clocks
  sudo coz-bpf doctor ./server   the same as run would find it, and the program: debug information, libc, frames";

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  coz-bpf completions bash > ~/.local/share/bash-completion/completions/coz-bpf
  coz-bpf completions zsh > ~/.zfunc/_coz-bpf
  coz-bpf completions fish > ~/.config/fish/completions/coz-bpf.fish";

/// Causal profiler: shows what making a line faster would do for the whole program.
#[derive(Debug, Parser)]
#[command(name = "coz-bpf", version, arg_required_else_help = true, after_help = EXIT_CODES)]
pub struct Cli {
    #[command(flatten)]
    pub(super) talk: TalkArgs,
    #[command(subcommand)]
    pub(super) command: CommandArgs,
}

#[derive(Debug, Args)]
pub(super) struct TalkArgs {
    /// Say nothing but errors: no status line, no report
    #[arg(short, long, global = true, conflicts_with = "verbose", help_heading = "Output")]
    pub quiet: bool,
    /// Say more; twice: the kernel side's own messages too
    #[arg(short, long, global = true, action = clap::ArgAction::Count, help_heading = "Output")]
    pub verbose: u8,
    /// Colours (NO_COLOR is honoured)
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t, help_heading = "Output")]
    pub color: Color,
}

#[derive(Debug, Subcommand)]
pub(super) enum CommandArgs {
    /// Run a program and profile it
    #[command(after_help = RUN_EXAMPLES, override_usage = "coz-bpf run [OPTIONS] [--] PROGRAM [ARGS]...")]
    Run(RunArgs),
    /// Profile programs that run already
    #[command(after_help = ATTACH_EXAMPLES, override_usage = "coz-bpf attach [OPTIONS] <-p PID[,PID] | --comm NAME[,NAME]... --cgroup PATH... | -a>")]
    Attach(AttachArgs),
    /// Print or convert a profile
    #[command(after_help = REPORT_EXAMPLES)]
    Report(ReportArgs),
    /// Show a profile as a page on 127.0.0.1
    #[command(after_help = VIEW_EXAMPLES)]
    View(ViewPageArgs),
    /// List what can serve as a progress point of a program
    Points(PointsArgs),
    /// Compare two profiles: did an optimisation pay what was predicted?
    #[command(after_help = DIFF_EXAMPLES)]
    Diff(DiffArgs),
    /// Check what this kernel, these privileges and a program allow
    #[command(after_help = DOCTOR_EXAMPLES)]
    Doctor(DoctorArgs),
    /// Print completions for a shell
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions(CompletionsArgs),
    /// Write the manual pages into a folder
    #[command(hide = true)]
    Man(ManArgs),
}

#[derive(Debug, Args)]
pub(super) struct RunArgs {
    #[command(flatten)]
    pub measure: MeasureArgs,
    /// Run the program as this user (default: the one who called sudo)
    #[arg(long, value_name = "NAME", help_heading = "Program")]
    pub user: Option<String>,
    /// The program to run, and its arguments, which are passed on as they are
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM [ARGS]", value_hint = clap::ValueHint::CommandWithArguments)]
    pub program: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(super) struct AttachArgs {
    #[command(flatten)]
    pub measure: MeasureArgs,
    #[command(flatten)]
    pub whom: Whom,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub(super) struct Whom {
    /// These processes, and all that they have started or will
    #[arg(short, long, value_name = "PID", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..), conflicts_with_all = ["cgroup", "comm", "all_processes"])]
    pub pid: Vec<u32>,
    /// Every process of a control group and those below it, by its folder or its name (as in /proc/PID/cgroup); repeatable
    #[arg(long, value_name = "PATH", conflicts_with = "all_processes")]
    pub cgroup: Vec<PathBuf>,
    /// Every process of one of these names (as in /proc/PID/comm), those that are started later too; repeatable
    #[arg(long, value_name = "NAME[,NAME]", value_delimiter = ',', conflicts_with = "all_processes")]
    pub comm: Vec<String>,
    /// Every process on the machine
    #[arg(short, long = "all-processes")]
    pub all_processes: bool,
}

/// Options that `run` and `attach` share.
#[derive(Debug, Args)]
pub(super) struct MeasureArgs {
    /// A progress point: a place that the program passes when it has done a piece of work; repeatable
    #[arg(short = 'P', long, value_name = "SPEC", help_heading = "Points")]
    pub progress: Vec<String>,
    /// A latency point: two specs, or a function's entry and return; repeatable
    #[arg(short = 'L', long, value_name = "BEGIN,END|FUNCTION", help_heading = "Points")]
    pub latency: Vec<String>,
    /// Each whole run is an experiment: the program is run again and again, which must be safe to do; ends at the first run that fails
    #[arg(long, conflicts_with = "max_overhead", help_heading = "Points")]
    pub end_to_end: bool,
    /// With --end-to-end: run the program N times; a line takes 10 of them
    #[arg(long, value_name = "N", default_value_t = 20, requires = "end_to_end", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Points")]
    pub runs: u32,

    /// Where the profile goes; an old one is renamed aside
    #[arg(short, long, value_name = "FILE", default_value = "profile.jsonl", help_heading = "Output")]
    pub output: PathBuf,
    /// Show the profile as a page while it is being taken
    #[arg(long, value_name = "PORT", num_args = 0..=1, require_equals = true, help_heading = "Output")]
    pub live: Option<Option<u16>>,
    #[command(flatten)]
    pub view: ViewArgs,
    /// Count experiments with so many visits of a point; with fewer they get longer
    #[arg(long, value_name = "N", default_value_t = 5, help_heading = "Experiments")]
    pub min_visits: u64,

    /// Stop experimenting after so many seconds; the program runs on, undelayed (attach: the end of the profile)
    #[arg(short, long, value_name = "SECS", value_parser = parse_seconds, help_heading = "Experiments")]
    pub duration: Option<coz_common::units::Nanos>,
    /// Stop experimenting when the first line's effect at 50 % is known to within so many percentage points; the program runs on, undelayed
    #[arg(long, value_name = "POINTS", value_parser = parse_points, conflicts_with = "end_to_end", help_heading = "Experiments")]
    pub until: Option<f64>,
    /// Draw every line in proportion to its samples, whatever is known by now: to compare with
    #[arg(long, hide = true, help_heading = "Experiments")]
    pub random_lines: bool,
    /// Repeat experiments on this line only (its baselines stay)
    #[arg(long, value_name = "FILE:LINE", conflicts_with = "fixed_function", help_heading = "Experiments")]
    pub fixed_line: Option<String>,
    /// Repeat experiments on this function only; implies --granularity function
    #[arg(long, value_name = "NAME", help_heading = "Experiments")]
    pub fixed_function: Option<String>,
    /// Repeat experiments with this virtual speedup only, in percent (baselines stay)
    #[arg(long, value_name = "PCT", value_parser = parse_percent, conflicts_with = "speedups", help_heading = "Experiments")]
    pub fixed_speedup: Option<coz_common::units::Speedup>,
    /// Virtual speedups to draw from, in percent: 10,50,100 (default: 5 to 100 by 5; 0 is half of the draws in any case)
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_percent, help_heading = "Experiments")]
    pub speedups: Option<Vec<coz_common::units::Speedup>>,
    /// Make the same random choices again
    #[arg(long, value_name = "N", help_heading = "Experiments")]
    pub seed: Option<u64>,
    /// Back off when delays and our own load take more than this share of the time, in percent (attach: 20; run: no limit)
    #[arg(long, value_name = "PCT", value_parser = parse_overhead, help_heading = "Experiments")]
    pub max_overhead: Option<f64>,

    /// Samples per second of CPU time (default: chosen from what a sample costs on this machine)
    #[arg(short = 'F', long, value_name = "HZ", value_parser = clap::value_parser!(u32).range(1..=50_000), help_heading = "Lines")]
    pub rate: Option<u32>,
    /// What is sped up: source lines, or whole functions (needs no debug information)
    #[arg(short, long, value_enum, value_name = "WHAT", help_heading = "Lines")]
    pub granularity: Option<Granularity>,
    /// Source files that you can change, !GLOB excludes; repeatable (default: the main executable's own)
    #[arg(long, value_name = "GLOB", help_heading = "Lines")]
    pub scope_source: Vec<String>,
    /// Binaries that you can change, !GLOB excludes; repeatable (default: the main executable)
    #[arg(long, value_name = "GLOB", help_heading = "Lines")]
    pub scope_binary: Vec<String>,
    /// A sample counts for the innermost line in scope of its call chain (default)
    #[arg(long = "self", overrides_with = "inclusive", help_heading = "Lines")]
    pub self_only: bool,
    /// A sample counts for every line in scope of its call chain, so that callers can be selected
    #[arg(long, overrides_with = "self_only", help_heading = "Lines")]
    pub inclusive: bool,
    /// Another folder with debug information; repeatable
    #[arg(long = "debug-dir", value_name = "DIR", help_heading = "Lines")]
    pub debug_dirs: Vec<PathBuf>,
}

/// How a report looks: for `run`, `attach` and `report`.
#[derive(Debug, Args)]
pub(super) struct ViewArgs {
    /// Show so many lines
    #[arg(long, value_name = "N", default_value_t = 10, help_heading = "Report")]
    pub top: usize,
    /// Order of the lines
    #[arg(long, value_enum, value_name = "BY", default_value_t, help_heading = "Report")]
    pub sort: Sort,
    /// Show only lines that were tried with so many different speedups (default: 5; `report`: as for the run)
    #[arg(long, value_name = "N", help_heading = "Report")]
    pub min_speedups: Option<usize>,
    /// Show what these two hide
    #[arg(long, help_heading = "Report")]
    pub all: bool,
}

#[derive(Debug, Args)]
pub(super) struct ReportArgs {
    /// The profile
    #[arg(value_name = "FILE", default_value = "profile.jsonl")]
    pub file: PathBuf,
    #[command(flatten)]
    pub view: ViewArgs,
    /// Print everything as JSON
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// Write a page that stands alone, for a browser (- is the standard output)
    #[arg(long, value_name = "OUT", help_heading = "Output")]
    pub html: Option<PathBuf>,
    /// Write coz's text format, with latency points as throughput points (- is the standard output)
    #[arg(long, value_name = "OUT", help_heading = "Output")]
    pub coz: Option<PathBuf>,
    /// Write folded stacks for a flame graph: function and line, for a profile has no call chains (- is the standard output)
    #[arg(long, value_name = "OUT", help_heading = "Output")]
    pub folded: Option<PathBuf>,
    /// With --folded: what its numbers are
    #[arg(
        long,
        value_enum,
        value_name = "WHAT",
        default_value_t,
        requires = "folded",
        help_heading = "Output"
    )]
    pub folded_by: FoldedBy,
    /// Write the curves as CSV (- is the standard output)
    #[arg(long, value_name = "OUT", help_heading = "Output")]
    pub csv: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct ViewPageArgs {
    /// The profile
    #[arg(value_name = "FILE", default_value = "profile.jsonl")]
    pub file: PathBuf,
    /// Port on 127.0.0.1
    #[arg(long, value_name = "N")]
    pub port: Option<u16>,
    /// Do not open a browser
    #[arg(long)]
    pub no_open: bool,
}

#[derive(Debug, Args)]
#[command(after_help = POINTS_EXAMPLES, override_usage = "coz-bpf points [OPTIONS] PROGRAM [FILTER]\n       coz-bpf points --run [OPTIONS] -- PROGRAM [ARGS]...")]
pub(super) struct PointsArgs {
    /// The program
    #[arg(value_name = "PROGRAM", required_unless_present = "run")]
    pub program: Option<PathBuf>,
    /// Only what contains this text; the lines of a source file too, if that is what it names
    #[arg(value_name = "FILTER")]
    pub filter: Option<String>,
    /// Run the program for a few seconds, and name the functions that are entered at a steady rate; needs root
    #[arg(long, conflicts_with = "program", requires = "command")]
    pub run: bool,
    /// With --run: for so many seconds; the program is ended (SIGTERM) after that
    #[arg(short, long, value_name = "SECS", value_parser = parse_seconds, default_value = "6", requires = "run")]
    pub duration: coz_common::units::Nanos,
    /// With --run: run the program as this user (default: the one who called sudo)
    #[arg(long, value_name = "NAME", requires = "run")]
    pub user: Option<String>,
    /// With --run: the program, and its arguments
    #[arg(last = true, value_name = "PROGRAM [ARGS]", requires = "run")]
    pub command: Vec<OsString>,
    /// Another folder with debug information; repeatable
    #[arg(long = "debug-dir", value_name = "DIR")]
    pub debug_dirs: Vec<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct DiffArgs {
    /// Profile of the program before the change
    #[arg(value_name = "BEFORE")]
    pub before: PathBuf,
    /// Profile of the program after it
    #[arg(value_name = "AFTER")]
    pub after: PathBuf,
    /// Show so many lines
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub top: usize,
    /// Print everything as JSON
    #[arg(long)]
    pub json: bool,
    /// Write a page that stands alone, for a browser (- is the standard output)
    #[arg(long, value_name = "OUT")]
    pub html: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct DoctorArgs {
    /// A program to be profiled
    #[arg(value_name = "PROGRAM")]
    pub program: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub(super) struct ManArgs {
    /// The folder
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
}
