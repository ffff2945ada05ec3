//! One line on the terminal while a program is profiled, and none anywhere else.
//!
//! The target writes to the same terminal. So the line is drawn at most once a second, the cursor is left at its
//! start, and it is wiped away at the end: what the target prints begins at the left edge, as it should.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, PoisonError};

use crate::estimate::more::rounded;
use coz_common::units::Nanos;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle, TermLike};

/// What the line says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Status {
    /// Since the target was released.
    pub elapsed: Nanos,
    /// The programs that were attached to.
    pub attached: Option<String>,
    /// Experiments that count.
    pub experiments: u64,
    /// Visits per second of the busiest progress point; `None` while there is no point.
    pub visits_per_second: Option<f64>,
    /// The best line so far.
    pub best: Option<Best>,
    /// What is going on, where it is not experiments ("reading debug information").
    pub note: Option<String>,
}

/// The line with the largest effect so far.
#[derive(Clone, Debug, PartialEq)]
pub struct Best {
    /// `FILE:LINE`, or a function.
    pub location: String,
    /// Its largest effect, as a fraction.
    pub effect: f64,
    /// Half the width of its interval there; `None` where it is not known.
    pub half_width: Option<f64>,
    /// How many seconds more it takes, probably, until that is known well enough; `None`: it is, or nobody knows.
    pub seconds_more: Option<f64>,
}

/// The line itself. Dropping it wipes it away.
#[derive(Debug)]
pub struct StatusLine {
    bar: Option<ProgressBar>,
}

impl StatusLine {
    /// A status line on the standard error, if that is a terminal (that understands more than plain text) and
    /// `quiet` is not set; else one that is never seen.
    #[must_use]
    pub fn new(quiet: bool) -> Self {
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        if quiet || dumb || !io::stderr().is_terminal() {
            return Self { bar: None };
        }
        Self::on(ProgressDrawTarget::term_like_with_hz(Box::new(LeftEdge::new(io::stderr())), 1))
    }

    fn on(target: ProgressDrawTarget) -> Self {
        let bar = ProgressBar::with_draw_target(None, target);
        // Cut at the edge: of what takes two lines, the upper one jumps. A wrong template, which is a constant, costs the line its looks only.
        if let Ok(style) = ProgressStyle::with_template("{wide_msg}") {
            bar.set_style(style);
        }
        Self { bar: Some(bar) }
    }

    /// Whether anyone sees it: if not, there is no need to compute a [`Status`].
    #[must_use]
    pub fn is_shown(&self) -> bool {
        self.bar.is_some()
    }

    /// Shows this, unless the last one was shown less than a second ago.
    pub fn set(&self, status: &Status) {
        if let Some(bar) = &self.bar {
            bar.set_message(render(status));
        }
    }

    /// Runs `f` with the line wiped away: for what else is to be printed.
    pub fn suspend<R>(&self, f: impl FnOnce() -> R) -> R {
        match &self.bar {
            Some(bar) => bar.suspend(f),
            None => f(),
        }
    }

    /// Wipes the line away for good.
    pub fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        self.clear();
    }
}

/// The text of the line, short enough for most terminals; longer ones are cut at the edge.
#[must_use]
pub fn render(status: &Status) -> String {
    let seconds = status.elapsed.0 / 1_000_000_000;
    let mut text = format!("coz-bpf {}:{:02}", seconds / 60, seconds % 60);
    if let Some(attached) = &status.attached {
        let _ = write!(text, "  {attached}");
    }
    if let Some(note) = &status.note {
        let _ = write!(text, "  {note}");
    }
    if status.experiments > 0 {
        let s = if status.experiments == 1 { "" } else { "s" };
        let _ = write!(text, "  {} experiment{s}", status.experiments);
    }
    if let Some(rate) = status.visits_per_second {
        let _ = write!(text, "  {} visits/s", short(rate));
    }
    if let Some(best) = &status.best {
        let _ = write!(text, "  best {:+.0} %", best.effect * 100.0);
        if let Some(half) = best.half_width.filter(|half| *half < 1.0) {
            let _ = write!(text, " (±{:.0})", (half * 100.0).max(1.0));
        }
        if let Some(seconds) = best.seconds_more {
            let _ = write!(text, ", about {} more:", rounded(seconds));
        }
        let _ = write!(text, " {}", tail(&best.location));
    }
    text
}

/// A rate in four or five characters.
fn short(rate: f64) -> String {
    match rate {
        r if r >= 1e6 => format!("{:.1} M", r / 1e6),
        r if r >= 1e4 => format!("{:.1} k", r / 1e3),
        r if r >= 10.0 => format!("{r:.0}"),
        r => format!("{r:.1}"),
    }
}

/// A path's last component: the folder is in the report.
fn tail(location: &str) -> &str {
    location.rsplit('/').next().unwrap_or(location)
}

/// A terminal on which every drawing ends with the cursor at the left edge of its line.
#[derive(Debug)]
struct LeftEdge<W> {
    out: Mutex<W>,
}

impl<W: Write> LeftEdge<W> {
    fn new(out: W) -> Self {
        Self { out: Mutex::new(out) }
    }

    fn put(&self, text: &str) -> io::Result<()> {
        self.out.lock().unwrap_or_else(PoisonError::into_inner).write_all(text.as_bytes())
    }

    fn go(&self, n: usize, direction: char) -> io::Result<()> {
        if n == 0 { Ok(()) } else { self.put(&format!("\x1b[{n}{direction}")) }
    }
}

impl<W: Write + std::fmt::Debug + Send> TermLike for LeftEdge<W> {
    fn width(&self) -> u16 {
        // One less than there is: a full line would wrap on some terminals.
        terminal_width().unwrap_or(80).saturating_sub(1).max(1)
    }

    fn move_cursor_up(&self, n: usize) -> io::Result<()> {
        self.go(n, 'A')
    }

    fn move_cursor_down(&self, n: usize) -> io::Result<()> {
        self.go(n, 'B')
    }

    fn move_cursor_right(&self, n: usize) -> io::Result<()> {
        self.go(n, 'C')
    }

    fn move_cursor_left(&self, n: usize) -> io::Result<()> {
        self.go(n, 'D')
    }

    fn write_line(&self, s: &str) -> io::Result<()> {
        self.put(s)?;
        self.put("\n")
    }

    fn write_str(&self, s: &str) -> io::Result<()> {
        self.put(s)
    }

    fn clear_line(&self) -> io::Result<()> {
        self.put("\r\x1b[2K")
    }

    fn flush(&self) -> io::Result<()> {
        self.put("\r")?;
        self.out.lock().unwrap_or_else(PoisonError::into_inner).flush()
    }
}

/// Columns of the terminal at the standard error.
fn terminal_width() -> Option<u16> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: TIOCGWINSZ writes one winsize, which `size` is, and nothing else.
    let result = unsafe { libc::ioctl(libc::STDERR_FILENO, libc::TIOCGWINSZ, &raw mut size) };
    (result == 0 && size.ws_col > 0).then_some(size.ws_col)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn full() -> Status {
        Status {
            elapsed: Nanos(83_400_000_000),
            attached: None,
            experiments: 120,
            visits_per_second: Some(1234.0),
            best: Some(Best {
                location: "/src/app/queue.rs:42".into(),
                effect: 0.314,
                half_width: Some(0.042),
                seconds_more: Some(33.0),
            }),
            note: None,
        }
    }

    #[test]
    fn it_says_elapsed_experiments_rate_and_best_line() {
        assert_eq!(
            render(&full()),
            "coz-bpf 1:23  120 experiments  1234 visits/s  best +31 % (±4), about 40 s more: queue.rs:42"
        );
    }

    #[test]
    fn it_says_what_was_attached_to() {
        let attached = Status { attached: Some("process 12 (redis-server)".into()), ..Status::default() };
        assert_eq!(render(&attached), "coz-bpf 0:00  process 12 (redis-server)");
    }

    #[test]
    fn it_leaves_out_what_is_not_known() {
        assert_eq!(render(&Status::default()), "coz-bpf 0:00");
        let note = Some("reading debug information".to_owned());
        assert_eq!(render(&Status { note, ..Status::default() }), "coz-bpf 0:00  reading debug information");
    }

    #[test]
    fn a_full_line_fits_a_usual_terminal() {
        let text = render(&Status { experiments: 999, visits_per_second: Some(999.9), ..full() });
        assert!(text.chars().count() <= 92, "{text}");
        let first: String = text.chars().take(79).collect();
        assert!(first.contains("s more:"), "what is cut off is the place: {first}");
        let known = Best { seconds_more: None, ..full().best.unwrap() };
        let text = render(&Status {
            experiments: 9_999,
            visits_per_second: Some(9_999.9),
            best: Some(known),
            ..full()
        });
        assert!(text.chars().count() < 79, "{text}");
    }

    #[test]
    fn rates_are_short() {
        assert_eq!(
            [0.25, 7.0, 42.3, 9_999.0, 12_345.0, 2.5e6].map(short),
            ["0.2", "7.0", "42", "9999", "12.3 k", "2.5 M"]
        );
    }

    #[derive(Clone, Debug, Default)]
    struct Screen(Arc<Mutex<Vec<u8>>>);

    impl Write for Screen {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_cursor_rests_at_the_left_edge_and_the_line_goes_away() {
        let screen = Screen::default();
        let seen = || String::from_utf8(screen.0.lock().unwrap().clone()).unwrap();
        let line = StatusLine::on(ProgressDrawTarget::term_like(Box::new(LeftEdge::new(screen.clone()))));
        line.set(&full());
        assert!(seen().contains("120 experiments"), "{:?}", seen());
        assert!(seen().ends_with('\r'), "{:?}", seen());
        assert!(!seen().contains('\n'), "one line, never a second: {:?}", seen());
        let width = LeftEdge::new(screen.clone()).width() as usize;
        let drawn = seen().trim_matches('\r').replace("\x1b[2K", "");
        assert!(drawn.chars().count() <= width, "cut at the edge: {drawn:?}");
        drop(line);
        let end = seen();
        let (_, after) = end.rsplit_once("120 experiments").unwrap();
        assert!(after.contains("\x1b[2K"), "wiped: {after:?}");
    }

    #[test]
    fn off_a_terminal_there_is_none() {
        let line = StatusLine { bar: None };
        line.set(&full());
        assert!(!line.is_shown());
        assert_eq!(line.suspend(|| 3), 3);
        assert!(!StatusLine::new(true).is_shown(), "nor when it is to be quiet");
    }
}
