//! Warnings in words.

use super::{Warning, refused};
use crate::report::names;
use std::fmt;

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |share: &f64| format!("{:.0} %", 100.0 * share);
        match self {
            Self::TruncatedFile => f.write_str("the profile ends within a record: its last experiment is lost"),
            Self::NoEnd => f.write_str(
                "the profile has no end: the profiler was killed, or still runs. Effects are not corrected for phases of \
                 the program",
            ),
            Self::LostSamples(share, is_refused) => write!(
                f,
                "{} of the samples were lost; the lines that they fell on look cheaper than they are{}. A lower --rate \
                 helps",
                percent(share),
                refusal(*is_refused)
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
            Self::UnpaidThreads(threads, share) => {
                let (s, up_to, it_does) =
                    if threads.len() == 1 { ("", "", "it does") } else { ("s", "up to ", "they do") };
                write!(
                    f,
                    "thread{s} {} made progress and did not pay {up_to}{} of the delays: effects on what {it_does} are less \
                     certain than they look",
                    some(threads),
                    percent(share)
                )
            }
            Self::Runqueue(share) => write!(
                f,
                "threads waited for a CPU {} of the time that they could have run: the effects are not to be trusted. \
                 Run fewer threads, or on more CPUs, and nothing else beside them",
                percent(share)
            ),
            Self::Spinning(share) => write!(
                f,
                "{} of the samples met a thread that waits by spinning, and for whom it waits cannot be seen: the effects of \
                 lines that others spin for are not to be trusted. Let threads block instead, where that can be chosen",
                percent(share)
            ),
            Self::Unsettled(share, undelayed) => {
                let delays = if *undelayed { "the end of delays" } else { "delays" };
                let faster = if *share > 0.0 { "faster" } else { "slower" };
                write!(
                    f,
                    "the program takes long to get used to {delays} (long queues do that), and was {} {faster} while it did. The \
                     effects are not to be trusted. coz-bpf waits longer as it learns that: run longer",
                    percent(&share.abs())
                )
            }
            Self::Steal(share) => write!(
                f,
                "the hypervisor took {} of the CPUs' time: single experiments are off, and intervals wide{}. Run \
                 longer, or on a quieter machine",
                percent(share),
                refusal(*share > refused::STEAL)
            ),
            Self::Clock(share) => write!(
                f,
                "there were {} fewer samples than the program's CPU time should have{}: the CPUs stood still now and then, as \
                 those of an emulated machine do, or of a virtual one whose host does not say so, or the program keeps step with \
                 the sampling clock. Profile on another machine, or with another --rate",
                percent(share),
                refusal(*share > refused::CLOCK)
            ),
            Self::Throttled(share, is_refused) => write!(
                f,
                "a CPU quota stopped the program in {} of its periods{}: it decides how fast the program is, not the \
                 lines. Raise the quota (cpu.max of its control group), or run outside of it",
                percent(share),
                refusal(*is_refused)
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
                names::clean(point),
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
            Self::Recorded(text) => f.write_str(&names::clean(text)),
        }
    }
}

/// The first few of many.
fn some(names: &[String]) -> String {
    const NAMED: usize = 3;
    let named = names[..names.len().min(NAMED)].join(", ");
    match names.len().saturating_sub(NAMED) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

/// What is said where a warning is more than that.
fn refusal(is_refused: bool) -> &'static str {
    if is_refused { "; the effects are not to be trusted" } else { "" }
}
