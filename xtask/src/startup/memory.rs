//! The memory of a process at its peak, without that of its children.

use std::fs;
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// What the kernel said last before the process ended, kilobytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Watch {
    /// Resident at the peak, mapped files included (`VmHWM`).
    pub peak_kb: u64,
    /// The most that was seen of it that is the process's own (`RssAnon`).
    pub private_kb: u64,
}

/// Looks every 10 ms until the process has ended. The peak is the kernel's own, and can be too low only by what was added
/// in the last 10 ms.
pub fn watch(pid: u32) -> JoinHandle<Watch> {
    thread::spawn(move || {
        let mut seen = Watch::default();
        while let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) {
            let Some(now) = parse(&status) else { break };
            seen.peak_kb = seen.peak_kb.max(now.peak_kb);
            seen.private_kb = seen.private_kb.max(now.private_kb);
            thread::sleep(Duration::from_millis(10));
        }
        seen
    })
}

/// From `/proc/PID/status`; `None` of a process that has no memory any more.
fn parse(status: &str) -> Option<Watch> {
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.trim().strip_suffix(" kB")?.parse().ok()
    };
    Some(Watch { peak_kb: field("VmHWM")?, private_kb: field("RssAnon")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_and_what_is_private_are_read() {
        let status = "Name:\tx\nVmHWM:\t   2048 kB\nVmRSS:\t   1024 kB\nRssAnon:\t     512 kB\n";
        assert_eq!(parse(status), Some(Watch { peak_kb: 2048, private_kb: 512 }));
        assert_eq!(parse("Name:\tx\nState:\tZ (zombie)\n"), None);
    }
}
