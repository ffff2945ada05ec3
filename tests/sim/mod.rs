//! A scheduler that exists only on paper: programs of threads run on it, event by event, in virtual nanoseconds,
//! and the profiler's rules ([`coz_common::clock`], the very functions) run along, on real slots.
//!
//! What a line's speedup would bring is known exactly here: the same program runs again with the line really
//! shortened. So a rule can be judged in seconds, without a machine's noise.
//!
//! | file | what |
//! | --- | --- |
//! | `program` | scripts of threads |
//! | `machine` | CPUs, what things cost |
//! | `world`, `scheduler` | the event loop; who runs where |
//! | `execute`, `locking`, `waiting`, `sync` | what the steps of a script do; locks, barriers, queues |
//! | `profiler`, `kernel` | the kernel side: its state, its events |
//! | `rules`, `stretch` | variants of its rules |
//! | `handler` | the shim's payment |
//! | `judge` | truth, prediction, error |
//! | `shapes` | the programs by name |

mod execute;
mod handler;
pub mod judge;
mod kernel;
mod locking;
pub mod machine;
mod profiler;
pub mod program;
pub mod rules;
mod scheduler;
pub mod shapes;
mod stretch;
mod sync;
mod thread;
mod waiting;
mod world;

pub use world::World;

/// Simulated nanoseconds.
pub type Ns = u64;

/// One microsecond.
pub const US: Ns = 1_000;
/// One millisecond.
pub const MS: Ns = 1_000_000;
/// One second.
pub const S: Ns = 1_000_000_000;
