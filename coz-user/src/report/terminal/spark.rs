//! A curve as one short word.

use crate::estimate::{Level, Line};

const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The range of all fitted effects, which gives all curves of a table the same scale.
pub(super) fn range(lines: &[&Line]) -> (f64, f64) {
    let effects = || lines.iter().flat_map(|l| &l.summary).map(|s| s.effect);
    (effects().fold(0.0, f64::min), effects().fold(0.05, f64::max))
}

/// The fitted effect at 0, 25, 50, 75 and 100 %, as far as it is known.
pub(super) fn line(summary: &[Level], (low, high): (f64, f64)) -> String {
    let block = |effect: f64| {
        let part = ((effect - low) / (high - low)).clamp(0.0, 1.0);
        BLOCKS[(part * (BLOCKS.len() - 1) as f64).round() as usize]
    };
    std::iter::once(0.0).chain(summary.iter().map(|s| s.effect)).map(block).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_is_drawn_from_the_lowest_to_the_highest() {
        let level = |effect| Level { effect, ..Level::default() };
        assert_eq!(line(&[0.2, 0.4, 0.4, 0.4].map(level), (0.0, 0.4)), "▁▅███");
        assert_eq!(line(&[-0.1, -0.2].map(level), (-0.2, 0.2)), "▅▃▁");
        assert_eq!(line(&[f64::NAN].map(level), (0.0, 0.4)), "▁▁", "nothing panics");
    }
}
