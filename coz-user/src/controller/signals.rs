//! The signals that people send to the profiler while their program runs.

use anyhow::{Context, Result};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// None of them ends us: the program's end does.
#[derive(Debug)]
pub struct Signals {
    /// Ctrl-C.
    pub interrupt: Signal,
    /// Ctrl-\.
    pub quit: Signal,
    /// `kill`.
    pub terminate: Signal,
    /// The terminal has gone.
    pub hangup: Signal,
}

impl Signals {
    /// From now on they are events.
    ///
    /// # Errors
    /// Where the system refuses.
    pub fn listen() -> Result<Self> {
        let listen = |kind, name| signal(kind).with_context(|| format!("cannot listen to {name}"));
        Ok(Self {
            interrupt: listen(SignalKind::interrupt(), "SIGINT")?,
            quit: listen(SignalKind::quit(), "SIGQUIT")?,
            terminate: listen(SignalKind::terminate(), "SIGTERM")?,
            hangup: listen(SignalKind::hangup(), "SIGHUP")?,
        })
    }
}
