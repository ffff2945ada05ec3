//! How far the numbers can be trusted, in plain words.

use crate::{
    estimate::Estimate,
    experiment::record::{Granularity, Profile, Runtime},
};
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
    /// A thread that made progress and did not absorb this share of its delays.
    UnpaidThread(String, f64),
    /// Share of its runnable time that the program waited for a CPU.
    Runqueue(f64),
    /// Share of the CPUs' time that the hypervisor took.
    Steal(f64),
    /// Share of a CPU quota's periods in which it stopped the program.
    Throttled(f64),
    /// Share of the samples in code that can not be selected.
    OutOfScope(f64),
    /// Share of the experiments that do not count, and the most frequent reason.
    Discarded(f64, String),
    /// Share of the experiments that were left out as mishaps.
    Outliers(f64),
    /// Sampling took this share of the time.
    Sampling(f64),
    /// A point's name, its visits a second, and which part of a CPU its probes took.
    Probes(String, f64, f64),
    /// Lines whose phase correction could not be believed.
    PhaseCapped(usize),
    /// The largest share of the samples that any line has.
    ThinLines(f64),
    /// As the profiler wrote it into the profile.
    Recorded(String),
}

impl Warning {
    /// Whether it makes the whole run doubtful, its experiments without delay as well.
    #[must_use]
    pub fn is_of_the_machine(&self) -> bool {
        matches!(
            self,
            Self::TruncatedFile
                | Self::NoEnd
                | Self::Runqueue(_)
                | Self::Steal(_)
                | Self::Throttled(_)
                | Self::Outliers(_)
                | Self::Probes(..)
                | Self::Sampling(_)
        )
    }
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
                "{} of the samples were lost; the lines that they fell on look cheaper than they are{}. A lower --rate \
                 helps",
                percent(share),
                refusal(*share > refused::LOST)
            ),
            Self::SignalsFailed(share) => write!(
                f,
                "the kernel refused {} of the requests to pay a delay; they were repeated later",
                percent(share)
            ),
            Self::Unpaid(share) => write!(
                f,
                "{} of the delays were never paid, because the threads that owed them hardly ran: effects are less \
                 certain than they look{}",
                percent(share),
                refusal(*share > refused::UNPAID)
            ),
            Self::UnpaidThread(thread, share) => write!(
                f,
                "{thread} made progress and did not pay {} of its delays: effects on what it does are less certain than \
                 they look",
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
                "the hypervisor took {} of the CPUs' time: single experiments are off, and intervals wide{}. Run \
                 longer, or on a quieter machine",
                percent(share),
                refusal(*share > refused::STEAL)
            ),
            Self::Throttled(share) => write!(
                f,
                "a CPU quota stopped the program in {} of its periods{}: it decides how fast the program is, not the \
                 lines. Raise the quota (cpu.max of its control group), or run outside of it",
                percent(share),
                refusal(*share > refused::THROTTLED)
            ),
            Self::OutOfScope(share) => write!(
                f,
                "{} of the samples fell into code that can not be selected: what it costs is in no curve. \
                 --scope-source and --scope-binary widen the scope",
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
            Self::Probes(point, rate, share) => write!(
                f,
                "{} was passed {rate:.0} times a second, and each time costs: all in all {} of a CPU. What was measured is \
                 a program slowed down by that; name a point that is passed less often",
                super::names::clean(point),
                percent(share)
            ),
            Self::PhaseCapped(lines) => write!(
                f,
                "{lines} lines ran at very different rates within and outside their experiments; their correction for \
                 phases was limited. Run longer"
            ),
            Self::ThinLines(share) => write!(
                f,
                "no line has more than {:.1} % of the samples: with single lines there is little to gain and much to \
                 measure. --granularity function (-g function) looks at whole functions",
                100.0 * share
            ),
            Self::Recorded(text) => f.write_str(&super::names::clean(text)),
        }
    }
}

/// What is said where a warning is more than that.
fn refusal(is_refused: bool) -> &'static str {
    if is_refused { "; the effects are not to be trusted" } else { "" }
}

/// From which share on an effect may be off by as much as it is large: the report does not stand for it.
mod refused {
    /// A line that lost as much of its samples has delays that are too short by that.
    pub(super) const LOST: f64 = 0.1;
    /// As an experiment that counts may have: see `experiment::data::UNPAID_LIMIT`; this is a mean over all.
    pub(super) const UNPAID: f64 = 0.3;
    pub(super) const STEAL: f64 = 0.1;
    pub(super) const THROTTLED: f64 = 0.05;
}

/// From which share on something is worth a warning.
mod limits {
    pub(super) const LOST: f64 = 0.01;
    pub(super) const FAILED: f64 = 0.05;
    pub(super) const UNPAID: f64 = 0.1;
    pub(super) const RUNQUEUE: f64 = 0.2;
    pub(super) const STEAL: f64 = 0.02;
    pub(super) const THROTTLED: f64 = 0.01;
    pub(super) const OUT_OF_SCOPE: f64 = 0.5;
    pub(super) const UNPAID_THREAD: f64 = 0.3;
    pub(super) const DISCARDED: f64 = 0.2;
    pub(super) const OUTLIERS: f64 = 0.05;
    pub(super) const SAMPLING: f64 = 0.05;
    pub(super) const PROBES: f64 = 0.03;
}

/// Of a run with fewer samples, shares say nothing: it is over before anything is steady.
const MIN_SAMPLES: u64 = 100;
/// Of fewer experiments neither.
const MIN_EXPERIMENTS: f64 = 5.0;

/// `part` of `whole`, if that is above the limit; never more than all of it.
fn above(limit: f64, part: f64, whole: f64) -> Option<f64> {
    let share = part / whole;
    (share.is_finite() && share > limit).then(|| share.min(1.0))
}

/// Where no line has this share of the samples, whole functions are the better question.
const THIN: f64 = 0.03;

/// The largest share of a line, where that is too little.
fn thin_lines(profile: &Profile, estimate: &Estimate) -> Option<f64> {
    let largest = estimate.samples.first()?.share;
    let samples = profile.runtime.as_ref()?.health.samples;
    let lines = profile.startup.granularity == Granularity::Line;
    (lines && samples >= MIN_SAMPLES && largest > 0.0 && largest < THIN).then_some(largest)
}

/// What the shares of a run say that was long enough to have any.
fn shares(profile: &Profile, runtime: &Runtime) -> Vec<Warning> {
    let h = &runtime.health;
    let samples = h.samples as f64;
    let sent = (h.signals_sent + h.signals_failed) as f64;
    let attributed: f64 = profile.samples.iter().map(|s| s.weight_ns as f64).sum();
    let cpu = if h.cpu_ns > 0 { h.cpu_ns as f64 } else { attributed };
    let mut warnings = Vec::new();
    warnings.extend(above(limits::RUNQUEUE, h.runqueue_share, 1.0).map(Warning::Runqueue));
    let (periods, throttled) = h.quota_periods;
    warnings.extend(above(limits::THROTTLED, throttled as f64, periods as f64).map(Warning::Throttled));
    warnings.extend(above(limits::STEAL, h.steal_share, 1.0).map(Warning::Steal));
    let lost = samples + h.lost_samples as f64;
    warnings.extend(above(limits::LOST, h.lost_samples as f64, lost).map(Warning::LostSamples));
    warnings.extend(above(limits::UNPAID, h.unpaid_ns as f64, h.owed_ns as f64).map(Warning::Unpaid));
    for thread in h.threads.iter().filter(|thread| thread.visits > 0) {
        let share = above(limits::UNPAID_THREAD, thread.unpaid_ns as f64, thread.owed_ns as f64);
        let name = format!("thread {} ({})", super::names::clean(&thread.name), thread.tid);
        warnings.extend(share.map(|share| Warning::UnpaidThread(name, share)));
    }
    warnings.extend(above(limits::FAILED, h.signals_failed as f64, sent).map(Warning::SignalsFailed));
    warnings.extend(above(limits::OUT_OF_SCOPE, h.out_of_scope as f64, samples).map(Warning::OutOfScope));
    warnings.extend(above(limits::SAMPLING, h.sampling_ns as f64, cpu).map(Warning::Sampling));
    let time = runtime.time as f64;
    for point in &h.points {
        let rate = point.visits as f64 * 1e9 / time;
        let share = above(limits::PROBES, point.probe_ns as f64, time);
        warnings.extend(share.map(|share| Warning::Probes(point.name.clone(), rate, share)));
    }
    warnings
}

/// All that is to be said.
#[must_use]
pub fn warnings(profile: &Profile, estimate: &Estimate) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if profile.truncated {
        warnings.push(Warning::TruncatedFile);
    }
    match &profile.runtime {
        // Old files of coz never have one.
        None if profile.startup.version == 0 => {}
        None => warnings.push(Warning::NoEnd),
        Some(runtime) => {
            if profile.open_end {
                warnings.push(Warning::NoEnd);
            }
            if runtime.health.samples >= MIN_SAMPLES {
                warnings.extend(shares(profile, runtime));
            }
        }
    }
    let discarded: usize = estimate.discarded.values().sum();
    let made = (discarded + estimate.counted) as f64;
    if let Some(share) = above(limits::DISCARDED, discarded as f64, made)
        && let Some((why, _)) = estimate.discarded.iter().max_by_key(|(_, n)| **n)
        // One cut short by the end is as it should be, and of a handful of experiments shares say nothing.
        && discarded > 1
        && made >= MIN_EXPERIMENTS
    {
        warnings.push(Warning::Discarded(share, why.to_string()));
    }
    let outliers = estimate.lines.iter().map(|l| l.outliers).sum::<usize>() as f64;
    let trials = estimate.lines.iter().map(|l| l.experiments).sum::<usize>() as f64;
    if trials >= MIN_EXPERIMENTS {
        warnings.extend(above(limits::OUTLIERS, outliers, trials).map(Warning::Outliers));
    }
    match estimate.lines.iter().filter(|l| l.phase_capped && l.hidden.is_none()).count() {
        0 => {}
        lines => warnings.push(Warning::PhaseCapped(lines)),
    }
    warnings.extend(thin_lines(profile, estimate).map(Warning::ThinLines));
    let recorded = profile.runtime.iter().flat_map(|r| r.health.warnings.iter().cloned());
    warnings.extend(recorded.map(Warning::Recorded));
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::record::{Experiment, Health, PointRun, Recorded, Samples, ThreadDelay, Why};

    /// A run of a second with a thousand samples in which nothing was wrong, changed.
    fn run(change: impl Fn(&mut Health)) -> Profile {
        let mut health =
            Health { samples: 1000, owed_ns: 1_000_000, cpu_ns: 1_000_000_000, ..Health::default() };
        change(&mut health);
        Profile { runs: 1, runtime: Some(Runtime { time: 1_000_000_000, health }), ..Profile::default() }
    }

    fn said(profile: &Profile) -> Vec<String> {
        warnings(profile, &crate::estimate::estimate(profile, &crate::estimate::simulate::settings()))
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    /// The only warning of such a run; and that a run of 99 samples has none.
    fn only(change: impl Fn(&mut Health)) -> String {
        let short = run(|h| {
            change(h);
            h.samples = 99;
        });
        assert_eq!(said(&short), [""; 0], "shares of a handful of samples say nothing");
        let found = said(&run(change));
        assert_eq!(found.len(), 1, "{found:?}");
        found.into_iter().next().unwrap()
    }

    fn refuses(text: &str) -> bool {
        text.contains("not to be trusted")
    }

    #[test]
    fn a_sound_run_has_no_warnings() {
        assert_eq!(said(&run(|_| ())), [""; 0]);
    }

    #[test]
    fn samples_lost() {
        let few = only(|h| h.lost_samples = 20);
        assert!(few.starts_with("2 % of the samples were lost") && !refuses(&few), "{few}");
        assert!(refuses(&only(|h| h.lost_samples = 200)));
    }

    #[test]
    fn signals_refused() {
        let text = only(|h| (h.signals_sent, h.signals_failed) = (90, 10));
        assert!(text.contains("refused 10 %"), "{text}");
    }

    #[test]
    fn delays_unpaid() {
        let some = only(|h| h.unpaid_ns = 200_000);
        assert!(some.starts_with("20 % of the delays were never paid") && !refuses(&some), "{some}");
        let more = only(|h| h.unpaid_ns = 3_000_000);
        assert!(more.starts_with("100 %") && refuses(&more), "no share is more than all of it: {more}");
    }

    #[test]
    fn a_thread_that_does_not_pay() {
        let thread = |visits| ThreadDelay {
            name: "worker\u{1b}".into(),
            tid: 7,
            owed_ns: 100,
            paid_ns: 10,
            unpaid_ns: 60,
            visits,
        };
        let text = only(|h| h.threads = vec![thread(3)]);
        assert!(text.starts_with("thread worker") && text.contains("60 %"), "{text}");
        assert!(!text.contains('\u{1b}'));
        assert_eq!(
            said(&run(|h| h.threads = vec![thread(0)])),
            [""; 0],
            "one that makes no progress may owe"
        );
    }

    #[test]
    fn waiting_for_a_cpu() {
        assert!(refuses(&only(|h| h.runqueue_share = 0.5)));
    }

    #[test]
    fn stolen_time() {
        let little = only(|h| h.steal_share = 0.04);
        assert!(little.contains("hypervisor took 4 %") && !refuses(&little), "{little}");
        assert!(refuses(&only(|h| h.steal_share = 0.2)));
    }

    #[test]
    fn a_cpu_quota() {
        let little = only(|h| h.quota_periods = (100, 2));
        assert!(little.contains("quota stopped the program in 2 %") && !refuses(&little), "{little}");
        assert!(refuses(&only(|h| h.quota_periods = (100, 40))));
    }

    #[test]
    fn time_out_of_scope() {
        let text = only(|h| h.out_of_scope = 800);
        assert!(text.starts_with("80 % of the samples fell into code that can not be selected"), "{text}");
    }

    #[test]
    fn the_cost_of_sampling() {
        assert!(only(|h| h.sampling_ns = 90_000_000).contains("used 9 % of the CPU time"));
    }

    #[test]
    fn the_cost_of_a_point_that_is_passed_too_often() {
        let point = |visits, probe_ns| PointRun { name: "hot".into(), visits, probe_ns };
        let text = only(|h| h.points = vec![point(50_000, 90_000_000)]);
        assert!(
            text.starts_with("hot was passed 50000 times a second") && text.contains("9 % of a CPU"),
            "{text}"
        );
        assert_eq!(said(&run(|h| h.points = vec![point(500, 900_000)])), [""; 0]);
    }

    #[test]
    fn what_the_profiler_wrote_and_a_run_without_an_end() {
        assert_eq!(said(&run(|h| h.warnings = vec!["odd".into()])), ["odd"]);
        let open = Profile { open_end: true, ..run(|_| ()) };
        assert!(said(&open)[0].starts_with("the profile has no end"));
        let cut = Profile { truncated: true, ..run(|_| ()) };
        assert!(said(&cut)[0].starts_with("the profile ends within a record"));
    }

    #[test]
    fn experiments_that_do_not_count() {
        let with = |valid: usize, not: usize| {
            let experiment = |i| Recorded {
                experiment: Experiment {
                    valid: i >= not,
                    why: (i < not).then_some(Why::Unpaid),
                    ..Experiment::default()
                },
                ..Recorded::default()
            };
            Profile { experiments: (0..valid + not).map(experiment).collect(), ..run(|_| ()) }
        };
        assert!(
            said(&with(6, 4))[0].starts_with("40 % of the experiments do not count (most: delays not paid")
        );
        assert_eq!(said(&with(9, 1)), [""; 0], "one is as it should be");
        assert_eq!(said(&with(2, 2)), [""; 0], "of four, shares say nothing");
    }

    #[test]
    fn lines_too_thin_to_be_worth_it() {
        let with = |largest: u64| {
            let mut profile = run(|_| ());
            let line = |i: u64| Samples {
                location: format!("a.c:{i}"),
                count: if i == 0 { largest } else { 20 },
                weight_ns: 1_000_000,
                ..Samples::default()
            };
            profile.samples = (0..40).map(line).collect();
            profile
        };
        assert!(said(&with(25))[0].contains("-g function"), "{:?}", said(&with(25)));
        assert_eq!(said(&with(60)), [""; 0]);
        let mut functions = with(25);
        functions.startup.granularity = Granularity::Function;
        assert_eq!(said(&functions), [""; 0], "functions it is already");
    }

    #[test]
    fn mishaps_and_phases_that_can_not_be_believed() {
        use crate::estimate::{Estimate, Line};
        let line = Line { experiments: 20, outliers: 3, phase_capped: true, ..Line::default() };
        let estimate = Estimate { lines: vec![line], ..Estimate::default() };
        let found = warnings(&run(|_| ()), &estimate);
        assert_eq!(found, [Warning::Outliers(0.15), Warning::PhaseCapped(1)]);
    }

    #[test]
    fn shares_of_attributed_time_do_without_a_total() {
        let mut old = run(|h| (h.cpu_ns, h.sampling_ns) = (0, 100));
        old.samples = vec![Samples { weight_ns: 1000, count: 1000, ..Samples::default() }];
        assert_eq!(said(&old).len(), 1, "10 % of what is attributed");
    }
}
