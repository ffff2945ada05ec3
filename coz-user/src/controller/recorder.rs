//! From what the machine says to what stands in the profile.

use std::io::Write;

use anyhow::Result;
use coz_common::units::Nanos;

use super::{attribution::Attribution, points::Points};
use crate::experiment::{
    data::{Experiment, PointId, Why},
    record::{self, PointDelta, Record, ThroughputPoint, Writer},
};

/// Writes experiments as they end.
#[derive(Debug)]
pub struct Recorder<W> {
    writer: Writer<W>,
    start: Nanos,
    /// Experiments that do not count.
    pub discarded: usize,
}

impl<W: Write> Recorder<W> {
    /// `start`: when the profile began.
    pub fn new(writer: Writer<W>, start: Nanos) -> Self {
        Self { writer, start, discarded: 0 }
    }

    /// Any record.
    ///
    /// # Errors
    /// Where it can not be written.
    pub fn write(&mut self, record: &Record) -> Result<()> {
        Ok(self.writer.write(record)?)
    }

    /// An experiment and its points: records of their own where it counts, else inside its own record.
    ///
    /// # Errors
    /// Where they can not be written.
    pub fn experiment(&mut self, ended: &Experiment, attribution: &Attribution, points: &Points) -> Result<()> {
        let deltas: Vec<ThroughputPoint> = ended
            .points
            .iter()
            .filter_map(|visits| {
                let name = if visits.point == PointId::WHOLE_RUN {
                    record::END_TO_END
                } else {
                    points.name(visits.point)?
                };
                Some(ThroughputPoint { name: name.to_owned(), delta: visits.visits })
            })
            .collect();
        let valid = ended.invalid.is_none();
        self.discarded += usize::from(!valid);
        let selected = attribution.lines().get(ended.line).map(crate::symbols::Line::location).unwrap_or_default();
        self.write(&Record::Experiment(record::Experiment {
            selected,
            speedup: ended.speedup.fraction(),
            duration: u64::try_from(ended.effective()).unwrap_or(0),
            selected_samples: ended.selected.samples,
            wall: ended.wall().0,
            delay: ended.delay.0,
            unpaid: ended.unpaid.0,
            valid,
            why: ended.invalid.map(why),
            begin: ended.begin.since(self.start).0,
            selected_weight: ended.selected.weight_ns,
            samples: ended.set.samples,
            points: (!valid).then(|| deltas.iter().cloned().map(PointDelta::ThroughputPoint).collect()),
        }))?;
        if valid {
            for delta in deltas {
                self.write(&Record::ThroughputPoint(delta))?;
            }
        }
        Ok(())
    }
}

fn why(why: Why) -> record::Why {
    match why {
        Why::Truncated => record::Why::Truncated,
        Why::NoTime => record::Why::NoTime,
        Why::NoVisits => record::Why::NoVisits,
        Why::LostSamples => record::Why::LostSamples,
        Why::Unpaid => record::Why::Unpaid,
    }
}
