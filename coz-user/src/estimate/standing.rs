//! What the planner wants to know of an estimate.

use super::{Estimate, Line, Verdict};
use crate::experiment::spend::Standing;

/// What is known about every line that was experimented on, by location, and about the line that stands first; with
/// `wants_first` that one is to be known better than the others.
#[must_use]
pub fn standings(estimate: &Estimate, wants_first: bool) -> (Vec<(&str, Standing)>, Option<Standing>) {
    let top = estimate.lines.iter().find(|line| line.hidden.is_none());
    let mut standings: Vec<(&str, Standing)> = Vec::new();
    for line in &estimate.lines {
        let new = standing(line);
        // A line stands in the estimate once for each point: it is open as long as it is for any.
        match standings.iter_mut().find(|(location, _)| *location == line.location) {
            Some((_, old)) if new.is_open && (!old.is_open || new.half_width > old.half_width) => *old = new,
            Some(_) => {}
            None => standings.push((&line.location, new)),
        }
    }
    let first = top.map(standing);
    if wants_first
        && let Some(top) = top
        && let Some((_, wanted)) = standings.iter_mut().find(|(location, _)| *location == top.location)
    {
        wanted.is_wanted = true;
    }
    (standings, first)
}

fn standing(line: &Line) -> Standing {
    let half = line.summary.iter().find(|level| level.permille == 500);
    Standing {
        effect: half.map_or(0.0, |level| level.effect),
        half_width: line.half_width.filter(|width| width.is_finite()).unwrap_or(f64::INFINITY),
        experiments: line
            .curve
            .iter()
            .filter(|level| level.permille > 0)
            .map(|level| level.experiments)
            .sum(),
        is_open: line.hidden.is_some() || line.verdict == Verdict::Undecided,
        own_time: line.own_time,
        is_wanted: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::Hidden;

    #[test]
    fn a_line_is_open_as_long_as_it_is_for_any_point_and_the_first_is_wanted() {
        let line = |location: &str, point: &str, verdict, half_width, hidden| Line {
            location: location.into(),
            point: point.into(),
            verdict,
            half_width: Some(half_width),
            hidden,
            ..Line::default()
        };
        let estimate = Estimate {
            lines: vec![
                line("a", "x", Verdict::Optimize, 0.04, None),
                line("a", "y", Verdict::Undecided, 0.1, None),
                line("b", "x", Verdict::Flat, 0.02, None),
                line("c", "x", Verdict::Optimize, 0.2, Some(Hidden::FewSpeedups)),
            ],
            ..Estimate::default()
        };
        let (found, top) = standings(&estimate, true);
        let open: Vec<_> = found.iter().map(|(l, s)| (*l, s.is_open, s.is_wanted, s.half_width)).collect();
        assert_eq!(open, [("a", true, true, 0.1), ("b", false, false, 0.02), ("c", true, false, 0.2)]);
        assert!((top.unwrap().half_width - 0.04).abs() < 1e-12);
        assert!(standings(&estimate, false).0.iter().all(|(_, s)| !s.is_wanted));
        assert_eq!(standings(&Estimate::default(), true), (vec![], None));
    }
}
