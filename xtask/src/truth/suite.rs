//! The programs with a known answer.

/// A program of the suite.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Its name, that of its source in `tests/programs` without the extension.
    pub name: &'static str,
    /// Whether its line pays well.
    pub gains: bool,
    /// Whether threads that do not belong together share a CPU: a report that refuses the answer is right there.
    pub crowded: bool,
    /// Whether `--quick` leaves it out unless it is named: one of a kind of which that measures another.
    pub long: bool,
}

const fn gains(name: &'static str) -> Case {
    Case { name, gains: true, crowded: false, long: false }
}

/// The true answer is less than 5 %, or below 0.
const fn flat(name: &'static str) -> Case {
    Case { name, gains: false, crowded: false, long: false }
}

const fn crowded(name: &'static str) -> Case {
    Case { name, gains: true, crowded: true, long: false }
}

/// The pipeline as two processes.
const fn processes(name: &'static str) -> Case {
    Case { name, gains: true, crowded: false, long: true }
}

/// All of them.
pub const SUITE: &[Case] = &[
    gains("single"),
    gains("periodic"),
    gains("phased"),
    gains("cpu_sleep"),
    flat("barrier"),
    flat("barrier_create"),
    gains("pipeline_condvar"),
    gains("pipeline_futex"),
    gains("pipeline_std"),
    gains("pipeline_mpsc"),
    gains("pipeline_cpp"),
    gains("pipeline_pipe"),
    gains("pipeline_socketpair"),
    gains("pipeline_tcp"),
    gains("pipeline_deep"),
    gains("mutex"),
    gains("mutex_parking_lot"),
    crowded("mutex_many"),
    gains("spinlock"),
    gains("rwlock"),
    gains("independent"),
    crowded("independent_many"),
    flat("io_bound"),
    flat("background"),
    flat("spin_barrier"),
    gains("pool_rayon"),
    gains("tokio_tasks"),
    gains("jobserver"),
    gains("dedup"),
    gains("ferret"),
    gains("sqlite"),
    gains("streamcluster"),
    gains("memcached"),
    processes("processes_pipe"),
    processes("processes_unix"),
    processes("processes_tcp"),
    processes("processes_udp"),
    processes("processes_epoll"),
    processes("processes_eventfd"),
    processes("processes_signal"),
    processes("processes_uring"),
];

/// Versions of one program, which must get the same answer.
pub const ALIKE: &[&str] = &["pipeline_condvar", "pipeline_futex", "pipeline_std"];

/// Their names; those of a quick run.
#[must_use]
pub fn names(quick: bool) -> Vec<String> {
    SUITE.iter().filter(|case| !(quick && case.long)).map(|case| case.name.to_owned()).collect()
}

/// Whether a report may refuse the answer for this program.
#[must_use]
pub fn is_crowded(name: &str) -> bool {
    SUITE.iter().any(|case| case.name == name && case.crowded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_different_programs_as_the_suite_names() {
        let mut names = names(false);
        names.sort();
        names.dedup();
        assert_eq!(names.len(), SUITE.len());
        assert!(ALIKE.iter().all(|name| names.contains(&(*name).to_owned())));
    }
}
