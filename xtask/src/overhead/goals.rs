//! What profiling may cost, and whether it does not cost more.

use super::measure::{Elapsed, Figures, Round};

/// Sampling may cost so many times what the interrupts alone cost.
const OF_BARE: f64 = 1.2;
/// The aim for the mean: this part of what coz costs.
const OF_COZ: f64 = 0.5;
/// The mean of everything is to be below this, percent.
const MEAN: f64 = 9.0;
/// Start and end are spread over a run of this length where they are to be compared with the other parts, seconds.
const LONG_RUN: f64 = 30.0;

/// A goal, what was found, and whether it is held; `None` where that cannot be said.
#[derive(Clone, Debug, PartialEq)]
pub struct Goal {
    /// What is asked for.
    pub what: String,
    /// What was measured.
    pub found: String,
    /// Whether that is good enough.
    pub held: Option<bool>,
}

impl Goal {
    /// A line for the reader.
    #[must_use]
    pub fn line(&self) -> String {
        let verdict = match self.held {
            Some(true) => "held",
            Some(false) => "missed",
            None => "not measured",
        };
        format!("{verdict}: {}: {}", self.what, self.found)
    }
}

/// All goals on these programs.
#[must_use]
pub fn goals(all: &[Figures]) -> Vec<Goal> {
    vec![
        sampling_against_bare(all),
        never_above_coz("sampling only is never above coz's", all, |round| {
            Some(round.probed.whole / round.coz_sampled?.whole)
        }),
        never_above_coz("the whole is never above coz", all, |round| {
            Some(round.default.whole / round.coz?.whole)
        }),
        half_of_coz(all),
        mean("the mean of everything, start and end included, as measured", all, |figures| {
            over_plain(figures, |round| Some(round.default.whole / round.plain.whole))
        }),
        mean(&format!("the same in runs of {LONG_RUN:.0} s"), all, in_a_long_run),
    ]
}

fn over_plain(figures: &Figures, ratio: impl Fn(&Round) -> Option<f64>) -> Option<f64> {
    Some(figures.excess(ratio)?.median)
}

fn average(figures: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let known: Vec<f64> = figures.flatten().collect();
    (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
}

fn sampling_against_bare(all: &[Figures]) -> Goal {
    let of = |work: fn(&Round) -> Elapsed| {
        average(
            all.iter().map(|figures| over_plain(figures, |round| Some(work(round).work / round.plain.work))),
        )
    };
    let what = format!("sampling costs at most {OF_BARE} of the bare limit, on the mean");
    match (of(|round| round.bare), of(|round| round.sampled)) {
        (Some(bare), Some(sampled)) => Goal {
            what,
            found: format!(
                "{sampled:+.1} % against {bare:+.1} %; of the elapsed time {:.3}",
                (100.0 + sampled) / (100.0 + bare)
            ),
            held: Some(sampled <= OF_BARE * bare),
        },
        _ => Goal { what, found: String::new(), held: None },
    }
}

/// A program misses the goal where the whole interval of the ratio is above 1.
fn never_above_coz(what: &str, all: &[Figures], ratio: fn(&Round) -> Option<f64>) -> Goal {
    let compared: Vec<_> =
        all.iter().filter_map(|figures| Some((figures.name.as_str(), figures.excess(ratio)?))).collect();
    let above: Vec<_> = compared.iter().filter(|(_, excess)| excess.low > 0.0).collect();
    let found = if above.is_empty() {
        format!("{} programs compared", compared.len())
    } else {
        let named = above.iter().map(|(name, excess)| format!("{name} {:+.1} %", excess.median));
        named.collect::<Vec<_>>().join(", ")
    };
    let held = (!compared.is_empty()).then_some(above.is_empty());
    Goal { what: format!("{what}, beyond noise, on any program"), found, held }
}

fn half_of_coz(all: &[Figures]) -> Goal {
    let both = all.iter().filter_map(|figures| {
        let coz = over_plain(figures, |round| Some(round.coz?.whole / round.plain.whole))?;
        Some((over_plain(figures, |round| Some(round.default.whole / round.plain.whole))?, coz))
    });
    let both: Vec<_> = both.collect();
    let ours = average(both.iter().map(|both| Some(both.0)));
    let coz = average(both.iter().map(|both| Some(both.1)));
    let what = "half of what coz costs, on the mean (an aim)".to_owned();
    match (ours, coz) {
        (Some(ours), Some(coz)) => Goal {
            what,
            found: format!("{ours:+.1} % against {coz:+.1} %"),
            held: Some(ours <= OF_COZ * coz),
        },
        _ => Goal { what, found: String::new(), held: None },
    }
}

fn mean(what: &str, all: &[Figures], of: impl Fn(&Figures) -> Option<f64>) -> Goal {
    let what = format!("{what}: below {MEAN:.0} %");
    match average(all.iter().map(of)) {
        Some(mean) => Goal { what, found: format!("{mean:.1} %"), held: Some(mean < MEAN) },
        None => Goal { what, found: String::new(), held: None },
    }
}

fn in_a_long_run(figures: &Figures) -> Option<f64> {
    let work = over_plain(figures, |round| Some(round.default.work / round.plain.work))?;
    let ends = figures.spread(|round| Some(round.default.startup + round.default.end))?.median;
    Some(work + 100.0 * ends / LONG_RUN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(name: &str, bare: f64, sampled: f64, default: f64, coz: Option<f64>) -> Figures {
        let elapsed = |time: f64| Elapsed { whole: time, work: time, ..Elapsed::default() };
        let round = Round {
            plain: elapsed(1.0),
            bare: elapsed(bare),
            sampled: elapsed(sampled),
            probed: elapsed(sampled),
            default: Elapsed { startup: 0.2, end: 0.1, ..elapsed(default) },
            coz_sampled: coz.map(elapsed),
            coz: coz.map(elapsed),
            ..Round::default()
        };
        Figures { name: name.into(), rounds: vec![round; 6], without_coz: None }
    }

    fn held(all: &[Figures]) -> Vec<Option<bool>> {
        goals(all).into_iter().map(|goal| goal.held).collect()
    }

    #[test]
    fn what_costs_little_holds_every_goal() {
        assert_eq!(held(&[figures("a", 1.02, 1.022, 1.05, Some(1.2))]), [Some(true); 6]);
    }

    #[test]
    fn every_goal_can_be_missed_and_is_shown_as_such() {
        let all = [figures("a", 1.01, 1.02, 1.3, Some(1.01)), figures("b", 1.01, 1.02, 1.3, Some(1.4))];
        assert_eq!(held(&all), [Some(false); 6]);
        let lines: Vec<String> = goals(&all).iter().map(Goal::line).collect();
        assert!(lines[0].contains("missed") && lines[0].contains("+2.0 % against +1.0 %"), "{lines:#?}");
        assert!(lines[2].contains("a +28.7 %") && !lines[2].contains("b "), "{lines:#?}");
    }

    #[test]
    fn without_coz_there_is_nothing_to_hold_against_it() {
        let found = held(&[figures("a", 1.02, 1.022, 1.05, None)]);
        assert_eq!(found, [Some(true), None, None, None, Some(true), Some(true)]);
        assert!(goals(&[])[0].line().starts_with("not measured"));
    }

    #[test]
    fn start_and_end_weigh_less_in_a_long_run() {
        let found = in_a_long_run(&figures("a", 1.0, 1.0, 1.05, None)).expect("it was measured");
        assert!((found - 6.0).abs() < 1e-6, "5 % and 0.3 s of 30: {found}");
    }
}
