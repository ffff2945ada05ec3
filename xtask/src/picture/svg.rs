//! The drawing itself: a plot on the left, the lines' names beside the ends of their curves.

use std::fmt::Write as _;

use super::curve::{Curve, Level};

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 440.0;
/// Edges of the plot.
const LEFT: f64 = 64.0;
const RIGHT: f64 = 590.0;
const TOP: f64 = 52.0;
const BOTTOM: f64 = 384.0;
/// Height of a name beside its curve: two rows of text.
const NAME: f64 = 38.0;
/// Told apart by colour-blind people too (Okabe and Ito, "Color universal design", 2008).
const COLOURS: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];

/// The range of effects that is shown: whole steps around the fitted curves, zero included.
struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    fn of(curves: &[Curve]) -> Self {
        // Intervals may be wider than all curves together: then they leave the picture.
        let effects =
            || curves.iter().flat_map(|curve| &curve.fitted).map(|level| level.effect.clamp(-1.0, 1.0));
        let low = effects().fold(0.0, f64::min) - 0.05;
        let high = effects().fold(0.0, f64::max) + 0.05;
        Self { low: (low * 10.0).floor() / 10.0, high: (high * 10.0).ceil() / 10.0 }
    }

    /// Whether there is room for it.
    fn shows(&self, effect: f64) -> bool {
        (self.low..=self.high).contains(&effect)
    }

    fn x(speedup: f64) -> f64 {
        LEFT + (RIGHT - LEFT) * speedup.clamp(0.0, 1.0)
    }

    fn y(&self, effect: f64) -> f64 {
        let part = (effect.clamp(self.low, self.high) - self.low) / (self.high - self.low);
        BOTTOM - (BOTTOM - TOP) * part
    }
}

/// The picture of these curves, at least one.
#[must_use]
pub fn draw(title: &str, curves: &[Curve]) -> String {
    let scale = Scale::of(curves);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"13\">\n<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#ffffff\"/>\n"
    );
    text(&mut out, LEFT, 28.0, "fill=\"#222222\" font-size=\"16\"", title);
    axes(&mut out, &scale);
    let coloured = || curves.iter().zip(COLOURS.iter().cycle());
    coloured().for_each(|(curve, colour)| band(&mut out, &scale, curve, colour));
    coloured().for_each(|(curve, colour)| fitted(&mut out, &scale, curve, colour));
    for ((curve, colour), y) in coloured().zip(name_places(curves, &scale)) {
        name(&mut out, y, curve, colour);
    }
    out.push_str("</svg>\n");
    out
}

// Writing to a String cannot fail.
macro_rules! put {
    ($out:expr, $($format:tt)*) => { let _ = writeln!($out, $($format)*); };
}

fn text(out: &mut String, x: f64, y: f64, style: &str, words: &str) {
    put!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" {style}>{}</text>", escaped(words));
}

fn escaped(words: &str) -> String {
    words.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn axes(out: &mut String, scale: &Scale) {
    let (first, last) = ((scale.low * 10.0).round() as i32, (scale.high * 10.0).round() as i32);
    for tenth in first..=last {
        let (y, zero) = (scale.y(f64::from(tenth) / 10.0), tenth == 0);
        let stroke = if zero { "#555555" } else { "#e4e4e4" };
        put!(out, "<line x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{RIGHT}\" y2=\"{y:.1}\" stroke=\"{stroke}\"/>");
        let label = format!("{} %", tenth * 10);
        text(out, LEFT - 8.0, y + 4.0, "fill=\"#555555\" text-anchor=\"end\"", &label);
    }
    for quarter in 0..=4 {
        let x = Scale::x(f64::from(quarter) / 4.0);
        put!(out, "<line x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{BOTTOM}\" stroke=\"#e4e4e4\"/>");
        let label = format!("{} %", quarter * 25);
        text(out, x, BOTTOM + 20.0, "fill=\"#555555\" text-anchor=\"middle\"", &label);
    }
    let middle = f64::midpoint(LEFT, RIGHT);
    let words = "the line takes this much less time";
    text(out, middle, BOTTOM + 42.0, "fill=\"#222222\" text-anchor=\"middle\"", words);
    let middle = f64::midpoint(TOP, BOTTOM);
    let turned = format!("fill=\"#222222\" text-anchor=\"middle\" transform=\"rotate(-90 16 {middle:.1})\"");
    text(out, 16.0, middle, &turned, "time per visit saved");
}

/// Zero at speedup 0, by definition.
const ORIGIN: Level = Level { speedup: 0.0, effect: 0.0, low: 0.0, high: 0.0, experiments: 0 };

fn points<'a>(
    scale: &Scale,
    levels: impl Iterator<Item = &'a Level>,
    value: impl Fn(&Level) -> f64,
) -> String {
    let point = |level: &Level| format!("{:.1},{:.1}", Scale::x(level.speedup), scale.y(value(level)));
    levels.map(point).collect::<Vec<_>>().join(" ")
}

/// The 95 % interval.
fn band(out: &mut String, scale: &Scale, curve: &Curve, colour: &str) {
    let all = || std::iter::once(&ORIGIN).chain(&curve.fitted);
    let there = points(scale, all(), |level| level.high);
    let back: Vec<&Level> = all().collect();
    let back = points(scale, back.into_iter().rev(), |level| level.low);
    put!(out, "<polygon points=\"{there} {back}\" fill=\"{colour}\" fill-opacity=\"0.15\"/>");
}

fn fitted(out: &mut String, scale: &Scale, curve: &Curve, colour: &str) {
    let line = points(scale, std::iter::once(&ORIGIN).chain(&curve.fitted), |level| level.effect);
    put!(out, "<polyline points=\"{line}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2.5\"/>");
    for level in curve.measured.iter().filter(|level| level.speedup > 0.0) {
        let (x, y) = (Scale::x(level.speedup), scale.y(level.effect));
        // The area says how many experiments there were.
        let radius = 2.2 * (level.experiments.clamp(1, 16) as f64).sqrt();
        // Hollow at the edge: it lies beyond.
        let opacity = if scale.shows(level.effect) { 0.55 } else { 0.0 };
        put!(
            out,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius:.1}\" fill=\"{colour}\" stroke=\"{colour}\" \
             fill-opacity=\"{opacity}\" stroke-opacity=\"0.55\"/>"
        );
    }
}

/// Where the names go: at the ends of the curves, pushed apart where they would overlap.
fn name_places(curves: &[Curve], scale: &Scale) -> Vec<f64> {
    let end = |curve: &Curve| curve.fitted.last().map_or(BOTTOM, |level| scale.y(level.effect));
    let mut order: Vec<(usize, f64)> = curves.iter().map(end).enumerate().collect();
    order.sort_by(|a, b| a.1.total_cmp(&b.1));
    for i in 1..order.len() {
        order[i].1 = order[i].1.max(order[i - 1].1 + NAME);
    }
    // What was pushed out at the bottom goes up again.
    let mut floor = BOTTOM + NAME / 2.0;
    for place in order.iter_mut().rev() {
        place.1 = place.1.min(floor);
        floor = place.1 - NAME;
    }
    order.sort_by_key(|place| place.0);
    order.into_iter().map(|place| place.1).collect()
}

fn name(out: &mut String, y: f64, curve: &Curve, colour: &str) {
    let x = RIGHT + 14.0;
    let style = format!("fill=\"{colour}\" font-weight=\"bold\"");
    let short: String = curve.function.chars().take(28).collect();
    text(out, x, y, &style, &format!("{} {short}", curve.place));
    let words = format!("{:.0} % of the samples: {}", 100.0 * curve.share, curve.verdict);
    text(out, x, y + 16.0, "fill=\"#555555\"", &words);
}
