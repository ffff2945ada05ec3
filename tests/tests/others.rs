//! Programs that no one here wrote, and programs that do unusual things: they must not notice the profiler.

use coz_tests::program;
use coz_tests::run::{Ended, Place};

/// Runs a program plain and profiled; both must print and end the same. The profiled run and its profile's last
/// health record.
fn same(file: &str, args: &[&str]) -> (Ended, serde_json::Value) {
    let place = Place::new();
    let plain = place.run(place.plain(file, args));
    let mut command = place.profiled(["-q", "--"]);
    command.arg(file).args(args);
    let profiled = place.run(command);
    let words = profiled.words();
    assert_eq!(profiled.code(), plain.code(), "{file} {args:?}:\n{words}");
    assert_eq!(profiled.output(), plain.output(), "{file} {args:?}:\n{words}");
    assert_eq!(words, plain.words(), "{file} {args:?}");
    let profile = std::fs::read_to_string(place.profile()).expect("a profile is written");
    let runtime = profile.lines().rfind(|line| line.starts_with(r#"{"type":"runtime""#));
    let runtime = serde_json::from_str(runtime.expect("the profile has an end")).expect("it is JSON");
    (profiled, runtime)
}

fn perl(script: &str) -> (Ended, serde_json::Value) {
    same("/usr/bin/perl", &["-e", script])
}

#[test]
fn a_thousand_threads_at_once() {
    let file = program("threads");
    let (ended, _) = same(&file.display().to_string(), &["once", "1000"]);
    assert_eq!(ended.code(), 3, "{}", ended.words());
}

#[test]
fn twenty_thousand_threads_one_after_the_other() {
    let file = program("threads");
    let (ended, runtime) = same(&file.display().to_string(), &["turn", "20000"]);
    assert_eq!(ended.code(), 3, "{}", ended.words());
    // The first samples on a page of code come before its unwind table.
    let count = |key: &str| runtime[key].as_u64().expect("a count");
    assert!(50 * count("lost_samples") <= count("samples"), "{runtime}");
}

/// Runs the program of many threads with experiments on it, and looks at the profiler's memory meanwhile, kilobytes.
fn many_threads(args: [&str; 2]) -> (Ended, Vec<u64>) {
    let place = Place::new();
    let mut command = place.profiled(["-v", "-P", "thread", "--"]);
    command.arg(program("threads")).args(args).stdin(std::process::Stdio::null());
    let mut running = place.start(command);
    let mut memory = Vec::new();
    while let Some(now) = running.private_kb() {
        memory.push(now);
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let ended = running.wait();
    ended.assert_says(3, &["SlotsFull 0,", "EventsLost 0,", "PendingLost 0,"]);
    (ended, memory)
}

#[test]
fn a_thousand_threads_at_once_all_have_a_slot() {
    let (ended, memory) = many_threads(["once", "1000"]);
    assert!(ended.output().starts_with("1000 threads"), "{}", ended.output());
    assert!(!memory.is_empty());
}

#[test]
fn the_profiler_does_not_grow_with_the_number_of_threads_that_were() {
    // More than there are slots: they must be used again.
    let (ended, memory) = many_threads(["turn", "20000"]);
    assert!(ended.output().starts_with("20000 threads"), "{}", ended.output());
    let quarter = memory.len() / 4;
    let (early, late) = (memory[quarter..2 * quarter].iter().max(), memory[3 * quarter..].iter().max());
    let (early, late) = early.zip(late).expect("it was looked at more than once");
    assert!(late.saturating_sub(*early) <= 2048, "{early} kB became {late} kB: {memory:?}");
}

#[test]
fn hundreds_of_forks_and_execs() {
    let script = "i=0; n=0; while [ $i -lt 250 ]; do i=$((i+1)); (exit $((i % 5))) || n=$((n + 1)); /bin/true; done; \
        echo $n; exit 9";
    let (ended, _) = same("/bin/sh", &["-c", script]);
    assert_eq!((ended.code(), ended.output().trim()), (9, "200"));
}

#[test]
fn processes_that_outlive_their_parents_and_deep_families() {
    let (ended, _) = perl(
        "$| = 1; sub f { my $d = shift or return; my $p = fork; if (!$p) { f($d - 1); exit $d } \
         waitpid $p, 0; print $? >> 8, ' ' } f(40); print qq(\\n); exit 5",
    );
    assert_eq!(ended.code(), 5);
}

#[test]
fn every_signal_is_the_programs_own() {
    // 9 and 19 cannot be caught, 32 and 33 are the C library's.
    let (ended, _) = perl(
        "use POSIX; my @got; my @all = grep { !/^(9|19|32|33)$/ } 1..64; \
         for my $s (@all) { POSIX::sigaction($s, POSIX::SigAction->new(sub { push @got, $_[0] })) or die $s } \
         kill $_, $$ for @all; my $x = 0; $x += $_ for 1..2e6; print qq(@got $x\\n)",
    );
    assert!(ended.output().contains("RTMAX"), "{}", ended.output());
}

#[test]
fn blocked_signals_stay_blocked() {
    let (ended, _) = perl(
        "use POSIX; my $all = POSIX::SigSet->new; $all->fillset; my $old = POSIX::SigSet->new; \
         sigprocmask(SIG_SETMASK, $all, $old); my $x = 0; $x += $_ for 1..4e6; my $pending = POSIX::SigSet->new; \
         sigpending($pending); sigprocmask(SIG_BLOCK, POSIX::SigSet->new, $old); \
         print join(' ', map { $pending->ismember($_) . $old->ismember($_) } 1..64), qq( $x\\n)",
    );
    assert!(ended.output().starts_with("01 "), "nothing is pending, all is blocked: {}", ended.output());
}

#[test]
fn a_program_that_closes_every_descriptor_changes_its_root_and_its_user() {
    let place = Place::new();
    let script = format!(
        "use POSIX; POSIX::close($_) for 3..1023; chroot '{}' or die $!; chdir '/'; \
         $) = '65534 65534'; $( = 65534; $< = $> = 65534; my $p = fork; my $x = 0; $x += $_ for 1..3e6; \
         exit 6 if !$p; waitpid $p, 0; print qq($< $> $x ), $? >> 8, qq(\\n); exit 8",
        place.path().display()
    );
    let (ended, _) = perl(&script);
    assert_eq!(ended.code(), 8, "{}", ended.words());
}

#[test]
fn a_packaged_program_is_shown_by_function_and_the_way_to_lines_is_said() {
    let place = Place::new();
    let mut command = place.profiled(["--", "/usr/bin/perl", "-e", "$x += $_ for 1..5e6; print $x"]);
    command.env("NO_COLOR", "1");
    let ended = place.run(command);
    ended.assert_says(0, &["has no debug information", "-dbgsym"]);
    assert_eq!(ended.output(), "12500002500000");
}
