//! Programs that are instrumented with coz.h: they have asked for their counters, and nobody was there.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use coz_tests::run::Place;
use coz_tests::turn;
use serde_json::Value;

use crate::target::{attach, runtime};

/// Debian's coz.h, compiled in; attached to while it runs; what the profiler says.
fn attached_to(place: &Place, options: &[&str], code: i32, says: &[&str]) {
    let program = place.path().join("instrumented");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("points/instrumented.c");
    let compiled = Command::new("gcc").args(["-O2", "-o"]).arg(&program).arg(source).args(options).status();
    assert!(compiled.expect("apt-get install gcc coz-profiler").success());
    let mut target = Command::new(program).arg("100000000").stdout(Stdio::null()).spawn().expect("it starts");
    std::thread::sleep(std::time::Duration::from_millis(300));
    place.run(attach(place, &["-p", &target.id().to_string(), "-d", "3"])).assert_says(code, says);
    assert!(target.try_wait().expect("it is our child").is_none(), "it runs on");
    target.kill().expect("it is our child");
    target.wait().expect("it is our child");
}

#[test]
fn the_points_of_coz_h_are_counted_by_probes() {
    let _turn = turn::beside_others();
    let place = Place::new();
    attached_to(&place, &["-g"], 0, &["instrumented with coz.h", "Probes on their lines", "visits of step"]);
    let runtime = runtime(&place);
    let visits = |name: &str| {
        let points: &Vec<Value> = runtime["points"].as_array().expect("there are points");
        let point =
            points.iter().find(|point| point["name"].as_str().is_some_and(|found| found.ends_with(name)));
        point.unwrap_or_else(|| panic!("{name}: {runtime}"))["visits"].as_u64().expect("a number")
    };
    // A round passes each of them once.
    let (step, line) = (visits("step"), visits("instrumented.c:19"));
    assert!(step > 100 && step.abs_diff(line) <= 2, "{step}, {line}");
    assert!(
        fs::read_to_string(place.profile()).expect("it is written").contains("\"job\""),
        "a latency point"
    );
}

#[test]
fn without_debug_information_it_is_said_what_to_do() {
    let _turn = turn::beside_others();
    let place = Place::new();
    attached_to(
        &place,
        &[],
        0,
        &["instrumented with coz.h", "too late", "-P FUNCTION", "coz-bpf run", "no progress point"],
    );
}
