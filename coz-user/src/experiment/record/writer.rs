//! Writing the profile while the program runs.

use super::{Experiment, PointDelta, Record, Runtime, Samples, Startup};
use std::{
    fmt,
    io::{self, ErrorKind, Write},
};

/// Writes records, each group of them at once and flushed: a killed run loses at most what was being written.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    buffer: Vec<u8>,
    failed: Option<(ErrorKind, String)>,
}

/// The profile can no longer be written. What was written before is kept, and readable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteError {
    kind: ErrorKind,
    reason: String,
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the profile cannot be written any further: {}. ", self.reason)?;
        f.write_str(match self.kind {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                "What was measured before is kept; free some space (`df -h .` shows how much there is) or name \
                 another place with --output"
            }
            ErrorKind::FileTooLarge => {
                "What was measured before is kept; raise the limit (`ulimit -f unlimited`) or name another place \
                 with --output"
            }
            ErrorKind::BrokenPipe => "Whoever was reading it has gone; name a file with --output",
            _ => "What was measured before is kept; name another place with --output",
        })
    }
}

impl std::error::Error for WriteError {}

impl<W: Write> Writer<W> {
    /// A writer to `out`, which need not be buffered.
    pub fn new(out: W) -> Self {
        Self { out, buffer: Vec::new(), failed: None }
    }

    /// Writes the first record.
    ///
    /// # Errors
    /// As [`Writer::experiment`].
    pub fn startup(&mut self, startup: &Startup) -> Result<(), WriteError> {
        self.records(&[Record::Startup(startup.clone())])
    }

    /// Writes an experiment with its points. The points of an invalid one go into its own record.
    ///
    /// # Errors
    /// When the file takes no more. From then on every call fails in the same way and writes nothing: a record
    /// after half a record would make the whole file unreadable.
    pub fn experiment(&mut self, experiment: &Experiment, points: &[PointDelta]) -> Result<(), WriteError> {
        let mut experiment = experiment.clone();
        if !experiment.valid {
            experiment.points = Some(points.to_vec());
            return self.records(&[Record::Experiment(experiment)]);
        }
        experiment.points = None;
        let points = points.iter().cloned().map(|point| match point {
            PointDelta::ThroughputPoint(point) => Record::ThroughputPoint(point),
            PointDelta::LatencyPoint(point) => Record::LatencyPoint(point),
        });
        let records: Vec<_> = std::iter::once(Record::Experiment(experiment)).chain(points).collect();
        self.records(&records)
    }

    /// Writes the end of the run: the health, and the samples of every line.
    ///
    /// # Errors
    /// As [`Writer::experiment`].
    pub fn end(&mut self, runtime: &Runtime, samples: &[Samples]) -> Result<(), WriteError> {
        let samples = samples.iter().cloned().map(Record::Samples);
        let records: Vec<_> = std::iter::once(Record::Runtime(runtime.clone())).chain(samples).collect();
        self.records(&records)
    }

    /// Whether everything has been written so far.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.failed.is_none()
    }

    /// What is written to.
    #[must_use]
    pub fn written(&self) -> &W {
        &self.out
    }

    /// Gives back what was written to.
    pub fn into_inner(self) -> W {
        self.out
    }

    fn records(&mut self, records: &[Record]) -> Result<(), WriteError> {
        let result = match &self.failed {
            Some((kind, reason)) => return Err(WriteError { kind: *kind, reason: reason.clone() }),
            None => self.try_records(records),
        };
        result.map_err(|error| {
            let (kind, reason) = (error.kind(), error.to_string());
            self.failed = Some((kind, reason.clone()));
            WriteError { kind, reason }
        })
    }

    fn try_records(&mut self, records: &[Record]) -> io::Result<()> {
        self.buffer.clear();
        for record in records {
            serde_json::to_writer(&mut self.buffer, record)?;
            self.buffer.push(b'\n');
        }
        self.out.write_all(&self.buffer)?;
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ThroughputPoint, Why};
    use super::*;

    /// Takes `room` bytes, then says that the disk is full.
    struct Disk {
        data: Vec<u8>,
        room: usize,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let n = bytes.len().min(self.room - self.data.len());
            if n == 0 && !bytes.is_empty() {
                return Err(io::Error::from(ErrorKind::StorageFull));
            }
            self.data.extend_from_slice(&bytes[..n]);
            Ok(n)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn visits(delta: u64) -> Vec<PointDelta> {
        vec![PointDelta::ThroughputPoint(ThroughputPoint { name: "x".into(), delta, duration: None })]
    }

    #[test]
    fn records_look_like_those_of_coz_with_extra_keys() {
        let mut writer = Writer::new(Vec::new());
        let experiment = Experiment {
            selected: "/src/a.c:12".into(),
            speedup: 0.25,
            duration: 90,
            selected_samples: 4,
            wall: 100,
            delay: 10,
            unpaid: 1,
            valid: true,
            ..Experiment::default()
        };
        writer.experiment(&experiment, &visits(7)).unwrap();
        let cut = Experiment { valid: false, why: Some(Why::Truncated), ..experiment };
        writer.experiment(&cut, &visits(2)).unwrap();
        insta::assert_snapshot!(String::from_utf8(writer.into_inner()).unwrap(), @r#"
        {"type":"experiment","selected":"/src/a.c:12","speedup":0.25,"duration":90,"selected_samples":4,"wall":100,"delay":10,"unpaid":1,"valid":true,"begin":0,"selected_weight":0,"samples":0}
        {"type":"throughput-point","name":"x","delta":7}
        {"type":"experiment","selected":"/src/a.c:12","speedup":0.25,"duration":90,"selected_samples":4,"wall":100,"delay":10,"unpaid":1,"valid":false,"why":"truncated","begin":0,"selected_weight":0,"samples":0,"points":[{"type":"throughput-point","name":"x","delta":2}]}
        "#);
    }

    #[test]
    fn a_full_disk_keeps_what_was_written_and_says_what_to_do() {
        let mut writer = Writer::new(Disk { data: Vec::new(), room: 700 });
        writer.startup(&Startup::default()).unwrap();
        let experiment = Experiment { selected: "a.c:1".into(), valid: true, ..Experiment::default() };
        let error = loop {
            if let Err(error) = writer.experiment(&experiment, &visits(5)) {
                break error;
            }
        };
        assert!(error.to_string().contains("free some space"), "{error}");
        writer.out.room = 10_000;
        assert_eq!(writer.experiment(&experiment, &visits(5)), Err(error), "no record after half a record");
        let profile = super::super::parse(&writer.into_inner().data[..]).unwrap();
        assert!(profile.truncated && !profile.experiments.is_empty());
    }
}
