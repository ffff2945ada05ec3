//! Code that comes and goes while the program runs: libraries that are loaded and unloaded, code that is made.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use coz_tests::run::Place;

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("symbols")
}

fn compile(source: &Path, output: &Path, flags: &[&str]) {
    let mut gcc = Command::new("gcc");
    gcc.args(["-O1", "-g", "-fno-omit-frame-pointer", "-o"]).arg(output).arg(source).args(flags);
    assert!(gcc.status().expect("gcc").success(), "{} does not compile", source.display());
}

/// Samples by location, files without their folders.
fn samples(place: &Place) -> BTreeMap<String, u64> {
    let text = std::fs::read_to_string(place.profile()).expect("a profile");
    let records = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let mut samples = BTreeMap::new();
    for record in records.filter(|record| record["type"] == "samples") {
        let location = record["location"].as_str().expect("a location");
        let location = location.rsplit('/').next().unwrap_or(location).to_owned();
        *samples.entry(location).or_default() += record["count"].as_u64().expect("a number");
    }
    samples
}

/// All samples of places that begin so.
fn sum(samples: &BTreeMap<String, u64>, beginning: &str) -> u64 {
    samples.iter().filter(|(place, _)| place.starts_with(beginning)).map(|(_, count)| count).sum()
}

#[test]
fn libraries_that_are_loaded_and_unloaded_have_their_own_lines() {
    let place = Place::new();
    let loader = place.path().join("loader");
    compile(&sources().join("loader.c"), &loader, &["-ldl"]);
    let mut libraries = Vec::new();
    for name in ["one", "two"] {
        let source = place.path().join(name).with_extension("c");
        std::fs::copy(sources().join("plugin.c"), &source).expect("copied");
        let library = place.path().join(name).with_extension("so");
        compile(&source, &library, &["-shared", "-fPIC"]);
        libraries.push(library);
    }
    let mut command =
        place.profiled(["-P", "progress", "--scope-binary", "*/one.so", "--scope-binary", "*/two.so", "--"]);
    command.arg(&loader).arg("1.5").args(&libraries).args(&libraries);
    let ended = place.run(command);
    assert_eq!(ended.code(), 0, "{}", ended.words());
    let output = ended.output();
    let mut addresses = output.lines();
    let first = addresses.next();
    assert!(addresses.all(|address| Some(address) == first), "one took the other's place: {output}");
    let samples = samples(&place);
    let (one, two) = (sum(&samples, "one.c:"), sum(&samples, "two.c:"));
    // Three seconds each, at 1 kHz or more; up to a tenth may be gone before a change is seen.
    assert!(one > 1500 && two > 1500, "{samples:?}");
    let ratio = one as f64 / two as f64;
    assert!((0.75..1.33).contains(&ratio), "as long in one as in the other: {samples:?}");
}

/// Of a program that makes code and writes a perf map: the samples, and what was said.
fn of_made_code(options: &[&str]) -> (BTreeMap<String, u64>, String) {
    let place = Place::new();
    let made = place.path().join("made");
    compile(&sources().join("made.c"), &made, &[]);
    let mut command = place.profiled(["-P", "progress"].iter().chain(options).chain(&["--"]));
    command.arg(&made).arg("1.5");
    let ended = place.run(command);
    assert_eq!(ended.code(), 0, "{}", ended.words());
    std::fs::remove_file(ended.output().trim()).expect("its perf map");
    (samples(&place), ended.words().to_string())
}

#[test]
fn code_that_is_made_counts_by_function_if_it_is_in_scope() {
    for scope in [Some("[jit]"), None] {
        let options: Vec<&str> = scope.iter().flat_map(|scope| ["--scope-binary", scope]).collect();
        let (samples, _) = of_made_code(&options);
        let (first, later) = (sum(&samples, "made_first"), sum(&samples, "made_later"));
        match scope {
            Some(_) => assert!(first > 700 && later > 700, "{samples:?}"),
            // Then it counts for the line that calls it.
            None => assert!(first + later == 0 && sum(&samples, "made.c:") > 1500, "{samples:?}"),
        }
    }
}

/// Its functions are known, and so are their callers: it is left by its frame pointers.
#[test]
fn callers_of_code_that_is_made_count_with_inclusive() {
    let (samples, words) = of_made_code(&["--inclusive", "--scope-binary", "[jit]"]);
    let (first, later) = (sum(&samples, "made_first"), sum(&samples, "made_later"));
    assert!(first > 700 && later > 700 && sum(&samples, "made.c:") > 1500, "{samples:?}");
    assert!(!words.contains("samples were lost"), "{words}");
}

/// Node.js, as users have it: what the report says of its code, and what comes of doing so.
#[test]
fn a_runtime_that_makes_code_is_named_with_what_makes_it_tell_names() {
    let place = Place::new();
    let script = place.path().join("hot.js");
    let text = "function hot(n) { let x = 1; for (let i = 0; i < n; i++) x = (x * 31 + i) % 1000003; return x; }\n\
                const end = Date.now() + 2000;\nlet sum = 0;\nwhile (Date.now() < end) sum += hot(1e6);\n\
                console.log(process.pid);\n";
    std::fs::write(&script, text).expect("written");
    let script = script.to_str().expect("UTF-8");
    let ended = place.run(place.profiled(["--", "/usr/bin/node", script]));
    let says = ["% of the samples went through code that node (", "of Node.js", "node --perf-basic-prof"];
    ended.assert_says(0, &says);
    ended.assert_says(0, &["--scope-binary '[jit]'"]);

    let told = ["--scope-binary", "[jit]", "--", "/usr/bin/node", "--perf-basic-prof"];
    let ended =
        place.run(place.profiled(told.into_iter().chain(["--interpreted-frames-native-stack", script])));
    assert_eq!(ended.code(), 0, "{}", ended.words());
    std::fs::remove_file(format!("/tmp/perf-{}.map", ended.output().trim())).expect("its perf map");
    assert!(!ended.words().contains("no perf map"), "{}", ended.words());
    let samples = samples(&place);
    // Named `JS:*hot FILE:1:13`.
    let hot = sum(&samples, "hot.js:1:");
    assert!(hot > 1000, "two seconds in it: {samples:?}");
}
