//! What is drawn of a line, read from `report --json`.

use serde_json::Value;

/// An effect and its interval, as shares.
#[derive(Clone, Copy, Debug)]
pub struct Level {
    /// Virtual speedup.
    pub speedup: f64,
    /// Effect.
    pub effect: f64,
    /// Lower end of the interval, or the effect where there is none.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Experiments behind it.
    pub experiments: u64,
}

/// A line's curve.
#[derive(Clone, Debug)]
pub struct Curve {
    /// `FILE:LINE`, without folders.
    pub place: String,
    /// The function around it.
    pub function: String,
    /// Share of all samples.
    pub share: f64,
    /// The point that it was measured against.
    pub point: String,
    /// The verdict.
    pub verdict: String,
    /// The fitted curve.
    pub fitted: Vec<Level>,
    /// The speedups of the experiments.
    pub measured: Vec<Level>,
}

/// The lines that the terminal report shows, those of the first point only.
#[must_use]
pub fn of_report(report: &Value) -> Vec<Curve> {
    let lines = report["lines"].as_array().into_iter().flatten();
    let shown = lines.filter(|line| line["hidden"].is_null()).map(curve);
    let mut curves: Vec<Curve> = shown.filter(|curve| !curve.fitted.is_empty()).collect();
    let point = curves.first().map(|curve| curve.point.clone());
    curves.retain(|curve| Some(&curve.point) == point.as_ref());
    curves
}

/// The last component of a path.
#[must_use]
pub fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn curve(line: &Value) -> Curve {
    let text = |key: &str| line[key].as_str().unwrap_or_default().to_owned();
    let levels = |key: &str| line[key].as_array().into_iter().flatten().filter_map(level).collect();
    Curve {
        place: file_name(&text("location")).to_owned(),
        function: text("function"),
        share: line["share"].as_f64().unwrap_or(0.0),
        point: text("point"),
        verdict: text("verdict"),
        fitted: levels("summary"),
        measured: levels("curve"),
    }
}

fn level(value: &Value) -> Option<Level> {
    let (speedup, effect) = (value["speedup"].as_f64()?, value["effect"].as_f64()?);
    Some(Level {
        speedup,
        effect,
        low: value["low"].as_f64().unwrap_or(effect),
        high: value["high"].as_f64().unwrap_or(effect),
        experiments: value["experiments"].as_u64().unwrap_or(0),
    })
}
