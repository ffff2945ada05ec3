//! The lines, ranked: a block each. Place, function and source text stand at the left, figures at the right, the verdict below.

use super::{super::words, Options, Sources, names, spark, table};
use crate::{
    estimate::{Level, Line, Verdict, more::More},
    experiment::record::PointKind,
};

/// From this width on there is room for all quarters.
const WIDE: usize = 100;
/// Below it there is room for two.
const NARROW: usize = 72;
/// Width of the rank and the blank after it.
const INDENT: usize = 4;
/// A place needs so much.
const LEAST: usize = 12;
/// More of a source line than this says no more.
const LONGEST: usize = 100;

/// How a piece of text is painted.
#[derive(Clone, Copy)]
pub(super) enum Paint {
    Plain,
    Bold,
    Dim,
    Gain,
    Loss,
    Unsure,
}

impl Paint {
    pub(super) fn on(self, text: &str, options: &Options) -> String {
        let code = match self {
            _ if !options.style.color => return text.to_owned(),
            Self::Plain => return text.to_owned(),
            Self::Bold => "1",
            Self::Dim => "2",
            Self::Gain => "1;32",
            Self::Loss => "1;31",
            Self::Unsure => "33",
        };
        if text.is_empty() { String::new() } else { format!("\x1b[{code}m{text}\x1b[0m") }
    }

    fn of(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Optimize => Self::Gain,
            Verdict::Contention => Self::Loss,
            Verdict::Flat => Self::Dim,
            Verdict::Undecided => Self::Unsure,
        }
    }
}

/// One row of figures: painted when it is printed.
type Figures = Vec<(String, Paint)>;

/// All blocks, the heading first. `more` says how much longer a line takes.
pub(super) fn lines(
    lines: &[&Line],
    kind: PointKind,
    options: &Options,
    sources: &mut Sources,
    more: impl Fn(&Line) -> Option<More>,
) -> String {
    let width = options.style.width;
    let shown: &[u32] = match width {
        w if w >= WIDE => &[250, 500, 750, 1000],
        w if w >= NARROW => &[250, 500, 1000],
        _ => &[500, 1000],
    };
    let range = spark::range(lines);
    let mut head: Figures = vec![("samples".into(), Paint::Bold)];
    head.extend(shown.iter().map(|permille| (format!("{} %", permille / 10), Paint::Bold)));
    if width >= NARROW {
        head.push(("curve".into(), Paint::Bold));
    }
    let blocks: Vec<Vec<Figures>> =
        lines.iter().map(|line| figures(line, kind, shown, (width >= NARROW).then_some(range))).collect();
    let columns: Vec<usize> = (0..head.len())
        .map(|c| {
            let cells = blocks.iter().flatten().filter_map(|row| row.get(c)).chain([&head[c]]);
            cells.map(|(text, _)| text.chars().count()).max().unwrap_or(0)
        })
        .collect();
    let right: usize = columns.iter().map(|width| width + 2).sum();
    let room = width.saturating_sub(INDENT + right).max(LEAST);
    let places: Vec<Vec<String>> =
        lines.iter().map(|line| table::named(&line.location, line.function.as_deref(), room)).collect();
    // Figures stand near what they are about, however wide the terminal is.
    let room = places.iter().flatten().map(|line| line.chars().count()).fold(LEAST, usize::max);
    let mut out = vec![row("  # line", Paint::Bold, &head, &columns, room, options)];
    for (i, ((line, figures), mut left)) in lines.iter().zip(blocks).zip(places).enumerate() {
        // Below the figures there is room for more.
        let beside = left.len() < figures.len();
        let most = if beside { room } else { width.saturating_sub(INDENT).min(LONGEST) };
        let code = table::code(&line.location, line.text.as_deref(), &line.source, options, sources);
        left.extend(code.map(|code| names::head(&code, most)));
        for r in 0..left.len().max(figures.len()) {
            let empty = Vec::new();
            let cells = figures.get(r).unwrap_or(&empty);
            let place = left.get(r).map_or("", String::as_str);
            let (begin, paint) = if r == 0 {
                (format!("{:>3} {place}", i + 1), Paint::Bold)
            } else {
                (format!("    {place}"), Paint::Dim)
            };
            out.push(row(&begin, paint, cells, &columns, room, options));
        }
        let words = format!("{} {}", words::mark(line.verdict), words::verdict(line, more(line)));
        let words = table::wrapped(&words, "      ", width.saturating_sub(INDENT));
        let paint = Paint::of(line.verdict);
        for (n, words) in words.lines().enumerate() {
            let begin = if n == 0 { "    " } else { "" };
            out.push(format!("{begin}{}", paint.on(words, options)));
        }
    }
    out.join("\n")
}

fn row(
    begin: &str,
    paint: Paint,
    cells: &Figures,
    columns: &[usize],
    room: usize,
    options: &Options,
) -> String {
    let mut out = paint.on(begin, options);
    let mut blanks = (INDENT + room).saturating_sub(begin.chars().count());
    for (c, width) in columns.iter().enumerate() {
        let Some((text, paint)) = cells.get(c).filter(|(text, _)| !text.is_empty()) else {
            blanks += width + 2;
            continue;
        };
        let missing = width.saturating_sub(text.chars().count());
        // Curves, the last column, begin at the left; figures end at the right.
        let is_curve = text.starts_with(|c: char| ('▁'..='█').contains(&c)) || text == "curve";
        let (before, after) = if is_curve { (0, missing) } else { (missing, 0) };
        out.push_str(&" ".repeat(blanks + 2 + before));
        out.push_str(&paint.on(text, options));
        blanks = after;
    }
    out
}

/// The figures of a line: share, effects and curve; below them the intervals; of a latency the same for its quantiles.
fn figures(line: &Line, kind: PointKind, shown: &[u32], range: Option<(f64, f64)>) -> Vec<Figures> {
    let share = format!("{:.1} %", 100.0 * line.share);
    let mut rows: Vec<Figures> = Vec::new();
    let mut group = |name: &str, levels: &[Level]| {
        let found = |permille: &u32| levels.iter().find(|level| level.permille == *permille);
        let first = rows.is_empty();
        let mut values = vec![(if first { share.clone() } else { name.to_owned() }, Paint::Plain)];
        values.extend(shown.iter().map(|permille| found(permille).map_or(("–".into(), Paint::Dim), effect)));
        if let Some(range) = range.filter(|_| first || !levels.is_empty()) {
            values.push((spark::line(levels, range), Paint::Plain));
        }
        let mut below = vec![(if first { name.to_owned() } else { String::new() }, Paint::Dim)];
        below.extend(
            shown.iter().map(|permille| (found(permille).map_or_else(String::new, interval), Paint::Dim)),
        );
        rows.push(values);
        rows.push(below);
    };
    group(if kind == PointKind::Latency { "mean" } else { "" }, &line.summary);
    for found in &line.quantiles {
        let name = if found.q == 0.5 { "median".to_owned() } else { format!("{:.0} %", 100.0 * found.q) };
        group(&name, &found.summary);
    }
    rows
}

/// The effect, painted where the interval leaves out zero.
fn effect(level: &Level) -> (String, Paint) {
    let text = format!("{} %", words::signed(words::whole(level.effect)));
    match level.low.zip(level.high) {
        Some((low, high)) if high - low > words::UNSURE => ("unsure".into(), Paint::Dim),
        Some((low, _)) if low > 0.0 => (text, Paint::Gain),
        Some((_, high)) if high < 0.0 => (text, Paint::Loss),
        _ => (text, Paint::Plain),
    }
}

fn interval(level: &Level) -> String {
    match level.low.zip(level.high) {
        Some((low, high)) if high - low > words::UNSURE => String::new(),
        Some((low, high)) => format!("{} to {}", words::whole(low), words::whole(high)),
        None => "unsure".into(),
    }
}
