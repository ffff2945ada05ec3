//! Newtypes for the quantities that cross the rooms: times, speedups, line ids.

/// A stretch of time or a reading of `CLOCK_MONOTONIC`, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Nanos(pub u64);

impl Nanos {
    /// One millisecond.
    pub const MILLI: Self = Self(1_000_000);

    /// `self - other`, or zero where `other` is later.
    #[must_use]
    #[inline(always)]
    pub const fn since(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// The same stretch in seconds.
    #[must_use]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

/// A virtual speedup: by which part of its time the selected line is made shorter, in thousandths (0 to 1000).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Speedup(u32);

impl Speedup {
    /// No speedup: the experiment is a baseline.
    pub const BASELINE: Self = Self(0);
    /// The line takes no time at all.
    pub const FULL: Self = Self(1000);

    /// From thousandths; `None` above 1000.
    #[must_use]
    pub const fn from_permille(value: u32) -> Option<Self> {
        if value <= 1000 { Some(Self(value)) } else { None }
    }

    /// From a percentage, 0 to 100; `None` above 100.
    #[must_use]
    pub const fn from_percent(value: u32) -> Option<Self> {
        if value <= 100 { Some(Self(value * 10)) } else { None }
    }

    /// In thousandths.
    #[must_use]
    #[inline(always)]
    pub const fn permille(self) -> u32 {
        self.0
    }

    /// As a fraction, 0.0 to 1.0.
    #[must_use]
    pub fn fraction(self) -> f64 {
        f64::from(self.0) / 1000.0
    }

    /// Whether this is the baseline.
    #[must_use]
    pub const fn is_baseline(self) -> bool {
        self.0 == 0
    }
}

/// A line (or, at function granularity, a function) of the profiled program, as the controller numbers them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct LineId(pub u32);

impl LineId {
    /// "No in-scope line here": also what a cleared table holds.
    pub const NONE: Self = Self(0);

    /// Whether a line stands there.
    #[must_use]
    #[inline(always)]
    pub const fn is_some(self) -> bool {
        self.0 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_speedup_is_at_most_everything() {
        assert_eq!(Speedup::from_percent(100), Some(Speedup::FULL));
        assert_eq!(Speedup::from_percent(101), None);
        assert_eq!(Speedup::from_permille(1001), None);
        assert!(Speedup::from_percent(0).unwrap().is_baseline());
    }

    #[test]
    fn time_never_runs_backwards() {
        assert_eq!(Nanos(3).since(Nanos(5)), Nanos(0));
        assert_eq!(Nanos(5).since(Nanos(3)), Nanos(2));
    }
}
