//! `diff` for a terminal.

use super::{super::terminal, Compared, changed, conclusion, counted, how, moved, what, worthless};
use crate::{
    diff::{
        LineAt, LineDiff, PointDiff,
        outcome::{Outcome, percent},
        visits::Visits,
    },
    report::{Options, Style, names},
};
use comfy_table::{Attribute, Cell, CellAlignment, Color};
use std::fmt::Write as _;
use terminal::{
    table::{table, trimmed, wrapped},
    time,
};

/// New lines with less of the samples are not worth a word.
const WORTH: f64 = 0.01;
/// The most that are listed.
const LISTED: usize = 5;

pub(super) fn text(compared: &Compared<'_>, top: usize, style: Style) -> String {
    let mut out = String::new();
    let diff = &compared.diff;
    for (i, name) in ["before:", "after: "].into_iter().enumerate() {
        let profile = compared.profiles[i];
        let seconds =
            profile.runtime.as_ref().map_or_else(String::new, |r| format!(", {:.1} s", r.time as f64 / 1e9));
        let experiments = compared.counted[i];
        let about = format!(
            "{name} {} ({}; {experiments} experiments{seconds})",
            compared.files[i],
            names::clean(&profile.startup.program.join(" "))
        );
        put(&mut out, &wrapped(&about, "        ", style.width));
    }
    if !diff.notes.is_empty() {
        put(&mut out, "");
        put(&mut out, &colored("Beware", "33", style));
        for note in &diff.notes {
            put(&mut out, &wrapped(&format!("  - {}", names::clean(note)), "    ", style.width));
        }
    }
    if diff.points.is_empty() {
        put(&mut out, "");
        put(
            &mut out,
            &wrapped(
                "The profiles have no progress point in common, so there is nothing to compare. Profile both with the same \
             --progress.",
                "",
                style.width,
            ),
        );
    }
    for (p, point) in diff.points.iter().enumerate() {
        put(&mut out, "");
        put(&mut out, &heading(point, style));
        if let Some(conclusion) = conclusion(point) {
            put(&mut out, &wrapped(&format!("  {conclusion}"), "  ", style.width));
        }
        put(&mut out, &wrapped(&format!("  {}", cost(point)), "  ", style.width));
        let (shown, folded) = changed(diff, p);
        if !shown.is_empty() {
            put(&mut out, "");
            let top = if top == 0 { shown.len() } else { top.min(shown.len()) };
            put(&mut out, &lines(&shown[..top], p, style));
            if top < shown.len() {
                put(&mut out, &format!("Not shown: {} more (--top {})", shown.len() - top, shown.len()));
            }
        }
        if !folded.is_empty() {
            let text = format!("{} (--json has what changed).", worthless(&folded, p, shown.is_empty()));
            put(&mut out, &wrapped(&text, "  ", style.width));
        }
        let others = diff.lines.len() - shown.len() - folded.len();
        if others > 0 {
            let (lines, _, their) = counted(others);
            let lines = lines.replace(' ', " other ");
            let text = format!(
                "{lines} changed {their} time no more than chance may, or ran for hardly any (--json has {}).",
                if others == 1 { "it" } else { "them" }
            );
            put(&mut out, &wrapped(&text, "  ", style.width));
        }
        if !point.without_curve.is_empty() {
            let text = format!(
                "Without a curve in the profile before, so nothing was predicted of: {}. To predict it: coz-bpf run --fixed-line {}",
                point.without_curve.join(", "),
                point.without_curve[0]
            );
            put(&mut out, &wrapped(&text, "  ", style.width));
        }
    }
    appeared(&mut out, compared, style);
    out
}

fn put(out: &mut String, line: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(out, "{line}");
}

fn colored(text: &str, code: &str, style: Style) -> String {
    if style.color { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
}

fn heading(point: &PointDiff, style: Style) -> String {
    let words = point.outcome.words(point.realised.as_ref(), point.predicted.as_ref());
    let text = wrapped(&format!("{}: {words}", names::clean(&point.name)), "  ", style.width);
    let code = match point.outcome {
        Outcome::AsPredicted => "1;32",
        Outcome::MoreThanPredicted | Outcome::LessThanPredicted => "1;31",
        Outcome::Unchanged => "1",
        _ => "33",
    };
    text.lines().map(|line| colored(line, code, style)).collect::<Vec<_>>().join("\n")
}

/// What a visit takes, before and after.
fn cost(point: &PointDiff) -> String {
    let of = |v: &Option<Visits>| v.as_ref().map_or_else(|| "unknown".to_owned(), |v| time(v.per_visit));
    let count = |v: &Option<Visits>| v.as_ref().map_or(0, |v| v.experiments);
    format!(
        "{}: {} before, {} after (from {} and {} experiments without delay)",
        what(point),
        of(&point.before),
        of(&point.after),
        count(&point.before),
        count(&point.after)
    )
}

fn lines(lines: &[&LineDiff], point: usize, style: Style) -> String {
    use CellAlignment::{Left, Right};
    let options = Options { style, ..Options::default() };
    let header =
        [("line", Left), ("CPU before", Right), ("after", Right), ("less by", Right), ("predicted", Right)];
    let mut table = table(&options, &header);
    let room = style.width.saturating_sub(11 + 9 + 13 + 13 + 6).max(16);
    for line in lines {
        let at = &line.at[point];
        let mut text = names::location(&moved(line), room);
        if !line.before.function.is_empty() && line.before.function != line.before.location {
            text += &format!("\n{}", names::function(&line.before.function, room));
        }
        if let Some(code) = &line.before.text {
            text += &format!("\n{}", names::head(&names::clean(code), room));
        }
        if let Some(how) = how(line) {
            text += &format!("\n({})", names::head(how, room.saturating_sub(2)));
        }
        let per = |value: Option<f64>| Cell::new(value.map_or_else(|| "–".into(), time)).set_alignment(Right);
        let predicted = Cell::new(predicted(at)).set_alignment(Right);
        table.add_row(vec![
            Cell::new(text),
            per(at.time.map(|time| time.before)),
            per(at.time.map(|time| time.after)),
            Cell::new(at.time.map_or_else(|| "–".into(), |time| percent(&time.less))).set_alignment(Right),
            match (style.color, &at.predicted) {
                (true, Some(p)) if p.value > 0.005 => {
                    predicted.fg(Color::Green).add_attribute(Attribute::Bold)
                }
                (true, Some(p)) if p.value < -0.005 => predicted.fg(Color::Red),
                _ => predicted,
            },
        ]);
    }
    trimmed(&table)
}

fn predicted(at: &LineAt) -> String {
    at.predicted.as_ref().map_or_else(|| "no curve".to_owned(), percent)
}

fn appeared(out: &mut String, compared: &Compared<'_>, style: Style) {
    let is_hot = |a: &&crate::diff::Appeared| a.place.share >= WORTH;
    let (new, worthless): (Vec<_>, Vec<_>) =
        compared.diff.appeared.iter().filter(is_hot).partition(|a| a.matters);
    if new.is_empty() && worthless.is_empty() {
        return;
    }
    put(out, "");
    if !worthless.is_empty() {
        let (lines, are, _) = counted(worthless.len());
        put(
            out,
            &wrapped(
                &format!("{lines} new {are} worth nothing (--json has what is new)."),
                "  ",
                style.width,
            ),
        );
    }
    if new.is_empty() {
        return;
    }
    put(out, "New lines (share of the samples after):");
    for appeared in new.iter().take(LISTED) {
        let place = &appeared.place;
        let text = place.text.as_deref().map_or_else(String::new, |text| format!("  {text}"));
        let line = format!(
            "{:>5.1} %  {}{}",
            100.0 * place.share,
            names::location(&place.location, style.width / 2),
            names::clean(&text)
        );
        put(out, &names::head(&line, style.width));
    }
    if new.len() > LISTED {
        put(out, &format!("        and {} more", new.len() - LISTED));
    }
}
