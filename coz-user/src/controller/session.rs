//! A profile, from its beginning to its report: of a program that is started for it, or of programs that run already. What
//! differs is how the profiled set begins and how it ends ([`super::subject`]).

use std::collections::HashMap;

use anyhow::{Context, Result};
use aya::maps::{MapData, RingBuf};
use coz_common::units::Nanos;
use tokio::io::unix::AsyncFd;

use super::{
    clockwork::Counts,
    debts::Debts,
    family::Family,
    health::MachineTime,
    launcher,
    overhead::Overhead,
    pace::Pace,
    progress::Progress,
    quota::Quotas,
    recorder::Recorder,
    rounds::Rounds,
    series::Runs,
    setup::{self, Ready},
    signals::Signals,
    spaces::Spaces,
    spending::Spending,
    startup::startup,
    subject::{Beginning, End, Subject},
    voice::Voice,
};
use crate::{
    cli::{RunConfig, Talk},
    experiment::{
        guard::Guard,
        machine::{Conductor, Machine, MachineConfig},
        plan::{self, Plan},
        series::Series,
    },
    kernel::{KernelLog, control::now, lines::TableSpace, load::Detaching},
    view::Beside,
};

/// Profiles; the exit code is that of the program that was started, or 0 where programs of others were profiled.
///
/// # Errors
/// What kept us from it (see [`crate::cli::Exit`]). Once a program runs, its own exit code is returned whatever happens
/// to the profile; what went wrong is said on stderr.
pub fn run(config: RunConfig) -> Result<u8> {
    let began = now();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the controller's event loop")?;
    runtime.block_on(async move {
        let voice = Voice::new(config.talk.quiet);
        let ready = setup::prepare(&config, &voice)?;
        Session::start(config, ready, voice, began)?.serve().await
    })
}

/// A run under way.
pub(super) struct Session {
    pub(super) config: RunConfig,
    pub(super) ready: Ready,
    pub(super) subject: Subject,
    pub(super) events: AsyncFd<RingBuf<MapData>>,
    pub(super) machine: Box<dyn Conductor>,
    /// Those of a series.
    pub(super) runs: Option<Runs>,
    pub(super) recorder: Recorder<std::fs::File>,
    pub(super) counts: Counts,
    pub(super) space: TableSpace,
    pub(super) spaces: Spaces,
    pub(super) family: Family,
    pub(super) rounds: Rounds,
    pub(super) voice: Voice,
    pub(super) signals: Signals,
    pub(super) log: Option<KernelLog>,
    pub(super) progress: Progress,
    pub(super) epoch: u32,
    pub(super) delaying: bool,
    /// Whether an experiment runs.
    pub(super) is_running: bool,
    pub(super) timer: Option<Nanos>,
    pub(super) finished: bool,
    /// Whether the handler gets into the program. Without it there are no experiments: an effect without delays is wrong.
    pub(super) can_delay: bool,
    /// Whether any line in scope is known.
    pub(super) has_lines: bool,
    pub(super) table_ready: bool,
    pub(super) points_known: bool,
    pub(super) trouble: Option<anyhow::Error>,
    pub(super) delay: Nanos,
    pub(super) unpaid: Nanos,
    pub(super) released: Nanos,
    pub(super) startup: Nanos,
    pub(super) machine_time: MachineTime,
    pub(super) quotas: Quotas,
    pub(super) debts: Debts,
    pub(super) spending: Spending,
    /// The page of `--live`.
    pub(super) page: Option<Beside>,
    /// Probes that are being taken away.
    pub(super) detaching: Option<Detaching>,
    /// Why the profile is to end now.
    pub(super) ending: Option<End>,
    /// When it is next looked who belongs to the set.
    pub(super) next_scan: Nanos,
    /// Processes that are to be entered, and when.
    pub(super) entering: Vec<(Nanos, u32)>,
    /// Processes whose seccomp filters are asked, or were: about which handler, when how many were seen.
    pub(super) filters: HashMap<u32, (u64, u32)>,
    pub(super) guard: Guard,
    pub(super) overhead: Overhead,
}

impl Session {
    fn start(config: RunConfig, mut ready: Ready, voice: Voice, began: Nanos) -> Result<Self> {
        let seed = config.seed.unwrap_or_else(plan::random_seed);
        let lines = if config.fixed.is_some() { plan::Lines::Fixed } else { plan::Lines::Sampled };
        let plan = Plan::new(seed, lines, &config.speedups);
        let machine_config = MachineConfig {
            min_visits: config.view.min_visits,
            max_overhead: config.max_overhead.map(|part| (part * 1000.0).round() as u32),
            ..MachineConfig::default()
        };
        let log = if logs(&config.talk) { Some(ready.kernel.log()?) } else { None };

        let events = ready.kernel.take_events()?;
        // SAFETY: the ring owns its descriptor and keeps it open and the same as long as it lives.
        let events = unsafe { AsyncFd::register(events) }
            .map_err(|error| error.into_parts().1)
            .context("cannot wait for the kernel's events")?;
        let beginning = ready.beginning.take().context("there is nothing to profile")?;
        // Programs that run already can be delayed when they have been entered; baselines alone need no delays.
        let can_delay = match &beginning {
            Beginning::Launch(_) => ready.door.is_some(),
            Beginning::Attach(_) => config.speedups.is_empty(),
        };
        if let Some((listener, door)) = ready.door.take() {
            tokio::spawn(listener.serve(door));
        }
        let machine_time = MachineTime::read();
        if let Some(aside) = ready.output.aside() {
            voice.mention(&format!(
                "the old {} is kept: it is {} now",
                config.output.display(),
                aside.display()
            ));
        }
        // Up to here a signal ends us, and the program that waits with us. From here on it has begun.
        let signals = Signals::listen()?;
        let (subject, first) = match beginning {
            Beginning::Launch(suspended) => {
                let running = suspended.release().map_err(launcher::failure)?;
                let pid = running.pid();
                (Subject::Launched(running), Some(pid))
            }
            Beginning::Attach(members) => {
                let first = members.now()?.first().map(|pid| *pid as i32);
                (Subject::Attached(members), first)
            }
        };
        let released = now();
        let quotas = first.map(Quotas::of).unwrap_or_default();
        let spending = Spending::new(config.until, !config.random_lines);
        let pace = Pace::new(ready.rate, config.rate.is_some(), ready.sample_cost, config.max_overhead);
        let file = ready.output.take().context("the profile's file was not opened")?;
        let mut recorder = Recorder::new(file, began);
        recorder.startup(&startup(&config, &ready, seed, &machine_config))?;
        let mut session = Self {
            machine: match config.end_to_end {
                Some(runs) => Box::new(Series::new(plan, runs, released)),
                None => Box::new(Machine::new(machine_config, plan, released)),
            },
            runs: config.end_to_end.map(Runs::new),
            config,
            ready,
            subject,
            events,
            recorder,
            counts: Counts::default(),
            space: TableSpace::default(),
            spaces: Spaces::default(),
            family: Family::default(),
            rounds: Rounds::default(),
            voice,
            signals,
            log,
            progress: Progress::default(),
            epoch: 0,
            delaying: false,
            is_running: false,
            timer: None,
            finished: false,
            can_delay,
            has_lines: false,
            table_ready: false,
            points_known: false,
            trouble: None,
            delay: Nanos(0),
            unpaid: Nanos(0),
            released,
            startup: released.since(began),
            machine_time,
            quotas,
            debts: Debts::default(),
            spending,
            page: None,
            detaching: None,
            ending: None,
            next_scan: now(),
            entering: Vec::new(),
            filters: HashMap::new(),
            guard: Guard::new(cpus()),
            overhead: Overhead::new(pace, now()),
        };
        session.check_file();
        session.show_page();
        session.begin();
        Ok(session)
    }
}

/// How many CPUs there are.
pub(super) fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Whether the kernel side's own messages are wanted.
fn logs(talk: &Talk) -> bool {
    talk.verbose > 1
}
