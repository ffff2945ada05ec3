//! However a run ends, nothing of it stays behind: in the kernel, in the folder for temporary files, in the target.

use coz_tests::run::{Place, wait_until};
use coz_tests::{kernel, program};
use xtask::programs::Outcome;

const WITH_POINT: [&str; 3] = ["-P", "progress", "--"];

fn experiments(place: &Place) -> usize {
    let text = std::fs::read_to_string(place.profile()).unwrap_or_default();
    text.lines().filter(|line| line.contains(r#""type":"experiment""#)).count()
}

#[test]
fn after_a_plain_end() {
    let (before, place) = (kernel::objects(), Place::new());
    let mut command = place.profiled(WITH_POINT);
    command.arg(program("pipeline_condvar")).args(["--seconds", "4"]);
    place.run(command).assert_says(0, &[]);
    kernel::assert_same_as(&before);
    place.assert_nothing_left();
    assert!(experiments(&place) > 0, "four seconds are enough for an experiment");
}

#[test]
fn after_an_error_before_the_start() {
    let (before, place) = (kernel::objects(), Place::new());
    let mut command = place.profiled(["-P", "no_such_symbol", "--"]);
    command.arg(program("single"));
    assert_ne!(place.run(command).code(), 0);
    kernel::assert_same_as(&before);
    place.assert_nothing_left();
}

#[test]
fn after_kill_9_and_the_target_goes_on_at_full_speed() {
    let rounds = 6000;
    let work = |place: &Place| {
        let mut plain = place.plain(program("pipeline_condvar"), ["--rounds", "6000"]);
        plain.env(xtask::programs::SPEED_ENV, "700");
        Outcome::parse(&place.run(plain).output()).expect("a plain run says what it did")
    };
    let (before, place) = (kernel::objects(), Place::new());
    let plain = work(&place);

    let mut command = place.profiled(WITH_POINT);
    command
        .arg(program("pipeline_condvar"))
        .args(["--rounds", "6000"])
        .env(xtask::programs::SPEED_ENV, "700");
    let mut running = place.start(command);
    wait_until("two experiments", || (experiments(&place) >= 2).then_some(()));
    std::thread::sleep(std::time::Duration::from_millis(150));
    running.signal(libc::SIGKILL);
    assert_eq!(running.wait().code(), 128 + libc::SIGKILL);
    // The target runs still, and none of our programs with it; the pages that it shares with them go when it does.
    assert!(!running.output_so_far().contains("rounds"), "the target has not ended yet");
    kernel::assert_nothing_runs_but(&before);

    let output = running.wait_for_output("\n");
    kernel::assert_same_as(&before);
    let outcome = Outcome::parse(&output).expect("the target says what it did");
    assert_eq!(outcome.rounds, rounds, "all of its work was done");
    // Less than half of the run was slowed down, and by no more than twice.
    assert!(outcome.ns < 2 * plain.ns, "plain {} ns, killed {} ns", plain.ns, outcome.ns);
}

#[test]
fn after_ctrl_c_which_reaches_the_target_and_what_was_measured_is_kept() {
    use std::os::unix::process::CommandExt as _;
    let (before, place) = (kernel::objects(), Place::new());
    let mut command = place.profiled(WITH_POINT);
    command.arg(program("pipeline_condvar")).args(["--seconds", "50"]).process_group(0);
    // Whoever runs the tests in the background ignores it, and the target would too.
    // SAFETY: signal is safe to call between fork and exec.
    unsafe {
        command.pre_exec(|| {
            libc::signal(libc::SIGINT, libc::SIG_DFL);
            Ok(())
        });
    }
    let mut running = place.start(command);
    wait_until("two experiments", || (experiments(&place) >= 2).then_some(()));
    // A terminal sends it to the whole group in the foreground.
    // SAFETY: the group is that of a child of ours which has not been waited for.
    assert_eq!(unsafe { libc::kill(-running.pid(), libc::SIGINT) }, 0);
    let ended = running.wait();
    ended.assert_says(128 + libc::SIGINT, &[]);
    assert!(!ended.output().contains("rounds"), "the target has died of it");
    assert!(experiments(&place) >= 2);
    kernel::assert_same_as(&before);
    place.assert_nothing_left();
}
