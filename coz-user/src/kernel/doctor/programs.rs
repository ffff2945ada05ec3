//! Does the kernel take our programs? What it has against one is said in its verifier's words.

use super::{Check, Level};
use crate::kernel::programs::Refused;

const NAME: &str = "eBPF programs";
const NEEDED: &str = "every program of the kernel side passes the kernel's verifier";

/// Judges what came of trying them all.
pub(super) fn judge(tried: Result<Vec<Refused>, String>, shortfalls: &[&str]) -> Check {
    match tried {
        Ok(refused) if refused.is_empty() => {
            let mut found = "pass the kernel's verifier".to_owned();
            for shortfall in shortfalls {
                found.push_str("; ");
                found.push_str(shortfall);
            }
            Check::new(NAME, Level::Ok, found, NEEDED)
        }
        Ok(refused) => {
            let words: Vec<String> = refused.iter().map(said).collect();
            Check::new(NAME, Level::Fail, words.join("\n"), NEEDED)
                .fix("report it, with this text and `uname -a`: the kernel is new enough")
        }
        Err(why) => Check::new(NAME, Level::Fail, why, NEEDED),
    }
}

fn said(refused: &Refused) -> String {
    let mut lines = refused.why.lines();
    let mut text = format!("{} is refused: {}", refused.program, lines.next().unwrap_or_default());
    for line in lines {
        text.push_str("\n        ");
        text.push_str(line);
    }
    text
}
