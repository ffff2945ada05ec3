//! `--max-overhead` while a run goes on: what is measured gets dearer, and is measured less often.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use coz_tests::profiler;
use coz_tests::run::{Place, Running, wait_until};
use serde_json::Value;

/// Figures are judged by the best of so many attempts: what else the machine does spoils single ones.
const ATTEMPTS: usize = 3;
/// How long it is attached: some seconds before the rate is lowered, and most of it after.
const SECONDS: &str = "20";
/// Percent: half of a line that takes half of the thread's time.
const TRUTH: f64 = 25.0;

struct Target {
    running: Running,
    place: Place,
    line: String,
}

impl Target {
    fn start() -> Self {
        let place = Place::new();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("enter/busier.c");
        let program = place.path().join("busier");
        let mut cc = Command::new("cc");
        cc.args(["-O2", "-g", "-pthread", "-o"]).args([&program, &source]).arg("-ldl");
        assert!(cc.status().expect("a compiler").success());
        let text = fs::read_to_string(source).expect("it is there");
        let number = 1 + text.lines().position(|line| line.contains("// the line")).expect("it is marked");
        let running = place.start(place.plain(&program, ["--seconds", "100"]));
        wait_until("it runs", || cpu_seconds(running.pid()).filter(|seconds| *seconds > 0.2));
        Self { running, place, line: format!("busier.c:{number}") }
    }

    fn gets_busier(&self) {
        self.running.signal(libc::SIGUSR2);
    }

    fn attach(&self, place: &Place, options: &[&str]) -> Command {
        let mut command = place.plain(profiler(), ["attach", "-p", &self.running.pid().to_string()]);
        command.args(["-P", "progress", "-P", "often", "--fixed-line", &self.line, "--speedups", "50"]);
        command.args(options).stdin(Stdio::null());
        command
    }

    fn ends(mut self) {
        self.running.signal(libc::SIGUSR1);
        self.running.wait().assert_says(0, &[]);
        drop(self.place);
    }
}

fn cpu_seconds(pid: i32) -> Option<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let ticks: f64 = stat.rsplit(')').next()?.split_ascii_whitespace().nth(11)?.parse().ok()?;
    Some(ticks / 100.0)
}

fn records(profile: PathBuf) -> Vec<Value> {
    let text = fs::read_to_string(profile).expect("a profile is written");
    text.lines().map(|line| serde_json::from_str(line).expect("it is JSON")).collect()
}

fn runtime(records: &[Value]) -> &Value {
    records.iter().rfind(|record| record["type"] == "runtime").expect("the profile has an end")
}

/// Which part of the machine's time the passes of `often` take, in percent.
fn price() -> f64 {
    let (place, target) = (Place::new(), Target::start());
    target.gets_busier();
    place.run(target.attach(&place, &["-d", "3", "--max-overhead", "100"])).assert_says(0, &[]);
    target.ends();
    let records = records(place.profile());
    let runtime = runtime(&records);
    let figure = |key: &str| runtime[key].as_f64().unwrap_or(0.0);
    let cpus = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    100.0 * figure("probe_ns") / figure("time") / cpus
}

/// What half of the line was worth in experiments that began after so many seconds, percent.
fn effect(records: &[Value], after: f64) -> f64 {
    // Effective time per visit, without and with delay.
    let mut each = [Vec::new(), Vec::new()];
    let mut of = None;
    for record in records {
        match record["type"].as_str() {
            Some("experiment") => {
                let late = record["begin"].as_f64().unwrap_or(0.0) > after * 1e9;
                let level = usize::from(record["speedup"] != 0.0);
                of = (late && record["valid"] == true).then(|| (level, record["duration"].as_f64()));
            }
            Some("throughput-point") if record["name"] == "progress" => {
                if let Some((level, time)) = of {
                    let visits = record["delta"].as_f64().expect("a number");
                    // Not the time of the other thread, whose probes take a fifth of it.
                    let own = record["duration"].as_f64().or(time);
                    each[level].push(own.expect("a number") / visits);
                }
            }
            _ => {}
        }
    }
    // Others use this machine too, now and then: the middle ones count.
    let [without, with] = each.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
    });
    100.0 * (1.0 - with / without)
}

#[test]
fn it_is_sampled_less_often_when_points_are_passed_more_often() {
    let mut found = Vec::new();
    while found.len() < ATTEMPTS {
        // With the points alone it is the half that is ours: everything together is more than that, and within the limit.
        let limit = format!("{:.1}", 2.0 * price());
        let (place, target) = (Place::new(), Target::start());
        let mut profiler = place.start(target.attach(&place, &["-d", SECONDS, "--max-overhead", &limit]));
        wait_until("an experiment", || {
            let text = fs::read_to_string(place.profile()).ok()?;
            text.contains(r#""type":"experiment""#).then_some(())
        });
        target.gets_busier();
        let ended = profiler.wait();
        ended.assert_says(0, &["visits of progress"]);
        target.ends();
        let words = ended.words();
        let records = records(place.profile());
        let runtime = runtime(&records);
        let told = runtime["notices"].as_array().expect("notices").iter().filter_map(Value::as_str);
        let told: Vec<&str> = told.filter(|text| text.contains("sampling rate was lowered from")).collect();
        if told.is_empty() {
            found.push(format!("at {limit} %: {words}"));
            continue;
        }
        // What its samples would be if all of the run had been sampled as it was said.
        let (mut expected, mut since, mut rate) = (0.0, 0.0, records[0]["rate"].as_f64().expect("a rate"));
        for told in &told {
            assert!(words.contains(told), "{told}");
            let number = |after: &str| {
                let rest = told.split(after).nth(1).and_then(|rest| rest.split_ascii_whitespace().next());
                rest.and_then(|word| word.parse::<f64>().ok()).unwrap_or_else(|| panic!("{told}"))
            };
            let (seconds, from, to) = (number("after "), number("from "), number(" to "));
            assert_eq!(rate, from, "{told}");
            assert!(to < from, "{told}");
            expected += rate * (seconds - since);
            (since, rate) = (seconds, to);
        }
        let told = told.join("; ");
        assert!(told.contains("points"), "{told}");
        let all: f64 = SECONDS.parse().expect("a number");
        let expected = (expected + rate * (all - since)) / all;
        // Samples a second of CPU time, over all of the run: fewer than the first rate would have taken.
        let samples: f64 = runtime["samples"].as_f64().expect("a number");
        let rate = samples * 1e9 / runtime["cpu_ns"].as_f64().expect("a number");
        let effect = effect(&records, since);
        if (rate / expected - 1.0).abs() < 0.2 && (effect - TRUTH).abs() < 8.0 {
            return;
        }
        found.push(format!("{told}; {rate:.0} samples a second, {effect:.1} %"));
    }
    panic!("{found:#?}");
}
