//! The tables.

use super::{super::source, Options, Sources, names};
use crate::estimate::Sampled;
use comfy_table::{Attribute, Cell, CellAlignment, ContentArrangement, Table, presets};

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

/// Where the samples fall.
pub(super) fn samples(samples: &[&Sampled], options: &Options, sources: &mut Sources) -> String {
    let mut table = table(options, &[("samples", CellAlignment::Right), ("line", CellAlignment::Left)]);
    let room = options.style.width.saturating_sub(12).max(12);
    for sampled in samples {
        let s = &sampled.samples;
        let place = s.file.clone().zip(s.line);
        let mut text = named(&s.location, s.function.as_deref(), room);
        text.extend(
            code(&s.location, s.text.as_deref(), &place, options, sources)
                .map(|code| names::head(&code, room)),
        );
        table.add_row(vec![
            Cell::new(format!("{:.1} %", 100.0 * sampled.share)).set_alignment(CellAlignment::Right),
            Cell::new(text.join(
                "
",
            )),
        ]);
    }
    trimmed(&table)
}

/// Location and function.
pub(super) fn named(location: &str, function: Option<&str>, room: usize) -> Vec<String> {
    let function = function.filter(|f| !f.is_empty() && *f != location);
    let mut lines = vec![names::location(location, room)];
    lines.extend(function.map(|function| names::function(function, room)));
    lines
}

/// What stood there when it was profiled, else what stands there now, where that is known.
pub(super) fn code(
    location: &str,
    text: Option<&str>,
    place: &Option<(String, u32)>,
    options: &Options,
    sources: &mut Sources,
) -> Option<String> {
    let place = place.as_ref().map(|(file, line)| (file.as_str(), *line)).or_else(|| source::split(location));
    let text = text.filter(|_| options.sources).map(names::clean);
    text.or_else(|| {
        let (file, line) = place.filter(|_| options.sources)?;
        sources.line(file, line).map(names::clean)
    })
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
