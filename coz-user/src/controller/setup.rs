//! Everything before the program's first instruction, or before the first of those that run already joins the set.

use std::{
    ffi::OsString,
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Result, anyhow};
use coz_common::units::{LineId, Nanos};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::{
    attribution::{Attribution, ResolvedPage},
    fixed,
    guests::{Answer, Guests},
    launcher::Launcher,
    members::Members,
    output::Output,
    points::Points,
    probes::{self, Asked},
    registrar::{Door, Registered},
    subject::Beginning,
    unwinding::{Rows, Unwinding},
    voice::Voice,
};
use crate::{
    cli::{self, Exit, Fixed, RunConfig, Subject},
    kernel::{
        btf::{Btf, BtfError},
        calibrate,
        control::Settings,
        doctor, environment,
        load::{Kernel, Loader},
    },
    symbols::{Granularity, Module, Scope},
    target::{
        binary::{Kind, Program},
        identity::{Identity, Variables},
        process::{self, CodeMapping},
        registration::Listener,
    },
};

/// The signal that asks a thread to pay: near the end of the real-time signals, where programs that use some begin
/// from the other end.
const SIGNAL: u32 = 62;
/// Debt from which a thread is asked to pay. Most debts never are: who waits for the thread that made them absorbs them.
/// That is so only where the kernel sees the waiting. Of two threads that meet at a polling barrier each millisecond
/// (`streamcluster`, truth 27, 40, 41, 40 %), 8, 13, 19, 21 % are predicted with 1 ms, 22, 35, 37, 37 with 0.25 ms and 26, 39,
/// 37, 35 with 0.1 ms, at 3 and 10 times as many signals. Elsewhere there is no difference.
const THRESHOLD: Nanos = Nanos(250_000);

/// All that is needed, ready to begin.
pub struct Ready {
    /// The kernel side, attached.
    pub kernel: Kernel,
    /// Lines.
    pub attribution: Attribution,
    /// The main program, if there is one and its file can be read as one.
    pub main: Option<Arc<Module>>,
    /// The line or function that the user has fixed; `None` also where it is looked for in libraries.
    pub fixed: Option<LineId>,
    /// The profile's file.
    pub output: Output,
    /// Lines that have been looked up.
    pub resolved: UnboundedReceiver<ResolvedPage>,
    /// Rows for unwinding.
    pub unwinding: Unwinding,
    /// Pages of them that have been read.
    pub rows: UnboundedReceiver<Rows>,
    /// Progress points.
    pub points: Points,
    /// How the profiled set begins.
    pub beginning: Option<Beginning>,
    /// What starts the program, if it is ours to start.
    pub launcher: Option<Launcher>,
    /// What is profiled, in words: the program and its arguments.
    pub program: Vec<String>,
    /// Programs that have the shim.
    pub registrations: UnboundedReceiver<Registered>,
    /// Where they register.
    pub door: Option<(Listener, Door)>,
    /// Running programs that are entered, where delays are to be inserted into such.
    pub guests: Option<Guests>,
    /// What came of it.
    pub answers: UnboundedReceiver<Answer>,
    /// Samples per second, at first.
    pub rate: u32,
    /// Price of one, at first.
    pub sample_cost: Nanos,
    /// Price of a visit of a probe; 0 where there is none.
    pub visit_cost: Nanos,
    /// What could not be done.
    pub notices: Vec<String>,
}

/// What is to be profiled, found; nothing was changed yet.
enum Found<'a> {
    Program { typed: &'a OsString, arguments: &'a [OsString], program: Program, environment: Variables },
    Running { members: Members, main: Option<(u32, CodeMapping)> },
}

impl Found<'_> {
    fn find<'a>(config: &'a RunConfig, identity: &Identity, voice: &Voice) -> Result<Found<'a>> {
        match &config.subject {
            Subject::Program { words, .. } => {
                let environment = identity.environment();
                let (typed, program) = find_program(words, &environment, identity)?;
                Ok(Found::Program { typed, arguments: &words[1..], program, environment })
            }
            Subject::Running(whom) => {
                let members = Members::find(whom)?;
                let limit = config.duration.map(|limit| std::time::Duration::from_nanos(limit.0));
                let pids = members.wait(limit, |text| voice.mention(text))?;
                let main = members.program(&pids);
                Ok(Found::Running { members, main })
            }
        }
    }

    /// What has to be said of it.
    fn notices(&self) -> Vec<String> {
        let Self::Program { program, .. } = self else { return Vec::new() };
        let mut notices = Vec::new();
        if let Err(why) = &program.can_preload
            && !why.can_be_entered()
        {
            notices.push(format!(
                "{}: no delays can be inserted ({why}); its samples and visits are counted, but nothing is predicted",
                program.path.display()
            ));
        }
        notices.extend(script(program));
        notices
    }

    /// A point that a script's interpreter does not have may be in what the script starts.
    fn hint_of_script(&self, error: anyhow::Error) -> anyhow::Error {
        let Self::Program { program, .. } = self else { return error };
        if !matches!(program.kind, Kind::Script { .. }) {
            return error;
        }
        let hint = format!(
            "{} is a script: a point in a program that it starts is named with that program, as in ./PROGRAM@SYMBOL",
            program.path.display()
        );
        error.downcast::<Exit>().map_or_else(|other| other, |exit| exit.hint(hint).into())
    }

    /// The main program's file.
    fn main(&self, attribution: &mut Attribution, notices: &mut Vec<String>) -> Option<Arc<Module>> {
        match self {
            Self::Program { program, .. } => open_main(attribution, program.image()?.0, notices),
            Self::Running { main, .. } => {
                let (pid, mapping) = main.as_ref()?;
                let path = process::reachable(*pid, mapping);
                match attribution.main_module(&path, &mapping.path, mapping.device, mapping.inode) {
                    Ok(module) => Some(module),
                    Err(error) => {
                        notices.push(format!("no lines of {}: {error:#}", mapping.path.display()));
                        None
                    }
                }
            }
        }
    }

    /// The files that it has loaded: their names, and where they can be reached.
    fn loaded(&self) -> Vec<(PathBuf, PathBuf)> {
        let Self::Running { main: Some((pid, _)), .. } = self else { return Vec::new() };
        let mappings = process::code_mappings(*pid as i32).ok().flatten().unwrap_or_default();
        let files = mappings.iter().filter(|mapping| mapping.inode != 0);
        files.map(|mapping| (mapping.path.clone(), process::reachable(*pid, mapping))).collect()
    }

    /// The program and its arguments, or who is meant.
    fn words(&self) -> Vec<String> {
        match self {
            Self::Program { typed, arguments, .. } => std::iter::once(*typed)
                .chain(*arguments)
                .map(|word| word.to_string_lossy().into_owned())
                .collect(),
            Self::Running { members, .. } => vec![members.describe()],
        }
    }
}

/// Checks the machine, finds what is to be profiled, resolves its points, loads the kernel side; starts the program, if it is to be
/// started, suspended.
///
/// # Errors
/// Each with its exit code: see [`Exit`].
pub fn prepare(config: &RunConfig, voice: &Voice) -> Result<Ready> {
    let loader = Loader::begin();
    let btf = Btf::load();
    check_machine(&btf)?;
    check_namespace()?;
    let btf = btf?;
    let pid_max = environment::pid_max()?;
    let identity = Identity::resolve(config.subject.user())?;
    let found = Found::find(config, &identity, voice)?;
    let program = found.words();

    let scope = Scope::new(&config.scope_source, &config.scope_binary)?;
    let granularity = match config.granularity {
        cli::Granularity::Line => Granularity::Line,
        cli::Granularity::Function => Granularity::Function,
    };
    let (mut attribution, resolved) =
        Attribution::new(scope.clone(), config.debug_dirs.clone(), granularity, config.inclusive);
    let mut notices = found.notices();
    let main = found.main(&mut attribution, &mut notices);
    // Checking the programs takes the kernel as long as a large program's points take us.
    let (kernel, points) = std::thread::scope(|threads| {
        let kernel =
            threads.spawn(|| Kernel::load(loader, &btf, pid_max, config.inclusive, config.talk.verbose > 1));
        let points = (|| {
            let loaded = found.loaded();
            let asked = probes::resolve(config, main.clone(), loaded, scope, &mut attribution, &mut notices)?;
            let fixed = find_fixed(config, main.as_ref(), &mut attribution, &mut notices)?;
            Ok::<_, anyhow::Error>((asked, fixed, calibrate::measure_sample()?))
        })();
        (kernel.join().unwrap_or_else(|_| Err(anyhow!("loading the kernel side failed"))), points)
    });
    let (asked, fixed, sample_cost) = points.map_err(|error| found.hint_of_script(error))?;
    let mut kernel = kernel?;
    drop(btf);
    // Last of what can fail for a reason of the user's, first of what changes anything.
    let output = Output::open(&config.output, &identity)?;
    let rate = config.rate.unwrap_or_else(|| calibrate::rate_for(sample_cost, config.max_overhead));
    let period = Nanos(1_000_000_000 / u64::from(rate));
    kernel.configure(&Settings {
        signal: SIGNAL,
        threshold: THRESHOLD,
        period,
        wake_latency: calibrate::wake_latency(),
        sample_cost,
    });

    let (news, registrations) = unbounded_channel();
    let (mut door, mut guests, mut launcher) = (None, None, None);
    let (_, mut answers) = unbounded_channel();
    // Where nothing is predicted nothing is delayed, and nobody is entered.
    let delays = !config.speedups.is_empty();
    let beginning = match found {
        Found::Program { typed, arguments, program, environment } => {
            let what = (typed, arguments, &program);
            let (start, at) = Launcher::new(what, environment, identity, &kernel, SIGNAL, news)?;
            door = at;
            let suspended = start.suspended()?;
            if config.end_to_end.is_some_and(|runs| runs > 1) && !start.can_read_again() {
                notices.extend(read_once());
            }
            launcher = Some(start);
            kernel.follow(suspended.pid() as u32);
            // Programs that load nothing: this one, or one that it executes.
            if delays {
                let entering = Guests::new(&kernel.books, SIGNAL);
                (guests, answers) = (Some(entering.0), entering.1);
            }
            Beginning::Launch(suspended)
        }
        Found::Running { members, .. } => {
            kernel.prepare_admission()?;
            if delays && !asked.is_empty() {
                let entering = Guests::new(&kernel.books, SIGNAL);
                (guests, answers) = (Some(entering.0), entering.1);
            }
            kernel.follow_rule(&members.rule());
            Beginning::Attach(members)
        }
    };
    kernel.attach_scheduler()?;
    let visit_cost = visit_cost(&mut kernel, &asked);
    kernel.set_visit_cost(visit_cost);
    let points = asked.attach(&mut kernel, period)?;
    kernel.start_sampling(period)?;
    if !kernel.missing.is_empty() {
        notices.push(format!(
            "this kernel lacks the tracepoints {}: some wake-ups by interrupts count as the current thread's",
            kernel.missing.join(", ")
        ));
    }
    let (unwinding, rows) = Unwinding::new();
    Ok(Ready {
        kernel,
        attribution,
        unwinding,
        rows,
        main,
        fixed,
        output,
        resolved,
        points,
        beginning: Some(beginning),
        launcher,
        program,
        registrations,
        door,
        guests,
        answers,
        rate,
        sample_cost,
        visit_cost,
        notices,
    })
}

/// The price of a visit, where there are probes: the dearer where they are of both kinds.
fn visit_cost(kernel: &mut Kernel, asked: &Asked) -> Nanos {
    let (any, at_return) = asked.probes();
    if any { kernel.visit_cost(at_return) } else { Nanos(0) }
}

/// The kernel side knows processes by their numbers in the first pid namespace (`PROC_PID_INIT_INO`): where ours are others, nobody would be
/// found.
fn check_namespace() -> Result<()> {
    const FIRST: u32 = 0xefff_fffc;
    let own = process::pid_namespace(std::process::id().cast_signed())?;
    if own.is_none_or(|own| own == FIRST) {
        return Ok(());
    }
    Err(Exit::failure("coz-bpf is in a pid namespace of its own (a container): processes have other numbers there than in the kernel")
        .hint("start the container with --pid=host (docker, podman), or run coz-bpf outside and attach to what runs in there")
        .into())
}

fn check_machine(btf: &Result<Btf, BtfError>) -> Result<()> {
    match doctor::failures(&doctor::machine(btf)) {
        Some(text) => {
            Err(Exit::failure(text).hint("`coz-bpf doctor` shows everything that was checked").into())
        }
        None => Ok(()),
    }
}

/// What is said of a script.
fn script(program: &Program) -> Option<String> {
    let Kind::Script { interpreter, runs, .. } = &program.kind else { return None };
    let image = program.image().map_or(runs.path.as_path(), |(path, _)| path);
    let through =
        if image == interpreter { String::new() } else { format!(", started as {}", interpreter.display()) };
    Some(format!(
        "{} is a script: what is profiled is its interpreter ({}{through}), and every program that it executes. For the \
         lines of a compiled program, run that one",
        program.path.display(),
        image.display(),
    ))
}

/// What is said of a series of runs whose input is gone after the first.
fn read_once() -> Option<String> {
    let kind = std::fs::metadata("/dev/stdin").ok()?.file_type();
    (kind.is_fifo() || kind.is_socket()).then(|| {
        "the standard input is a pipe: what the first run reads of it, later ones do not find. Use a file (< FILE)".into()
    })
}

/// Finds what `--fixed-line` or `--fixed-function` means.
fn find_fixed(
    config: &RunConfig,
    main: Option<&Arc<Module>>,
    attribution: &mut Attribution,
    notices: &mut Vec<String>,
) -> Result<Option<LineId>> {
    let Some(wanted) = &config.fixed else { return Ok(None) };
    let name = match wanted {
        Fixed::Line { file, line } => format!("--fixed-line {file}:{line}"),
        Fixed::Function(name) => format!("--fixed-function {name}"),
    };
    let located = match main {
        Some(main) => fixed::locate(wanted, main, attribution).map(|located| (main, located)),
        None => Err(anyhow!("the program is not an ELF file that can be read")),
    };
    match located {
        Ok((main, located)) => {
            attribution.look_ahead(main, &located.addresses);
            Ok(Some(located.line))
        }
        // The libraries are known only when the program has loaded them.
        Err(error) if !config.scope_binary.is_empty() => {
            notices
                .push(format!("{name}: not in the program itself ({error:#}); looked for in what it loads"));
            Ok(None)
        }
        Err(error) => Err(Exit::usage(format!("{name}: {error:#}")).into()),
    }
}

fn open_main(attribution: &mut Attribution, path: &Path, notices: &mut Vec<String>) -> Option<Arc<Module>> {
    let file = std::fs::canonicalize(path).ok()?;
    let meta = file.metadata().ok()?;
    let device = (libc::major(meta.dev()), libc::minor(meta.dev()));
    match attribution.main_module(&file, path, device, meta.ino()) {
        Ok(module) => Some(module),
        Err(error) => {
            notices.push(format!("no lines of {}: {error:#}", file.display()));
            None
        }
    }
}

/// The program that was named first on the command line, as it was typed, and where it is.
///
/// # Errors
/// With the exit code of a shell: there is none, or it cannot be executed.
pub(super) fn find_program<'a>(
    words: &'a [OsString],
    environment: &[(OsString, OsString)],
    identity: &Identity,
) -> Result<(&'a OsString, Program)> {
    let typed = words.first().ok_or_else(|| Exit::usage("no program to run"))?;
    let path = environment.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.clone());
    let program = Program::find(typed, path.as_deref(), identity).map_err(|error| {
        let make = if error.exit_code() == 127 { Exit::not_found } else { Exit::not_executable };
        make(error.to_string())
    })?;
    Ok((typed, program))
}
