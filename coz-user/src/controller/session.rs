//! A profile, from its beginning to its report: of a program that is started for it, or of programs that run already. What
//! differs is how the profiled set begins and how it ends ([`super::subject`]).

use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

use anyhow::{Context, Result};
use aya::maps::{MapData, RingBuf};
use coz_common::{
    abi::Stat,
    units::{LineId, Nanos},
};
use tokio::{io::unix::AsyncFd, time::Instant};

use super::{
    clockwork::{Counts, snapshot},
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
    commands,
    experiment::{
        guard::Guard,
        machine::{Action, Conductor, Event, Machine, MachineConfig},
        plan::{self, Plan},
        series::Series,
    },
    kernel::{
        KernelLog,
        control::{Trial, now},
        lines::TableSpace,
        load::Detaching,
    },
    target::{exit::ExitStatus, identity::Identity, launch::Change},
    view::Beside,
};

/// How often addresses that the kernel did not know are fetched while a program shows new code.
const BUSY: Duration = Duration::from_millis(20);
/// And when it has shown none for a while.
const QUIET: Duration = Duration::from_millis(200);

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
    signals: Signals,
    log: Option<KernelLog>,
    progress: Progress,
    pub(super) epoch: u32,
    delaying: bool,
    /// Whether an experiment runs.
    pub(super) is_running: bool,
    timer: Option<Nanos>,
    finished: bool,
    /// Whether the handler gets into the program. Without it there are no experiments: an effect without delays is wrong.
    pub(super) can_delay: bool,
    /// Whether any line in scope is known.
    pub(super) has_lines: bool,
    pub(super) table_ready: bool,
    points_known: bool,
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
    guard: Guard,
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

    /// `--live`. The program runs by now: what goes wrong with the page is said, and no more.
    fn show_page(&mut self) {
        let Some(port) = self.config.live else { return };
        let file = &self.config.output;
        // The sources are read as whoever looks at them could.
        let page =
            Identity::resolve(None).and_then(|viewer| Beside::start(file, port, &viewer, commands::page()));
        match page {
            Ok(page) => {
                self.voice.complain(&format!("the page: {}", page.address()));
                self.page = Some(page);
            }
            Err(error) => self.voice.complain(&format!("no page: {error:#}")),
        }
    }

    async fn serve(mut self) -> Result<u8> {
        let over = self.config.duration.map(|duration| Instant::now() + Duration::from_nanos(duration.0));
        let mut over = Box::pin(tokio::time::sleep_until(over.unwrap_or_else(far)));
        let mut over_seen = self.config.duration.is_none();
        let mut look = Instant::now() + BUSY;
        if let Some(line) = self.ready.fixed {
            self.tell(Event::FixedLine(line));
        }
        self.look_for_points();
        let end = loop {
            if let Some(end) = self.ending.take() {
                break end;
            }
            let timer = self.timer;
            tokio::select! {
                biased;
                change = self.subject.changed(), if !self.is_between_runs() => match change.context("cannot wait for the program")? {
                    Change::Ended(status) => self.program_ended(status),
                    Change::Stopped(_) => {
                        if let Subject::Launched(running) = &self.subject {
                            running.mirror_stop().await.context("cannot stop with the program")?;
                        }
                    }
                    Change::Continued => {}
                },
                Some(answer) = self.ready.answers.recv() => self.answered(answer),
                Some(registered) = self.ready.registrations.recv() => self.registered(registered),
                Some(page) = self.ready.resolved.recv() => self.resolved(&page),
                () = until(timer), if timer.is_some() => {
                    self.timer = None;
                    self.tell(Event::Tick);
                }
                guard = self.events.readable_mut() => {
                    if let Ok(mut guard) = guard {
                        guard.clear_ready();
                    }
                    self.kernel_events();
                }
                // After the events: what is wanted now goes before what may be wanted next.
                Some(rows) = self.ready.rows.recv() => self.rows_read(&rows),
                () = tokio::time::sleep_until(look) => {
                    let fresh = self.look_up();
                    self.may_ask_again();
                    self.look_again();
                    self.look_for_members();
                    self.look_for_points();
                    self.look_at_load();
                    self.show_status();
                    self.print_log();
                    look = Instant::now() + if fresh { BUSY } else { QUIET };
                }
                () = &mut over, if !over_seen => {
                    over_seen = true;
                    self.tell(Event::DurationOver);
                    self.over();
                }
                // The terminal has sent these two to the program too: what it does with them is its own affair.
                Some(()) = self.signals.interrupt.recv() => self.interrupted(None),
                Some(()) = self.signals.quit.recv() => self.interrupted(None),
                Some(()) = self.signals.terminate.recv() => self.interrupted(Some(libc::SIGTERM)),
                Some(()) = self.signals.hangup.recv() => self.interrupted(Some(libc::SIGHUP)),
            }
        };
        Ok(self.finish(end))
    }

    /// A signal to us. A program of ours gets the one that is to be passed on; with programs of others it is the end of the profile.
    fn interrupted(&mut self, pass_on: Option<i32>) {
        match (&self.subject, pass_on) {
            (Subject::Attached(_), _) => self.ending = Some(End::Interrupted),
            (Subject::Launched(_), signal) if self.is_between_runs() => {
                self.interrupted_between_runs(signal.unwrap_or(libc::SIGINT));
            }
            (Subject::Launched(_), None) => self.tell(Event::Interrupted),
            (Subject::Launched(running), Some(signal)) => drop(running.send(signal)),
        }
    }

    /// No more experiments: programs of others are let go at once.
    fn over(&mut self) {
        if self.subject.is_attached() {
            self.ending.get_or_insert(End::Over);
        }
    }

    pub(super) fn tell(&mut self, event: Event) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            if self.finished {
                return;
            }
            for action in self.machine.on(event.clone(), now()) {
                match self.act(action) {
                    Ok(Some(answer)) => events.push_back(answer),
                    Ok(None) => {}
                    Err(error) => self.fail(error),
                }
            }
        }
    }

    /// Something of ours failed: the program runs on, undelayed; what was measured is kept.
    pub(super) fn fail(&mut self, error: anyhow::Error) {
        self.ready.kernel.end();
        if self.trouble.is_none() {
            self.voice.complain(&format!("{error:#}; no more experiments, the program runs on"));
            self.trouble = Some(error);
            self.tell(Event::DurationOver);
            self.end_between_runs(ExitStatus::Code(0));
        }
    }

    fn act(&mut self, action: Action) -> Result<Option<Event>> {
        match action {
            Action::Begin(begin) => {
                if self.epoch == 0 && self.subject.is_attached() {
                    self.note_what_is_usual()?;
                }
                self.keep_pace();
                self.is_running = true;
                self.epoch = begin.epoch;
                self.delaying = !begin.speedup.is_baseline();
                if self.delaying {
                    self.counts.delayed_begin(&self.ready.kernel, &self.ready.attribution)?;
                }
                self.ready.kernel.begin(&Trial {
                    epoch: begin.epoch,
                    line: begin.line,
                    speedup: begin.speedup,
                    deadline: begin.deadline,
                });
            }
            Action::Extend { deadline } => self.ready.kernel.extend(deadline),
            Action::End => {
                self.ready.kernel.end();
                self.is_running = false;
            }
            Action::TakeSnapshot { line } => {
                let Ready { kernel, attribution, points, .. } = &mut self.ready;
                let mut snapshot = snapshot(kernel, attribution, points, self.epoch, line)?;
                self.clock_of_the_run(&mut snapshot);
                return Ok(Some(Event::Snapshot(snapshot)));
            }
            Action::RunAgain => return self.run_again().map(Some),
            Action::ReadLines => {
                let Ready { kernel, attribution, .. } = &self.ready;
                return Ok(Some(Event::LinesSeen(self.counts.since_last(kernel, attribution))));
            }
            // Programs of others are no run that was seen whole.
            Action::Record(ended) if self.subject.is_attached() && ended.epoch == 0 => {}
            Action::Record(mut ended) => {
                let pace = &self.overhead.pace;
                if self.delaying {
                    self.delaying = false;
                    self.counts.delayed_end(&self.ready.kernel, &self.ready.attribution, pace)?;
                    self.debts.ended(&self.ready.kernel, ended.epoch);
                }
                self.delay.0 += ended.delay_before.0 + ended.delay.0;
                self.unpaid.0 += ended.unpaid.0;
                self.progress.ended(&ended);
                if self.subject.is_attached()
                    && let Some(alarm) = self.guard.ended(&ended)
                {
                    self.ending.get_or_insert(End::Harm(alarm.to_string()));
                }
                let Ready { kernel, attribution, points, .. } = &self.ready;
                let total = |line| Counts::total(kernel, attribution, line);
                let mut line = ended.line;
                if !line.is_some() {
                    line = attribution.hottest(|line| total(line).samples);
                    ended.selected = total(line);
                }
                // Experiments at different rates are compared.
                ended.set.samples = pace.scaled(ended.set.samples);
                ended.selected.samples = pace.scaled(ended.selected.samples);
                let location = attribution.lines().get(line).map(crate::symbols::Line::location);
                self.recorder.experiment(&ended, line, attribution, points)?;
                self.check_file();
                self.spending.recorded(location.unwrap_or_default(), line);
                return Ok(self.know(ended.line));
            }
            Action::SetTimer(at) => self.timer = Some(at),
            Action::Finish => {
                self.finished = true;
                self.end_between_runs(ExitStatus::Code(0));
            }
        }
        Ok(None)
    }

    /// Before the first experiment: how often points are visited, and how long threads wait for CPUs.
    fn note_what_is_usual(&mut self) -> Result<()> {
        let Ready { kernel, points, .. } = &mut self.ready;
        let (visits, stats) = (points.visits(kernel)?, kernel.stats()?);
        self.guard.before(&visits, now().since(self.released), Nanos(stats.get(Stat::RunqueueNs)));
        Ok(())
    }

    /// What the planner is to know after this line's experiment; at the end nothing any more.
    fn know(&mut self, line: LineId) -> Option<Event> {
        if !line.is_some() || self.finished {
            return None;
        }
        let told = self.spending.look(self.recorder.kept(), now());
        if told == Some(Event::Enough) {
            let seconds = now().since(self.released).0 as f64 / 1e9;
            let points = self.config.until.unwrap_or_default();
            self.voice.mention(&format!(
                "enough after {seconds:.1} s: the first line's effect at 50 % is known to within {points} points; the program \
                 runs on undelayed"
            ));
            self.over();
        }
        told
    }

    /// The file takes no more: the run goes on, and the report has it all.
    pub(super) fn check_file(&mut self) {
        if let Some(error) = self.recorder.refused() {
            let path = self.config.output.display();
            self.voice.complain(&format!(
                "{path}: {error}. The program and the experiments go on; the report at the end has all of them"
            ));
        }
    }

    /// coz.h points appear when the program first passes them.
    pub(super) fn look_for_points(&mut self) {
        if self.points_known || !self.can_delay {
            return;
        }
        match self.ready.points.visits(&self.ready.kernel) {
            Ok(visits) if visits.is_empty() => {}
            Ok(_) => {
                self.points_known = true;
                self.tell(Event::PointsKnown);
            }
            Err(error) => self.fail(error),
        }
    }

    fn show_status(&mut self) {
        if !self.voice.has_status() {
            return;
        }
        let elapsed = now().since(self.released);
        let waiting = self.ready.attribution.is_waiting() && !self.table_ready;
        let visits = self.ready.points.visits(&self.ready.kernel).unwrap_or_default();
        let busiest = visits.iter().map(|point| point.visits).max();
        let mut status = self.progress.status(elapsed, busiest, waiting, self.recorder.kept());
        status.note = self.run_number().or(status.note);
        status.attached = match &self.subject {
            Subject::Attached(_) => Some(self.ready.program.concat()),
            Subject::Launched(_) => None,
        };
        self.voice.status(&status);
    }

    pub(super) fn print_log(&mut self) {
        if let Some(log) = &mut self.log {
            log.flush();
        }
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

async fn until(at: Option<Nanos>) {
    let left = at.map_or(Duration::MAX, |at| Duration::from_nanos(at.since(now()).0));
    tokio::time::sleep(left).await;
}

fn far() -> Instant {
    Instant::now() + Duration::from_secs(365 * 24 * 3600)
}
