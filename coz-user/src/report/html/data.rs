//! What the page knows: the report as `--json` has it, the experiments as dots, the sources' text.

use super::super::{json, source, terminal, why_empty, words};
use super::excerpts::{Excerpts, File};
use crate::{
    estimate::{Estimate, Line, Verdict, more},
    experiment::record::{Health, Profile, Samples},
};
use serde::Serialize;

/// Whether the page comes from a server that can tell it more, or from a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    /// It asks for events.
    Yes,
    /// It asks for nothing.
    No,
}

/// Version of the data's form.
const FORMAT: u32 = 1;

/// What is said before there is anything to show.
const WAITING: &str =
    "No experiment has ended yet. The first curves need some ten of them; they show here by themselves.";

/// Everything that the page shows.
#[derive(Clone, Copy, Debug)]
pub struct Page<'a> {
    /// What was read.
    pub profile: &'a Profile,
    /// What follows from it.
    pub estimate: &'a Estimate,
    /// The profile's name.
    pub file: &'a str,
    /// Whether to look for the source files.
    pub sources: bool,
    /// Whether a server stands behind it.
    pub served: Served,
    /// How many states of a growing profile there were before this one.
    pub number: u64,
}

#[derive(Serialize)]
struct Data<'a> {
    format: u32,
    version: &'static str,
    file: &'a str,
    live: bool,
    number: u64,
    /// The profile has no end: the profiler was killed, or still runs.
    open: bool,
    /// What was done to get the figures, as the report for a terminal says it.
    facts: Vec<String>,
    /// What is known of each latency point itself, as the report for a terminal says it.
    latencies: Vec<String>,
    /// How many whole runs there were, where each is one experiment.
    runs: Option<usize>,
    rate: u32,
    kernel: &'a str,
    /// Why there is no curve, and what to do.
    empty: Option<String>,
    /// Lines with few data are shown all the same.
    shows_hidden: bool,
    report: json::Report<'a>,
    /// Of each line of the report, what `--json` does not say.
    lines: Vec<More<'a>>,
    /// Of each of its samples, the place.
    samples: Vec<Option<Place<'a>>>,
    sources: Vec<File>,
}

/// File and number.
type Place<'a> = (&'a str, u32);

#[derive(Serialize)]
struct More<'a> {
    place: Option<Place<'a>>,
    /// Why it has no answer, and how much longer until it has, as the report for a terminal says it.
    undecided: Option<String>,
    /// Why its effects were corrected, likewise.
    phase: Option<&'static str>,
    /// Thousandths of speedup, ten thousandths of effect, and whether the curve rests on it: short, for there can be a
    /// hundred thousand.
    dots: Vec<(u32, i32, u8)>,
}

impl<'a> More<'a> {
    fn of(line: &'a Line, profile: &Profile, estimate: &Estimate) -> Self {
        let place = line.source.as_ref().map(|(file, number)| (file.as_str(), *number));
        let effect = |effect: f64| (effect.clamp(-10.0, 10.0) * 1e4).round() as i32;
        let dots = line.dots.iter().map(|dot| (dot.permille, effect(dot.effect), dot.kept.into()));
        let more = || more::more(line, profile.seconds(), estimate.counted);
        let is_open = line.verdict == Verdict::Undecided;
        Self {
            place: place.or_else(|| source::split(&line.location)),
            phase: words::phase(line),
            undecided: is_open.then(|| words::undecided(line, more())),
            dots: dots.collect(),
        }
    }
}

fn place(samples: &Samples) -> Option<Place<'_>> {
    samples.file.as_deref().zip(samples.line).or_else(|| source::split(&samples.location))
}

impl Page<'_> {
    /// As JSON, for [`super::text`] or to be served by itself.
    #[must_use]
    pub fn json(&self) -> String {
        let Self { profile, estimate, .. } = self;
        let none = Health::default();
        let fixed = profile.startup.fixed || profile.startup.end_to_end;
        let lines: Vec<More> = estimate.lines.iter().map(|line| More::of(line, profile, estimate)).collect();
        let samples: Vec<_> = estimate.samples.iter().map(|s| place(&s.samples)).collect();
        let mut excerpts = Excerpts::default();
        if self.sources {
            lines.iter().filter_map(|line| line.place).for_each(|place| excerpts.want(place));
            samples.iter().flatten().for_each(|place| excerpts.want(*place));
        }
        let live = self.served == Served::Yes;
        let data = Data {
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION"),
            file: self.file,
            live,
            number: self.number,
            open: profile.open_end,
            facts: terminal::facts(profile, estimate),
            latencies: estimate.latencies.iter().map(terminal::latency_facts).collect(),
            runs: profile.startup.end_to_end.then_some(profile.experiments.len()),
            rate: profile.startup.rate,
            kernel: &profile.startup.kernel,
            empty: if live && profile.open_end && estimate.lines.is_empty() {
                Some(WAITING.into())
            } else {
                why_empty::explain(profile, estimate, fixed)
            },
            shows_hidden: fixed,
            report: json::report(profile, estimate, &none),
            lines,
            samples,
            sources: excerpts.read(source::Sources::of(profile)),
        };
        // Only maps with keys that are no strings, or a failing writer, could make this fail: there are none.
        serde_json::to_string(&data).unwrap_or_default()
    }
}
