//! What was measured, for people.

use comfy_table::Table;

use super::measure::{Elapsed, Figures, Round};
use crate::truth::Spread;

/// Where the time goes: each part against the one before, and start and end.
#[must_use]
pub fn split(all: &[Figures]) -> Table {
    let mut table = new(&[
        "program",
        "plain, s",
        "rate, Hz",
        "bare, %",
        "sampling, %",
        "probes, %",
        "delays, %",
        "together, %",
        "start-up, ms",
        "end, ms",
        "delays required, ms",
    ]);
    for figures in all {
        let ratio = |of: fn(&Round) -> (Elapsed, Elapsed)| {
            percent(figures.excess(|round| {
                let (new, old) = of(round);
                Some(new.work / old.work)
            }))
        };
        let ms = |of: fn(&Elapsed) -> f64| whole(figures.spread(|round| Some(1e3 * of(&round.default))));
        let plain =
            figures.spread(|round| Some(round.plain.work)).map(|spread| format!("{:.2}", spread.median));
        table.add_row([
            figures.name.clone(),
            plain.unwrap_or_default(),
            whole(figures.spread(|round| Some(f64::from(round.rate)))),
            ratio(|round| (round.bare, round.plain)),
            ratio(|round| (round.sampled, round.plain)),
            ratio(|round| (round.probed, round.sampled)),
            ratio(|round| (round.default, round.probed)),
            ratio(|round| (round.default, round.plain)),
            ms(|run| run.startup),
            ms(|run| run.end),
            ms(|run| run.delay),
        ]);
    }
    table
}

/// The whole time of the commands, ours and coz's, over that of the program alone.
#[must_use]
pub fn beside_coz(all: &[Figures]) -> Table {
    let mut table =
        new(&["program", "sampling only, %", "coz's, %", "default, %", "coz, %", "default over coz, %"]);
    for figures in all {
        let over = |of: fn(&Round) -> Option<Elapsed>| {
            figures.excess(|round| Some(of(round)?.whole / round.plain.whole))
        };
        table.add_row([
            figures.name.clone(),
            percent(over(|round| Some(round.probed))),
            percent(over(|round| round.coz_sampled)),
            percent(over(|round| Some(round.default))),
            percent(over(|round| round.coz)),
            percent(figures.excess(|round| Some(round.default.whole / round.coz?.whole))),
        ]);
    }
    table
}

fn new(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(comfy_table::presets::ASCII_MARKDOWN);
    table.set_header(header);
    table
}

fn percent(spread: Option<Spread>) -> String {
    spread.map_or_else(
        || "n/a".into(),
        |spread| format!("{:+.1} ({:+.1}..{:+.1})", spread.median, spread.low, spread.high),
    )
}

fn whole(spread: Option<Spread>) -> String {
    spread.map_or_else(
        || "n/a".into(),
        |spread| match (spread.low.round(), spread.high.round()) {
            (low, high) if low < high => format!("{:.0} ({low:.0}..{high:.0})", spread.median),
            _ => format!("{:.0}", spread.median),
        },
    )
}
