//! A latency point: how long it takes.

use super::super::names;
use crate::estimate::latency::{Growing, LatencyFacts};

/// What is known of the point itself.
pub(in crate::report) fn facts(facts: &LatencyFacts) -> String {
    let mut text = format!("Latency of {}: {} a second", names::clean(&facts.name), count(facts.rate));
    if let Some(level) = facts.in_system {
        text += &format!(", {} under way on average", count(level));
    }
    if facts.is_too_short() {
        text += ". Most take no longer than what it costs to look at them: how long is not known, nor what lines do to it. Name \
                 something that takes longer.";
        return text;
    }
    let own = facts.mean_ns.filter(|_| facts.is_measured());
    if let Some(mean) = own.or(facts.steady_mean()) {
        text += &format!(", mean {}", time(mean));
    }
    if facts.is_measured() {
        for (name, value) in ["median", "99th percentile"].into_iter().zip(facts.quantiles_ns) {
            text += &value.map_or_else(String::new, |value| format!(", {name} {}", time(value)));
        }
    } else if facts.steady_mean().is_some() {
        text += " (by Little's law; single ones are not known: begin and end are not in the same thread, or they overlap in it)";
    }
    text.push('.');
    match facts.growing {
        Some(Growing { share, only_delayed: false }) => {
            text += &format!(
                " It is not steady: {} of what began did not end. The latency grows as long as the program runs, and \
                 what is shown of lines holds for a run of this length at most. If nothing waits for longer and longer there, \
                 some begins have no end: no mean follows, name a begin that has one.",
                part(share)
            );
        }
        Some(Growing { share, only_delayed: true }) => {
            text += &format!(
                " With delays it is not steady: {} of what began did not end. What arrives seems to go by a clock that \
                 no delay holds up (another machine, fixed times): gains look smaller than they are.",
                part(share)
            );
        }
        None => {}
    }
    if let Some((little, mean)) = facts.little_ns.zip(own)
        && facts.growing.is_none()
        && (little / mean - 1.0).abs() > DISAGREE
    {
        text += &format!(
            " Rate and number under way make it {} (Little's law): some were never seen to end, or to begin.",
            time(little)
        );
    }
    text
}

/// A share, however small.
fn part(share: f64) -> String {
    if share >= 0.01 { format!("{:.0} %", 100.0 * share) } else { format!("{:.2} %", 100.0 * share) }
}

/// Where the two ways to the mean differ by more than this, something was not seen.
const DISAGREE: f64 = 0.1;

/// Rounded to what anyone wants to know.
fn count(value: f64) -> String {
    if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.1}") }
}

/// A time in the unit that suits it.
pub(in crate::report) fn time(ns: f64) -> String {
    // What would be rounded to 1000 of a unit is 1 of the next.
    let (value, unit) = match ns {
        ns if ns >= 0.9995e9 => (ns / 1e9, "s"),
        ns if ns >= 0.9995e6 => (ns / 1e6, "ms"),
        ns if ns >= 0.9995e3 => (ns / 1e3, "µs"),
        ns => (ns, "ns"),
    };
    if value >= 100.0 {
        format!("{value:.0} {unit}")
    } else if value >= 10.0 {
        format!("{value:.1} {unit}")
    } else {
        format!("{value:.2} {unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point() -> LatencyFacts {
        LatencyFacts {
            name: "request".into(),
            rate: 640.0,
            in_system: Some(1.9),
            little_ns: Some(2.97e6),
            mean_ns: Some(2.95e6),
            quantiles_ns: [Some(2.1e6), Some(11.2e6)],
            measured: 1.0,
            too_short: 0.0,
            growing: None,
        }
    }

    #[test]
    fn what_is_too_short_to_be_timed_has_no_figures() {
        let text = facts(&LatencyFacts { too_short: 0.9, mean_ns: Some(380.0), ..point() });
        assert!(text.contains("640 a second") && text.contains("take no longer than"), "{text}");
        assert!(!text.contains("380") && !text.contains("median"), "{text}");
    }

    #[test]
    fn a_steady_point_is_told_in_one_sentence() {
        assert_eq!(
            facts(&point()),
            "Latency of request: 640 a second, 1.9 under way on average, mean 2.95 ms, median 2.10 ms, 99th percentile 11.2 ms."
        );
    }

    #[test]
    fn what_is_known_by_littles_law_alone_is_told_so() {
        let text = facts(&LatencyFacts { measured: 0.0, mean_ns: None, quantiles_ns: [None; 2], ..point() });
        assert!(text.contains("mean 2.97 ms (by Little's law"), "{text}");
    }

    #[test]
    fn doubts_are_told() {
        let growing = |only_delayed| Some(Growing { share: 0.2, only_delayed });
        let always = facts(&LatencyFacts { growing: growing(false), ..point() });
        assert!(always.contains("not steady: 20 %"), "{always}");
        let delayed = facts(&LatencyFacts { growing: growing(true), ..point() });
        assert!(delayed.contains("With delays"), "{delayed}");
        let lost = facts(&LatencyFacts { little_ns: Some(6e6), ..point() });
        assert!(lost.contains("never seen to end"), "{lost}");
    }

    #[test]
    fn times_have_three_digits_or_more() {
        let all = [12.0, 1_234.0, 45_600.0, 2.5e6, 3.456e9, 250e9].map(time);
        assert_eq!(all, ["12.0 ns", "1.23 µs", "45.6 µs", "2.50 ms", "3.46 s", "250 s"]);
        assert_eq!([999_970.0, 999.4].map(time), ["1.00 ms", "999 ns"], "not 1000 µs");
    }
}
