//! The checks as text. Commands stand on a line of their own, unbroken, so that they can be copied.

use super::{Check, Level};

const WORDS: [(Level, &str, &str); 4] = [
    (Level::Ok, "ok", "\x1b[32m"),
    (Level::Note, "note", "\x1b[36m"),
    (Level::Warn, "warn", "\x1b[33m"),
    (Level::Fail, "FAIL", "\x1b[1;31m"),
];
const PLAIN: &str = "\x1b[0m";

/// One line a check, and below each that is not right what is needed and the command that mends it.
#[must_use]
pub fn render(checks: &[Check], color: bool) -> String {
    let width = checks.iter().map(|check| check.name.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for check in checks {
        let (word, paint) = WORDS
            .iter()
            .find(|(level, ..)| *level == check.level)
            .map_or(("", ""), |&(_, word, paint)| (word, paint));
        let (paint, plain) = if color { (paint, PLAIN) } else { ("", "") };
        text.push_str(&format!("{paint}{word:4}{plain}  {:width$}  {}\n", check.name, check.found));
        if check.level > Level::Ok {
            let indent = " ".repeat(width + 8);
            if !check.needed.is_empty() {
                text.push_str(&format!("{indent}needed: {}\n", check.needed));
            }
            if let Some(fix) = &check.fix {
                text.push_str(&format!("{indent}mend:   {fix}\n"));
            }
        }
    }
    text
}

/// What failed, as the text of an error; `None` where nothing did.
#[must_use]
pub fn failures(checks: &[Check]) -> Option<String> {
    let failed: Vec<Check> = checks.iter().filter(|check| check.level == Level::Fail).cloned().collect();
    (!failed.is_empty())
        .then(|| format!("this machine does not allow a profile:\n{}", render(&failed, false)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checks() -> Vec<Check> {
        vec![
            Check::new("kernel", Level::Ok, "6.1", "5.15"),
            Check::new("privileges", Level::Fail, "user 1000", "root").fix("sudo coz-bpf run ./app"),
            Check::new("jit", Level::Note, "off", ""),
        ]
    }

    #[test]
    fn columns_line_up_and_only_gaps_are_explained() {
        let expected = "\
ok    kernel      6.1
FAIL  privileges  user 1000
                  needed: root
                  mend:   sudo coz-bpf run ./app
note  jit         off
";
        assert_eq!(render(&checks(), false), expected);
    }

    #[test]
    fn colours_change_nothing_else() {
        let mut text = render(&checks(), true);
        assert!(text.contains("\x1b[1;31mFAIL"));
        for (_, _, paint) in WORDS {
            text = text.replace(paint, "");
        }
        assert_eq!(text.replace(PLAIN, ""), render(&checks(), false));
    }

    #[test]
    fn only_failures_stop_a_run() {
        let text = failures(&checks()).unwrap();
        assert!(text.contains("privileges") && !text.contains("kernel"), "{text}");
        assert_eq!(failures(&checks()[..1]), None);
        assert_eq!(super::super::exit_code(&checks()), 1);
        assert_eq!(super::super::exit_code(&checks()[2..]), 0);
    }
}
