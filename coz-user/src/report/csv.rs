//! All curves as a table (RFC 4180), one speedup of one line a row.

use crate::estimate::Estimate;

const HEADER: &str = "location,function,samples,share,point,kind,speedup,effect,low,high,experiments,visits,phase_factor,verdict";

/// The field, quoted where it must be.
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

/// The table; `kind` is `measured` for the speedups of experiments and `fitted` for the quarters of the fitted
/// curve; `fitted-p50` and `fitted-p99` for those of a latency's median and 99th percentile (the others are of its mean).
#[must_use]
pub fn text(estimate: &Estimate) -> String {
    let mut out = format!("{HEADER}\r\n");
    let number = |x: Option<f64>| x.map_or_else(String::new, |x| x.to_string());
    for line in &estimate.lines {
        let levels =
            line.curve.iter().map(|l| ("measured", l)).chain(line.summary.iter().map(|l| ("fitted", l)));
        let quantile = |q: f64| if q == 0.5 { "fitted-p50" } else { "fitted-p99" };
        let levels = levels.chain(
            line.quantiles.iter().flat_map(|found| found.summary.iter().map(move |l| (quantile(found.q), l))),
        );
        for (kind, level) in levels {
            let fields = [
                quoted(&line.location),
                quoted(line.function.as_deref().unwrap_or_default()),
                line.samples.to_string(),
                line.share.to_string(),
                quoted(&line.point),
                kind.to_owned(),
                (f64::from(level.permille) / 1000.0).to_string(),
                level.effect.to_string(),
                number(level.low),
                number(level.high),
                level.experiments.to_string(),
                level.visits.to_string(),
                line.phase_factor.to_string(),
                line.verdict.to_string(),
            ];
            out.push_str(&fields.join(","));
            out.push_str("\r\n");
        }
    }
    out
}
