//! `diff --html`: a page that stands alone. Nothing moves in it, so it is made here, without any script.

mod charts;

use super::{super::html, Compared, changed, conclusion, counted, how, moved, what, worthless};
use crate::{
    diff::{
        LineDiff, PointDiff,
        outcome::{Outcome, percent},
        visits::Visits,
    },
    report::{names, terminal::time},
};

/// What the page has beyond the report's page.
const STYLE: &str = include_str!("page/diff.css");

/// New lines that are listed, at most.
const LISTED: usize = 12;
/// Lines with a chart of their own, at most.
const CHARTS: usize = 6;

pub(super) fn text(compared: &Compared<'_>) -> String {
    let style = format!("{}{STYLE}", html::STYLE);
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{}'; base-uri 'none'; form-action 'none'",
        html::digest(&style)
    );
    let diff = &compared.diff;
    let program = compared.profiles[1].startup.program.first().map_or("profile", String::as_str);
    let program = escaped(program.rsplit('/').next().unwrap_or(program));
    let mut body = String::new();
    if !diff.notes.is_empty() {
        let notes: String = diff.notes.iter().map(|note| format!("<li>{}</li>", escaped(note))).collect();
        body += &format!("<section class=\"box warn\"><h2>Beware</h2><ul>{notes}</ul></section>");
    }
    if diff.points.is_empty() {
        body += "<section class=\"card\"><p>The profiles have no progress point in common, so there is nothing to compare. \
                 Profile both with the same <code>--progress</code>.</p></section>";
    }
    for (p, point) in diff.points.iter().enumerate() {
        body += &section(point, changed(diff, p), p);
    }
    body += &appeared(compared);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n<meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{program}: before and after – coz-bpf</title>\n<style>{style}</style>\n</head>\n<body>\n\
         <header class=\"top\"><div class=\"title\"><h1>{program}: before and after</h1>{}</div></header>\n\
         <main>\n{HOW}{body}</main>\n<footer class=\"muted\">coz-bpf {}</footer>\n</body>\n</html>\n",
        files(compared),
        env!("CARGO_PKG_VERSION"),
    )
}

const HOW: &str = "<section class=\"how\"><h2>How to read it</h2> <p>How much less CPU time each line takes per visit of the \
progress point is read from the two profiles; the line's curve from before says what that should save. Realised is what a \
visit really takes less, by the experiments without delay. Both are shares of the time per visit, with 95 % intervals.</p></section>\n";

/// As text, whatever it holds.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in names::clean(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

fn files(compared: &Compared<'_>) -> String {
    let of = |i: usize| {
        let seconds = compared.profiles[i].runtime.as_ref().map_or(0, |runtime| runtime.time) as f64 / 1e9;
        format!("{} ({} experiments, {seconds:.1} s)", escaped(&compared.files[i]), compared.counted[i])
    };
    format!("<p class=\"muted\">Before: {}<br>After: {}</p>", of(0), of(1))
}

fn section(point: &PointDiff, lines: (Vec<&LineDiff>, Vec<&LineDiff>), p: usize) -> String {
    let (lines, folded) = lines;
    let words = point.outcome.words(point.realised.as_ref(), point.predicted.as_ref());
    let class = match point.outcome {
        Outcome::AsPredicted => "optimize",
        Outcome::MoreThanPredicted | Outcome::LessThanPredicted => "contention",
        Outcome::Unchanged => "flat",
        _ => "undecided",
    };
    let cost = |v: &Option<Visits>| v.as_ref().map_or_else(|| "unknown".to_owned(), |v| time(v.per_visit));
    let what = what(point);
    let name = escaped(&point.name);
    let conclusion = conclusion(point).map_or_else(String::new, |text| format!("<p>{}</p>", escaped(&text)));
    let mut out = format!(
        "<section class=\"card outcome\" aria-label=\"{name}\"><h2>{name}</h2><p class=\"verdict-text {class}\">{}</p>\
         {conclusion}<p class=\"facts muted\">{what}: {} before, {} after</p>{}",
        escaped(&capital(&words)),
        cost(&point.before),
        cost(&point.after),
        charts::bars(point)
    );
    if !lines.is_empty() {
        out += &table("Lines that take less CPU time per visit, or more", &lines, p);
        let drawn = lines.iter().filter(|line| line.at[p].predicted.is_some()).take(CHARTS);
        let drawn: String = drawn.map(|line| charts::curve(line, &line.at[p])).collect();
        out += &format!("<div class=\"curves\">{drawn}</div>");
    }
    if !folded.is_empty() {
        out += &format!(
            "<details><summary>{}</summary>{}</details>",
            worthless(&folded, p, lines.is_empty()),
            table("Lines not shown to be worth anything", &folded, p)
        );
    }
    if !point.without_curve.is_empty() {
        out += &format!(
            "<p class=\"fine\">Without a curve in the profile before, so nothing was predicted of: {}</p>",
            escaped(&point.without_curve.join(", "))
        );
    }
    out + "</section>\n"
}

fn table(caption: &str, lines: &[&LineDiff], p: usize) -> String {
    let rows: String = lines.iter().map(|line| row(line, p)).collect();
    format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{caption}\"><table class=\"figures wide\">\
         <caption>{caption}</caption><thead><tr><th scope=\"col\">line</th><th scope=\"col\">before</th>\
         <th scope=\"col\">after</th><th scope=\"col\">less by</th><th scope=\"col\">predicted</th></tr></thead>\
         <tbody>{rows}</tbody></table></div>"
    )
}

fn row(line: &LineDiff, p: usize) -> String {
    let at = &line.at[p];
    let mut place = format!("<span class=\"path\">{}</span>", escaped(&moved(line)));
    for (class, text) in [
        ("func", Some(line.before.function.as_str())),
        ("code-line", line.before.text.as_deref()),
        ("func", how(line)),
    ] {
        if let Some(text) = text.filter(|text| !text.is_empty() && *text != line.before.location) {
            place += &format!("<span class=\"{class}\">{}</span>", escaped(text));
        }
    }
    let per = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), time);
    format!(
        "<tr><th scope=\"row\">{place}</th><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
        per(at.time.map(|time| time.before)),
        per(at.time.map(|time| time.after)),
        at.time.map_or_else(|| "–".into(), |time| percent(&time.less)),
        at.predicted.as_ref().map_or_else(|| "no curve".to_owned(), percent),
    )
}

fn appeared(compared: &Compared<'_>) -> String {
    let is_hot = |a: &&crate::diff::Appeared| a.place.share >= 0.01;
    let (new, worthless): (Vec<_>, Vec<_>) =
        compared.diff.appeared.iter().filter(is_hot).partition(|a| a.matters);
    if new.is_empty() && worthless.is_empty() {
        return String::new();
    }
    let row = |a: &&crate::diff::Appeared| -> String {
        format!(
            "<li><span class=\"path\">{}</span> <span class=\"muted\">{:.1} % of the samples</span> <code>{}</code></li>",
            escaped(&a.place.location),
            100.0 * a.place.share,
            escaped(a.place.text.as_deref().unwrap_or_default())
        )
    };
    let list = |lines: &[&crate::diff::Appeared]| {
        format!("<ul>{}</ul>", lines.iter().take(LISTED).map(row).collect::<String>())
    };
    let mut out = String::from("<section class=\"card\"><h2>New lines</h2>");
    if !new.is_empty() {
        out += &list(&new);
    }
    if !worthless.is_empty() {
        let (count, are, _) = counted(worthless.len());
        out +=
            &format!("<details><summary>{count} {are} worth nothing</summary>{}</details>", list(&worthless));
    }
    out + "</section>\n"
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().collect::<String>() + chars.as_str())
}
