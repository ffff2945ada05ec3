//! `--max-overhead` while the run goes on: what we take of the machine's time is looked at each second. What is left is for delays; where
//! too little is, it is sampled less often; where that does not help, a profile of others' programs is ended.

use std::thread::{self, JoinHandle};

use anyhow::Result;
use coz_common::{abi::Stat, units::Nanos};

use super::{
    load::{self, Load, Parts, Spent},
    pace::{Change, Pace},
    session::{Session, cpus},
    setup::Ready,
    subject::End,
};
use crate::{
    experiment::{data::PointVisits, machine::Event, record::PointKind},
    kernel::{
        calibrate,
        control::{Stats, now},
    },
};

/// What a samples takes is looked at this often: a look keeps a CPU busy for some 20 ms.
const LOOK: Nanos = Nanos(10_000_000_000);
/// What a wake-up takes from the threads of the set, and from their CPUs, until the thread that was woken has left its CPU again
/// (measured by `perf bench sched pipe`: 140 ns for the wake-up, 190 for a switch).
const SWITCH: u64 = 350;

/// What we take, and what follows.
#[derive(Debug)]
pub(super) struct Overhead {
    load: Load,
    pub(super) pace: Pace,
    /// Looks at what a sample takes.
    looking: Option<JoinHandle<Nanos>>,
    next_look: Nanos,
}

impl Overhead {
    pub(super) fn new(pace: Pace, at: Nanos) -> Self {
        Self { load: Load::new(at), pace, looking: None, next_look: at }
    }

    /// Sees what a look has shown, and begins the next one when it is time to.
    fn look(&mut self, samples: u64, at: Nanos) {
        if let Some(looking) = self.looking.take_if(|looking| looking.is_finished())
            && let Ok(price) = looking.join()
        {
            self.pace.looked(price, samples);
        }
        let Some(is_first) = self.pace.wants_looks() else { return };
        if self.looking.is_none() && at >= self.next_look {
            self.next_look = if is_first { at } else { Nanos(at.0.saturating_add(LOOK.0)) };
            let rate = self.pace.rate();
            // Where no thread can be had, the price stays as it is known.
            let watch = move || calibrate::watch_samples(rate);
            self.looking = thread::Builder::new().name("coz-price".into()).spawn(watch).ok();
        }
    }
}

impl Session {
    /// How much of the machine we take for ourselves: what is left of `--max-overhead` is for delays.
    pub(super) fn look_at_load(&mut self) {
        let (Some(limit), at) = (self.config.max_overhead, now()) else { return };
        if !self.overhead.load.is_due(at) {
            return;
        }
        let Ok(stats) = self.ready.kernel.stats() else { return };
        self.overhead.look(stats.get(Stat::Samples), at);
        let spent = self.spent(&stats);
        let parts = self.overhead.load.look(at, spent, cpus());
        self.tell(Event::Load((parts.all() * 1000.0).round() as u32));
        self.overhead.pace.judge(&parts, at);
        self.keep_pace();
        if self.subject.is_attached() && self.overhead.load.is_too_much(limit, at) {
            self.ending.get_or_insert(End::Harm(too_much(&parts)));
        }
    }

    fn spent(&mut self, stats: &Stats) -> Spent {
        let Ready { kernel, points, visit_cost, .. } = &mut self.ready;
        let visits = points.visits(kernel).unwrap_or_default();
        let traps = |point: &PointVisits| match points.kind(point.point) {
            _ if !points.is_probed(point.point) => 0,
            // Each end had a begin.
            PointKind::Latency => 2 * point.visits,
            PointKind::Throughput => point.visits,
        };
        let probed = visits.iter().map(traps).sum::<u64>() + stats.get(Stat::ForeignVisits);
        let woken = stats.get(Stat::WakeEdges) + stats.get(Stat::WakeOther);
        Spent {
            samples: self.overhead.pace.taken(stats.get(Stat::Samples)),
            points: Nanos(probed.saturating_mul(visit_cost.0)),
            switches: Nanos(woken.saturating_mul(SWITCH)),
            ourselves: load::ours(),
        }
    }

    /// Changes the rate, if that is to be done and no experiment runs.
    pub(super) fn keep_pace(&mut self) {
        if self.is_running {
            return;
        }
        let Some(change) = self.overhead.pace.pending() else { return };
        if let Err(error) = self.change_rate(&change) {
            // It stays as it is: tried once more when there is reason to.
            self.voice.complain(&format!("{error:#}"));
        }
    }

    fn change_rate(&mut self, change: &Change) -> Result<()> {
        let samples = self.ready.kernel.stats()?.get(Stat::Samples);
        let Overhead { pace, load, .. } = &mut self.overhead;
        let less = pace.change(samples);
        self.ready.kernel.sample_every(pace.period(), pace.price())?;
        load.samples_take_less(less);
        let seconds = now().since(self.released).as_secs_f64();
        let text = format!("after {seconds:.1} s {change}");
        self.voice.mention(&text);
        self.ready.notices.push(text);
        Ok(())
    }
}

fn too_much(parts: &Parts) -> String {
    format!(
        "samples ({:.1} %), points ({:.1} %), switches of threads ({:.1} %) and coz-bpf itself ({:.1} %) take {:.0} % of the machine's time, \
         more than --max-overhead allows; a point that is passed less often, or a lower --rate, costs less",
        100.0 * parts.samples,
        100.0 * parts.points,
        100.0 * parts.switches,
        100.0 * parts.ourselves,
        100.0 * parts.all(),
    )
}
