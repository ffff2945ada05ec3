//! The kernel side's own messages (`-vv`), as lines on the standard error.

use std::io::Write;

use aya_log::EbpfLogger;
use log::{Log, Metadata, Record};

/// Reads them; `flush` prints what has come.
pub type KernelLog = EbpfLogger<Printer>;

/// Prints a message; a closed standard error is the reader's own wish.
#[derive(Clone, Copy, Debug)]
pub struct Printer;

impl Log for Printer {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        let line =
            format!("coz-bpf: kernel side, {}: {}\n", record.level().as_str().to_lowercase(), record.args());
        let _ = std::io::stderr().write_all(line.as_bytes());
    }

    fn flush(&self) {}
}
