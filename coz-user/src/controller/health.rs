//! How far the numbers can be trusted: pure, from counters.

use coz_common::{abi::Stat, units::Nanos};

use super::{
    quota::Counts,
    runtimes::{self, Maker},
};
use crate::{
    experiment::record::{Health, PointRun, ThreadDelay},
    kernel::control::Stats,
};

/// CPU time of the whole machine, in ticks, from `/proc/stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MachineTime {
    total: u64,
    stolen: u64,
    busy: u64,
}

impl MachineTime {
    /// Of now; all zero where `/proc/stat` can not be read.
    #[must_use]
    pub fn read() -> Self {
        std::fs::read_to_string("/proc/stat").map(|text| Self::parse(&text)).unwrap_or_default()
    }

    fn parse(text: &str) -> Self {
        let ticks: Vec<u64> = text
            .lines()
            .next()
            .and_then(|line| line.strip_prefix("cpu "))
            .map(|rest| rest.split_whitespace().filter_map(|word| word.parse().ok()).collect())
            .unwrap_or_default();
        // user nice system idle iowait irq softirq steal; guest time is in user already (proc(5)).
        let tick = |index: usize| ticks.get(index).copied().unwrap_or(0);
        let busy = [0, 1, 2, 5, 6].into_iter().map(tick).sum();
        Self { total: ticks.iter().take(8).sum(), stolen: tick(7), busy }
    }

    /// Share of the CPUs' time since `before` that the hypervisor took.
    #[must_use]
    pub fn stolen_since(self, before: Self) -> f64 {
        let total = self.total.saturating_sub(before.total);
        if total == 0 { 0.0 } else { self.stolen.saturating_sub(before.stolen) as f64 / total as f64 }
    }
}

impl MachineTime {
    /// CPU time that was used by anybody since `before`.
    #[must_use]
    pub fn busy_since(self, before: Self) -> Nanos {
        // `USER_HZ`: the same on every x86-64 kernel.
        const TICK: u64 = 10_000_000;
        Nanos(self.busy.saturating_sub(before.busy).saturating_mul(TICK))
    }
}

/// What else is known at the end of a run.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Wall time since the release of the program.
    pub wall: Nanos,
    /// Delay required in all experiments.
    pub delay: Nanos,
    /// What was unpaid at their ends.
    pub unpaid: Nanos,
    /// Wall time of the experiments with delays.
    pub delayed_wall: Nanos,
    /// Samples of the set in them, as if taken at the first rate.
    pub delayed_samples: u64,
    /// All samples of the set, likewise.
    pub nominal_samples: u64,
    /// How many the set's CPU time should have.
    pub expected_samples: u64,
    /// From our start to the release of the program.
    pub startup: Nanos,
    /// CPU time that samples took.
    pub sampling: Nanos,
    /// Share of time stolen by the hypervisor.
    pub steal_share: f64,
    /// CPU time that anybody on the machine used.
    pub busy: Nanos,
    /// For how long experiments were put off to stay within the budget.
    pub held_back: Nanos,
    /// What CPU quotas did to the program.
    pub quota: Counts,
    /// The threads that left most unpaid.
    pub threads: Vec<ThreadDelay>,
    /// When `--until` was reached, from the release of the program on.
    pub enough: Option<Nanos>,
    /// Visits of points, and what they cost.
    pub points: Vec<PointRun>,
    /// Processes that made code while they ran, and whether such code is in scope.
    pub made_code: (Vec<Maker>, bool),
    /// Payments that were not credible, by user.
    pub disbelieved: Vec<(u32, u64)>,
    /// In how many users' processes there are delays.
    pub users: usize,
    /// Whether the shim is in the target.
    pub can_pay: bool,
    /// What could not be done.
    pub notices: Vec<String>,
}

/// Share of samples with a broken call chain from which on it is said.
const MANY_CUT: f64 = 0.02;

/// What is said of payments that cannot be. Where processes of several users are delayed, whose they were: each user's write what they
/// have paid into a table of their own.
fn not_credible(all: u64, by_user: &[(u32, u64)], users: usize) -> Vec<String> {
    let plural = |count: u64| if count == 1 { "" } else { "s" };
    if users < 2 || by_user.is_empty() {
        let s = plural(all);
        return vec![format!("{all} payment{s} of the program were not credible, and did not count")];
    }
    let said = |&(user, count): &(u32, u64)| {
        let s = plural(count);
        format!(
            "{count} payment{s} of processes of user {user} were not credible, and did not count: of their lines, do not believe what \
             is predicted. Other users' processes have no part in it"
        )
    };
    by_user.iter().map(said).collect()
}

/// What the report says about the run's health.
#[must_use]
pub fn health(stats: &Stats, facts: Facts) -> Health {
    let (cpu, waited) = (stats.get(Stat::CpuNs) as f64, stats.get(Stat::RunqueueNs) as f64);
    let runqueue_share = if cpu + waited > 0.0 { waited / (cpu + waited) } else { 0.0 };
    let samples = stats.get(Stat::Samples);
    let lost = stats.lost();
    // What the numbers below say by themselves, the report says; here is what only the kernel side's counters tell.
    let mut warnings = Vec::new();
    let held = stats.get(Stat::HeldBlocked) + stats.get(Stat::HeldSeccomp) + stats.get(Stat::HeldHandler);
    if facts.can_pay && held * 10 > stats.get(Stat::SignalsSent).max(100) {
        warnings.push(format!(
            "{held} requests to pay could not be made (signal blocked: {}, seccomp filter: {}, no handler of ours: {}): \
             delays may be missing",
            stats.get(Stat::HeldBlocked),
            stats.get(Stat::HeldSeccomp),
            stats.get(Stat::HeldHandler)
        ));
    }
    if stats.get(Stat::SlotsFull) > 0 {
        warnings.push(format!(
            "{} threads were not followed: the table of threads was full",
            stats.get(Stat::SlotsFull)
        ));
    }
    if stats.get(Stat::ProcessesFull) > 0 {
        warnings.push(format!(
            "{} processes were not followed: the table of processes was full",
            stats.get(Stat::ProcessesFull)
        ));
    }
    let made = runtimes::advice(stats, &facts.made_code.0, facts.made_code.1);
    let cut = stats.get(Stat::ChainCut);
    if made.is_none() && cut as f64 > MANY_CUT * samples as f64 && samples > 0 {
        warnings.push(format!(
            "{cut} of {samples} samples count for no line because their call chains end in code that does not say where \
             it was called from (made at run time, or assembly)"
        ));
    }
    warnings.extend(made);
    if stats.get(Stat::PaidAbsurd) > 0 {
        warnings.extend(not_credible(stats.get(Stat::PaidAbsurd), &facts.disbelieved, facts.users));
    }
    Health {
        samples,
        lost_samples: lost,
        signals_sent: stats.get(Stat::SignalsSent),
        signals_failed: stats.get(Stat::SignalsFailed),
        owed_ns: facts.delay.0,
        paid_ns: stats.get(Stat::PaidNs),
        unpaid_ns: facts.unpaid.0,
        runqueue_share,
        steal_share: facts.steal_share,
        undelayed_ns: facts.wall.since(facts.delayed_wall).0,
        undelayed_samples: facts.nominal_samples.saturating_sub(facts.delayed_samples),
        clock_samples: (facts.nominal_samples, facts.expected_samples),
        startup_ns: facts.startup.0,
        sampling_ns: facts.sampling.0,
        delay_ns: facts.delay.0,
        probe_ns: facts.points.iter().map(|point| point.probe_ns).sum(),
        cpu_ns: stats.get(Stat::CpuNs),
        outside_ns: facts.busy.since(Nanos(stats.get(Stat::CpuNs))).0,
        held_back_ns: facts.held_back.0,
        out_of_scope: stats.get(Stat::OutOfScope),
        spinning: stats.get(Stat::Spinning),
        throttled_ns: facts.quota.throttled_ns,
        quota_periods: (facts.quota.periods, facts.quota.throttled),
        threads: facts.threads,
        points: facts.points,
        enough_ns: facts.enough.map(|enough| enough.0),
        warnings,
        notices: facts.notices,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steal_time_is_a_share_of_all_time() {
        let before = MachineTime::parse("cpu  100 0 100 700 0 0 0 100 0 0\ncpu0 1 2 3\n");
        let after = MachineTime::parse("cpu  150 0 100 700 0 0 0 150 9 9\n");
        assert!((after.stolen_since(before) - 0.5).abs() < 1e-9);
        assert_eq!(after.busy_since(before), Nanos(500_000_000), "50 ticks of user time");
        assert_eq!(MachineTime::parse("nonsense").stolen_since(before), 0.0);
    }

    #[test]
    fn a_chain_that_is_cut_is_not_told_twice() {
        let stats = [(Stat::Samples, 1000), (Stat::ChainCut, 500), (Stat::MadeAtRunTime, 500)];
        let stats = Stats::of(&stats);
        let cut = health(&stats, Facts::default()).warnings;
        assert!(cut.len() == 1 && cut[0].contains("500 of 1000"), "{cut:?}");
        let node = Maker { program: "node".to_owned(), pid: 7, runtime: None, has_map: false };
        let made = health(&stats, Facts { made_code: (vec![node], false), ..Facts::default() }).warnings;
        assert!(made.len() == 1 && made[0].contains("node (7) made"), "{made:?}");
    }

    #[test]
    fn a_quiet_run_has_no_warnings() {
        assert!(health(&Stats::default(), Facts::default()).warnings.is_empty());
    }
}
