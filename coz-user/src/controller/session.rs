//! A run, from the release of the program to its report.

use std::{collections::VecDeque, time::Duration};

use anyhow::{Context, Result};
use aya::maps::{MapData, RingBuf};
use coz_common::units::{LineId, Nanos};
use tokio::{io::unix::AsyncFd, time::Instant};

use super::{
    clockwork::{Counts, snapshot},
    debts::Debts,
    family::Family,
    health::MachineTime,
    progress::Progress,
    quota::Quotas,
    recorder::Recorder,
    rounds::Rounds,
    setup::{self, Ready},
    signals::Signals,
    spaces::Spaces,
    spending::Spending,
    startup::startup,
    voice::Voice,
};
use crate::{
    cli::{RunConfig, Talk},
    commands,
    experiment::{
        machine::{Action, Event, Machine, MachineConfig},
        plan::{self, Plan},
    },
    kernel::{
        KernelLog,
        control::{Trial, now},
        lines::TableSpace,
    },
    target::{
        identity::Identity,
        launch::{Change, Running},
    },
    view::Beside,
};

/// How often addresses that the kernel did not know are fetched while a program shows new code.
const BUSY: Duration = Duration::from_millis(20);
/// And when it has shown none for a while.
const QUIET: Duration = Duration::from_millis(200);

/// Runs the program under the profiler; the exit code is the program's own.
///
/// # Errors
/// What kept us from running it (see [`crate::cli::Exit`]). Once the program runs, its own exit code is returned whatever happens
/// to the profile; what went wrong is said on stderr.
pub fn run(config: RunConfig) -> Result<u8> {
    let began = now();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the controller's event loop")?;
    runtime.block_on(async move {
        let ready = setup::prepare(&config)?;
        Session::start(config, ready, began)?.serve().await
    })
}

/// A run under way.
pub(super) struct Session {
    pub(super) config: RunConfig,
    pub(super) ready: Ready,
    pub(super) running: Running,
    pub(super) events: AsyncFd<RingBuf<MapData>>,
    machine: Machine,
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
    epoch: u32,
    delaying: bool,
    timer: Option<Nanos>,
    finished: bool,
    /// Whether the shim gets into the program. Without it there are no experiments: an effect without delays is wrong.
    pub(super) can_delay: bool,
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
}

impl Session {
    fn start(config: RunConfig, mut ready: Ready, began: Nanos) -> Result<Self> {
        let voice = Voice::new(config.talk.quiet);
        let seed = config.seed.unwrap_or_else(plan::random_seed);
        let lines = if config.fixed.is_some() { plan::Lines::Fixed } else { plan::Lines::Sampled };
        let plan = Plan::new(seed, lines, &config.speedups);
        let machine_config = MachineConfig {
            min_visits: config.view.min_visits,
            end_to_end: config.end_to_end,
            ..MachineConfig::default()
        };
        let log = if logs(&config.talk) { Some(ready.kernel.log()?) } else { None };

        let events = ready.kernel.take_events()?;
        // SAFETY: the ring owns its descriptor and keeps it open and the same as long as it lives.
        let events = unsafe { AsyncFd::register(events) }
            .map_err(|error| error.into_parts().1)
            .context("cannot wait for the kernel's events")?;
        let can_delay = ready.door.is_some();
        if let Some((listener, door)) = ready.door.take() {
            tokio::spawn(listener.serve(door));
        }
        let suspended = ready.suspended.take().context("the target was not started")?;
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
        let running = suspended.release().map_err(setup::launch_failure)?;
        let released = now();
        let quotas = Quotas::of(running.pid());
        let spending = Spending::new(config.until, !config.random_lines);
        let file = ready.output.take().context("the profile's file was not opened")?;
        let mut recorder = Recorder::new(file, began);
        recorder.startup(&startup(&config, &ready, seed, &machine_config))?;
        let mut session = Self {
            machine: Machine::new(machine_config, plan, released),
            config,
            ready,
            running,
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
            timer: None,
            finished: false,
            can_delay,
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
        };
        session.check_file();
        session.show_page();
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
        let status = loop {
            let timer = self.timer;
            tokio::select! {
                biased;
                change = self.running.changed() => match change.context("cannot wait for the program")? {
                    Change::Ended(status) => break status,
                    Change::Stopped(_) => self.running.mirror_stop().await.context("cannot stop with the program")?,
                    Change::Continued => {}
                },
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
                    self.look_for_points();
                    self.show_status();
                    self.print_log();
                    look = Instant::now() + if fresh { BUSY } else { QUIET };
                }
                () = &mut over, if !over_seen => {
                    over_seen = true;
                    self.tell(Event::DurationOver);
                }
                // The terminal has sent it to the program too: what it does with it is its own affair.
                Some(()) = self.signals.interrupt.recv() => self.tell(Event::Interrupted),
                Some(()) = self.signals.quit.recv() => self.tell(Event::Interrupted),
                Some(()) = self.signals.terminate.recv() => { let _ = self.running.send(libc::SIGTERM); }
                Some(()) = self.signals.hangup.recv() => { let _ = self.running.send(libc::SIGHUP); }
            }
        };
        Ok(self.finish(status))
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
        }
    }

    fn act(&mut self, action: Action) -> Result<Option<Event>> {
        match action {
            Action::Begin(begin) => {
                self.epoch = begin.epoch;
                self.delaying = !begin.speedup.is_baseline();
                if self.delaying {
                    self.counts.delayed_begin(&self.ready.kernel, &self.ready.attribution);
                }
                self.ready.kernel.begin(&Trial {
                    epoch: begin.epoch,
                    line: begin.line,
                    speedup: begin.speedup,
                    deadline: begin.deadline,
                });
            }
            Action::Extend { deadline } => self.ready.kernel.extend(deadline),
            Action::End => self.ready.kernel.end(),
            Action::TakeSnapshot { line } => {
                let Ready { kernel, attribution, points, .. } = &mut self.ready;
                return Ok(Some(Event::Snapshot(snapshot(kernel, attribution, points, self.epoch, line)?)));
            }
            Action::ReadLines => {
                let Ready { kernel, attribution, .. } = &self.ready;
                return Ok(Some(Event::LinesSeen(self.counts.since_last(kernel, attribution))));
            }
            Action::Record(mut ended) => {
                if self.delaying {
                    self.delaying = false;
                    self.counts.delayed_end(&self.ready.kernel, &self.ready.attribution, ended.wall());
                    self.debts.ended(&self.ready.kernel, ended.epoch);
                }
                self.delay.0 += ended.delay.0;
                self.unpaid.0 += ended.unpaid.0;
                self.progress.ended(&ended);
                let Ready { kernel, attribution, points, .. } = &self.ready;
                let total = |line| Counts::total(kernel, attribution, line);
                let mut line = ended.line;
                if !line.is_some() {
                    line = attribution.hottest(|line| total(line).samples);
                    ended.selected = total(line);
                }
                let location = attribution.lines().get(line).map(crate::symbols::Line::location);
                self.recorder.experiment(&ended, line, attribution, points)?;
                self.check_file();
                self.spending.recorded(location.unwrap_or_default(), line);
                return Ok(self.know(ended.line));
            }
            Action::SetTimer(at) => self.timer = Some(at),
            Action::Finish => self.finished = true,
        }
        Ok(None)
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
    fn look_for_points(&mut self) {
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
        let status = self.progress.status(elapsed, busiest, waiting, self.recorder.kept());
        self.voice.status(&status);
    }

    pub(super) fn print_log(&mut self) {
        if let Some(log) = &mut self.log {
            log.flush();
        }
    }
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
