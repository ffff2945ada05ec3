//! Where experiments are spent, and when there have been enough: from what is known about the lines by now.

use std::collections::BTreeMap;

use coz_common::units::{LineId, Nanos};

/// What is known about a line by now.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Standing {
    /// Its fitted effect at 50 %, as a fraction.
    pub effect: f64,
    /// Half the width of that effect's interval.
    pub half_width: f64,
    /// How many experiments with a delay that rests on.
    pub experiments: usize,
    /// Whether it has no answer yet.
    pub is_open: bool,
    /// The most that its slope can be, by the time for which it runs; `None` where that is no bound.
    pub own_time: Option<f64>,
    /// Whether it stands first in the report, and `--until` asks for its interval to be narrowed.
    pub is_wanted: bool,
}

/// A line whose answer is open has this half width as long as it has none: all that an effect can be.
const UNKNOWN: f64 = 0.5;

/// Which line stands first is not known before every line with this share of the samples has been tried.
const UNEXPLORED: f64 = 0.05;

/// A line's own time is guessed from its samples: it may be as much more.
const TOLERANCE: f64 = 0.25;

/// The line that the next round should go to, of these with their shares of the samples: a hot one that was never tried and that runs
/// for long enough to be worth more than the one that is wanted, else that one, else the open one whose interval is the widest, as far as that matters. `None` when no line is open.
///
/// How far it matters: what making a line faster can save goes with the line's share of the time, and the error of a mean
/// of `n` experiments with `1 / sqrt(n)`; so widths are weighed with the root of the share, and hot lines come first
/// without cold ones being shut out.
#[must_use]
pub fn widest(lines: &[(LineId, f64)], standings: &BTreeMap<LineId, Standing>) -> Option<LineId> {
    let wanted = lines.iter().find_map(|&(line, share)| {
        standings.get(&line).filter(|s| s.is_wanted).map(|standing| (line, share, standing))
    });
    // Nobody is worth more than the time for which it runs, and that goes with its samples.
    let may_be_first = |share: f64| match wanted {
        Some((_, first, Standing { own_time: Some(own), effect, half_width, .. })) => {
            0.5 * own * share / first * (1.0 + TOLERANCE) >= effect - half_width
        }
        _ => true,
    };
    let unknown = lines.iter().filter(|(line, share)| *share >= UNEXPLORED && !standings.contains_key(line));
    let rivals = unknown.filter(|(_, share)| may_be_first(*share));
    if let Some((line, _)) = rivals.max_by(|a, b| a.1.total_cmp(&b.1)) {
        return Some(*line);
    }
    if let Some((line, ..)) = wanted {
        return Some(line);
    }
    let open = lines.iter().filter_map(|&(line, share)| {
        let width = match standings.get(&line) {
            Some(standing) if !standing.is_open => return None,
            Some(standing) => standing.half_width.min(UNKNOWN),
            None => UNKNOWN,
        };
        Some((line, width * share.sqrt()))
    });
    open.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(line, _)| line)
}

/// `--until`: whether there have been enough experiments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Until {
    /// The half width that is asked for, as a fraction.
    half_width: f64,
    /// For how many experiments of the top line in a row it has been reached.
    since: Option<usize>,
    met: Option<Nanos>,
}

/// The interval is looked at again and again, and one that is narrow by chance would end the run: it must stay narrow
/// while the top line's experiments grow by this share (and by [`STAYS`] at least).
const STAYS_SHARE: f64 = 0.1;
/// See [`STAYS_SHARE`].
const STAYS: usize = 2;
/// Fewer experiments with a delay say too little about their own noise.
const AT_LEAST: usize = 8;

impl Until {
    /// Stops when the top line's half width is below so many points.
    #[must_use]
    pub fn points(points: f64) -> Self {
        Self { half_width: points / 100.0, since: None, met: None }
    }

    /// When there were enough; `None` up to then.
    #[must_use]
    pub fn met(&self) -> Option<Nanos> {
        self.met
    }

    /// Looks at the top line; whether there are enough experiments now. Once there are, that stays so.
    pub fn look(&mut self, top: Option<Standing>, now: Nanos) -> bool {
        let Some(top) = top.filter(|top| top.half_width <= self.half_width && top.experiments >= AT_LEAST)
        else {
            self.since = None;
            return self.met.is_some();
        };
        let since = *self.since.get_or_insert(top.experiments);
        let stays = STAYS.max((since as f64 * STAYS_SHARE).ceil() as usize);
        if since > top.experiments {
            // Another line is on top.
            self.since = Some(top.experiments);
        } else if top.experiments >= since + stays {
            self.met.get_or_insert(now);
        }
        self.met.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: [(LineId, f64); 3] = [(LineId(1), 0.5), (LineId(2), 0.3), (LineId(3), 0.2)];

    fn standing(half_width: f64, is_open: bool) -> Standing {
        Standing { half_width, is_open, experiments: 20, ..Standing::default() }
    }

    #[test]
    fn a_line_of_which_nothing_is_known_comes_before_one_that_is_measured() {
        let standings = BTreeMap::from([(LineId(1), standing(0.1, true)), (LineId(2), standing(0.1, true))]);
        assert_eq!(widest(&LINES, &standings), Some(LineId(3)));
    }

    #[test]
    fn the_widest_open_interval_is_next_and_decided_lines_are_left_alone() {
        let mut standings = BTreeMap::from([
            (LineId(1), standing(0.3, false)),
            (LineId(2), standing(0.1, true)),
            (LineId(3), standing(0.2, true)),
        ]);
        assert_eq!(widest(&LINES, &standings), Some(LineId(3)));
        standings.values_mut().for_each(|s| s.is_open = false);
        assert_eq!(widest(&LINES, &standings), None, "nothing is open");
        standings.get_mut(&LineId(2)).unwrap().is_wanted = true;
        assert_eq!(widest(&LINES, &standings), Some(LineId(2)));
    }

    #[test]
    fn who_cannot_be_first_is_not_tried_for_that() {
        // Worth 20 to 30 % at 50 %; it runs for all of the time, with half of the samples.
        let first = Standing { effect: 0.25, own_time: Some(1.0), is_wanted: true, ..standing(0.05, true) };
        let next = |first| widest(&LINES, &BTreeMap::from([(LineId(1), first)]));
        assert_eq!(next(first), Some(LineId(2)), "worth up to 30 % at 50 %");
        let sure = Standing { effect: 0.45, ..first };
        assert_eq!(next(sure), Some(LineId(1)), "neither of the others can be worth 40 %");
        assert_eq!(
            next(Standing { own_time: None, ..sure }),
            Some(LineId(2)),
            "a latency knows no such bound"
        );
        assert_eq!(next(Standing { is_wanted: false, ..sure }), Some(LineId(2)), "every line is to be known");
    }

    #[test]
    fn enough_is_not_when_an_interval_is_narrow_once() {
        let mut until = Until::points(3.0);
        let top = |half_width, experiments| Some(Standing { half_width, experiments, ..Standing::default() });
        assert!(!until.look(None, Nanos(1)));
        assert!(!until.look(top(0.02, 5), Nanos(2)), "five experiments are too few");
        assert!(!until.look(top(0.02, 10), Nanos(3)), "once can be chance");
        assert!(!until.look(top(0.04, 11), Nanos(4)));
        assert!(!until.look(top(0.03, 20), Nanos(5)), "and begins anew");
        assert!(!until.look(top(0.03, 21), Nanos(6)));
        assert!(!until.look(top(0.03, 10), Nanos(7)), "another line is on top now");
        assert!(!until.look(top(0.03, 11), Nanos(8)));
        assert!(until.look(top(0.03, 12), Nanos(9)));
        assert_eq!(until.met(), Some(Nanos(9)));
        assert!(until.look(None, Nanos(10)), "what is enough stays enough");
    }
}
