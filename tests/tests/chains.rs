//! Programs without frame pointers that spend their time in libraries and in the kernel: samples count for the line that
//! called, and do not cost much.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use coz_tests::run::{Ended, Place};
use coz_tests::turn;
use coz_user::experiment::record::{self, Profile};

const SECONDS: &str = "4";

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("chains").join(name)
}

fn compile(place: &Place, name: &str, compiler: &str, flags: &[&str]) -> PathBuf {
    let program = place.path().join("program");
    let mut command = Command::new(compiler);
    command.args(flags).arg(source(name)).arg("-o").arg(&program);
    let output = command.output().expect("the compiler is there");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    program
}

/// Runs it under the profiler, which must be happy.
fn profile(place: &Place, words: &[&str]) -> (Ended, Profile) {
    let ended = place.run(place.profiled(words));
    assert_eq!(ended.code(), 0, "{}", ended.words());
    let profile = record::read(&place.profile()).expect("a profile");
    (ended, profile)
}

/// Share of all samples that fall on lines with the remark `PART: name`, by name.
fn shares(profile: &Profile, text: &str) -> BTreeMap<String, f64> {
    let all = profile.runtime.as_ref().expect("it has ended").health.samples as f64;
    let part = |line: usize| text.lines().nth(line.checked_sub(1)?)?.split("// PART: ").nth(1);
    let mut shares = BTreeMap::new();
    for sampled in &profile.samples {
        if let Some(name) = sampled.line.and_then(|line| part(line as usize)) {
            *shares.entry(name.to_owned()).or_insert(0.0) += sampled.count as f64 / all;
        }
    }
    shares
}

/// What the program itself says of its CPU time.
fn truth(output: &str) -> BTreeMap<String, f64> {
    let spent: BTreeMap<String, f64> = output
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(name, ns)| (name.to_owned(), ns.parse().expect("a number")))
        .collect();
    let all: f64 = spent.values().sum();
    spent.into_iter().map(|(name, ns)| (name, ns / all)).collect()
}

fn assert_right(name: &str, ended: &Ended, profile: &Profile) {
    let text = std::fs::read_to_string(source(name)).expect("the source");
    let (found, truth) = (shares(profile, &text), truth(&ended.output()));
    let all: f64 = found.values().sum();
    let shown = format!("found {found:?}, truth {truth:?}, in all {all:.3}\n{}", ended.words());
    eprintln!("{name}: {shown}");
    assert!(all >= 0.95, "{shown}");
    for (part, share) in &truth {
        let found = found.get(part).copied().unwrap_or(0.0);
        assert!((found - share).abs() < 0.05 * share + 0.02, "{part}: {shown}");
    }
}

#[test]
fn time_in_the_c_library_and_in_system_calls_counts_for_the_line_that_called() {
    let _turn = turn::beside_others();
    let place = Place::new();
    let program = compile(&place, "library_time.c", "gcc", &["-O2", "-g", "-fomit-frame-pointer"]);
    let (ended, profile) = profile(&place, &["-v", program.to_str().expect("UTF-8"), SECONDS]);
    assert_right("library_time.c", &ended, &profile);
}

#[test]
fn a_rust_program_without_frame_pointers_too() {
    let _turn = turn::beside_others();
    let place = Place::new();
    let flags = ["--edition=2024", "-Copt-level=2", "-g", "-Cforce-frame-pointers=no"];
    let program = compile(&place, "library_time.rs", "rustc", &flags);
    let (ended, profile) = profile(&place, &["-v", program.to_str().expect("UTF-8"), SECONDS]);
    assert_right("library_time.rs", &ended, &profile);
}

#[test]
fn callers_count_too_if_they_are_asked_for() {
    let _turn = turn::beside_others();
    let place = Place::new();
    let program = compile(&place, "library_time.c", "gcc", &["-O2", "-g", "-fomit-frame-pointer"]);
    let words = ["--inclusive", program.to_str().expect("UTF-8"), SECONDS];
    let (_, profile) = profile(&place, &words);
    assert_eq!(profile.startup.attribution, record::Attribution::Inclusive);
    let text = std::fs::read_to_string(source("library_time.c")).expect("the source");
    let call = text.lines().position(|line| line.contains("work[part](rounds[part]);")).expect("it is there");
    let samples = profile.runtime.as_ref().expect("it has ended").health.samples;
    let of_call: u64 = profile
        .samples
        .iter()
        .filter(|sampled| sampled.line == Some(call as u32 + 1))
        .map(|sampled| sampled.count)
        .sum();
    assert!(of_call as f64 > 0.95 * samples as f64, "{of_call} of {samples} samples are below the call");
    assert!(of_call <= samples, "no sample counts twice for one line: {of_call} of {samples}");
    assert!(shares(&profile, &text).values().sum::<f64>() > 0.95, "and for the line that it calls from");
}

/// The number of the line with the remark `LINE: name`.
fn line_of(name: &str) -> u32 {
    let text = std::fs::read_to_string(source("inlined.c")).expect("the source");
    let at = text.lines().position(|line| line.ends_with(&format!("// LINE: {name}")));
    at.expect("it is there") as u32 + 1
}

/// Share of all samples by line, or by function.
fn share(profile: &Profile, is_meant: impl Fn(&record::Samples) -> bool) -> f64 {
    let all = profile.runtime.as_ref().expect("it has ended").health.samples as f64;
    profile.samples.iter().filter(|sampled| is_meant(sampled)).map(|sampled| sampled.count as f64 / all).sum()
}

#[test]
fn lines_that_calls_were_inlined_at_count_for_what_is_below_them() {
    let _turn = turn::beside_others();
    let place = Place::new();
    let program = compile(&place, "inlined.c", "gcc", &["-O2", "-g"]);
    let program = program.to_str().expect("UTF-8");
    let at = |profile: &Profile, name: &str| share(profile, |sampled| sampled.line == Some(line_of(name)));
    let (_, inclusive) = profile(&place, &["--inclusive", program, SECONDS]);
    for (name, truth) in [("within", 0.9), ("six", 0.6), ("three", 0.3), ("way", 0.3), ("one", 0.1)] {
        let found = at(&inclusive, name);
        assert!((found - truth).abs() < 0.04, "{name}: {found:.3} of the samples, {truth} are right");
    }
    let (_, own) = profile(&place, &[program, SECONDS]);
    assert!(at(&own, "within") > 0.86 && at(&own, "six") < 0.02, "else the innermost line only");
}

#[test]
fn functions_are_groups_inlined_or_not() {
    let _turn = turn::beside_others();
    let place = Place::new();
    let program = compile(&place, "inlined.c", "gcc", &["-O2", "-g"]);
    let program = program.to_str().expect("UTF-8");
    let words = ["--granularity", "function", program, SECONDS];
    let of =
        |profile: &Profile, name: &str| share(profile, |sampled| sampled.function.as_deref() == Some(name));
    let (_, own) = profile(&place, &words);
    assert!((of(&own, "spin") - 0.9).abs() < 0.04 && (of(&own, "main") - 0.1).abs() < 0.04);
    let (_, inclusive) = profile(&place, &[&["--inclusive"][..], &words].concat());
    for (name, truth) in [("spin", 0.9), ("by_way", 0.3), ("main", 1.0)] {
        let found = of(&inclusive, name);
        assert!((found - truth).abs() < 0.04, "{name}: {found:.3} of the samples, {truth} are right");
    }
}

/// One thread: half of a line is worth half of what is spent below it, of the time that the thread has a CPU.
#[test]
fn effects_of_lines_that_calls_were_inlined_at_are_right() {
    let _turn = turn::alone();
    let compiled = Place::new();
    let program = compile(&compiled, "inlined.c", "gcc", &["-O2", "-g"]);
    let program = program.to_str().expect("UTF-8");
    for (name, truth) in [("six", 30.0), ("three", 15.0)] {
        let line = format!("inlined.c:{}", line_of(name));
        let attempt = || {
            let place = Place::new();
            let words =
                ["--inclusive", "-P", "progress", "--fixed-line", &line, "--speedups", "50", program, "8"];
            let (_, profile) = profile(&place, &words);
            let runtime = profile.runtime.expect("it has ended");
            let has_cpu = runtime.health.cpu_ns as f64 / runtime.time as f64;
            let ended = place.run(place.plain(coz_tests::profiler(), ["report", "--json", "--all"]));
            let report: serde_json::Value = serde_json::from_str(&ended.output()).expect("JSON");
            // Of a busy machine it can be that no experiment counts.
            let curve = report["lines"][0]["curve"].as_array().map_or(&[][..], Vec::as_slice);
            let half =
                curve.iter().find(|level| level["speedup"] == 0.5).and_then(|level| level["effect"].as_f64());
            half.map_or(f64::NAN, |effect| 100.0 * effect / has_cpu.min(1.0))
        };
        // Both are far from nothing, and from each other.
        let is_right = |effect: &f64| (effect - truth).abs() <= 0.4 * truth;
        let mut found = Vec::new();
        while found.len() < 3 && !found.last().is_some_and(is_right) {
            found.push(attempt());
        }
        eprintln!("{name}: {found:?}, {truth} is true");
        assert!(found.last().is_some_and(is_right), "{name}: {found:?}, {truth} is true");
    }
}

#[test]
fn a_line_without_code_of_its_own_is_said_to_be_one() {
    let _turn = turn::beside_others();
    let place = Place::new();
    let program = compile(&place, "inlined.c", "gcc", &["-O2", "-g"]);
    let line = format!("inlined.c:{}", line_of("way"));
    let ended = place.run(place.profiled(["--fixed-line", &line, program.to_str().expect("UTF-8"), "1"]));
    ended.assert_says(2, &["was inlined there", "inlined.c:", "--inclusive"]);
}

#[test]
fn a_sample_that_is_unwound_costs_at_most_three_microseconds() {
    let _turn = turn::alone();
    // Held open: the kernel measures as long as somebody has it.
    let _measuring = aya::sys::enable_stats(aya::sys::Stats::RunTime).expect("root, and Linux 5.8");
    let place = Place::new();
    let program = compile(&place, "library_time.c", "gcc", &["-O2", "-g", "-fomit-frame-pointer"]);
    let before: Vec<u32> = samplers().into_iter().map(|(id, ..)| id).collect();
    let mut running = place.start(place.profiled([program.to_str().expect("UTF-8"), SECONDS]));
    let deadline = Instant::now() + Duration::from_secs(20);
    let mut counts: Vec<(u64, Duration)> = Vec::new();
    let mut system_call = Duration::MAX;
    while counts.last().is_none_or(|(runs, _)| *runs < 5000) {
        let ours = samplers().into_iter().find(|(id, ..)| !before.contains(id));
        counts.extend(ours.map(|(_, runs, time)| (runs, time)));
        assert!(Instant::now() < deadline, "no 5,000 samples");
        system_call = system_call.min(price_of_a_system_call());
        std::thread::sleep(Duration::from_millis(200));
    }
    assert_eq!(running.wait().code(), 0);
    let windows: Vec<Duration> = counts
        .windows(2)
        .filter(|pair| pair[1].0 - pair[0].0 >= 100)
        .map(|pair| (pair[1].1 - pair[0].1) / u32::try_from(pair[1].0 - pair[0].0).expect("few"))
        .collect();
    // The program does the same throughout; the clock of the kernel's statistics also counts what
    // the machine's other guests take meanwhile, which only adds: the cheapest stretch is the price.
    let price = windows.iter().min().expect("a stretch of a hundred samples");
    // Twenty system calls take 3 us where one takes 150 ns; a machine on which they take longer is slow.
    let limit = Duration::from_micros(3).max(20 * system_call);
    eprintln!("a sample costs {price:?}, a system call {system_call:?}; in stretches: {windows:?}");
    assert!(
        *price <= limit,
        "{price:?}, where a system call takes {system_call:?}; in stretches: {windows:?}"
    );
}

fn price_of_a_system_call() -> Duration {
    let begun = Instant::now();
    for _ in 0..2000 {
        // SAFETY: it takes nothing and changes nothing.
        unsafe { libc::getppid() };
    }
    begun.elapsed() / 2000
}

/// Programs of this name in the kernel: id, runs, time in all.
fn samplers() -> Vec<(u32, u64, Duration)> {
    aya::programs::loaded_programs()
        .flatten()
        .filter(|program| program.name_as_str() == Some("sample"))
        .map(|program| (program.id(), program.run_count(), program.run_time()))
        .collect()
}
