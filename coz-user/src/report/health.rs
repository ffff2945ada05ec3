//! How far the numbers can be trusted, in plain words.

use crate::{estimate::Estimate, experiment::record::Profile};
use std::fmt;

/// Something that makes the numbers doubtful. Its text says what, how much, and what helps.
#[derive(Clone, Debug, PartialEq)]
pub enum Warning {
    /// The file ends within a record.
    TruncatedFile,
    /// There is no runtime record.
    NoEnd,
    /// Share of samples that were lost.
    LostSamples(f64),
    /// Share of signals that the kernel refused.
    SignalsFailed(f64),
    /// Share of the required delays that was never paid.
    Unpaid(f64),
    /// Share of its runnable time that the program waited for a CPU.
    Runqueue(f64),
    /// Share of the CPUs' time that the hypervisor took.
    Steal(f64),
    /// Share of the experiments that do not count, and the most frequent reason.
    Discarded(f64, String),
    /// Share of the experiments that were left out as mishaps.
    Outliers(f64),
    /// Sampling took this share of the time.
    Sampling(f64),
    /// Lines whose phase correction could not be believed.
    PhaseCapped(usize),
    /// As the profiler wrote it into the profile.
    Recorded(String),
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |share: &f64| format!("{:.0} %", 100.0 * share);
        match self {
            Self::TruncatedFile => f.write_str("the profile ends within a record: its last experiment is lost"),
            Self::NoEnd => f.write_str(
                "the profile has no end: the profiler was killed, or still runs. Effects are not corrected for phases of \
                 the program",
            ),
            Self::LostSamples(share) => write!(
                f,
                "{} of the samples were lost; the lines that they fell on look cheaper than they are. A lower --rate \
                 helps",
                percent(share)
            ),
            Self::SignalsFailed(share) => write!(
                f,
                "the kernel refused {} of the requests to pay a delay; they were repeated later",
                percent(share)
            ),
            Self::Unpaid(share) => write!(
                f,
                "{} of the delays were never paid, because the threads that owed them hardly ran: effects look \
                 larger than they are",
                percent(share)
            ),
            Self::Runqueue(share) => write!(
                f,
                "threads waited for a CPU {} of the time that they could have run: the effects are not to be trusted. \
                 Run fewer threads, or on more CPUs",
                percent(share)
            ),
            Self::Steal(share) => write!(
                f,
                "the hypervisor took {} of the CPUs' time: single experiments are off, and intervals wide. Run \
                 longer, or on a quieter machine",
                percent(share)
            ),
            Self::Discarded(share, why) => {
                write!(f, "{} of the experiments do not count (most: {why}). Run longer", percent(share))
            }
            Self::Outliers(share) => write!(
                f,
                "{} of the experiments were far too slow and were left out of the curves: something else used the \
                 CPUs now and then",
                percent(share)
            ),
            Self::Sampling(share) => {
                write!(f, "taking samples used {} of the CPU time. A lower --rate helps", percent(share))
            }
            Self::PhaseCapped(lines) => write!(
                f,
                "{lines} lines ran at very different rates within and outside their experiments; their correction for \
                 phases was limited. Run longer"
            ),
            Self::Recorded(text) => f.write_str(&super::names::clean(text)),
        }
    }
}

/// From which share on something is worth a warning.
mod limits {
    pub(super) const LOST: f64 = 0.01;
    pub(super) const FAILED: f64 = 0.05;
    pub(super) const UNPAID: f64 = 0.1;
    pub(super) const RUNQUEUE: f64 = 0.2;
    pub(super) const STEAL: f64 = 0.02;
    pub(super) const DISCARDED: f64 = 0.2;
    pub(super) const OUTLIERS: f64 = 0.05;
    pub(super) const SAMPLING: f64 = 0.05;
}

/// `part` of `whole`, if that is above the limit.
fn above(limit: f64, part: f64, whole: f64) -> Option<f64> {
    let share = part / whole;
    (share.is_finite() && share > limit).then_some(share)
}

/// All that is to be said.
#[must_use]
pub fn warnings(profile: &Profile, estimate: &Estimate) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if profile.truncated {
        warnings.push(Warning::TruncatedFile);
    }
    match &profile.runtime {
        None => warnings.push(Warning::NoEnd),
        Some(runtime) => {
            let h = &runtime.health;
            let all = (h.samples + h.lost_samples) as f64;
            warnings.extend(above(limits::RUNQUEUE, h.runqueue_share, 1.0).map(Warning::Runqueue));
            warnings.extend(above(limits::STEAL, h.steal_share, 1.0).map(Warning::Steal));
            warnings.extend(above(limits::LOST, h.lost_samples as f64, all).map(Warning::LostSamples));
            warnings.extend(above(limits::UNPAID, h.unpaid_ns as f64, h.owed_ns as f64).map(Warning::Unpaid));
            let sent = (h.signals_sent + h.signals_failed) as f64;
            warnings.extend(above(limits::FAILED, h.signals_failed as f64, sent).map(Warning::SignalsFailed));
            let cpu: f64 = profile.samples.iter().map(|s| s.weight_ns as f64).sum();
            warnings.extend(above(limits::SAMPLING, h.sampling_ns as f64, cpu).map(Warning::Sampling));
        }
    }
    let discarded: usize = estimate.discarded.values().sum();
    let made = (discarded + estimate.counted) as f64;
    if let Some(share) = above(limits::DISCARDED, discarded as f64, made)
        && let Some((why, _)) = estimate.discarded.iter().max_by_key(|(_, n)| **n)
        // One cut short by the end is as it should be.
        && discarded > 1
    {
        warnings.push(Warning::Discarded(share, why.to_string()));
    }
    let outliers = estimate.lines.iter().map(|l| l.outliers).sum::<usize>() as f64;
    let trials = estimate.lines.iter().map(|l| l.experiments).sum::<usize>() as f64;
    warnings.extend(above(limits::OUTLIERS, outliers, trials).map(Warning::Outliers));
    match estimate.lines.iter().filter(|l| l.phase_capped && l.hidden.is_none()).count() {
        0 => {}
        lines => warnings.push(Warning::PhaseCapped(lines)),
    }
    let recorded = profile.runtime.iter().flat_map(|r| r.health.warnings.iter().cloned());
    warnings.extend(recorded.map(Warning::Recorded));
    warnings
}
