//! The pictures of the page, as SVG: predicted beside realised, and where on its curve each line came to lie.

use super::escaped;
use crate::{
    diff::{LineAt, LineDiff, PointDiff, outcome::percent},
    estimate::{Estimated, Verdict},
};

const WIDTH: f64 = 640.0;
const LEFT: f64 = 92.0;
const RIGHT: f64 = 120.0;

/// Predicted and realised as bars with their intervals.
pub(super) fn bars(point: &PointDiff) -> String {
    let all: Vec<(&str, Estimated)> = [("predicted", point.predicted), ("realised", point.realised)]
        .into_iter()
        .filter_map(|(name, of)| Some((name, of?)))
        .collect();
    if all.is_empty() {
        return String::new();
    }
    let ends = |of: &Estimated| {
        [of.value, of.low.unwrap_or(of.value).max(-1.0), of.high.unwrap_or(of.value).min(1.0)]
    };
    let is_cut =
        |of: &Estimated| (of.low.is_some_and(|low| low < -1.0), of.high.is_some_and(|high| high > 1.0));
    let values = || all.iter().flat_map(|(_, of)| ends(of));
    let (low, high) = (values().fold(0.0, f64::min), values().fold(0.05, f64::max));
    let x = |value: f64| LEFT + (value - low) / (high - low) * (WIDTH - LEFT - RIGHT);
    let height = 12.0 + 34.0 * all.len() as f64;
    let mut out = format!(
        "<svg class=\"bars\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\">",
        all.iter().map(|(name, of)| format!("{name} {}", percent(of))).collect::<Vec<_>>().join(", ")
    );
    for (i, (name, of)) in all.iter().enumerate() {
        let y = 6.0 + 34.0 * i as f64;
        let (from, to) = (x(of.value.min(0.0)), x(of.value.max(0.0)));
        let [_, low, high] = ends(of).map(x);
        let (cut_low, cut_high) = is_cut(of);
        out += &format!(
            "<text class=\"end\" x=\"{:.1}\" y=\"{:.1}\">{name}</text>\
             <rect class=\"{name}\" x=\"{from:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"24\"/>\
             <path class=\"ends\" d=\"M{low:.1} {:.1}H{high:.1}{}{}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            LEFT - 10.0,
            y + 16.0,
            (to - from).max(1.0),
            y + 12.0,
            end(low, y + 12.0, cut_low.then_some(1.0)),
            end(high, y + 12.0, cut_high.then_some(-1.0)),
            high.max(to) + 8.0,
            y + 16.0,
            percent(of)
        );
    }
    out +=
        &format!("<line class=\"zero\" x1=\"{0:.1}\" x2=\"{0:.1}\" y1=\"0\" y2=\"{height}\"/></svg>", x(0.0));
    out
}

/// The end of an interval's line; where it is cut off by the edge, the head of an arrow whose back lies in this direction.
fn end(x: f64, y: f64, cut: Option<f64>) -> String {
    match cut {
        None => format!("M{x:.1} {:.1}v10", y - 5.0),
        Some(back) => {
            let from = x + 7.0 * back;
            format!("M{from:.1} {:.1}L{x:.1} {y:.1}L{from:.1} {:.1}", y - 5.0, y + 5.0)
        }
    }
}

/// A line's curve from before, and the speedup that it got.
pub(super) fn curve(line: &LineDiff, at: &LineAt) -> String {
    let Some((time, predicted)) = at.time.zip(at.predicted) else { return String::new() };
    let (width, height, left, bottom) = (300.0, 170.0, 44.0, 36.0);
    let effects =
        || at.curve.iter().flat_map(|l| [l.effect, l.low.unwrap_or(l.effect), l.high.unwrap_or(l.effect)]);
    let low = effects().fold(predicted.value.min(-0.02), f64::min).max(-1.0);
    let high = effects().fold(predicted.value.max(0.05), f64::max).min(1.0);
    let begin = time.less.value.clamp(-1.0, 0.0);
    let x = |speedup: f64| left + (speedup - begin) / (1.0 - begin) * (width - left - 12.0);
    let y = |effect: f64| 8.0 + (high - effect.clamp(low, high)) / (high - low) * (height - 8.0 - bottom);
    let speedup = |permille: u32| x(f64::from(permille) / 1000.0);
    let origin = format!("{:.1} {:.1}", x(0.0), y(0.0));
    let to = |of: &dyn Fn(&crate::estimate::Level) -> f64| -> Vec<String> {
        at.curve.iter().map(|l| format!("L{:.1} {:.1}", speedup(l.permille), y(of(l)))).collect()
    };
    let fit = to(&|l| l.effect).concat();
    let upper = to(&|l| l.high.unwrap_or(l.effect)).concat();
    let mut lower = to(&|l| l.low.unwrap_or(l.effect));
    lower.reverse();
    // Where an interval is cut off by the edge: up (back below) or down.
    let head = |l: &crate::estimate::Level, end: f64, back: f64| {
        let (x, y) = (speedup(l.permille), y(end));
        let from = y + 6.0 * back;
        format!("M{:.1} {from:.1}L{x:.1} {y:.1}L{:.1} {from:.1}", x - 4.0, x + 4.0)
    };
    let cut: String = at
        .curve
        .iter()
        .flat_map(|l| {
            [
                l.high.filter(|end| *end > high).map(|end| head(l, end, 1.0)),
                l.low.filter(|end| *end < low).map(|end| head(l, end, -1.0)),
            ]
        })
        .flatten()
        .collect();
    let class = match at.verdict {
        Verdict::Optimize => "optimize",
        Verdict::Contention => "contention",
        Verdict::Flat => "flat",
        Verdict::Undecided => "undecided",
    };
    let (hx, hy) = (x(time.less.value), y(predicted.value));
    let base = height - bottom;
    let name = escaped(&line.before.location);
    let label = format!(
        "{name}: {} less time per visit, predicted {}",
        percent(&time.less).trim_start_matches('+'),
        percent(&predicted)
    );
    let end = f64::from(at.curve.last().map_or(1000, |l| l.permille)) / 1000.0;
    format!(
        "<figure><figcaption>{label}</figcaption><svg class=\"{class}\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{label}\">\
         <line class=\"zero\" x1=\"{left}\" x2=\"{:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/>\
         <path class=\"band\" d=\"M{origin}{upper}{}Z\"/><path class=\"fit\" d=\"M{origin}{fit}\"/><path class=\"cut\" d=\"{cut}\"/>\
         <path class=\"here-line\" d=\"M{hx:.1} {base:.1}V{hy:.1}H{left}\"/><circle class=\"here-dot\" cx=\"{hx:.1}\" cy=\"{hy:.1}\" r=\"4.5\"/>\
         <text class=\"tick end\" x=\"{:.1}\" y=\"{:.1}\">{:+.0} %</text><text class=\"tick end\" x=\"{:.1}\" y=\"{:.1}\">0</text>\
         <text class=\"tick middle\" x=\"{:.1}\" y=\"{:.1}\">0 %</text><text class=\"tick middle\" x=\"{:.1}\" y=\"{:.1}\">{:.0} %</text>\
         <text class=\"tick middle\" x=\"{:.1}\" y=\"{:.1}\">less time in this line</text></svg></figure>",
        x(1.0),
        y(0.0),
        y(0.0),
        lower.concat(),
        left - 6.0,
        y(high) + 8.0,
        100.0 * high,
        left - 6.0,
        y(0.0) + 4.0,
        x(0.0),
        base + 15.0,
        x(end) - 8.0,
        base + 15.0,
        100.0 * end,
        (left + width) / 2.0,
        height - 6.0,
    )
}
