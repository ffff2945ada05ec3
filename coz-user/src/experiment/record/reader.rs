//! Reading a profile: ours or coz's, whole or cut short.

mod follow;

pub use follow::Follower;

use super::{Attribution, Experiment, PointDelta, PointKind, Record, Runtime, Samples, Startup, Why};
use std::{
    collections::HashMap,
    fmt,
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::Path,
};

/// No line of a profile is longer: what is, is not a profile, and must not fill the memory.
const MAX_LINE: u64 = 64 << 20;

/// All that stands in a profile.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    /// What was run; of several runs, the last.
    pub startup: Startup,
    /// How many runs the file holds: coz appends.
    pub runs: u32,
    /// All experiments, valid or not, in the order in which they were made.
    pub experiments: Vec<Recorded>,
    /// The samples of every line, summed over the runs.
    pub samples: Vec<Samples>,
    /// The ends of all runs that have one, added up ([`Runtime::join`]); `None` when none has.
    pub runtime: Option<Runtime>,
    /// Whether a run has no end: it was killed, or is still going on.
    pub open_end: bool,
    /// Whether the file ends within a record.
    pub truncated: bool,
}

/// An experiment and what its points counted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recorded {
    /// Number of the run that it belongs to, from 0 on.
    pub run: u32,
    /// The experiment.
    pub experiment: Experiment,
    /// Its points.
    pub points: Vec<PointDelta>,
}

impl Profile {
    /// How long the run took, seconds of wall time: as its end says, else until the last experiment.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        let last =
            self.experiments.last().map_or(0, |r| r.experiment.begin.saturating_add(r.experiment.wall));
        self.runtime.as_ref().map_or(last, |runtime| runtime.time) as f64 / 1e9
    }

    /// How many samples there are in all: as the run's end says, or at least so many as its lines need.
    #[must_use]
    pub fn samples_in_all(&self) -> u64 {
        let said = self.runtime.as_ref().map_or(0, |runtime| runtime.health.samples);
        let counts = self.samples.iter().map(|samples| samples.count);
        let attributed = match self.startup.attribution {
            Attribution::Innermost => counts.fold(0, u64::saturating_add),
            // A sample is one of many lines.
            Attribution::Inclusive => counts.max().unwrap_or(0),
        };
        said.max(attributed)
    }

    /// Names and kinds of all points, in the order in which they are named.
    #[must_use]
    pub fn points(&self) -> Vec<(String, PointKind)> {
        let mut points: Vec<(String, PointKind)> =
            self.startup.points.iter().map(|p| (p.name.clone(), p.kind)).collect();
        for point in self.experiments.iter().flat_map(|e| &e.points) {
            if !points.iter().any(|(name, _)| name == point.name()) {
                points.push((point.name().to_owned(), point.kind()));
            }
        }
        points
    }
}

/// Why a profile could not be read.
#[derive(Debug)]
pub enum ReadError {
    /// The file could not be read at all.
    Io(io::Error),
    /// Nothing stands in it.
    Empty,
    /// Its very first line is no record.
    NoProfile,
    /// A line, not the last, is no record.
    Line {
        /// Its number, from 1 on.
        number: usize,
        /// What is wrong with it.
        reason: String,
    },
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "{error}"),
            Self::Empty => f.write_str("the file holds no record; was the profiler stopped at once?"),
            Self::NoProfile => f.write_str(
                "it is no profile: its first line is neither a whole JSON object nor a record of coz. `coz-bpf run` writes \
                 profile.jsonl, or what --output names",
            ),
            Self::Line { number, reason } => write!(
                f,
                "line {number} is no record of a profile: {reason}. A profile holds one JSON object a line; if the \
                 file was edited, remove that line"
            ),
        }
    }
}

impl std::error::Error for ReadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            _ => None,
        }
    }
}

/// Reads the profile at `path`.
///
/// # Errors
/// As [`parse`], and when the file cannot be opened; the message names the file and the way to make one.
pub fn read(path: &Path) -> anyhow::Result<Profile> {
    let file = File::open(path).map_err(|error| {
        let hint = match error.kind() {
            io::ErrorKind::NotFound => "; `sudo coz-bpf run PROGRAM` writes one",
            _ => "",
        };
        anyhow::anyhow!("cannot open the profile {}: {error}{hint}", path.display())
    })?;
    anyhow::ensure!(
        !file.metadata().is_ok_and(|found| found.is_dir()),
        "{} is a folder; name a profile in it",
        path.display()
    );
    parse(BufReader::new(file))
        .map_err(|e| anyhow::anyhow!("cannot read the profile {}: {e}", path.display()))
}

/// Reads a profile. A broken last line is dropped and noted in [`Profile::truncated`].
///
/// # Errors
/// When reading fails, when nothing stands there, or when a line before the last is no record.
pub fn parse(mut input: impl BufRead) -> Result<Profile, ReadError> {
    let mut builder = Builder::default();
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let n = input.by_ref().take(MAX_LINE).read_until(b'\n', &mut line).map_err(ReadError::Io)?;
        if n == 0 {
            break;
        }
        let whole = line.ends_with(b"\n");
        let text = line.trim_ascii();
        if text.is_empty() {
            continue;
        }
        match record(text) {
            Ok(record) => builder.push(record).map_err(|reason| ReadError::Line { number, reason })?,
            Err(_) if !whole && (n as u64) < MAX_LINE => builder.profile.truncated = true,
            Err(_) if builder.records == 0 && text.first() != Some(&b'{') => {
                return Err(ReadError::NoProfile);
            }
            Err(reason) => return Err(ReadError::Line { number, reason }),
        }
    }
    builder.finish()
}

fn record(line: &[u8]) -> Result<Record, String> {
    let record: Record = match line.first() {
        Some(b'{') => serde_json::from_slice(line),
        _ => serde_json::from_value(legacy(line)?),
    }
    .map_err(|error| told(&error.to_string()))?;
    match &record {
        Record::Experiment(e) if !(0.0..=1.0).contains(&e.speedup) => {
            Err(format!("the speedup is {}, not between 0 and 1", e.speedup))
        }
        _ => Ok(record),
    }
}

/// A parser's words, without the list of all that it would have taken.
fn told(error: &str) -> String {
    match error.split_once("unknown variant `").and_then(|(_, rest)| rest.split_once('`')) {
        Some((kind, _)) => format!("there is no kind of record called `{kind}`"),
        None => error.to_owned(),
    }
}

/// The text form of older coz: `type⇥key=value⇥key=value`.
fn legacy(line: &[u8]) -> Result<serde_json::Value, String> {
    let line = std::str::from_utf8(line).map_err(|_| "it is not text".to_owned())?;
    let mut fields = line.split('\t');
    let kind = fields.next().unwrap_or_default();
    if kind.contains(char::is_whitespace) {
        return Err("it is neither a JSON object nor a record of coz".into());
    }
    let mut object = serde_json::Map::new();
    object.insert("type".into(), kind.into());
    for field in fields {
        let (key, value) = field.split_once('=').ok_or_else(|| format!("`{field}` lacks a ="))?;
        let key = if key == "type" { "point-type" } else { key };
        let text = matches!(key, "selected" | "location" | "name" | "point-type");
        let value = match value.parse::<serde_json::Number>() {
            Ok(number) if !text => number.into(),
            _ => value.into(),
        };
        object.insert(key.into(), value);
    }
    Ok(object.into())
}

#[derive(Clone, Debug, Default)]
struct Builder {
    profile: Profile,
    records: usize,
    /// Samples of the present run: coz repeats its running totals, so the last record of a line counts.
    run_samples: HashMap<String, usize>,
    ended: bool,
    /// The last end of the present run.
    end: Option<Runtime>,
}

impl Builder {
    fn end_of_run(&mut self) {
        match (&mut self.profile.runtime, self.end.take()) {
            (Some(earlier), Some(end)) => earlier.join(end),
            (none @ None, end) => *none = end,
            (Some(_), None) => {}
        }
    }

    fn push(&mut self, record: Record) -> Result<(), String> {
        self.records += 1;
        let run = self.profile.runs.saturating_sub(1);
        match record {
            Record::Startup(startup) => {
                self.profile.open_end |= self.records > 1 && !self.ended;
                self.end_of_run();
                self.profile.startup = startup;
                self.profile.runs += 1;
                self.run_samples.clear();
                self.ended = false;
            }
            Record::Experiment(mut experiment) => {
                let points = experiment.points.take().unwrap_or_default();
                // coz's durations wrap below zero when delays exceed the wall time.
                if experiment.duration > i64::MAX as u64 || experiment.duration == 0 {
                    experiment.valid = false;
                    experiment.why.get_or_insert(Why::NoTime);
                }
                self.settled(&experiment, run);
                self.profile.experiments.push(Recorded { run, experiment, points });
                self.ended = false;
            }
            Record::ThroughputPoint(point) => self.point(PointDelta::ThroughputPoint(point))?,
            Record::LatencyPoint(point) => self.point(PointDelta::LatencyPoint(point))?,
            Record::Runtime(runtime) => {
                // coz repeats its running totals here too.
                self.end = Some(runtime);
                self.ended = true;
            }
            Record::Samples(samples) => match self.run_samples.get(&samples.location) {
                Some(&at) => self.profile.samples[at] = samples,
                None => {
                    self.run_samples.insert(samples.location.clone(), self.profile.samples.len());
                    self.profile.samples.push(samples);
                }
            },
            Record::Shutdown {} => self.ended = true,
        }
        Ok(())
    }

    /// Where the program now gets longer to settle than before, what was made before does not count.
    fn settled(&mut self, experiment: &Experiment, run: u32) {
        let is_baseline = experiment.permille() == 0;
        let earlier = self.profile.experiments.iter_mut().rev().take_while(|earlier| earlier.run == run);
        let alike = earlier
            .map(|earlier| &mut earlier.experiment)
            .filter(|earlier| (earlier.permille() == 0) == is_baseline);
        for earlier in alike.take_while(|earlier| earlier.settle < experiment.settle) {
            if earlier.valid {
                earlier.valid = false;
                earlier.why = Some(Why::Unsettled);
            }
        }
    }

    fn point(&mut self, point: PointDelta) -> Result<(), String> {
        let Some(last) = self.profile.experiments.last_mut() else {
            return Err("a point without an experiment before it".into());
        };
        let counts = match &point {
            PointDelta::ThroughputPoint(p) => [p.delta, 0],
            PointDelta::LatencyPoint(p) => [p.arrivals, p.departures],
        };
        if counts.iter().any(|&n| n > i64::MAX as u64) {
            last.experiment.valid = false;
            last.experiment.why.get_or_insert(Why::Other);
        }
        last.points.push(point);
        Ok(())
    }

    fn finish(mut self) -> Result<Profile, ReadError> {
        match (self.records, self.profile.truncated) {
            (0, false) => return Err(ReadError::Empty),
            // Not even one record, and what there is has no end: nothing says that it is a profile.
            (0, true) => return Err(ReadError::NoProfile),
            _ => {}
        }
        // A killed writer can leave an experiment without some of its points: they would count as unvisited.
        if !self.ended {
            let most = self.profile.experiments.iter().map(|e| e.points.len()).max().unwrap_or(0);
            if let Some(last) = self.profile.experiments.last_mut()
                && (last.points.len() < most || self.profile.truncated)
                && last.experiment.valid
            {
                last.experiment.valid = false;
                last.experiment.why = Some(Why::Truncated);
            }
        }
        self.end_of_run();
        self.profile.open_end |= !self.ended;
        self.profile.samples = summed(self.profile.samples);
        Ok(self.profile)
    }
}

/// One record a line, whatever the number of runs.
fn summed(samples: Vec<Samples>) -> Vec<Samples> {
    let mut at: HashMap<String, usize> = HashMap::new();
    let mut sums: Vec<Samples> = Vec::new();
    for new in samples {
        match at.get(&new.location) {
            Some(&i) => {
                let sum = &mut sums[i];
                sum.count = sum.count.saturating_add(new.count);
                sum.weight_ns = sum.weight_ns.saturating_add(new.weight_ns);
                sum.undelayed_weight_ns = match (sum.undelayed_weight_ns, new.undelayed_weight_ns) {
                    (Some(a), Some(b)) => Some(a.saturating_add(b)),
                    _ => None,
                };
            }
            None => {
                at.insert(new.location.clone(), sums.len());
                sums.push(new);
            }
        }
    }
    sums
}

#[cfg(test)]
mod tests;
