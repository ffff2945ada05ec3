//! A picture of a profile: every line's curve, with its interval and the experiments behind it, as SVG; or the page of it in a browser,
//! as PNG.

mod curve;
mod page;
mod svg;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::sh;
use curve::Curve;

/// What to draw, and where to.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// The profile
    #[arg(value_name = "PROFILE")]
    profile: PathBuf,
    /// The picture: curves as SVG, or the page in Chromium as PNG
    #[arg(value_name = "OUT.svg|OUT.png")]
    output: PathBuf,
    /// At most so many lines (SVG)
    #[arg(long, default_value_t = 4)]
    top: usize,
}

/// Draws the lines that the terminal report shows, in its order; or the page.
///
/// # Errors
/// When the profile cannot be read, shows no line, or the picture cannot be written; without Chromium, for the page.
pub fn run(options: &Options) -> Result<()> {
    if options.output.extension().is_some_and(|extension| extension == "png") {
        return page::draw(&options.profile, &options.output);
    }
    let mut command = Command::new(crate::profiler(true)?);
    command.args(["report", "--json"]).arg(&options.profile);
    let text = sh::output(&mut command)?;
    let report: Value =
        serde_json::from_str(&text).with_context(|| format!("`{}` printed no JSON", sh::shown(&command)))?;
    let mut curves = curve::of_report(&report);
    ensure!(!curves.is_empty(), "{}: no line has a curve", options.profile.display());
    curves.truncate(options.top);
    fs::write(&options.output, picture(&report, &curves))
        .with_context(|| format!("cannot write {}", options.output.display()))
}

fn picture(report: &Value, curves: &[Curve]) -> String {
    let words = report["program"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let program = words.map(curve::file_name).next().unwrap_or("program").to_owned();
    let point = curves.first().map_or("", |curve| curve.point.as_str());
    svg::draw(&format!("{program}: what making a line faster does for {point}"), curves)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_becomes_a_picture_with_its_lines_in_order() {
        let level = |speedup: f64, effect: f64| {
            serde_json::json!({"speedup": speedup, "effect": effect, "low": effect - 0.02, "high": effect + 0.02,
                               "experiments": 3})
        };
        let line = |location: &str, slope: f64, hidden: Value| {
            let levels: Vec<Value> = [0.25, 0.5, 0.75, 1.0].map(|s| level(s, s * slope)).to_vec();
            serde_json::json!({"location": location, "function": "f<T>", "share": 0.4, "point": "progress",
                               "verdict": "optimize", "curve": levels, "summary": levels, "hidden": hidden})
        };
        let report = serde_json::json!({"program": ["/x/app", "-v"], "lines": [
            line("/x/a.c:1", 0.5, Value::Null), line("/x/b.c:2", -0.1, Value::Null), line("/x/c.c:3", 0.2, "few-speedups".into()),
        ]});
        let curves = curve::of_report(&report);
        assert_eq!(curves.len(), 2, "what the report hides is not drawn");
        let text = picture(&report, &curves);
        let at = |word: &str| text.find(word).unwrap_or_else(|| panic!("no {word} in {text}"));
        assert!(at("app: what") < at("a.c:1") && at("a.c:1") < at("b.c:2"));
        assert!(text.contains("f&lt;T&gt;"), "names are escaped");
        assert!(text.starts_with("<svg") && text.trim_end().ends_with("</svg>"));
        assert!(!text.contains("NaN") && !text.contains("c.c:3"));
    }
}
