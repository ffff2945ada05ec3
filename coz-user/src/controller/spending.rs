//! Between two experiments: what is known by now goes back to the planner, and `--until` is watched.

use std::{collections::HashMap, time::Instant};

use coz_common::units::{LineId, Nanos};

use crate::{
    estimate::standing::standings,
    experiment::{
        machine::Event,
        record,
        spend::{Standing, Until},
    },
    report,
};

/// Looking must not take more than one part in so many of the time: the program runs on the same CPUs.
const CHEAP: u64 = 100;

/// What is known, and what is asked for.
#[derive(Debug)]
pub struct Spending {
    until: Option<Until>,
    /// Whether the planner is told: else it draws lines by their samples alone.
    tells: bool,
    /// By location, as the profile names them.
    lines: HashMap<String, LineId>,
    next_look: Nanos,
}

impl Spending {
    /// Nothing is known yet. `points`: `--until`; `tells`: what is known goes back to the planner.
    #[must_use]
    pub fn new(points: Option<f64>, tells: bool) -> Self {
        Self { until: points.map(Until::points), tells, lines: HashMap::new(), next_look: Nanos(0) }
    }

    /// An experiment on this line stands in the profile now.
    pub fn recorded(&mut self, location: String, line: LineId) {
        if line.is_some() {
            self.lines.insert(location, line);
        }
    }

    /// What to tell the machine, if it is time to look.
    pub fn look(&mut self, profile: &[u8], began: Nanos) -> Option<Event> {
        if began < self.next_look {
            return None;
        }
        let begin = Instant::now();
        let profile = record::parse(profile).ok()?;
        let options = report::Options { replicates: 0, sources: false, ..report::Options::default() };
        let estimate = report::estimate_profile(&profile, &options);
        let (known, top) = standings(&estimate, self.until.is_some());
        let took = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.next_look = Nanos(began.0.saturating_add(took.saturating_mul(CHEAP)));
        if let Some(until) = &mut self.until
            && until.met().is_none()
            && until.look(top, began)
        {
            return Some(Event::Enough);
        }
        if !self.tells {
            return None;
        }
        let known: Vec<(LineId, Standing)> =
            known.into_iter().filter_map(|(at, standing)| Some((*self.lines.get(at)?, standing))).collect();
        Some(Event::Standings(known))
    }

    /// When `--until` was reached.
    #[must_use]
    pub fn met(&self) -> Option<Nanos> {
        self.until.and_then(|until| until.met())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        estimate::simulate::{Program, name},
        experiment::record::Writer,
    };

    fn written(seconds: f64) -> Vec<u8> {
        let mut program = Program::steady(seconds, vec![(0.5, |s| 0.5 * s), (0.4, |_| 0.0)]);
        program.phases[0].visit = 2e-4;
        let profile = program.profile(3);
        let mut writer = Writer::new(Vec::new());
        writer.startup(&profile.startup).unwrap();
        for recorded in &profile.experiments {
            writer.experiment(&recorded.experiment, &recorded.points).unwrap();
        }
        writer.into_inner()
    }

    fn spending(points: Option<f64>) -> Spending {
        let mut spending = Spending::new(points, true);
        spending.recorded(name(0), LineId(7));
        spending.recorded(name(1), LineId(8));
        spending
    }

    #[test]
    fn what_stands_in_the_profile_is_told_of_the_lines_of_this_run() {
        let Some(Event::Standings(known)) = spending(None).look(&written(60.0), Nanos(1)) else { panic!() };
        let of = |line| known.iter().find(|(l, _)| *l == line).unwrap().1;
        assert!((of(LineId(7)).effect - 0.25).abs() < 0.03 && !of(LineId(7)).is_open, "{known:?}");
        assert!(of(LineId(8)).effect.abs() < 0.06);
    }

    #[test]
    fn until_is_reached_once_and_remembered() {
        let mut spending = spending(Some(10.0));
        let mut at = 0;
        let mut told = None;
        for seconds in [20.0, 30.0, 40.0, 60.0] {
            at += 1_000_000_000_000;
            told = told.or(spending.look(&written(seconds), Nanos(at)).filter(|e| *e == Event::Enough));
        }
        assert_eq!(told, Some(Event::Enough));
        assert!(spending.met().is_some());
    }

    #[test]
    fn nothing_is_told_where_lines_are_drawn_by_their_samples_alone() {
        let mut spending = Spending::new(None, false);
        spending.recorded(name(0), LineId(7));
        assert_eq!(spending.look(&written(20.0), Nanos(1)), None);
    }

    #[test]
    fn looking_is_cheap() {
        let mut spending = spending(None);
        let began = Nanos(1);
        assert!(spending.look(&written(20.0), began).is_some());
        assert_eq!(spending.look(b"", began), None, "not again at once");
    }
}
