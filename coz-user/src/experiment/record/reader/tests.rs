use super::super::{Health, LatencyPoint, PointSpec, ThroughputPoint, Writer};
use super::*;
use proptest::prelude::*;

/// A profile with every kind of record, as our writer writes it.
fn text() -> Vec<u8> {
    let mut writer = Writer::new(Vec::new());
    let points = vec![PointSpec { name: "x".into(), kind: PointKind::Throughput }];
    writer.startup(&Startup { program: vec!["./a".into()], points, ..Startup::default() }).unwrap();
    for i in 0..4 {
        let experiment = Experiment {
            selected: "/src/ä.c:12".into(),
            speedup: f64::from(i) / 4.0,
            duration: 100,
            valid: i != 2,
            why: (i == 2).then_some(Why::NoVisits),
            ..Experiment::default()
        };
        let points = [
            PointDelta::ThroughputPoint(ThroughputPoint { name: "x".into(), delta: 7, duration: None }),
            PointDelta::LatencyPoint(LatencyPoint {
                name: "y".into(),
                arrivals: 3,
                ..LatencyPoint::default()
            }),
        ];
        writer.experiment(&experiment, &points).unwrap();
    }
    let samples = Samples { location: "/src/ä.c:12".into(), count: 9, ..Samples::default() };
    let health = Health { samples: 9, undelayed_ns: 5, warnings: vec!["w".into()], ..Health::default() };
    writer.end(&Runtime { time: 1000, health }, &[samples]).unwrap();
    writer.into_inner()
}

#[test]
fn what_was_written_is_read() {
    let profile = parse(&text()[..]).unwrap();
    assert_eq!(profile.runs, 1);
    assert_eq!(profile.experiments.len(), 4);
    assert!(profile.experiments.iter().all(|e| e.points.len() == 2), "also those of the invalid one");
    assert_eq!(profile.experiments[2].experiment.why, Some(Why::NoVisits));
    assert_eq!(profile.runtime.as_ref().map(|r| (r.time, r.health.samples)), Some((1000, 9)));
    assert_eq!(profile.samples[0].count, 9);
    assert!(!profile.truncated);
    assert_eq!(
        profile.points(),
        [("x".to_owned(), PointKind::Throughput), ("y".to_owned(), PointKind::Latency)]
    );
}

proptest! {
    #[test]
    fn any_truncation_is_read_or_refused(cut in 0_usize..2000) {
        let text = text();
        let whole = parse(&text[..]).unwrap();
        let cut = cut % text.len();
        match parse(&text[..cut]) {
            Ok(profile) => prop_assert!(profile.experiments.len() <= whole.experiments.len()),
            // Without one whole record there is no rest.
            Err(error) => prop_assert!(
                !text[..cut].contains(&b'\n'),
                "a cut at {cut} must not make the rest unreadable: {error}"
            ),
        }
    }

    #[test]
    fn garbage_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..400), at in 0_usize..2000) {
        let mut text = text();
        let at = at % text.len();
        let end = (at + bytes.len()).min(text.len());
        text[at..end].copy_from_slice(&bytes[..end - at]);
        let _ = parse(&text[..]);
        let _ = parse(&bytes[..]);
    }
}

#[test]
fn what_has_not_even_one_record_is_no_profile() {
    for bytes in [&b"hello"[..], b"\x7fELF", &text()[..100]] {
        assert!(matches!(parse(bytes), Err(ReadError::NoProfile)), "{bytes:?}");
    }
}

#[test]
fn an_experiment_whose_points_were_lost_does_not_count() {
    let text = String::from_utf8(text()).unwrap();
    let upto = text.lines().take(3).map(|l| format!("{l}\n")).collect::<String>();
    let end = upto.len() + text.lines().nth(3).unwrap().len() + 1;
    let profile = parse(&text.as_bytes()[..end]).unwrap();
    let last = profile.experiments.last().unwrap();
    assert_eq!((profile.experiments.len(), last.points.len()), (1, 2));
    assert!(last.experiment.valid, "a whole group counts");
    let next = end + text.lines().nth(4).unwrap().len() + 1;
    let profile = parse(&text.as_bytes()[..next]).unwrap();
    assert_eq!(profile.experiments.last().unwrap().experiment.why, Some(Why::Truncated));
}

#[test]
fn files_of_coz_are_read() {
    let json = r#"{"type":"startup","time":1}
{"type":"experiment","selected":"a.c:1","speedup":0.00,"duration":500,"selected_samples":3}
{"type":"throughput_point","name":"x","delta":9}
{"type":"latency_point","name":"y","arrivals":9,"departures":8,"difference":1}
{"type":"experiment","selected":"a.c:1","speedup":1.00,"duration":18446744073709551000,"selected_samples":3}
{"type":"throughput_point","name":"x","delta":9}
{"type":"runtime","time":1000}
{"type":"samples","location":"a.c:1","count":5}
{"type":"runtime","time":2000}
{"type":"samples","location":"a.c:1","count":6}
{"type":"startup","time":2}
{"type":"experiment","selected":"a.c:1","speedup":0.25,"duration":500,"selected_samples":3}
{"type":"throughput_point","name":"x","delta":9}
{"type":"runtime","time":70}
{"type":"samples","location":"a.c:1","count":10}
"#;
    let profile = parse(json.as_bytes()).unwrap();
    assert_eq!((profile.runs, profile.experiments.len()), (2, 3));
    assert_eq!(profile.samples[0].count, 16, "running totals are not added up, runs are");
    assert_eq!(profile.runtime.as_ref().map(|r| r.time), Some(2070));
    let wrapped = &profile.experiments[1].experiment;
    assert_eq!(
        (wrapped.valid, wrapped.why),
        (false, Some(Why::NoTime)),
        "a duration below zero does not count"
    );
    assert_eq!(profile.experiments[2].run, 1);

    let tabs = "startup\ttime=1\nexperiment\tselected=12\tspeedup=0.00\tduration=500\tselected-samples=3\n\
                progress-point\tname=x\ttype=source\tdelta=9\nruntime\ttime=9\nsamples\tlocation=a.c:1\tcount=5\n\
                shutdown\ttime=3\n";
    let profile = parse(tabs.as_bytes()).unwrap();
    assert_eq!(profile.experiments[0].experiment.selected, "12");
    assert_eq!(profile.experiments[0].experiment.selected_samples, 3);
    assert_eq!(profile.experiments[0].points[0].name(), "x");
}

#[test]
fn a_broken_middle_line_is_named() {
    let error = parse(
        &b"{\"type\":\"startup\",\"time\":1}\n{\"type\":\"exp\n{\"type\":\"runtime\",\"time\":1}\n"[..],
    );
    let text = error.unwrap_err().to_string();
    assert!(text.starts_with("line 2 is no record"), "{text}");
    let speedup = b"{\"type\":\"experiment\",\"selected\":\"a\",\"speedup\":7,\"duration\":1}\n";
    assert!(parse(&speedup[..]).unwrap_err().to_string().contains("not between 0 and 1"));
    assert!(matches!(parse(&b""[..]), Err(ReadError::Empty)));
    assert!(parse(&b"hello world\nx\n"[..]).is_err());
}

#[test]
fn several_runs_of_ours_add_up_and_one_that_was_killed_is_noted() {
    let run = |end: &str| {
        format!(
            "{{\"type\":\"startup\",\"time\":1,\"version\":1}}\n{{\"type\":\"experiment\",\"selected\":\"a.c:1\",\"speedup\":0,\
             \"duration\":500}}\n{{\"type\":\"throughput-point\",\"name\":\"x\",\"delta\":9}}\n{end}"
        )
    };
    let end = "{\"type\":\"runtime\",\"time\":70,\"samples\":8,\"undelayed_ns\":50}\n\
               {\"type\":\"samples\",\"location\":\"a.c:1\",\"count\":6,\"weight_ns\":60,\"undelayed_weight_ns\":40}\n";
    let profile = parse((run(end) + &run(end)).as_bytes()).unwrap();
    let runtime = profile.runtime.as_ref().unwrap();
    assert_eq!((runtime.time, runtime.health.samples, runtime.health.undelayed_ns), (140, 16, 100));
    assert_eq!((profile.samples[0].count, profile.samples[0].undelayed_weight_ns), (12, Some(80)));
    assert!(!profile.open_end);
    for text in [run("") + &run(end), run(end) + &run("")] {
        let profile = parse(text.as_bytes()).unwrap();
        assert!(profile.open_end, "one of the two was killed");
        assert_eq!(profile.runtime.map(|r| r.health.undelayed_ns), Some(50), "the other one still counts");
    }
}

#[test]
fn what_was_counted_before_a_program_had_settled_does_not_count() {
    let text: String = [(0.5, 60), (0.0, 60), (0.0, 60), (0.5, 60), (0.0, 120), (0.5, 60), (0.0, 120)]
        .map(|(speedup, settle)| {
            format!(
                "{{\"type\":\"experiment\",\"selected\":\"a.c:1\",\"speedup\":{speedup},\"duration\":5,\"settle\":{settle}}}\n\
                 {{\"type\":\"throughput-point\",\"name\":\"p\",\"delta\":1}}\n"
            )
        })
        .concat();
    let profile = parse(text.as_bytes()).unwrap();
    let valid: Vec<_> = profile.experiments.iter().map(|e| e.experiment.valid).collect();
    assert_eq!(
        valid,
        [true, false, false, true, true, true, true],
        "baselines needed longer, the others did not"
    );
    assert_eq!(profile.experiments[1].experiment.why, Some(super::Why::Unsettled));
}

#[test]
fn a_sample_of_several_lines_is_one() {
    let samples = |count| Samples { count, ..Samples::default() };
    let mut profile = Profile { samples: vec![samples(60), samples(100)], ..Profile::default() };
    assert_eq!(profile.samples_in_all(), 160, "each counts for one line");
    profile.startup.attribution = Attribution::Inclusive;
    assert_eq!(profile.samples_in_all(), 100, "both lines can be in all of them");
    profile.runtime =
        Some(Runtime { health: Health { samples: 130, ..Health::default() }, ..Runtime::default() });
    assert_eq!(profile.samples_in_all(), 130, "some are of neither");
}
