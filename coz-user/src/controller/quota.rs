//! CPU quotas of control groups: how often one stopped the program.

use std::{fs, path::PathBuf};

use crate::target::cgroup;

/// What the kernel counted about one control group's quota.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Periods of the quota in which the group ran.
    pub periods: u64,
    /// Of these, those in which it was stopped.
    pub throttled: u64,
    /// For how long it was stopped, nanoseconds, summed over the CPUs.
    pub throttled_ns: u64,
}

impl Counts {
    /// From the text of a `cpu.stat` (of version 1 or 2); all zero where it says nothing of quotas.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut counts = Self::default();
        for line in text.lines() {
            let Some((key, value)) = line.split_once(' ') else { continue };
            let Ok(value) = value.trim().parse::<u64>() else { continue };
            match key {
                "nr_periods" => counts.periods = value,
                "nr_throttled" => counts.throttled = value,
                "throttled_usec" => counts.throttled_ns = value.saturating_mul(1000),
                "throttled_time" => counts.throttled_ns = value,
                _ => {}
            }
        }
        counts
    }

    /// What was added since.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            periods: self.periods.saturating_sub(before.periods),
            throttled: self.throttled.saturating_sub(before.throttled),
            throttled_ns: self.throttled_ns.saturating_sub(before.throttled_ns),
        }
    }
}

/// The quotas that a process is subject to: that of its own control group and those of the groups above.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quotas {
    groups: Vec<(PathBuf, Counts)>,
}

impl Quotas {
    /// Of this process, as they stand now; none where they can not be read.
    #[must_use]
    pub fn of(pid: i32) -> Self {
        let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        let read = |path: PathBuf| Some((path.clone(), Counts::parse(&fs::read_to_string(path).ok()?)));
        let files = cgroup::folders(&text, "cpu").into_iter().map(|group| group.join("cpu.stat"));
        Self { groups: files.filter_map(read).collect() }
    }

    /// What was added since then, by the quota that stopped the program most often.
    #[must_use]
    pub fn since(&self) -> Counts {
        let added = |(path, before): &(PathBuf, Counts)| {
            Some(Counts::parse(&fs::read_to_string(path).ok()?).since(before))
        };
        self.groups.iter().filter_map(added).max_by_key(|counts| counts.throttled_ns).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_of_the_file_are_read() {
        let two =
            "usage_usec 5\nuser_usec 3\nnr_periods 40\nnr_throttled 7\nthrottled_usec 250\nnr_bursts 0\n";
        assert_eq!(Counts::parse(two), Counts { periods: 40, throttled: 7, throttled_ns: 250_000 });
        let one = "nr_periods 40\nnr_throttled 7\nthrottled_time 250000\n";
        assert_eq!(Counts::parse(one), Counts::parse(two));
        assert_eq!(Counts::parse("usage_usec 5\nnr_throttled many\n"), Counts::default());
    }

    #[test]
    fn only_what_was_added_counts() {
        let counts = |periods, throttled, throttled_ns| Counts { periods, throttled, throttled_ns };
        assert_eq!(counts(50, 9, 500).since(&counts(40, 7, 250)), counts(10, 2, 250));
        assert_eq!(
            counts(1, 0, 0).since(&counts(40, 7, 250)),
            Counts::default(),
            "a group that was made anew"
        );
    }
}
