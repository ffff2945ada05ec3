//! From what the machine says to what stands in the profile.

use std::{collections::HashSet, io::Write};

use anyhow::Result;
use coz_common::units::{LineId, Nanos};

use super::{attribution::Attribution, points::Points};
use crate::{
    estimate::histogram,
    experiment::{
        data::{Experiment, PointId, Why},
        latency::LatencySeen,
        record::{
            self, LatencyPoint, PointDelta, Runtime, Samples, Startup, ThroughputPoint, WriteError, Writer,
        },
    },
};

/// Writes the profile to its file as the run goes on, and keeps a copy for the report: what the disk does not take
/// is not lost.
#[derive(Debug)]
pub struct Recorder<W> {
    file: Writer<W>,
    kept: Writer<Vec<u8>>,
    start: Nanos,
    refused: Option<WriteError>,
    /// The lines whose function has been told.
    told: HashSet<LineId>,
}

impl<W: Write> Recorder<W> {
    /// `start`: when the profile began.
    pub fn new(file: W, start: Nanos) -> Self {
        Self {
            file: Writer::new(file),
            kept: Writer::new(Vec::new()),
            start,
            refused: None,
            told: HashSet::new(),
        }
    }

    /// Why the file takes no more, once: what comes after that is only in the report.
    pub fn refused(&mut self) -> Option<WriteError> {
        self.refused.take()
    }

    fn note(&mut self, written: Result<(), WriteError>, was_good: bool) {
        if was_good {
            self.refused = written.err();
        }
    }

    /// The first record.
    ///
    /// # Errors
    /// Where it can not be put into words.
    pub fn startup(&mut self, startup: &Startup) -> Result<()> {
        self.kept.startup(startup)?;
        let was_good = self.file.is_good();
        let written = self.file.startup(startup);
        self.note(written, was_good);
        Ok(())
    }

    /// The last records.
    ///
    /// # Errors
    /// Where they can not be put into words.
    pub fn end(&mut self, runtime: &Runtime, samples: &[Samples]) -> Result<()> {
        self.kept.end(runtime, samples)?;
        let was_good = self.file.is_good();
        let written = self.file.end(runtime, samples);
        self.note(written, was_good);
        Ok(())
    }

    /// Everything that was written, or should have been.
    pub fn kept(&self) -> &[u8] {
        self.kept.written()
    }

    /// An experiment and its points: records of their own where it counts, else inside its own record (the writer sees to that).
    ///
    /// `line`: the one that it is told of, where it had none of its own (a whole run without any delay).
    ///
    /// # Errors
    /// Where they can not be put into words.
    pub fn experiment(
        &mut self,
        ended: &Experiment,
        line: LineId,
        attribution: &Attribution,
        points: &Points,
    ) -> Result<()> {
        let all = u64::try_from(ended.effective()).unwrap_or(0);
        let deltas: Vec<PointDelta> = ended
            .points
            .iter()
            .filter_map(|visits| {
                if let Some(seen) = ended.latencies.iter().find(|seen| seen.point == visits.point) {
                    let name = points.name(visits.point)?.to_owned();
                    return Some(PointDelta::LatencyPoint(latency(name, seen, ended)));
                }
                let name = if visits.point == PointId::WHOLE_RUN {
                    record::END_TO_END
                } else {
                    points.name(visits.point)?
                };
                let duration = u64::try_from(ended.effective_for(visits)).unwrap_or(0);
                let point = ThroughputPoint {
                    name: name.to_owned(),
                    delta: visits.visits,
                    duration: (duration != all).then_some(duration),
                };
                Some(PointDelta::ThroughputPoint(point))
            })
            .collect();
        let valid = ended.invalid.is_none();
        let lines = attribution.lines();
        let place = lines.get(line);
        let selected = place.map(crate::symbols::Line::location).unwrap_or_default();
        let function = place.filter(|_| self.told.insert(line)).map(|place| place.function.to_string());
        drop(lines);
        let record = record::Experiment {
            selected,
            speedup: ended.speedup.fraction(),
            duration: all,
            selected_samples: ended.selected.samples,
            wall: ended.wall().0,
            delay: ended.delay.0,
            unpaid: ended.unpaid.0,
            valid,
            why: ended.invalid.map(why),
            begin: ended.begin.since(self.start).0,
            selected_weight: ended.selected.weight_ns,
            samples: ended.set.samples,
            settle: ended.settle.0,
            drift: ended.drift(),
            function,
            points: None,
        };
        self.kept.experiment(&record, &deltas)?;
        let was_good = self.file.is_good();
        let written = self.file.experiment(&record, &deltas);
        self.note(written, was_good);
        Ok(())
    }
}

fn latency(name: String, seen: &LatencySeen, ended: &Experiment) -> LatencyPoint {
    let effective = ended.effective() as f64;
    let quantile = |q| seen.is_measured().then(|| histogram::quantile(&seen.histogram, q)).flatten();
    LatencyPoint {
        name,
        arrivals: seen.arrivals,
        departures: seen.departures,
        difference: i64::try_from(seen.under_way).unwrap_or(i64::MAX),
        mean_ns: seen.mean_ns(effective),
        p50_ns: quantile(0.5),
        p99_ns: quantile(0.99),
        in_system: seen.mean_under_way(effective),
        measured: seen.measured,
        histogram: seen.histogram.clone(),
    }
}

fn why(why: Why) -> record::Why {
    match why {
        Why::Truncated => record::Why::Truncated,
        Why::Interrupted => record::Why::Interrupted,
        Why::NoTime => record::Why::NoTime,
        Why::NoVisits => record::Why::NoVisits,
        Why::LostSamples => record::Why::LostSamples,
        Why::Unpaid => record::Why::Unpaid,
    }
}
