//! What can be varied: the rules as they are, and others that were tried.

use super::{Ns, S, US};

/// How the selected line's time is charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charging {
    /// A whole sample's delay at the sample that hits.
    Lumped,
    /// Little by little, at the running share of hits among all the thread's samples.
    Fluid,
    /// Fluid, with a share for each place that a stretch begins at: [`coz_common::stretch`].
    Places,
    /// Fluid, with a share for each of six kinds of stretches: `stretch.rs`.
    Kinds,
    /// What the line has really used, to the nanosecond: what no sampling can know. Shows the part of an error that is
    /// not the charging's.
    Exact,
}

/// What a woken thread inherits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// Nothing.
    Nothing,
    /// `v(T) = max(v(T) at block, v(W))`, no more.
    Max,
    /// [`coz_common::clock::apply_wake`]: also the latency, where it would not have waited.
    Product,
}

/// What a thread owes for the time that it has waited for a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuEdge {
    /// All that `G` has grown by.
    Owes,
    /// The CPU has a virtual clock: [`coz_common::clock::get_cpu`].
    Clock,
}

/// The rules of one run.
#[derive(Clone, Debug)]
pub struct Rules {
    /// How the line's time is charged.
    pub charging: Charging,
    /// What goes along with a wake-up.
    pub wake: Wake,
    /// What goes along with a CPU.
    pub cpu_edge: CpuEdge,
    /// Debt from which a thread is asked to pay.
    pub threshold: Ns,
    /// Nominal sampling period.
    pub period: Ns,
    /// By how much a period differs at most, to either side.
    pub jitter: Ns,
    /// Whether a wake-up from a timed wait is an occasion to pay.
    pub pay_at_wake: bool,
    /// Whether who spins absorbs: [`coz_common::clock::absorb_spinning`].
    pub spinning: bool,
    /// Whether what a sample takes is absorbed: [`coz_common::clock::absorb_sample`].
    pub intrusion: bool,
}

impl Default for Rules {
    /// As in the product.
    fn default() -> Self {
        Self {
            charging: Charging::Places,
            wake: Wake::Product,
            cpu_edge: CpuEdge::Clock,
            threshold: 250 * US,
            period: S / 1499,
            jitter: 0,
            pay_at_wake: false,
            spinning: true,
            intrusion: true,
        }
    }
}
