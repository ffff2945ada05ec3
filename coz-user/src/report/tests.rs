//! What is printed, for profiles with a known answer.

use super::*;
use crate::{
    estimate::simulate::{Program, SimulatedLine, name},
    experiment::record::{Health, PointDelta, PointRun, Runtime, Startup, ThroughputPoint, Why, Writer},
};

fn program() -> Program {
    let lines: Vec<SimulatedLine> = vec![
        (0.5, |s| 0.5 * s),
        (0.6, |_| 0.0),
        (0.4, |s| 0.8 * s.min(0.5)),
        (0.3, |s| -0.3 * s),
        (0.01, |_| 0.0),
    ];
    let mut program = Program::steady(150.0, lines);
    program.phases[0].visit = 2e-4;
    program
}

fn options() -> Options {
    Options { replicates: 199, sources: false, ..Options::default() }
}

/// What stands in a file, through the writer and the reader.
fn through_a_file(profile: &Profile) -> Profile {
    let mut writer = Writer::new(Vec::new());
    writer.startup(&profile.startup).unwrap();
    for recorded in &profile.experiments {
        writer.experiment(&recorded.experiment, &recorded.points).unwrap();
    }
    if let Some(runtime) = &profile.runtime {
        writer.end(runtime, &profile.samples).unwrap();
    }
    record::parse(&writer.into_inner()[..]).unwrap()
}

fn print(profile: &Profile) -> String {
    from_profile(profile, &options())
}

#[test]
fn the_report_ranks_lines_and_says_what_to_do() {
    let profile = through_a_file(&program().profile(7));
    insta::assert_snapshot!(print(&profile));
}

#[test]
fn every_width_is_kept() {
    let profile = through_a_file(&program().profile(7));
    for width in [80, 160] {
        let mut options = options();
        options.style.width = width;
        let text = from_profile(&profile, &options);
        assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
        insta::assert_snapshot!(format!("width_{width}"), text);
    }
    for width in 50..100 {
        let mut options = Options { replicates: 0, ..options() };
        options.style.width = width;
        let text = from_profile(&profile, &options);
        assert!(text.lines().all(|line| line.chars().count() <= width), "{width}: {text}");
    }
}

#[test]
fn colours_only_where_they_are_wanted() {
    let profile = program().profile(7);
    let mut options = options();
    assert!(!from_profile(&profile, &options).contains('\u{1b}'));
    options.style.color = true;
    assert!(from_profile(&profile, &options).contains('\u{1b}'));
}

#[test]
fn source_text_is_shown_and_cannot_command_the_terminal() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "one\ntwo = 1;\u{1b}[31m\n").unwrap();
    let mut profile = program().profile(7);
    let path = file.path().display().to_string();
    for samples in &mut profile.samples {
        (samples.file, samples.line, samples.text) = (Some(path.clone()), Some(2), None);
        samples.function = Some("evil\u{1b}]0;title\u{7}".into());
    }
    let text = from_profile(&profile, &Options { sources: true, ..options() });
    assert!(text.contains("two = 1;") && !text.contains('\u{1b}') && !text.contains('\u{7}'), "{text}");
}

#[test]
fn json_holds_everything_in_the_promised_order() {
    let profile = program().profile(7);
    let text = json_from_profile(&profile, &options());
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let keys =
        |value: &serde_json::Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ");
    insta::assert_snapshot!(
        [&value, &value["points"][0], &value["lines"][0], &value["lines"][0]["curve"][1], &value["health"],
         &value["overhead"]]
        .map(keys)
        .join("\n"),
        @r"
    program points lines health overhead experiments samples
    name kind visits
    location function samples share point curve max_effect slope slope_low slope_high verdict phase_factor summary experiments outliers chance hidden half_width seconds_more seconds_more_alone
    speedup effect low high experiments visits
    samples lost_samples signals_sent signals_failed owed_ns paid_ns unpaid_ns runqueue_share steal_share discarded_experiments warnings discarded_by notices truncated quota_periods quota_throttled throttled_ns out_of_scope_samples threads enough_ns until
    startup_ns sampling_ns delay_ns probe_ns
    "
    );
    let lines = value["lines"].as_array().unwrap();
    let first = lines.iter().find(|l| l["location"] == name(0)).unwrap();
    assert_eq!(first["verdict"], "optimize");
    assert!((first["slope"].as_f64().unwrap() - 0.5).abs() < 0.03);
    assert_eq!(first["phase_factor"], 1.0);
    assert!(lines.iter().any(|l| l["hidden"] == "few-speedups" || l["hidden"] == "no-baseline"));
}

fn quiet(_: &str) {}

#[test]
fn cozs_text_form_is_read_back_the_same() {
    let profile = program().profile(7);
    let text = coz::text(&profile);
    insta::assert_snapshot!(text.lines().take(4).collect::<Vec<_>>().join("\n"));
    let back = record::parse(text.as_bytes()).unwrap();
    let valid = profile.experiments.iter().filter(|r| r.experiment.valid).count();
    assert_eq!(back.experiments.len(), valid);
    let effect = |profile: &Profile| estimate_profile(profile, &options()).lines[0].curve[3].effect;
    assert!((effect(&profile) - effect(&back)).abs() < 1e-12);
}

/// Coz's viewer has the sign of latencies wrong, and that of throughput points right: time per visit is duration over delta.
#[test]
fn a_latency_is_written_such_that_cozs_viewer_shows_gains_as_gains() {
    let mut profile = program().profile(7);
    assert_eq!(coz::remark(&profile), None);
    for recorded in &mut profile.experiments {
        recorded.points = vec![record::PointDelta::LatencyPoint(record::LatencyPoint {
            name: "reply".into(),
            arrivals: 100,
            departures: 100,
            difference: 1,
            mean_ns: Some(3e6 * (1.0 - 0.4 * recorded.experiment.speedup)),
            ..record::LatencyPoint::default()
        })];
    }
    let text = coz::text(&profile);
    assert!(!text.contains("latency-point"), "{text}");
    let first: Vec<&str> = text.lines().skip(1).take(2).collect();
    assert!(first[0].contains("speedup=0.00\tduration=300000000"), "{first:?}");
    assert_eq!(
        first[1], "throughput-point\tname=reply (latency)\tdelta=100000",
        "300 ms / 3 ms, in thousandths"
    );
    let back = record::parse(text.as_bytes()).unwrap();
    let half = estimate_profile(&back, &options()).lines[0].summary[1].effect;
    assert!((half - 0.2).abs() < 1e-3, "what is saved is a gain: {half}");
    assert!(coz::remark(&profile).unwrap().contains("NAME (latency)"));
}

#[test]
fn csv_has_a_row_for_each_speedup() {
    let profile = program().profile(7);
    let estimate = estimate_profile(&profile, &options());
    let text = csv::text(&estimate);
    let rows: usize = estimate.lines.iter().map(|l| l.curve.len() + l.summary.len()).sum();
    assert_eq!(text.lines().count(), rows + 1);
    assert!(text.lines().all(|row| row.split(',').count() == 14), "{text}");
}

#[test]
fn what_stood_there_then_is_shown_and_not_what_stands_there_now() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "edited since\n").unwrap();
    let mut profile = program().profile(7);
    for samples in &mut profile.samples {
        (samples.file, samples.line) = (Some(file.path().display().to_string()), Some(1));
        samples.text = Some("was profiled \u{1b}[31m".into());
    }
    let text = from_profile(&profile, &Options { sources: true, ..options() });
    assert!(
        text.contains("was profiled") && !text.contains("edited since") && !text.contains('\u{1b}'),
        "{text}"
    );
}

fn samples_only() -> Profile {
    let mut profile = program().profile(7);
    profile.experiments.clear();
    profile
}

#[test]
fn no_point_is_explained_and_shows_where_samples_fall() {
    let mut profile = samples_only();
    profile.startup.points.clear();
    profile.runtime.as_mut().unwrap().health.notices =
        vec!["candidates for --progress: handle_request (4,000 calls a second), parse (9,000)".into()];
    insta::assert_snapshot!(print(&profile));
}

#[test]
fn visits_are_told_though_no_experiment_was_made() {
    let mut profile = samples_only();
    let run = PointRun { name: "request".into(), visits: 128_772, ..PointRun::default() };
    profile.runtime.as_mut().unwrap().health.points = vec![run];
    let text = print(&profile);
    assert!(text.contains("128,772 visits of request"), "{text}");
}

#[test]
fn a_point_that_is_never_reached_is_called_that() {
    let mut profile = program().profile(7);
    for recorded in &mut profile.experiments {
        recorded.experiment.valid = false;
        recorded.experiment.why = Some(Why::NoVisits);
    }
    let run = PointRun { name: "request".into(), ..PointRun::default() };
    profile.runtime.as_mut().unwrap().health.points = vec![run];
    let text = print(&profile);
    assert!(text.contains("No progress point was reached in the whole run"), "{text}");
}

#[test]
fn a_program_that_ends_at_once_is_explained() {
    let mut profile = samples_only();
    profile.runtime.as_mut().unwrap().time = 120_000_000;
    let text = print(&profile);
    assert!(text.contains("ended after 0.1 s, before the first experiment did"), "{text}");
}

#[test]
fn experiments_that_do_not_count_are_listed_by_reason() {
    let mut profile = program().profile(7);
    for (i, recorded) in profile.experiments.iter_mut().enumerate() {
        recorded.experiment.valid = false;
        recorded.experiment.why = Some(if i % 5 == 0 { Why::Unpaid } else { Why::NoVisits });
    }
    let text = print(&profile);
    assert!(text.contains("too few visits of any progress point\n"), "{text}");
    assert!(text.contains("Name a progress point that is visited more often"), "{text}");
}

#[test]
fn too_few_experiments_are_explained_and_shown_on_demand() {
    let mut profile = program().profile(8);
    profile.experiments.truncate(5);
    let text = print(&profile);
    assert!(text.contains("Not enough data yet: 5 experiments"), "{text}");
    let all = from_profile(&profile, &Options { all: true, ..options() });
    assert!(all.contains("not enough data") && !all.contains("Not enough data"), "{all}");
    profile.startup.fixed = true;
    assert!(print(&profile).contains("not enough data"), "with fixed speedups nothing is hidden");
}

#[test]
fn points_without_visits_and_code_out_of_scope_are_explained() {
    let mut profile = program().profile(7);
    for recorded in &mut profile.experiments {
        recorded.points = vec![PointDelta::ThroughputPoint(ThroughputPoint {
            name: "request".into(),
            delta: 0,
            duration: None,
        })];
    }
    assert!(print(&profile).contains("No progress point was visited (`request`)"));
    let mut profile = samples_only();
    profile.samples.clear();
    assert!(print(&profile).contains("No sample fell into code that may be selected"));
    let nothing = Profile { runs: 1, startup: Startup::default(), ..Profile::default() };
    assert!(print(&nothing).contains("before the first experiment"));
}

#[test]
fn what_makes_numbers_doubtful_is_said_in_plain_words() {
    let mut profile = program().profile(7);
    profile.truncated = true;
    profile.runtime = Some(Runtime {
        time: 9_000_000_000,
        health: Health {
            samples: 1000,
            lost_samples: 100,
            signals_sent: 100,
            signals_failed: 50,
            owed_ns: 1_000_000_000,
            paid_ns: 600_000_000,
            unpaid_ns: 400_000_000,
            runqueue_share: 0.4,
            steal_share: 0.1,
            delay_ns: 2_500_000_000,
            warnings: vec!["the program replaced its signal handler".into()],
            ..Health::default()
        },
    });
    let text = print(&profile);
    assert!(text.find("Beware").unwrap() < text.find("Share of").unwrap(), "doubts come first: {text}");
    insta::assert_snapshot!(&text[text.find("Beware").unwrap()..text.find("Share of").unwrap()]);
}

#[test]
fn run_reads_a_file_and_writes_what_was_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("profile.jsonl");
    let mut writer = Writer::new(record::open_output(&file).unwrap().file);
    let profile = program().profile(7);
    writer.startup(&profile.startup).unwrap();
    for recorded in &profile.experiments {
        writer.experiment(&recorded.experiment, &recorded.points).unwrap();
    }
    let csv = folder.path().join("out.csv");
    let request = ReportOptions {
        file: file.clone(),
        options: options(),
        csv: Some(csv.clone()),
        coz: Some("-".into()),
        ..ReportOptions::default()
    };
    assert!(run(&request, quiet).unwrap().starts_with("startup\t"));
    assert!(std::fs::read_to_string(csv).unwrap().starts_with("location,"));
    let folded = ReportOptions {
        file: file.clone(),
        options: options(),
        folded: Some("-".into()),
        ..ReportOptions::default()
    };
    assert_eq!(run(&folded, quiet).unwrap(), "", "a profile without an end has no samples");
    let text = run(&ReportOptions { file, options: options(), ..ReportOptions::default() }, quiet).unwrap();
    assert!(text.contains("the profile has no end"), "{text}");
    let missing =
        run(&ReportOptions { file: "/no/such".into(), ..ReportOptions::default() }, quiet).unwrap_err();
    assert!(missing.to_string().contains("coz-bpf run"), "{missing}");
}
