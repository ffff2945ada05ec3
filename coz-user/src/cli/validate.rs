//! From what was typed to what it means.

use coz_common::{
    abi::MAX_NAMED,
    units::{Nanos, Speedup},
};

use super::args::{self, Cli, CommandArgs, MeasureArgs, TalkArgs, ViewArgs};
use super::config::{
    Command, DiffConfig, DoctorConfig, Fixed, Granularity, PointsConfig, ReportConfig, RunConfig, Subject,
    Talk, View, ViewConfig, WatchConfig, Whom,
};
use super::exit::Exit;

/// # Errors
///
/// Wrong usage, where options contradict each other in a way that the parser does not see.
pub(super) fn command(cli: Cli) -> Result<Command, Exit> {
    let talk = talk(&cli.talk);
    Ok(match cli.command {
        CommandArgs::Run(args) => {
            let subject = Subject::Program { words: args.program, user: args.user };
            Command::Run(Box::new(profile(subject, args.measure, None, talk)?))
        }
        CommandArgs::Attach(args) => {
            let subject = Subject::Running(whom(args.whom)?);
            Command::Attach(Box::new(profile(subject, args.measure, Some(ATTACH_OVERHEAD), talk)?))
        }
        CommandArgs::Report(args) => Command::Report(ReportConfig {
            file: args.file,
            json: args.json,
            coz: args.coz,
            csv: args.csv,
            html: args.html,
            folded: args.folded,
            folded_by: args.folded_by,
            view: view(&args.view),
            min_speedups: args.view.min_speedups.and_then(|n| u32::try_from(n).ok()),
            talk,
        }),
        CommandArgs::View(args) => {
            Command::View(ViewConfig { file: args.file, port: args.port, open: !args.no_open, talk })
        }
        CommandArgs::Points(args) => match args.program {
            Some(_) if !args.command.is_empty() => {
                return Err(Exit::usage("what follows -- is the program of `points --run`"));
            }
            Some(program) => Command::Points(PointsConfig {
                program,
                filter: args.filter,
                debug_dirs: args.debug_dirs,
                talk,
            }),
            None => Command::Watch(WatchConfig {
                program: args.command,
                user: args.user,
                duration: args.duration,
                debug_dirs: args.debug_dirs,
                talk,
            }),
        },
        CommandArgs::Doctor(args) => Command::Doctor(DoctorConfig { program: args.program, talk }),
        CommandArgs::Diff(args) => Command::Diff(DiffConfig {
            before: args.before,
            after: args.after,
            top: args.top,
            json: args.json,
            html: args.html,
            talk,
        }),
        CommandArgs::Completions(args) => Command::Completions(args.shell),
        CommandArgs::Man(args) => Command::Man(args.folder),
    })
}

/// Part of the time that delays and load may take of programs that others use meanwhile.
const ATTACH_OVERHEAD: f64 = 0.2;

fn whom(args: args::Whom) -> Result<Whom, Exit> {
    let args::Whom { mut pid, cgroup: mut groups, comm: mut comms, all_processes: _ } = args;
    pid.sort_unstable();
    pid.dedup();
    comms.sort_unstable();
    comms.dedup();
    groups.sort_unstable();
    groups.dedup();
    if let Some(name) = comms.iter().find(|name| name.is_empty() || name.contains('/')) {
        return Err(Exit::usage(format!("--comm {name}: a process's name, without a folder, is needed"))
            .hint("`ps -e -o pid,comm` shows them"));
    }
    if let Some(option) =
        [("--comm", comms.len()), ("--cgroup", groups.len())].iter().find(|(_, count)| *count > MAX_NAMED)
    {
        return Err(
            Exit::usage(format!("{} can name {MAX_NAMED} at most", option.0)).hint("-a takes all processes")
        );
    }
    Ok(match (pid.is_empty(), comms.is_empty() && groups.is_empty()) {
        (false, _) => Whom::Pids(pid),
        (true, false) => Whom::Named { comms, groups },
        (true, true) => Whom::All,
    })
}

fn profile(subject: Subject, m: MeasureArgs, overhead: Option<f64>, talk: Talk) -> Result<RunConfig, Exit> {
    let fixed = fixed(&m)?;
    let first = match &subject {
        Subject::Program { words, .. } => words.first().and_then(|word| word.to_str()),
        Subject::Running(_) => None,
    };
    if let Some(port) = first.filter(|word| m.live == Some(None) && word.parse::<u16>().is_ok()) {
        return Err(Exit::usage(format!(
            "`{port}` stands where the program should: a port goes behind an equals sign"
        ))
        .hint(format!("--live={port}")));
    }
    if m.end_to_end && matches!(subject, Subject::Running(_)) {
        return Err(Exit::usage(
            "--end-to-end is for `run`: of programs that run already there is no whole run",
        ));
    }
    if m.end_to_end && !(m.progress.is_empty() && m.latency.is_empty()) {
        return Err(Exit::usage(
            "--end-to-end makes the whole run the progress point: it cannot be used with -P or -L",
        ));
    }
    let granularity = match (&fixed, m.granularity) {
        (Some(Fixed::Function(_)), Some(Granularity::Line)) => {
            return Err(Exit::usage("--fixed-function needs --granularity function"));
        }
        (Some(Fixed::Line { .. }), Some(Granularity::Function)) => {
            return Err(
                Exit::usage("--fixed-line needs --granularity line").hint("use --fixed-function NAME")
            );
        }
        (Some(Fixed::Function(_)), None) => Granularity::Function,
        (_, granularity) => granularity.unwrap_or_default(),
    };
    // Whoever chooses what is tried has decided what is worth showing.
    let chosen = fixed.is_some() || m.fixed_speedup.is_some() || m.speedups.is_some();
    Ok(RunConfig {
        subject,
        max_overhead: m.max_overhead.or(overhead),
        progress: m.progress,
        latency: m.latency,
        end_to_end: m.end_to_end.then_some(m.runs),
        output: m.output,
        live: m.live.map(Option::unwrap_or_default),
        duration: m.duration,
        until: m.until,
        random_lines: m.random_lines,
        fixed,
        speedups: levels(m.fixed_speedup.map(|s| vec![s]).or(m.speedups)),
        seed: m.seed,
        rate: m.rate,
        granularity,
        inclusive: m.inclusive,
        scope_source: m.scope_source,
        scope_binary: m.scope_binary,
        debug_dirs: m.debug_dirs,
        view: View { all: m.view.all || chosen, min_visits: m.min_visits, ..view(&m.view) },
        talk,
    })
}

fn fixed(m: &MeasureArgs) -> Result<Option<Fixed>, Exit> {
    if let Some(name) = &m.fixed_function {
        return Ok(Some(Fixed::Function(name.clone())));
    }
    let Some(text) = &m.fixed_line else { return Ok(None) };
    text.rsplit_once(':')
        .and_then(|(file, line)| Some((file, line.parse().ok().filter(|&n| n > 0)?)))
        .filter(|(file, _)| !file.is_empty())
        .map(|(file, line)| Some(Fixed::Line { file: file.to_owned(), line }))
        .ok_or_else(|| {
            Exit::usage(format!("--fixed-line {text}: not of the form FILE:LINE"))
                .hint("for instance src/main.c:42")
        })
}

/// The speedups to draw from besides the baseline.
fn levels(asked: Option<Vec<Speedup>>) -> Vec<Speedup> {
    let mut levels =
        asked.unwrap_or_else(|| (5..=100).step_by(5).filter_map(Speedup::from_percent).collect());
    levels.retain(|s| !s.is_baseline());
    levels.sort_unstable();
    levels.dedup();
    levels
}

fn talk(args: &TalkArgs) -> Talk {
    Talk { quiet: args.quiet, verbose: args.verbose, color: args.color }
}

/// Visits of an experiment, and speedups of a line, unless said otherwise.
const LEAST: u64 = 5;

fn view(args: &ViewArgs) -> View {
    View {
        top: args.top,
        sort: args.sort,
        min_visits: LEAST,
        min_speedups: args.min_speedups.unwrap_or(LEAST as usize),
        all: args.all,
    }
}

/// A virtual speedup in percent, tenths allowed.
pub(super) fn parse_percent(text: &str) -> Result<Speedup, String> {
    text.trim()
        .parse::<f64>()
        .ok()
        .filter(|percent| (0.0..=100.0).contains(percent))
        // In range by now, and rounded: the conversion is exact.
        .and_then(|percent| Speedup::from_permille((percent * 10.0).round() as u32))
        .ok_or_else(|| "a percentage from 0 to 100 is needed".to_owned())
}

/// A share of the time in percent, as a fraction.
pub(super) fn parse_overhead(text: &str) -> Result<f64, String> {
    text.parse::<f64>()
        .ok()
        .filter(|percent| *percent > 0.0 && *percent <= 100.0)
        .map(|percent| percent / 100.0)
        .ok_or_else(|| "a percentage above 0, up to 100, is needed".to_owned())
}

/// Percentage points, fractions allowed.
pub(super) fn parse_points(text: &str) -> Result<f64, String> {
    text.parse::<f64>()
        .ok()
        .filter(|points| *points > 0.0 && *points <= 100.0)
        .ok_or_else(|| "a number of percentage points above 0 is needed".to_owned())
}

/// A stretch of time in seconds, fractions allowed.
pub(super) fn parse_seconds(text: &str) -> Result<Nanos, String> {
    text.parse::<f64>()
        .ok()
        .and_then(|seconds| std::time::Duration::try_from_secs_f64(seconds).ok())
        .and_then(|duration| u64::try_from(duration.as_nanos()).ok())
        .filter(|&nanos| nanos > 0)
        .map(Nanos)
        .ok_or_else(|| "a number of seconds above 0 is needed".to_owned())
}
