//! Points of every kind on real programs: each is passed a known number of times, and that is what is counted.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use coz_tests::run::{Ended, Place};
use coz_tests::turn;
use serde_json::Value;

const ROUNDS: u64 = 400;

/// Compiles a program beside this file.
fn compile(place: &Place, source: &str, name: &str, flags: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("points").join(source);
    let output = place.path().join(name);
    let compiler = if source.extension().is_some_and(|extension| extension == "c") { "gcc" } else { "g++" };
    let mut command = Command::new(compiler);
    command.args(["-O2", "-g", "-fno-omit-frame-pointer"]).arg(&source).args(flags).arg("-o").arg(&output);
    let said = command.output().expect("the compiler is there");
    let words = String::from_utf8_lossy(&said.stderr);
    assert!(
        said.status.success(),
        "{command:?} (apt-get install gcc g++ systemtap-sdt-dev coz-profiler): {words}"
    );
    output
}

fn run(place: &Place, options: &[&str], program: &Path, args: &[&str]) -> Ended {
    let mut command = place.profiled(options);
    command.arg("--").arg(program).args(args);
    place.run(command)
}

fn records(place: &Place) -> Vec<Value> {
    let text = std::fs::read_to_string(place.profile()).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Visits of each point in the whole run.
fn visits(place: &Place) -> BTreeMap<String, u64> {
    let records = records(place);
    let runtime = records.iter().find(|record| record["type"] == "runtime").expect("the run has an end");
    let points = runtime["points"].as_array().expect("there were points");
    let of = |point: &Value| Some((point["name"].as_str()?.to_owned(), point["visits"].as_u64()?));
    points.iter().filter_map(of).collect()
}

fn counted(place: &Place, options: &[&str], program: &Path, expected: &[(&str, u64)]) -> Ended {
    let rounds = ROUNDS.to_string();
    let ended = run(place, options, program, &[&rounds]);
    ended.assert_says(0, &[]);
    let visits = visits(place);
    for (name, times) in expected {
        assert_eq!(visits.get(*name), Some(times), "{name}: {visits:?}\n{}", ended.words());
    }
    ended
}

#[test]
fn functions_lines_returns_and_system_calls_are_counted_exactly() {
    let _turn = turn::beside_others();
    let place = Place::new();
    // As Ubuntu's compiler builds everything: functions begin with endbr64.
    for (name, flags) in [("plain", &[][..]), ("fixed", &["-no-pie"]), ("cet", &["-fcf-protection=full"])] {
        let program = compile(&place, "shapes.c", name, flags);
        let source = include_str!("../points/shapes.c");
        let line = source.lines().position(|line| line.contains("/* line */")).expect("it is marked") + 1;
        let line = format!("line=shapes.c:{line}");
        let options = [
            "-P",
            "several",
            "-P",
            "several%return",
            "-P",
            "tail%return",
            "-P",
            "again",
            "-P",
            "again%return",
            "-P",
            "mixed",
            "-P",
            &line,
            "-P",
            "rare%return",
            "-P",
            "special",
            "-P",
            "syscall:getppid",
            "-P",
            "calls=syscall:getppid",
        ];
        let expected = [
            ("several", 2),
            ("several%return", 2),
            ("tail%return", 1),
            ("again", 4),
            ("again%return", 4),
            ("mixed", 1),
            ("line", 1),
            ("rare%return", 1),
            ("special", 2),
            ("syscall:getppid", 1),
            ("calls", 1),
        ];
        counted(&place, &options, &program, &expected.map(|(name, times)| (name, times * ROUNDS)));
    }
}

#[test]
fn only_the_programs_own_system_calls_count() {
    let _turn = turn::beside_others();
    let place = Place::new();
    let program = compile(&place, "shapes.c", "shapes", &[]);
    let own = place.plain("sh", ["-c", "while :; do :; done & wait"]);
    let script = format!(
        "{} {ROUNDS} & for i in 1 2 3; do {} {ROUNDS}; done; wait",
        program.display(),
        program.display()
    );
    let other = place.start(place.plain("sh", ["-c", &script]));
    drop(own);
    counted(&place, &["-P", "syscall:getppid"], &program, &[("syscall:getppid", ROUNDS)]);
    drop(other);
}

#[test]
fn declared_probes_are_found_with_and_without_semaphore_in_programs_and_libraries() {
    let _turn = turn::beside_others();
    let options = ["-P", "usdt:test:step", "-P", "usdt:test:other"];
    let expected = [("usdt:test:step", ROUNDS + ROUNDS / 2), ("usdt:test:other", ROUNDS)];
    for (name, flags) in [
        ("bare", &[][..]),
        ("fixed", &["-no-pie"]),
        ("counted", &["-DSEMAPHORE"]),
        ("counted_fixed", &["-DSEMAPHORE", "-no-pie"]),
    ] {
        let place = Place::new();
        let program = compile(&place, "declared.c", name, flags);
        let ended = counted(&place, &options, &program, &expected);
        // The semaphore was up from the first round on.
        assert_eq!(ended.output(), "skipped 0\n", "{name}");
        if name == "counted" {
            let alone = place.run(place.plain(&program, [ROUNDS.to_string()]));
            assert_eq!(alone.output(), format!("skipped {ROUNDS}\n"), "and without us it is down");
        }
    }
    let place = Place::new();
    let library =
        compile(&place, "declared.c", "libdeclared.so", &["-DSEMAPHORE", "-DLIBRARY", "-shared", "-fPIC"]);
    let folder = library.parent().expect("a folder").to_str().expect("UTF-8");
    let flags = [library.to_str().expect("UTF-8"), &format!("-Wl,-rpath,{folder}")];
    let program = compile(&place, "uses_library.c", "uses", &flags);
    let point = format!("step={}@usdt:test:step", library.display());
    let ended = counted(&place, &["-P", &point], &program, &[("step", ROUNDS + ROUNDS / 2)]);
    assert_eq!(ended.output(), "skipped 0\n");
}

#[test]
fn probes_that_a_system_library_declares() {
    let _turn = turn::beside_others();
    let place = Place::new();
    let program = compile(&place, "throws.cpp", "throws", &[]);
    let point = "throws=libstdc++.so.6@usdt:libstdcxx:throw";
    counted(&place, &["-P", point], &program, &[("throws", ROUNDS / 4)]);
}

#[test]
fn exceptions_pass_through_a_function_whose_returns_are_counted() {
    let _turn = turn::beside_others();
    let place = Place::new();
    let program = compile(&place, "throws.cpp", "throws", &[]);
    let ended = counted(
        &place,
        &["-P", "passed", "-P", "passed%return", "-L", "took=passed"],
        &program,
        &[("passed", ROUNDS), ("passed%return", ROUNDS / 4 * 3), ("took", ROUNDS / 4 * 3)],
    );
    assert!(ended.output().starts_with(&format!("caught {}", ROUNDS / 4)), "{}", ended.output());
    let records = records(&place);
    let point = records.iter().rfind(|record| record["type"] == "latency-point");
    // Those that were left by an exception are not under way for ever.
    assert!(point.is_none_or(|point| point["difference"].as_u64() <= Some(2)), "{point:?}");
}

#[test]
fn the_header_of_coz_counts_exactly() {
    let _turn = turn::alone();
    let place = Place::new();
    let program = compile(&place, "instrumented.c", "instrumented", &[]);
    let rounds = (40 * ROUNDS).to_string();
    let ended = run(&place, &[], &program, &[&rounds]);
    ended.assert_says(0, &["latency of job", "by little's law"]);
    let visits = visits(&place);
    let counts: Vec<u64> = visits.values().copied().collect();
    assert_eq!(counts, [40 * ROUNDS; 3], "begin and end, and both kinds of progress: {visits:?}");
    // Three quarters of the time a job is under way, and never more than one.
    let records = records(&place);
    let points = records.iter().filter(|record| record["type"] == "latency-point");
    let levels: Vec<f64> = points.filter_map(|point| point["in_system"].as_f64()).collect();
    let mean = levels.iter().sum::<f64>() / levels.len() as f64;
    assert!(levels.len() > 3 && (mean - 0.75).abs() < 0.1, "{levels:?}");
}

#[test]
fn the_crate_of_coz_counts_exactly() {
    let _turn = turn::beside_others();
    let place = Place::new();
    let manifest = "[package]\nname = \"crated\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\
                    [dependencies]\ncoz = \"=0.1.3\"\n[profile.release]\ndebug = true\n[workspace]\n";
    std::fs::create_dir(place.path().join("src")).expect("the place is writable");
    std::fs::write(place.path().join("Cargo.toml"), manifest).expect("the place is writable");
    std::fs::write(place.path().join("src/main.rs"), include_str!("../points/crated.rs"))
        .expect("the place is writable");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--release"]).current_dir(place.path());
    cargo.env("CARGO_TARGET_DIR", place.path().join("target"));
    assert!(cargo.status().expect("cargo is there").success(), "{cargo:?}");
    let program = place.path().join("target/release/crated");
    let rounds = (40 * ROUNDS).to_string();
    run(&place, &[], &program, &[&rounds]).assert_says(0, &["latency of job"]);
    let visits = visits(&place);
    for name in ["step", "job", "scoped"] {
        assert_eq!(visits.get(name), Some(&(40 * ROUNDS)), "{name}: {visits:?}");
    }
}

#[test]
fn a_latency_is_measured_in_its_thread_and_agrees_with_littles_law() {
    let _turn = turn::alone();
    let place = Place::new();
    let program = compile(&place, "shapes.c", "shapes", &[]);
    // Without delays every experiment is one of those from which these figures are: as many as it takes to tell growth
    // from chance, on a slow machine too.
    let options = ["-L", "rest", "-L", "pair=again,syscall:getppid", "--speedups", "0"];
    let ended = run(&place, &options, &program, &["2000", "resting"]);
    ended.assert_says(0, &["latency of rest", "median 2.", "99th percentile"]);
    let records = records(&place);
    let points: Vec<&Value> =
        records.iter().filter(|r| r["type"] == "latency-point" && r["name"] == "rest").collect();
    assert!(points.len() > 3);
    for point in points {
        let figure = |key: &str| point[key].as_f64().unwrap_or_else(|| panic!("{key} in {point}"));
        let (median, mean) = (figure("p50_ns"), figure("mean_ns"));
        assert!((2.0e6..2.6e6).contains(&median), "two milliseconds and the way back: {point}");
        assert!(mean >= 2.0e6 && figure("p99_ns") >= median, "{point}");
        assert!((figure("arrivals") - figure("departures")).abs() <= 1.0, "{point}");
        assert!((0.0..=1.0).contains(&figure("in_system")), "one thread: {point}");
    }
    // Four begins, three of them within another, to one end: which belong together is not guessed.
    let pair = records.iter().rfind(|r| r["type"] == "latency-point" && r["name"] == "pair");
    assert!(pair.is_some_and(|pair| pair.get("p50_ns").is_none()), "{pair:?}");
    ended.assert_says(0, &["latency of pair", "not steady"]);
}

#[test]
fn a_point_that_is_passed_too_often_is_told_of_and_its_price_is_no_lines() {
    let _turn = turn::alone();
    let place = Place::new();
    let program = compile(&place, "shapes.c", "shapes", &[]);
    let ended = run(&place, &["-P", "work", "-v"], &program, &["30000"]);
    ended.assert_says(0, &["work was passed", "times a second", "of a cpu"]);
    let stat = |name: &str| -> f64 {
        let words = ended.words();
        let mut words = words.split([' ', ',', '\n']).skip_while(|word| *word != name).skip(1);
        words.next().and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {name}"))
    };
    let (samples, probe, cut) = (stat("Samples"), stat("InProbe"), stat("ChainCut"));
    assert!(probe > 0.1 * samples, "half of the time goes into probes: {probe} of {samples}");
    assert!(cut < 0.01 * samples, "no chain ends in what a probe executes: {cut} of {samples}");
    // The line with the opening brace of `work` has some instructions of its own, a breakpoint on the first of them.
    let lines = records(&place);
    let opening = "shapes.c:11";
    let share = lines
        .iter()
        .filter(|r| r["type"] == "samples" && r["location"].as_str().is_some_and(|l| l.ends_with(opening)));
    let share = share.filter_map(|r| r["count"].as_f64()).sum::<f64>() / samples;
    assert!(share < 0.1, "{opening} has {share} of the samples");
}

#[test]
fn each_spec_that_is_refused_says_why_and_what_there_is() {
    let _turn = turn::beside_others();
    let place = Place::new();
    let shapes = compile(&place, "shapes.c", "shapes", &[]);
    let declared = compile(&place, "declared.c", "declared", &[]);
    for (program, option, spec, says) in [
        (&shapes, "-P", "severel%return", &["severel", "did you mean several"][..]),
        (&shapes, "-P", "mixed%return", &["inlined everywhere", "name its entry"]),
        (&shapes, "-P", "several+1", &["middle of an instruction", "nearest places are +0 and +"]),
        (&shapes, "-P", "rare.cold", &["hardly ever run", "name 'rare'"]),
        (&shapes, "-P", "usdt:test:step", &["declares none", "library@usdt"]),
        (&declared, "-P", "usdt:test:stop", &["no usdt probe", "did you mean test:step"]),
        (&shapes, "-P", "syscall:getpid_", &["no system call", "getpid"]),
        (&shapes, "-P", "syscall:exit_group", &["never returns"]),
        (&shapes, "-P", "sampled:shapes.c:1", &["no code on line 1", "nearest lines"]),
        (&shapes, "-P", "libc.so.6@syscall:read", &["leave out 'libc.so.6@'"]),
        (&shapes, "-L", "several,several", &["the same place"]),
        (&shapes, "-L", "shapes.c:9", &["neither a function nor two places"]),
        (&shapes, "-L", "several,sampled:shapes.c:9", &["no begin and no end"]),
        (&shapes, "-L", "several,severed", &["severed", "did you mean several"]),
    ] {
        let ended = run(&place, &[option, spec], program, &["1"]);
        ended.assert_says(2, says);
        assert_eq!(ended.output(), "", "{spec}: the program was not started");
    }
    let both = run(&place, &["-P", "x=several", "-P", "x=tail"], &shapes, &["1"]);
    both.assert_says(2, &["two points are called 'x'", "NAME=SPEC"]);
}
