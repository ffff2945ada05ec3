//! Verdicts in words.

use crate::estimate::{
    Estimated, Hidden, Level, Line, Verdict,
    more::{More, rounded},
};

/// What is reached before the curve's end, as a part of the most, is most of it.
const MOST: f64 = 0.85;
/// Hotter lines that gain nothing deserve a word.
const HOT: f64 = 0.2;
/// An interval wider than this, in units of effect, says nothing.
pub(super) const UNSURE: f64 = 2.0;
/// Where the same run would take longer than this, it is told what is faster, seconds.
const PATIENT: f64 = 120.0;

/// Mark of a verdict: by its shape alone it is told from others.
#[must_use]
pub fn mark(verdict: Verdict) -> char {
    match verdict {
        Verdict::Optimize => '▲',
        Verdict::Contention => '▼',
        Verdict::Flat => '●',
        Verdict::Undecided => '○',
    }
}

/// What to do about a line, in a sentence without an end. `more`: how much longer, where that is known.
#[must_use]
pub fn verdict(line: &Line, more: Option<More>) -> String {
    let by_effect = |a: &&Level, b: &&Level| a.effect.total_cmp(&b.effect);
    let mut text = match line.verdict {
        Verdict::Optimize => match line.summary.iter().max_by(by_effect) {
            Some(best) => {
                let enough = line
                    .summary
                    .iter()
                    .find(|l| l.permille < best.permille && l.effect >= MOST * best.effect);
                let last = line.summary.last().map_or(0, |level| level.permille);
                let by = match enough.or(Some(best).filter(|best| best.permille < last)) {
                    Some(level) => format!(", most of it by {} %", level.permille / 10),
                    None if last < 1000 => format!(" at {} %; more was not tried", last / 10),
                    None => String::new(),
                };
                format!("optimise: up to {}{by}", percent(best))
            }
            None => "optimise".into(),
        },
        Verdict::Contention => match line.summary.iter().min_by(by_effect) {
            Some(worst) => format!("slows the program: contention, down to {}", percent(worst)),
            None => "slows the program: contention".into(),
        },
        Verdict::Flat if line.share >= HOT => {
            format!("no gain, though {:.0} % of the samples fall here", 100.0 * line.share)
        }
        Verdict::Flat => "no gain".into(),
        Verdict::Undecided => undecided(line, more),
    };
    if let Some(phase) = phase(line) {
        text += &format!("; {phase} (×{:.2})", line.phase_factor);
    }
    text
}

/// Why its effects were corrected, where they were: the report and the page say the same.
#[must_use]
pub fn phase(line: &Line) -> Option<&'static str> {
    match line.phase_factor {
        factor if factor < 0.995 => Some("runs in a part of the run only"),
        factor if factor > 1.005 => Some("ran less in its experiments than otherwise"),
        _ => None,
    }
}

/// Why a line has no answer, and how much longer until it probably has one: the report and the page say the same.
#[must_use]
pub fn undecided(line: &Line, more: Option<More>) -> String {
    if line.is_beyond_own_time {
        return "not enough data: what was seen is more than its own time, so it is chance".into();
    }
    let shown = |slope: &Estimated| {
        slope.low.is_some_and(|low| low > 0.0) || slope.high.is_some_and(|high| high < 0.0)
    };
    // By itself it would be sure; among many lines, one in twenty is so by chance.
    let mut text = String::from(match line.slope.as_ref().is_some_and(shown) && line.hidden.is_none() {
        true => "likely, but one of many lines that were tried",
        false => "not enough data",
    });
    match more {
        Some(more) => text += &format!(": {}", how_much_longer(line, more)),
        None if line.hidden == Some(Hidden::NoBaseline) => text += ": no baseline yet",
        None if line.slope.is_some_and(|slope| slope.low.is_some()) => {
            text += ": too small an effect to tell soon"
        }
        None => text += ": run longer",
    }
    text
}

/// No finer than it is known: `about 9 min more, 60 s with --fixed-line`.
fn how_much_longer(line: &Line, more: More) -> String {
    let mut text = format!("about {} more", rounded(more.seconds));
    if more.seconds > PATIENT && more.alone < more.seconds / 2.0 {
        let is_place =
            line.location.rsplit_once(':').is_some_and(|(_, number)| number.parse::<u32>().is_ok());
        let option = if is_place { "--fixed-line" } else { "--fixed-function" };
        text += &format!(", {} with {option}", rounded(more.alone));
    }
    text
}

/// `+38 % (±2)`.
#[must_use]
pub fn percent(level: &Level) -> String {
    let value = format!("{} %", signed(whole(level.effect)));
    match level.low.zip(level.high) {
        Some((low, high)) if high - low > UNSURE => format!("{value} (unsure)"),
        Some((low, high)) => format!("{value} (±{:.0})", (50.0 * (high - low)).max(1.0)),
        None => format!("{value} (unsure)"),
    }
}

/// With its sign, unless it is zero.
pub(super) fn signed(n: i64) -> String {
    if n == 0 { "0".to_owned() } else { format!("{n:+}") }
}

/// A share in whole percent, never "-0".
pub(super) fn whole(share: f64) -> i64 {
    (100.0 * share).clamp(-999.0, 999.0).round() as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::Estimated;

    fn line(verdict: Verdict, effects: [f64; 4]) -> Line {
        let level = |(i, effect): (usize, f64)| Level {
            permille: 250 * (i as u32 + 1),
            effect,
            low: Some(effect - 0.02),
            high: Some(effect + 0.02),
            ..Level::default()
        };
        let summary = effects.into_iter().enumerate().map(level).collect();
        Line { location: "a.c:7".into(), verdict, summary, phase_factor: 1.0, ..Line::default() }
    }

    #[test]
    fn words_are_as_useful_as_numbers() {
        let kinked = line(Verdict::Optimize, [0.19, 0.36, 0.38, 0.37]);
        assert_eq!(verdict(&kinked, None), "optimise: up to +38 % (±2), most of it by 50 %");
        let straight = line(Verdict::Optimize, [0.15, 0.3, 0.45, 0.6]);
        assert_eq!(verdict(&straight, None), "optimise: up to +60 % (±2)");
        let short = Line { summary: straight.summary[..3].to_vec(), ..straight.clone() };
        assert_eq!(verdict(&short, None), "optimise: up to +45 % (±2) at 75 %; more was not tried");
        let harmful = line(Verdict::Contention, [-0.1, -0.2, -0.25, -0.22]);
        assert_eq!(verdict(&harmful, None), "slows the program: contention, down to -25 % (±2)");
        let flat = line(Verdict::Flat, [0.0; 4]);
        assert_eq!(verdict(&flat, None), "no gain");
        assert_eq!(
            verdict(&Line { share: 0.49, ..flat }, None),
            "no gain, though 49 % of the samples fall here"
        );
        let seldom = Line { phase_factor: 1.3, ..straight.clone() };
        assert!(verdict(&seldom, None).ends_with("; ran less in its experiments than otherwise (×1.30)"));
        let phased = Line { phase_factor: 0.5, ..straight };
        assert_eq!(
            verdict(&phased, None),
            "optimise: up to +60 % (±2); runs in a part of the run only (×0.50)"
        );
    }

    #[test]
    fn what_is_not_known_says_how_long_it_takes() {
        let open = line(Verdict::Undecided, [0.02, 0.04, 0.06, 0.08]);
        let more = |seconds, alone| Some(More { seconds, alone });
        assert_eq!(verdict(&open, more(33.0, 10.0)), "not enough data: about 40 s more");
        assert_eq!(
            verdict(&open, more(500.0, 60.0)),
            "not enough data: about 9 min more, 60 s with --fixed-line"
        );
        assert_eq!(verdict(&open, None), "not enough data: run longer");
        let absurd = Line { is_beyond_own_time: true, ..open.clone() };
        assert_eq!(
            verdict(&absurd, None),
            "not enough data: what was seen is more than its own time, so it is chance"
        );
        let function = Line { location: "work".into(), ..open.clone() };
        assert!(verdict(&function, more(500.0, 60.0)).ends_with("60 s with --fixed-function"));
        let likely = Some(Estimated { value: 0.05, low: Some(0.01), high: Some(0.1) });
        assert_eq!(
            verdict(&Line { slope: likely, ..open.clone() }, more(8.0, 8.0)),
            "likely, but one of many lines that were tried: about 8 s more"
        );
        let small = Line { slope: Some(Estimated { value: 0.05, low: Some(0.0), high: Some(0.1) }), ..open };
        assert_eq!(verdict(&small, None), "not enough data: too small an effect to tell soon");
    }
}
