//! What the kernel holds of BPF: the lists must be the same before and after a run.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Every BPF program, map and link that is loaded, as `kind id name`, once the list has not changed for a second:
/// the kernel frees what a run before has held a little later.
///
/// # Panics
/// When it keeps changing for ten seconds.
pub fn objects() -> BTreeSet<String> {
    let deadline = Instant::now() + Duration::from_secs(10);
    let (mut last, mut since) = (now(), Instant::now());
    while since.elapsed() < Duration::from_secs(1) {
        assert!(Instant::now() < deadline, "other programs load and unload BPF objects all the time");
        std::thread::sleep(Duration::from_millis(50));
        let next = now();
        if next != last {
            (last, since) = (next, Instant::now());
        }
    }
    last
}

/// # Panics
/// When they cannot be listed: not root, or no BPF. Such a test has failed, it is not skipped.
fn now() -> BTreeSet<String> {
    let programs = aya::programs::loaded_programs().map(|program| {
        let program = program.expect("programs can be listed (root is needed)");
        format!("program {} {}", program.id(), program.name_as_str().unwrap_or_default())
    });
    let maps = aya::maps::loaded_maps().map(|map| {
        let map = map.expect("maps can be listed (root is needed)");
        format!("map {} {}", map.id(), map.name_as_str().unwrap_or_default())
    });
    let links = aya::programs::loaded_links().map(|link| {
        let link = link.expect("links can be listed (root is needed)");
        format!("link {} of program {}", link.id(), link.program_id())
    });
    programs.chain(maps).chain(links).collect()
}

/// Fails unless the kernel soon has no program and no link that was not there `before`: nothing of ours runs in it any
/// more. Maps live on while a target that outlives its profiler has them in its memory.
///
/// # Panics
/// When something is still there after five seconds.
pub fn assert_nothing_runs_but(before: &BTreeSet<String>) {
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        let now = now();
        let left: Vec<_> = now.difference(before).filter(|object| !object.starts_with("map ")).collect();
        if left.is_empty() {
            return;
        }
        assert!(Instant::now() < deadline, "left in the kernel: {left:#?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Fails unless the kernel soon holds again what it held `before`: it frees things a little later.
///
/// # Panics
/// When something is left or missing after five seconds.
pub fn assert_same_as(before: &BTreeSet<String>) {
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        let now = now();
        if &now == before {
            return;
        }
        if Instant::now() > deadline {
            let left: Vec<_> = now.difference(before).collect();
            let gone: Vec<_> = before.difference(&now).collect();
            panic!("left in the kernel: {left:#?}; gone from it: {gone:#?}");
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}
