//! Colours and width of what is printed.

use std::str::FromStr;

/// `--color`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Color {
    /// On a terminal, unless `NO_COLOR` is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl FromStr for Color {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "always" => Ok(Self::Always),
            "never" => Ok(Self::Never),
            _ => Err(format!("`{text}` is no choice of colour; one of auto, always, never")),
        }
    }
}

/// How to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Whether to use colours.
    pub color: bool,
    /// How many columns there are.
    pub width: usize,
}

/// Width where there is no terminal.
const WIDTH: usize = 100;
/// Narrower terminals get lines of this width all the same.
const NARROWEST: usize = 50;
/// Wider ones are not used up: long lines are hard to read.
const WIDEST: usize = 140;

impl Default for Style {
    fn default() -> Self {
        Self { color: false, width: WIDTH }
    }
}

impl Style {
    /// The style for a stream: `terminal` is its width if it is a terminal; `no_color` is the variable of that
    /// name, which counts when it is not empty (no-color.org).
    #[must_use]
    pub fn new(color: Color, terminal: Option<usize>, no_color: Option<&str>) -> Self {
        let color = match color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => terminal.is_some() && no_color.is_none_or(str::is_empty),
        };
        Self { color, width: terminal.unwrap_or(WIDTH).clamp(NARROWEST, WIDEST) }
    }

    /// The style for the standard output, or for the standard error.
    #[must_use]
    pub fn of_stream(color: Color, standard_error: bool) -> Self {
        let mut probe = comfy_table::Table::new();
        if standard_error {
            probe.use_stderr();
        }
        let width = probe.is_tty().then(|| probe.width().map_or(WIDTH, usize::from));
        Self::new(color, width, std::env::var("NO_COLOR").ok().as_deref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_for_terminals_that_want_them() {
        let color = |choice, terminal, no_color| Style::new(choice, terminal, no_color).color;
        assert!(color(Color::Auto, Some(80), None));
        assert!(color(Color::Auto, Some(80), Some("")));
        assert!(!color(Color::Auto, Some(80), Some("1")));
        assert!(!color(Color::Auto, None, None));
        assert!(color(Color::Always, None, Some("1")), "what was asked for on the command line wins");
        assert!(!color(Color::Never, Some(80), None));
        assert_eq!(Style::new(Color::Auto, Some(10), None).width, NARROWEST);
    }
}
