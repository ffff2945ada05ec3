//! Folded stacks, as flame graph tools read them: frames separated by `;`, a blank, a whole number.
//!
//! A profile has no call chains, so a stack is a function and a line in it.

use super::names::clean;
use crate::{estimate::Estimate, experiment::record::END_TO_END};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// What the widths of a flame graph stand for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Weight {
    /// CPU time, microseconds; in profiles that do not tell (coz's), samples.
    #[default]
    Time,
    /// What a line is worth at most: hundredths of a percent of the time per visit that would be saved. Lines that gain
    /// nothing beyond chance are left out.
    Worth,
}

/// A line each; where several points have an effect, the point is the outermost frame.
#[must_use]
pub fn text(estimate: &Estimate, weight: Weight) -> String {
    let mut stacks: BTreeMap<String, u64> = BTreeMap::new();
    match weight {
        Weight::Time => {
            let knows = estimate.samples.iter().any(|s| s.samples.weight_ns > 0);
            for sampled in &estimate.samples {
                let s = &sampled.samples;
                let n = if knows { s.weight_ns.div_ceil(1000) } else { s.count };
                *stacks.entry(stack(None, s.function.as_deref(), &s.location)).or_default() += n;
            }
        }
        Weight::Worth => {
            let several = estimate.points.len() > 1;
            for line in &estimate.lines {
                let sure = line.summary.iter().filter(|level| level.low.is_some_and(|low| low > 0.0));
                let most = sure.map(|level| level.effect).fold(0.0, f64::max);
                let point = (several && line.point != END_TO_END).then_some(line.point.as_str());
                let stack = stack(point, line.function.as_deref(), &line.location);
                *stacks.entry(stack).or_default() += (10_000.0 * most).round() as u64;
            }
        }
    }
    let mut out = String::new();
    for (stack, n) in stacks.into_iter().filter(|(_, n)| *n > 0) {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{stack} {n}");
    }
    out
}

fn stack(point: Option<&str>, function: Option<&str>, location: &str) -> String {
    let function = function.filter(|name| !name.is_empty() && *name != location);
    let frames = [point, function, Some(location)];
    frames.into_iter().flatten().map(frame).collect::<Vec<_>>().join(";")
}

/// What separates frames must not stand in one.
fn frame(name: &str) -> String {
    clean(name).replace(';', ":")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::{
        self,
        simulate::{Program, settings},
    };

    #[test]
    fn time_and_worth_are_two_pictures_of_the_same_lines() {
        let mut profile = Program::steady(60.0, vec![(0.5, |s| 0.5 * s), (0.6, |_| 0.0)]).profile(4);
        profile.samples[1].function = Some("std::map<int; 3>::f(int)".into());
        let estimate = estimate::estimate(&profile, &settings());
        let count = |text: &str, name: &str| -> Option<u64> {
            text.lines().find(|line| line.starts_with(name))?.rsplit_once(' ')?.1.parse().ok()
        };
        let time = text(&estimate, Weight::Time);
        let hot = "std::map<int: 3>::f(int);/src/app.c:20 ";
        assert!(count(&time, hot).unwrap() > count(&time, "work_0;/src/app.c:10 ").unwrap(), "{time}");
        assert_eq!(count(&time, hot).unwrap(), profile.samples[1].weight_ns / 1000);
        let worth = text(&estimate, Weight::Worth);
        assert!((4500..5500).contains(&count(&worth, "work_0;/src/app.c:10 ").unwrap()), "{worth}");
        assert_eq!(count(&worth, hot), None, "hot, and worth nothing: {worth}");
    }
}
