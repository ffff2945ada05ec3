//! A run, from the release of the program to its report.

use std::{
    collections::VecDeque,
    io::Write,
    time::{Duration, SystemTime},
};

use anyhow::{Context, Result};
use aya::maps::{MapData, RingBuf};
use coz_common::{
    abi::{EVENT_EXEC, EVENT_EXIT, Event as KernelEvent, MAX_RANGES, Process, Range, Stat},
    units::{LineId, Nanos},
};
use tokio::{
    io::unix::AsyncFd,
    signal::unix::{SignalKind, signal},
    time::Instant,
};

use super::{
    attribution::ResolvedPage,
    clockwork::{Counts, snapshot},
    health::{Facts, MachineTime, health},
    recorder::Recorder,
    registrar::Registered,
    setup::{self, Ready},
};
use crate::{
    cli::{Exit, Fixed, RunConfig},
    commands,
    experiment::{
        machine::{Action, Event, Machine, MachineConfig},
        plan::{self, Plan},
        record::{self, Startup},
    },
    kernel::{
        control::{Trial, now},
        lines::TableSpace,
    },
    report,
    target::{
        exit::ExitStatus,
        launch::{Change, Running},
        process,
    },
};

/// How often addresses that the kernel did not know are fetched while a program shows new code.
const BUSY: Duration = Duration::from_millis(20);
/// And when it has shown none for a while.
const QUIET: Duration = Duration::from_millis(200);

/// Runs the program under the profiler; the exit code is the program's own.
///
/// # Errors
/// What kept us from running it (see [`Exit`]). Once the program runs, its own exit code is returned whatever happens
/// to the profile; what went wrong is said on stderr.
pub fn run(config: RunConfig) -> Result<u8> {
    let began = now();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the controller's event loop")?;
    runtime.block_on(async move {
        let file =
            record::open_output(&config.output).map_err(|error| Exit::failure(format!("{error:#}")))?;
        let ready = setup::prepare(&config).inspect_err(|_| {
            // Nothing was measured: leave no empty file.
            let _ = std::fs::remove_file(&config.output);
        })?;
        ready.identity.chown_to(&file).ok();
        Session::start(config, ready, file, began)?.serve().await
    })
}

struct Session {
    config: RunConfig,
    ready: Ready,
    running: Running,
    events: AsyncFd<RingBuf<MapData>>,
    machine: Machine,
    recorder: Recorder<std::fs::File>,
    counts: Counts,
    space: TableSpace,
    epoch: u32,
    delaying: bool,
    timer: Option<Nanos>,
    finished: bool,
    table_ready: bool,
    trouble: Option<anyhow::Error>,
    delay: Nanos,
    unpaid: Nanos,
    released: Nanos,
    startup: Nanos,
    machine_time: MachineTime,
}

impl Session {
    fn start(config: RunConfig, mut ready: Ready, file: std::fs::File, began: Nanos) -> Result<Self> {
        let seed = config.seed.unwrap_or_else(plan::random_seed);
        let lines = if config.fixed.is_some() { plan::Lines::Fixed } else { plan::Lines::Sampled };
        let plan = Plan::new(seed, lines, &config.speedups);
        let machine_config = MachineConfig {
            min_visits: config.view.min_visits,
            end_to_end: config.end_to_end,
            ..MachineConfig::default()
        };
        let mut recorder = Recorder::new(file, began);
        recorder.startup(&startup(&config, &ready, seed, &machine_config))?;

        let events = ready.kernel.take_events()?;
        // SAFETY: the ring owns its descriptor and keeps it open and the same as long as it lives.
        let events = unsafe { AsyncFd::register(events) }
            .map_err(|error| error.into_parts().1)
            .context("cannot wait for the kernel's events")?;
        if let Some((listener, door)) = ready.door.take() {
            tokio::spawn(listener.serve(door));
        }
        let suspended = ready.suspended.take().context("the target was not started")?;
        let machine_time = MachineTime::read();
        let running = suspended.release().map_err(setup::launch_failure)?;
        let released = now();
        Ok(Self {
            machine: Machine::new(machine_config, plan, released),
            config,
            ready,
            running,
            events,
            recorder,
            counts: Counts::default(),
            space: TableSpace::default(),
            epoch: 0,
            delaying: false,
            timer: None,
            finished: false,
            table_ready: false,
            trouble: None,
            delay: Nanos(0),
            unpaid: Nanos(0),
            released,
            startup: released.since(began),
            machine_time,
        })
    }

    async fn serve(mut self) -> Result<u8> {
        let mut interrupts = signal(SignalKind::interrupt()).context("cannot listen to SIGINT")?;
        let mut terminations = signal(SignalKind::terminate()).context("cannot listen to SIGTERM")?;
        let mut hangups = signal(SignalKind::hangup()).context("cannot listen to SIGHUP")?;
        let over = self.config.duration.map(|duration| Instant::now() + Duration::from_nanos(duration.0));
        let mut over = Box::pin(tokio::time::sleep_until(over.unwrap_or_else(far)));
        let mut over_seen = self.config.duration.is_none();
        let mut look = Instant::now() + BUSY;
        if !self.ready.points.is_empty() {
            self.tell(Event::PointsKnown);
        }
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
                () = tokio::time::sleep_until(look) => {
                    let fresh = self.look_up();
                    look = Instant::now() + if fresh { BUSY } else { QUIET };
                }
                () = &mut over, if !over_seen => {
                    over_seen = true;
                    self.tell(Event::DurationOver);
                }
                // The terminal has sent it to the program too: what it does with it is its own affair.
                Some(()) = interrupts.recv() => self.tell(Event::Interrupted),
                Some(()) = terminations.recv() => { let _ = self.running.send(libc::SIGTERM); }
                Some(()) = hangups.recv() => { let _ = self.running.send(libc::SIGHUP); }
            }
        };
        self.finish(status)
    }

    fn tell(&mut self, event: Event) {
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
    fn fail(&mut self, error: anyhow::Error) {
        self.ready.kernel.end();
        if self.trouble.is_none() {
            eprintln!("coz-bpf: {error:#}; no more experiments, the program runs on");
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
            Action::Record(ended) => {
                if self.delaying {
                    self.delaying = false;
                    self.counts.delayed_end(&self.ready.kernel, &self.ready.attribution, ended.wall());
                }
                self.delay.0 += ended.delay.0;
                self.unpaid.0 += ended.unpaid.0;
                self.recorder.experiment(&ended, &self.ready.attribution, &self.ready.points)?;
            }
            Action::SetTimer(at) => self.timer = Some(at),
            Action::Finish => self.finished = true,
        }
        Ok(None)
    }

    fn registered(&mut self, registered: Registered) {
        let filters = process::status(registered.pid as i32)
            .ok()
            .flatten()
            .and_then(|status| status.seccomp_filters)
            .unwrap_or(0);
        self.describe(registered.pid, |process| {
            process.handler = registered.handler;
            process.seccomp_filters = filters;
        });
    }

    /// Tells the kernel where a process's code is, and what else has become known of it.
    fn describe(&mut self, pid: u32, change: impl FnOnce(&mut Process)) {
        let Ok(Some(mappings)) = process::code_mappings(pid as i32) else { return };
        let main = setup::executable(pid);
        let (ranges, left_out) = self.ready.attribution.ranges(&mappings, main.as_deref());
        if left_out > 0 {
            self.ready.notices.push(format!(
                "process {pid} has {left_out} more mappings in scope than this version can follow; narrow \
                 --scope-binary"
            ));
        }
        let mut process = self.ready.kernel.process(pid).ok().flatten().unwrap_or(Process {
            handler: 0,
            seccomp_filters: 0,
            range_count: 0,
            ranges: [Range::default(); MAX_RANGES],
        });
        process.range_count = ranges.len() as u32;
        process.ranges[..ranges.len()].copy_from_slice(&ranges);
        change(&mut process);
        if let Err(error) = self.ready.kernel.set_process(pid, &process) {
            self.ready.notices.push(format!("{error:#}"));
        }
    }

    fn kernel_events(&mut self) {
        let mut news: Vec<KernelEvent> = Vec::new();
        while let Some(item) = self.events.get_mut().next() {
            if item.len() >= size_of::<KernelEvent>() {
                // SAFETY: the kernel side writes this very struct (integers only); the ring aligns to 8 bytes, and
                // an unaligned read would do as well.
                news.push(unsafe { item.as_ptr().cast::<KernelEvent>().read_unaligned() });
            }
        }
        for event in news {
            match event.kind {
                // A handler that has registered since the exec stays.
                EVENT_EXEC => self.describe(event.tgid, |_| {}),
                EVENT_EXIT => self.ready.kernel.forget_process(event.tgid),
                _ => {}
            }
        }
    }

    fn look_up(&mut self) -> bool {
        match self.ready.kernel.take_pending() {
            Ok(pending) => {
                let fresh = !pending.is_empty();
                self.ready.attribution.look_up(pending);
                fresh || self.ready.attribution.is_waiting()
            }
            Err(error) => {
                self.fail(error);
                false
            }
        }
    }

    fn resolved(&mut self, page: &ResolvedPage) {
        if let Err(error) = self.ready.kernel.add_page(&mut self.space, page.key, &page.entries) {
            self.ready.notices.push(format!("{error:#}"));
            return;
        }
        self.ready.attribution.arrived(page);
        if let Some(fixed) = self.config.fixed.as_ref()
            && let Some(line) = find_fixed(fixed, &self.ready.attribution, page)
        {
            self.tell(Event::FixedLine(line));
        }
        if !self.table_ready && page.entries.iter().any(|entry| entry.line != 0) {
            self.table_ready = true;
            self.tell(Event::TableReady);
        }
    }

    fn finish(mut self, status: ExitStatus) -> Result<u8> {
        self.tell(Event::TargetExited);
        self.ready.kernel.end();
        self.look_up();
        self.drain_pages();
        let end = now();
        let code = status.exit_code();
        if let Err(error) = self.write_end(end) {
            if self.trouble.is_none() {
                eprintln!("coz-bpf: {error:#}");
            }
            self.trouble = Some(error);
        }
        if let ExitStatus::Signal { .. } = status
            && !self.config.talk.quiet
        {
            eprintln!("coz-bpf: the program ended: {status}");
        }
        self.print_report();
        Ok(code)
    }

    /// What is still being looked up gets a moment: short programs end before their lines are known.
    fn drain_pages(&mut self) {
        let patience = std::time::Instant::now() + Duration::from_secs(2);
        while self.ready.attribution.is_waiting() && std::time::Instant::now() < patience {
            match self.ready.resolved.try_recv() {
                Ok(page) => self.ready.attribution.arrived(&page),
                Err(_) => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }

    fn write_end(&mut self, end: Nanos) -> Result<()> {
        let stats = self.ready.kernel.stats()?;
        if self.config.talk.verbose > 0 {
            eprintln!("coz-bpf: kernel side: {stats}");
        }
        let visits = self.ready.points.visits(&self.ready.kernel)?.iter().map(|point| point.visits).sum();
        let mut notices = std::mem::take(&mut self.ready.notices);
        for module in self.ready.attribution.modules() {
            notices.extend(module.advice());
        }
        let wall = end.since(self.released);
        let facts = Facts {
            wall,
            delay: self.delay,
            unpaid: self.unpaid,
            delayed_wall: self.counts.delayed_wall(),
            startup: self.startup,
            sample_cost: self.ready.sample_cost,
            steal_share: MachineTime::read().stolen_since(self.machine_time),
            visits,
            can_pay: stats.get(Stat::SignalsSent) > 0,
            notices,
        };
        let runtime = record::Runtime { time: wall.0, health: health(&stats, facts) };
        let samples: Vec<record::Samples> = {
            let lines = self.ready.attribution.lines();
            (1..=lines.len())
                .filter_map(|index| {
                    let id = LineId(index as u32);
                    let line = lines.get(id)?;
                    let (counted, late) = (self.ready.kernel.line_count(id), self.ready.attribution.late(id));
                    let (samples, weight) =
                        (counted.samples + late.samples, counted.weight_ns + late.weight_ns);
                    (samples > 0).then(|| record::Samples {
                        location: line.location(),
                        count: samples,
                        weight_ns: weight,
                        undelayed_weight_ns: Some(self.counts.undelayed(id, weight)),
                        function: Some(line.function.to_string()),
                        file: line.file.as_ref().map(ToString::to_string),
                        line: (line.line > 0).then_some(line.line),
                    })
                })
                .collect()
        };
        self.recorder.end(&runtime, &samples)
    }

    fn print_report(self) {
        if self.config.talk.quiet {
            return;
        }
        let options = commands::view(&self.config.view, &self.config.talk, true);
        let text = match record::parse(&self.recorder.into_kept()[..]) {
            Ok(profile) => report::from_profile(&profile, &options),
            Err(error) => format!("coz-bpf: no report: {error}\n"),
        };
        // A closed standard error is the reader's own wish.
        let _ = std::io::stderr().write_all(text.as_bytes());
    }
}

fn startup(config: &RunConfig, ready: &Ready, seed: u64, machine: &MachineConfig) -> Startup {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Startup {
        time: since_epoch.as_nanos() as u64,
        version: record::VERSION,
        program: config.program.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        seed,
        kernel: nix::sys::utsname::uname()
            .map(|name| name.release().to_string_lossy().into_owned())
            .unwrap_or_default(),
        rate: ready.rate,
        experiment_ns: machine.length.0,
        min_visits: machine.min_visits,
        granularity: match config.granularity {
            crate::cli::Granularity::Line => record::Granularity::Line,
            crate::cli::Granularity::Function => record::Granularity::Function,
        },
        attribution: record::Attribution::Innermost,
        points: ready
            .points
            .names()
            .map(|name| record::PointSpec { name: name.to_owned(), kind: record::PointKind::Throughput })
            .collect(),
        min_speedups: config.view.min_speedups as u32,
        fixed: config.view.all || config.fixed.is_some(),
        end_to_end: config.end_to_end,
    }
}

fn find_fixed(
    fixed: &Fixed,
    attribution: &super::attribution::Attribution,
    page: &ResolvedPage,
) -> Option<LineId> {
    let lines = attribution.lines();
    page.entries.iter().map(|entry| LineId(entry.line)).filter(|line| line.is_some()).find(|&id| {
        let Some(line) = lines.get(id) else { return false };
        match fixed {
            Fixed::Line { file, line: number } => {
                line.line == *number
                    && line.file.as_deref().is_some_and(|path| std::path::Path::new(path).ends_with(file))
            }
            Fixed::Function(name) => {
                *line.function == **name || line.function.ends_with(&format!("::{name}"))
            }
        }
    })
}

async fn until(at: Option<Nanos>) {
    let left = at.map_or(Duration::MAX, |at| Duration::from_nanos(at.since(now()).0));
    tokio::time::sleep(left).await;
}

fn far() -> Instant {
    Instant::now() + Duration::from_secs(365 * 24 * 3600)
}
