//! The tables.

use super::{super::source, Options, Sources, names, spark};
use crate::estimate::{Level, Line, Sampled, Verdict};
use comfy_table::{Attribute, Cell, CellAlignment, Color, ContentArrangement, Table, presets};

/// From this width on there is room for all columns.
pub(super) const WIDE: usize = 84;

pub(in crate::report) fn table(options: &Options, header: &[(&str, CellAlignment)]) -> Table {
    let mut table = Table::new();
    table
        .load_preset(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(u16::try_from(options.style.width).unwrap_or(u16::MAX));
    if options.style.color {
        table.enforce_styling();
    } else {
        table.force_no_tty();
    }
    let bold = |text: &str| {
        let cell = Cell::new(text);
        if options.style.color { cell.add_attribute(Attribute::Bold) } else { cell }
    };
    table.set_header(header.iter().map(|(text, alignment)| bold(text).set_alignment(*alignment)));
    table
}

/// Trailing blanks are of no use.
pub(in crate::report) fn trimmed(table: &Table) -> String {
    table.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

/// The lines, ranked.
pub(super) fn lines(lines: &[&Line], options: &Options, sources: &mut Sources) -> String {
    use CellAlignment::{Left, Right};
    let wide = options.style.width >= WIDE;
    let shown: &[u32] = if wide { &[250, 500, 1000] } else { &[500, 1000] };
    let names: Vec<String> = shown.iter().map(|permille| format!("{} %", permille / 10)).collect();
    let mut header = vec![("", Right), ("line", Left), ("samples", Right)];
    header.extend(names.iter().map(|name| (name.as_str(), Right)));
    header.extend(wide.then_some(("curve", Left)));
    header.push(("verdict", Left));
    let mut table = table(options, &header);
    let range = spark::range(lines);
    let cells: Vec<Vec<String>> = lines
        .iter()
        .map(|line| {
            let mut row = vec![format!("{:.1} %", 100.0 * line.share)];
            row.extend(shown.iter().map(|&permille| {
                let level = line.summary.iter().find(|l| l.permille == permille);
                level.map_or_else(|| "–".to_owned(), effect)
            }));
            row.extend(wide.then(|| spark::line(&line.summary, range)));
            row.push(verdict(line));
            row
        })
        .collect();
    let width = |text: &str| text.lines().map(|l| l.chars().count()).max().unwrap_or(0);
    let columns = header.len() - 2;
    let others: usize = (0..columns)
        .map(|i| cells.iter().map(|row| width(&row[i])).chain([width(header[i + 2].0)]).max().unwrap_or(0))
        .sum();
    // Every column has a blank on both sides; the rank takes two more.
    let room = options.style.width.saturating_sub(others + 2 * header.len() + 2).max(12);
    for (i, (line, cells)) in lines.iter().zip(cells).enumerate() {
        let text = describe(&line.location, line.function.as_deref(), &line.source, room, options, sources);
        let mut row = vec![Cell::new(i + 1).set_alignment(Right), Cell::new(text)];
        row.extend(
            cells.into_iter().zip(&header[2..]).map(|(text, (_, side))| Cell::new(text).set_alignment(*side)),
        );
        if let Some(last) = row.pop() {
            row.push(painted(last, line.verdict, options));
        }
        table.add_row(row);
    }
    trimmed(&table)
}

/// Where the samples fall.
pub(super) fn samples(samples: &[&Sampled], options: &Options, sources: &mut Sources) -> String {
    let mut table = table(options, &[("samples", CellAlignment::Right), ("line", CellAlignment::Left)]);
    let room = options.style.width.saturating_sub(12).max(12);
    for sampled in samples {
        let s = &sampled.samples;
        let place = s.file.clone().zip(s.line);
        table.add_row(vec![
            Cell::new(format!("{:.1} %", 100.0 * sampled.share)).set_alignment(CellAlignment::Right),
            Cell::new(describe(&s.location, s.function.as_deref(), &place, room, options, sources)),
        ]);
    }
    trimmed(&table)
}

/// Location, function, source text: a line each.
pub(super) fn describe(
    location: &str,
    function: Option<&str>,
    place: &Option<(String, u32)>,
    room: usize,
    options: &Options,
    sources: &mut Sources,
) -> String {
    let mut text = names::location(location, room);
    if let Some(function) = function.filter(|f| !f.is_empty() && *f != location) {
        text.push('\n');
        text.push_str(&names::function(function, room));
    }
    let place = place.as_ref().map(|(file, line)| (file.as_str(), *line)).or_else(|| source::split(location));
    if options.sources
        && let Some((file, line)) = place
        && let Some(code) = sources.line(file, line)
    {
        text.push('\n');
        text.push_str(&names::head(&names::clean(code), room));
    }
    text
}

/// An interval wider than this, in units of effect, says nothing.
const UNSURE: f64 = 2.0;

/// The effect, and below it the interval.
pub(super) fn effect(level: &Level) -> String {
    let value = format!("{} %", signed(whole(level.effect)));
    match level.low.zip(level.high) {
        Some((low, high)) if high - low > UNSURE => "unsure".to_owned(),
        Some((low, high)) => format!("{value}\n{} to {}", whole(low), whole(high)),
        None => format!("{value}\nunsure"),
    }
}

/// With its sign, unless it is zero.
fn signed(n: i64) -> String {
    if n == 0 { "0".to_owned() } else { format!("{n:+}") }
}

/// A share in whole percent, never "-0".
fn whole(share: f64) -> i64 {
    (100.0 * share).clamp(-999.0, 999.0).round() as i64
}

pub(super) fn verdict(line: &Line) -> String {
    if line.hidden.is_some() {
        format!("{}\n(few data)", line.verdict)
    } else if (line.phase_factor - 1.0).abs() >= 0.005 {
        format!("{}\n(phase ×{:.2})", line.verdict, line.phase_factor)
    } else {
        line.verdict.to_string()
    }
}

pub(super) fn painted(cell: Cell, verdict: Verdict, options: &Options) -> Cell {
    if !options.style.color {
        return cell;
    }
    match verdict {
        Verdict::Optimize => cell.fg(Color::Green).add_attribute(Attribute::Bold),
        Verdict::Contention => cell.fg(Color::Red),
        Verdict::Flat => cell.add_attribute(Attribute::Dim),
        Verdict::Undecided => cell.fg(Color::Yellow),
    }
}

/// The text in lines of at most `width` characters; every line but the first begins with `indent`.
pub(in crate::report) fn wrapped(text: &str, indent: &str, width: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    for paragraph in text.split('\n') {
        let blanks = paragraph.len() - paragraph.trim_start().len();
        let mut line = format!("{}{}", if lines.is_empty() { "" } else { indent }, &paragraph[..blanks]);
        let mut fresh = true;
        for word in paragraph.split_whitespace() {
            if !fresh && line.chars().count() + 1 + word.chars().count() > width {
                lines.push(std::mem::replace(&mut line, indent.to_owned()));
                fresh = true;
            }
            if !fresh {
                line.push(' ');
            }
            line.push_str(word);
            fresh = false;
        }
        lines.push(line);
    }
    lines.join("\n")
}
