//! The report for a terminal.

mod blocks;
mod health_text;
mod latency;
mod spark;
pub(super) mod table;

use super::{Options, names, source::Sources, why_empty};
use crate::{
    estimate::{Estimate, Line, latency::LatencyFacts, more},
    experiment::record::{END_TO_END, PointKind, Profile},
};
pub(super) use latency::{facts as latency_facts, time};
use std::fmt;

/// The whole report; its `Display` is the text.
#[derive(Debug)]
pub struct Report<'a> {
    /// What was read.
    pub profile: &'a Profile,
    /// What follows from it.
    pub estimate: &'a Estimate,
    /// What to show.
    pub options: &'a Options,
    /// Whether lines with too few data are shown too.
    pub shows_hidden: bool,
}

/// How many lines are listed by their samples alone.
const LISTED: usize = 10;

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.title(f)?;
        health_text::beware(f, self)?;
        let mut sources = Sources::default();
        match why_empty::explain(self.profile, self.estimate, self.shows_hidden) {
            Some(why) => {
                writeln!(f, "\n{}", table::wrapped(&why, "", self.options.style.width))?;
                for facts in &self.estimate.latencies {
                    self.latency(f, facts)?;
                }
                self.where_samples_fall(f, &mut sources)?;
            }
            None => {
                for point in &self.estimate.points {
                    self.point(f, &point.name, point.kind, &mut sources)?;
                }
            }
        }
        health_text::write(f, self)
    }
}

impl Report<'_> {
    /// How long experiments have been made.
    fn seconds(&self) -> f64 {
        self.profile.seconds()
    }

    fn title(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let program = names::clean(&self.profile.startup.program.join(" "));
        let program = if program.is_empty() { "profile".to_owned() } else { program };
        writeln!(f, "{}", names::head(&program, self.options.style.width))?;
        let facts = facts(self.profile, self.estimate).join(", ");
        writeln!(f, "{}", table::wrapped(&facts, "", self.options.style.width))
    }

    fn point(
        &self,
        f: &mut fmt::Formatter<'_>,
        name: &str,
        kind: PointKind,
        sources: &mut Sources,
    ) -> fmt::Result {
        let of_point = || self.estimate.lines.iter().filter(|l| l.point == name);
        let shown: Vec<&Line> =
            of_point().filter(|l| l.hidden.is_none() || (self.shows_hidden && !l.curve.is_empty())).collect();
        let hidden = of_point().count() - shown.len();
        let facts = self.estimate.latencies.iter().find(|facts| facts.name == name);
        if let Some(facts) = facts {
            self.latency(f, facts)?;
        }
        if shown.is_empty() {
            return Ok(());
        }
        let saved = match kind {
            _ if name == END_TO_END => "the running time".to_owned(),
            PointKind::Throughput => format!("the time per visit of {}", names::clean(name)),
            PointKind::Latency => format!("the latency of {}", names::clean(name)),
        };
        let intro = format!(
            "Share of {saved} that would be saved if a line took 25, 50, 100 % less time, with 95 % intervals:"
        );
        writeln!(f, "\n{}", table::wrapped(&intro, "", self.options.style.width))?;
        let top = if self.options.top == 0 { shown.len() } else { self.options.top.min(shown.len()) };
        let (seconds, experiments) = (self.seconds(), self.estimate.counted);
        let more = |line: &Line| more::more(line, seconds, experiments);
        writeln!(f, "{}", blocks::lines(&shown[..top], kind, self.options, sources, more))?;
        let mut more = Vec::new();
        if top < shown.len() {
            more.push(format!("{} further down (--top {})", plural(shown.len() - top, "line"), shown.len()));
        }
        if hidden > 0 {
            more.push(format!("{} with too few data (--all)", plural(hidden, "line")));
        }
        match more.is_empty() {
            true => Ok(()),
            false => {
                let text = format!("Not shown: {}", more.join(", "));
                writeln!(f, "{}", table::wrapped(&text, "", self.options.style.width))
            }
        }
    }

    fn latency(&self, f: &mut fmt::Formatter<'_>, facts: &LatencyFacts) -> fmt::Result {
        writeln!(f, "\n{}", table::wrapped(&latency::facts(facts), "", self.options.style.width))
    }

    fn where_samples_fall(&self, f: &mut fmt::Formatter<'_>, sources: &mut Sources) -> fmt::Result {
        let most: Vec<_> =
            self.estimate.samples.iter().filter(|s| s.samples.count > 0).take(LISTED).collect();
        match most.is_empty() {
            true => Ok(()),
            false => {
                writeln!(f, "\nWhere the samples fall:\n{}", table::samples(&most, self.options, sources))
            }
        }
    }
}

/// What was done to get the figures, in a few words each: experiments or whole runs, how long, visits of each point.
pub(super) fn facts(profile: &Profile, estimate: &Estimate) -> Vec<String> {
    let mut parts = Vec::new();
    if profile.startup.attached {
        parts.push("attached".to_owned());
    }
    if profile.startup.end_to_end {
        parts.push("end to end".to_owned());
        parts.push(plural(profile.experiments.len(), "run"));
        // A run whose time does not count is still a run.
        if estimate.counted < profile.experiments.len() {
            parts.push(format!("{} of them count", thousands(estimate.counted)));
        }
    } else {
        let whole = why_empty::is_without_points(profile);
        parts.push(plural(if whole { 0 } else { estimate.counted }, "experiment"));
    }
    let seconds = profile.seconds();
    if seconds > 0.0 {
        parts.push(format!("{seconds:.1} s"));
    }
    for point in estimate.points.iter().filter(|point| point.name != END_TO_END) {
        let visits = plural(point.visits as usize, "visit");
        parts.push(format!("{visits} of {}", names::head(&names::clean(&point.name), 40)));
    }
    parts
}

/// `1 line`, `2 lines`, `12,345 lines`.
fn plural(n: usize, what: &str) -> String {
    format!("{} {what}{}", thousands(n), if n == 1 { "" } else { "s" })
}

fn thousands(n: usize) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
