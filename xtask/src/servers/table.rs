//! The figures as text.

use std::fmt::Write as _;

use super::Turn;
use super::client::{Fate, Window};

/// One server's figures: a row a turn, and what came of it all.
#[must_use]
pub fn rows(name: &str, turns: &[Turn], fate: &Fate) -> String {
    let mut text = format!("{name}: requests a second (p50, p99 in ms)\n");
    let shown = |window: &Window| format!("{:.0} ({:.2}, {:.2})", window.rate, window.p50, window.p99);
    for Turn { windows: [first, second, with, after], attached_for } in turns {
        let _ = writeln!(
            text,
            "  without {}, {}; attached {}; after {}; let go {attached_for:.2} s after the begin",
            shown(first),
            shown(second),
            shown(with),
            shown(after)
        );
    }
    let ratio = |of: fn(&Turn) -> f64| {
        let mut all: Vec<f64> = turns.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        let middle = median(&all);
        format!(
            "{middle:.3} ({:.3} to {:.3})",
            all.first().unwrap_or(&f64::NAN),
            all.last().unwrap_or(&f64::NAN)
        )
    };
    let _ = writeln!(
        text,
        "  second window without / first: {}",
        ratio(|turn| turn.windows[1].rate / turn.windows[0].rate)
    );
    let _ = writeln!(
        text,
        "  attached / window before:      {}",
        ratio(|turn| turn.windows[2].rate / turn.windows[1].rate)
    );
    let _ = writeln!(
        text,
        "  after / window before:         {}",
        ratio(|turn| turn.windows[3].rate / turn.windows[1].rate)
    );
    let p99 = |of: fn(&Turn) -> f64| {
        let mut all: Vec<f64> = turns.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        median(&all)
    };
    let _ = writeln!(
        text,
        "  p99 without {:.2} ms, attached {:.2}, after {:.2}",
        p99(|turn| turn.windows[1].p99),
        p99(|turn| turn.windows[2].p99),
        p99(|turn| turn.windows[3].p99)
    );
    let lost = fate.asked - fate.answered;
    let _ =
        writeln!(text, "  {} requests, {lost} without a right answer, {} errors", fate.asked, fate.errors);
    if let Some(error) = &fate.first_error {
        let _ = writeln!(text, "  the first error: {error}");
    }
    text
}

/// Of values that are sorted.
fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    match sorted {
        [] => f64::NAN,
        _ if sorted.len() % 2 == 1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_of_neighbours_and_their_median_counts() {
        let window = |rate| Window { rate, p50: 1.0, p99: 2.0 };
        let turn = |rates: [f64; 4]| Turn { windows: rates.map(window), attached_for: 1.0 };
        let turns = [
            turn([100.0, 100.0, 80.0, 100.0]),
            turn([50.0, 100.0, 90.0, 110.0]),
            turn([10.0, 10.0, 7.0, 9.0]),
        ];
        let text = rows("x", &turns, &Fate { asked: 9, answered: 9, ..Fate::default() });
        for part in
            ["first: 1.000 (1.000 to 2.000)", "0.800 (0.700 to 0.900)", "1.000 (0.900 to 1.100)", "0 without"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
