//! Which line comes first.

use super::{Line, Verdict};
use std::{cmp::Ordering, str::FromStr};

/// Order of the report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    /// The steepest curve first: of the lines worth optimising, then of those not decided, then of the
    /// contended.
    #[default]
    Slope,
    /// The largest effect first.
    Effect,
    /// The most samples first, as ordinary profilers have it.
    Samples,
}

impl FromStr for Sort {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "slope" => Ok(Self::Slope),
            "effect" => Ok(Self::Effect),
            "samples" => Ok(Self::Samples),
            _ => Err(format!("`{text}` is no order of lines; one of slope, effect, samples")),
        }
    }
}

/// Sorts the lines, whose verdicts must be set: a slope that nothing is known about yet, however steep, does
/// not stand above one that is sure. Lines that are hidden by default come last, whatever the order; ties go
/// by location and point, so that the same profile gives the same report.
pub fn sort(lines: &mut [Line], by: Sort) {
    let key = |line: &Line| match by {
        Sort::Slope => line.slope.map_or(f64::NEG_INFINITY, |slope| slope.value),
        Sort::Effect => line.max_effect.unwrap_or(f64::NEG_INFINITY),
        Sort::Samples => line.samples as f64,
    };
    let class = |line: &Line| match (by, line.verdict) {
        (Sort::Slope, Verdict::Optimize) => 0,
        (Sort::Slope, Verdict::Contention) => 2,
        _ => 1,
    };
    lines.sort_by(|a, b| {
        a.hidden
            .is_some()
            .cmp(&b.hidden.is_some())
            .then(class(a).cmp(&class(b)))
            .then(key(b).partial_cmp(&key(a)).unwrap_or(Ordering::Equal))
            .then_with(|| a.location.cmp(&b.location))
            .then_with(|| a.point.cmp(&b.point))
    });
}

#[cfg(test)]
mod tests {
    use super::super::{Estimated, Hidden};
    use super::*;

    #[test]
    fn the_order_is_as_asked_and_hidden_lines_come_last() {
        let line = |location: &str, slope: f64, max_effect, samples, hidden| Line {
            location: location.into(),
            slope: Some(Estimated { value: slope, low: None, high: None }),
            max_effect: Some(max_effect),
            samples,
            hidden,
            ..Line::default()
        };
        let mut lines = [
            line("a", 0.1, 0.4, 5, None),
            line("b", 0.3, 0.3, 9, None),
            line("c", 0.9, 0.9, 99, Some(Hidden::FewSpeedups)),
            line("d", 0.2, 0.2, 50, None),
        ];
        let mut order = |by| {
            sort(&mut lines, by);
            lines.iter().map(|l| l.location.as_str()).collect::<String>()
        };
        assert_eq!(order(Sort::Slope), "bdac");
        assert_eq!(order(Sort::Effect), "abdc");
        assert_eq!(order(Sort::Samples), "dbac");
        lines[0].verdict = Verdict::Optimize;
        let optimise = lines[0].location.clone();
        sort(&mut lines, Sort::Slope);
        assert_eq!(lines[0].location, optimise, "what is sure comes before what may be");
        assert!("size".parse::<Sort>().is_err());
    }
}
