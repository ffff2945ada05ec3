//! The end of a run: the profile's last records, and the report.

use std::{
    os::unix::fs::MetadataExt,
    time::{Duration, Instant},
};

use anyhow::Result;
use coz_common::{
    abi::Stat,
    units::{LineId, Nanos},
};

use super::{
    family,
    health::{Facts, MachineTime, health},
    session::Session,
    subject::{End, Subject},
};
use crate::{
    commands,
    experiment::{data::PointVisits, machine::Event, record},
    kernel::control::now,
    points, report,
    target::exit::ExitStatus,
};

/// Of so many programs and libraries it is said what they lack.
const ADVISED: usize = 4;
/// Short programs end before their lines are known: what is still being looked up gets so long.
const PATIENCE: Duration = Duration::from_secs(2);

impl Session {
    /// The profile has ended: writes what there is to write, prints the report; our exit code.
    pub(super) fn finish(mut self, end: End) -> u8 {
        self.tell(match end {
            End::Program(_) | End::Empty => Event::TargetExited,
            End::Over | End::Interrupted | End::Harm(_) => Event::Interrupted,
        });
        self.ready.kernel.end();
        if self.subject.is_attached() {
            self.detach();
        } else {
            self.leave_the_rest();
        }
        if let End::Harm(_) = end {
            self.ready.notices.push(end.to_string());
        }
        self.look_up();
        self.drain_pages();
        self.kernel_events();
        self.print_log();
        if let Err(error) = self.write_end(now()) {
            if self.trouble.is_none() {
                self.voice.complain(&format!("{error:#}"));
            }
            self.trouble = Some(error);
        }
        self.check_file();
        match &end {
            End::Program(ExitStatus::Code(_)) | End::Over => {}
            End::Harm(_) => {
                self.voice.complain(&end.to_string());
            }
            _ => self.voice.mention(&end.to_string()),
        }
        if let Some(page) = self.page.take() {
            page.finish();
        }
        self.print_report();
        end.exit_code()
    }

    fn drain_pages(&mut self) {
        let end = Instant::now() + PATIENCE;
        while self.ready.attribution.is_waiting() && Instant::now() < end {
            match self.ready.resolved.try_recv() {
                Ok(page) => self.ready.attribution.arrived(&page),
                Err(_) => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }

    fn write_end(&mut self, end: Nanos) -> Result<()> {
        let stats = self.ready.kernel.stats()?;
        if self.config.talk.verbose > 0 {
            self.voice.mention(&format!("kernel side: {stats}"));
        }
        let points = self.points_of_the_run()?;
        let samples = self.with_texts(self.samples());
        let wall = end.since(self.released);
        let facts = Facts {
            disbelieved: self.ready.kernel.disbelieved(),
            users: self.ready.kernel.books.count() - 1,
            wall,
            delay: self.delay,
            unpaid: self.unpaid,
            delayed_wall: self.counts.delayed_wall(),
            delayed_samples: self.counts.delayed_samples(),
            startup: self.startup,
            sampling: self.overhead.pace.taken(stats.get(Stat::Samples)),
            nominal_samples: self.overhead.pace.nominal(stats.get(Stat::Samples)),
            expected_samples: self.overhead.pace.expected(Nanos(stats.get(Stat::CpuNs))),
            steal_share: MachineTime::read().stolen_since(self.machine_time),
            busy: MachineTime::read().busy_since(self.machine_time),
            held_back: self.machine.held_back(),
            quota: self.quotas.since(),
            threads: self.debts.worst(),
            enough: self.spending.met().map(|met| met.since(self.released)),
            points,
            made_code: self.ready.attribution.made_code(),
            can_pay: stats.get(Stat::SignalsSent) > 0,
            notices: self.notices(&samples),
        };
        let runtime = record::Runtime { time: wall.0, health: health(&stats, facts) };
        self.recorder.end(&runtime, &samples)
    }

    /// How often each point was visited, and what that cost.
    fn points_of_the_run(&mut self) -> Result<Vec<record::PointRun>> {
        let visits = self.ready.points.visits(&self.ready.kernel)?;
        let points = &self.ready.points;
        let run = |point: &PointVisits| {
            let price = if points.is_probed(point.point) { self.ready.visit_cost.0 } else { 0 };
            // Of a latency point each end had a begin.
            let traps = if points.kind(point.point) == record::PointKind::Latency { 2 } else { 1 };
            Some(record::PointRun {
                name: points.name(point.point)?.to_owned(),
                visits: point.visits,
                probe_ns: point.visits * traps * price,
            })
        };
        Ok(visits.iter().filter_map(run).collect())
    }

    /// What could not be done, and what helps; each once.
    fn notices(&mut self, samples: &[record::Samples]) -> Vec<String> {
        let mut all = std::mem::take(&mut self.ready.notices);
        // Of programs in which nothing was sampled there is nothing to complain about, but for the one that was asked for.
        let main = self.ready.main.as_deref().map(|main| main.path());
        let of_modules: Vec<String> = self
            .ready
            .attribution
            .modules()
            .filter_map(|module| {
                module.advice().filter(|_| Some(module.path()) == main || !samples.is_empty())
            })
            .collect();
        // Of a whole machine's programs most have none.
        let untold = of_modules.len().saturating_sub(ADVISED);
        all.extend(of_modules.into_iter().take(ADVISED));
        if untold > 0 {
            all.push(format!("{untold} more programs and libraries lack debug information or names"));
        }
        if let Subject::Launched(running) = &self.subject {
            all.extend(family::left_behind(&self.family.left_by(running.pid() as u32)));
        }
        all.extend(self.candidates(samples));
        let mut notices: Vec<String> = Vec::new();
        for notice in all {
            if !notices.contains(&notice) {
                notices.push(notice);
            }
        }
        notices
    }

    /// Where there was no progress point: what could be one.
    fn candidates(&self, samples: &[record::Samples]) -> Option<String> {
        if !self.ready.points.is_empty() || self.config.end_to_end.is_some() {
            return None;
        }
        let module = self.ready.main.as_deref()?;
        let mut by_function = std::collections::HashMap::new();
        for sampled in samples {
            let name = sampled.function.clone().unwrap_or_default();
            *by_function.entry(name).or_insert(0) += sampled.count;
        }
        let best = points::suggest(&points::candidates(module, ""), &by_function);
        let program = module.path().display();
        (!best.is_empty()).then(|| {
            format!("candidates for --progress: {}; `coz-bpf points {program}` lists all", best.join(", "))
        })
    }

    fn samples(&self) -> Vec<record::Samples> {
        let attribution = &self.ready.attribution;
        let lines = attribution.lines();
        (1..=lines.len())
            .filter_map(|index| {
                let id = LineId(index as u32);
                let line = lines.get(id)?;
                let (counted, late) = (self.ready.kernel.line_count(id), attribution.late(id));
                let (samples, weight) = (counted.samples + late.samples, counted.weight_ns + late.weight_ns);
                (samples > 0).then(|| record::Samples {
                    location: line.location(),
                    count: samples,
                    weight_ns: weight,
                    undelayed_weight_ns: Some(self.counts.undelayed(id, weight)),
                    function: Some(line.function.to_string()),
                    file: line.file.as_ref().map(ToString::to_string),
                    line: (line.line > 0).then_some(line.line),
                    text: None,
                    around: Vec::new(),
                })
            })
            .collect()
    }

    /// With the lines' source text, as far as whoever owns the profile may read it: debug information may name any file.
    fn with_texts(&self, samples: Vec<record::Samples>) -> Vec<record::Samples> {
        match std::fs::metadata(&self.config.output) {
            Ok(profile) => report::source::with_texts(samples, profile.uid(), profile.gid()),
            Err(_) => samples,
        }
    }

    fn print_report(self) {
        let Self { config, mut ready, voice, recorder, detaching, .. } = self;
        // First of all what of the program runs on is let go: to compute the report takes a moment, and so does the kernel
        // meanwhile.
        let _detaching = ready.kernel.detach_points();
        drop(ready);
        let _before = detaching;
        if config.talk.quiet {
            return;
        }
        let options = commands::view(&config.view, &config.talk, true);
        voice.print(&match record::parse(recorder.kept()) {
            Ok(profile) => report::from_profile(&profile, &options),
            Err(error) => format!("coz-bpf: no report: {error}\n"),
        });
    }
}
