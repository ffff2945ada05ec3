//! How a profile ends, and that the program goes on.

use std::fs;
use std::time::{Duration, Instant};

use coz_tests::kernel;
use coz_tests::run::{Ended, Place, wait_until};
use coz_tests::turn;

use crate::target::{ATTEMPTS, LONG, Target, attach};

#[test]
fn the_end_of_the_program_ends_the_profile() {
    let _turn = turn::beside_others();
    let (place, target) = (Place::new(), Target::start("single", "3"));
    let ended = place.run(attach(&place, &["-p", &target.pid(), "-P", "progress"]));
    ended.assert_says(0, &["the profiled processes have ended", "visits of progress"]);
    target.ended_as_it_should();
}

#[test]
fn ctrl_c_ends_the_profile_only_and_at_once() {
    let _turn = turn::alone();
    let attempt = || {
        let (place, target) = (Place::new(), Target::start("pipeline_condvar", LONG));
        let before = target.inside();
        let mut profiler = place.start(attach(&place, &["-v", "-p", &target.pid(), "-P", "progress"]));
        wait_until("an experiment", || {
            let text = fs::read_to_string(place.profile()).ok()?;
            text.contains(r#""type":"experiment""#).then_some(())
        });
        profiler.signal(libc::SIGINT);
        let ended = profiler.wait();
        ended.assert_says(0, &["interrupted; detached", "visits of progress"]);
        assert_eq!(target.inside(), before, "everything is undone");
        target.ends_as_it_should();
        detached_within(&ended)
    };
    // What else this machine does can make it take longer, never shorter.
    let mut took = Vec::new();
    while took.len() < ATTEMPTS {
        took.push(attempt());
        if took.last().is_some_and(|took| *took < 100.0) {
            return;
        }
    }
    panic!("{took:?} ms");
}

fn detached_within(ended: &Ended) -> f64 {
    let words = ended.words();
    let after = words.split("detached within ").nth(1).expect("-v says so");
    after.split_ascii_whitespace().next().and_then(|ms| ms.parse().ok()).expect("a number")
}

#[test]
fn after_the_duration_it_returns_at_once() {
    let _turn = turn::alone();
    let (place, target) = (Place::new(), Target::start("single", LONG));
    let began = Instant::now();
    let ended = place.run(attach(&place, &["-v", "-p", &target.pid(), "-P", "progress", "-d", "2"]));
    ended.assert_says(0, &["visits of progress"]);
    assert!(began.elapsed() < Duration::from_secs(7), "{:?}", began.elapsed());
    let took = detached_within(&ended);
    assert!(took < 100.0, "{took} ms");
    target.ends_as_it_should();
}

#[test]
fn a_profiler_that_is_killed_leaves_the_program_at_full_speed() {
    let _turn = turn::alone();
    let held = kernel::objects();
    let (place, target) = (Place::new(), Target::start("pipeline_condvar", LONG));
    let options = ["-p", &target.pid(), "-P", "progress", "--max-overhead", "100", "--speedups", "100"];
    let mut profiler = place.start(attach(&place, &options));
    wait_until("delays", || {
        let text = fs::read_to_string(place.profile()).ok()?;
        text.contains(r#""speedup":1.0"#).then_some(())
    });
    profiler.signal(libc::SIGKILL);
    assert_eq!(profiler.wait().code(), 128 + libc::SIGKILL);
    kernel::assert_nothing_runs_but(&held);
    target.ends_as_it_should();
}
