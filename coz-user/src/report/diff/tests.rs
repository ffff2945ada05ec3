//! What `diff` prints, for programs with a known answer.

use super::*;
use crate::{
    estimate::simulate::Program,
    experiment::record::{PointDelta, PointSpec, Profile, Samples, Writer},
};

/// `work_0` takes half of a visit of 2 ms before, and 40 % less after; 7 lines were put in above it.
fn profiles() -> [Profile; 2] {
    let mut before = Program::steady(60.0, vec![(0.5, |s| 0.5 * s), (0.6, |_| 0.0), (0.3, |s| 0.3 * s)]);
    before.phases[0].visit = 2e-3;
    let mut after =
        Program::steady(60.0, vec![(0.375, |s| 0.375 * s), (0.6, |_| 0.0), (0.375, |s| 0.375 * s)]);
    after.phases[0].visit = 1.6e-3;
    let mut after = after.profile(4);
    for samples in &mut after.samples {
        samples.line = samples.line.map(|line| line + 7);
        samples.location = format!("/src/app.c:{}", samples.line.unwrap());
    }
    for recorded in &mut after.experiments {
        let (_, line) = super::super::source::split(&recorded.experiment.selected).unwrap();
        recorded.experiment.selected = format!("/src/app.c:{}", line + 7);
    }
    [before.profile(3), after]
}

fn compared(profiles: &[Profile; 2]) -> Compared<'_> {
    let [before, after] = profiles;
    compare(["before.jsonl".into(), "after.jsonl".into()], [before, after], 99)
}

#[test]
fn the_text_says_what_was_predicted_and_what_came() {
    let profiles = profiles();
    for width in [80, 160] {
        let text = text::text(&compared(&profiles), 10, Style { color: false, width });
        assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
        insta::assert_snapshot!(format!("diff_{width}"), text);
    }
    let colored = text::text(&compared(&profiles), 10, Style { color: true, width: 80 });
    assert!(colored.contains("\u{1b}[1;32m"), "{colored}");
}

#[test]
fn doubts_of_either_profile_come_first() {
    let mut profiles = profiles();
    let health = &mut profiles[1].runtime.as_mut().unwrap().health;
    (health.samples, health.runqueue_share) = (100_000, 0.5);
    let text = text::text(&compared(&profiles), 10, Style::default());
    let doubt = text.find("- after: threads waited for a CPU 50 %").expect(&text);
    assert!(doubt < text.find("request: ").unwrap(), "{text}");
}

/// Of profiles that are too short: in all three forms, once, however many points are open.
#[test]
fn to_profile_longer_is_said_once() {
    let mut profiles = profiles();
    for profile in &mut profiles {
        profile.experiments.truncate(12);
        let second = PointSpec { name: "reply".into(), ..profile.startup.points[0].clone() };
        profile.startup.points.push(second);
        for recorded in &mut profile.experiments {
            let mut point = recorded.points[0].clone();
            let PointDelta::ThroughputPoint(reply) = &mut point else { panic!("{point:?}") };
            reply.name = "reply".into();
            recorded.points.push(point);
        }
    }
    let compared = compared(&profiles);
    let open = |point: &diff::PointDiff| point.outcome.wants_more(point.realised.as_ref());
    assert!(compared.diff.points.len() == 2 && compared.diff.points.iter().all(open), "{:?}", compared.diff);
    for words in [text::text(&compared, 10, Style::default()), page::text(&compared), json::text(&compared)] {
        assert_eq!(words.to_lowercase().matches("profile longer").count(), 1, "{words}");
    }
}

/// The line that runs beside the others, and that nobody waits for, takes 40 % less of the CPU after: what it takes of a visit
/// changes, and it is worth nothing before and after.
#[test]
fn what_is_worth_nothing_before_and_after_is_counted_and_not_named() {
    let mut profiles = profiles();
    let beside = |samples: &&mut Samples| samples.location == "/src/app.c:27";
    for samples in profiles[1].samples.iter_mut().filter(beside) {
        samples.count = samples.count * 6 / 10;
        samples.weight_ns = samples.weight_ns * 6 / 10;
        samples.undelayed_weight_ns = samples.undelayed_weight_ns.map(|weight| weight * 6 / 10);
    }
    let text = text::text(&compared(&profiles), 10, Style { color: false, width: 80 });
    assert!(text.contains("predicted +") && text.contains("/src/app.c:10 → 17"), "{text}");
    assert!(!text.contains("/src/app.c:20"), "{text}");
    assert!(text.contains("1 line more that changed is not shown to be worth anything"), "{text}");
    let page = page::text(&compared(&profiles));
    let (front, folded) = page.split_once("<details>").expect(&page);
    assert!(!front.contains("/src/app.c:20") && folded.contains("/src/app.c:20"), "{page}");
    let value: serde_json::Value = serde_json::from_str(&json::text(&compared(&profiles))).unwrap();
    let line = value["lines"].as_array().unwrap().iter().find(|l| l["before"] == "/src/app.c:20").unwrap();
    let at = &line["points"][0];
    assert_eq!((&at["changed"], &at["matters"]), (&true.into(), &false.into()));
}

#[test]
fn one_set_of_terms_is_used() {
    let profiles = profiles();
    let compared = compared(&profiles);
    let all = [text::text(&compared, 10, Style::default()), page::text(&compared), json::text(&compared)];
    for words in all {
        assert!(words.contains("predicted") && words.contains("ealised"), "{words}");
        for other in ["came true", "came-true", "found", "brought"] {
            assert!(!words.contains(other), "{other}: {words}");
        }
    }
}

#[test]
fn json_has_numbers_and_words() {
    let profiles = profiles();
    let value: serde_json::Value = serde_json::from_str(&json::text(&compared(&profiles))).unwrap();
    let point = &value["points"][0];
    assert_eq!(point["outcome"], "as-predicted");
    assert!((point["realised"]["value"].as_f64().unwrap() - 0.2).abs() < 0.02);
    let line = value["lines"].as_array().unwrap().iter().find(|l| l["before"] == "/src/app.c:10").unwrap();
    assert_eq!((&line["after"], &line["matched"]), (&"/src/app.c:17".into(), &"same".into()));
    assert_eq!(line["points"][0]["changed"], true);
}

#[test]
fn names_of_strangers_are_text_on_the_page() {
    let mut profiles = profiles();
    for samples in profiles.iter_mut().flat_map(|profile| &mut profile.samples) {
        samples.function = Some("evil</style><script>alert(1)</script>".into());
        samples.text = Some(format!("<img src=x onerror=\"alert({})\">", samples.count % 2));
    }
    let page = page::text(&compared(&profiles));
    assert!(!page.contains("<script") && !page.contains("<img"), "{page}");
    assert!(page.contains("Predicted +") && page.contains(": as predicted"), "{page}");
    assert_eq!(page.matches("</svg>").count(), page.matches("<svg").count());
}

#[test]
fn files_are_read_and_what_was_asked_for_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let [before, after] = ["before.jsonl", "after.jsonl"].map(|name| folder.path().join(name));
    for (path, profile) in [&before, &after].into_iter().zip(profiles()) {
        let mut writer = Writer::new(std::fs::File::create(path).unwrap());
        writer.startup(&profile.startup).unwrap();
        profile.experiments.iter().for_each(|r| writer.experiment(&r.experiment, &r.points).unwrap());
        writer.end(profile.runtime.as_ref().unwrap(), &profile.samples).unwrap();
    }
    let html = folder.path().join("diff.html");
    let request = DiffOptions {
        before,
        after,
        json: false,
        html: Some(html.clone()),
        top: 10,
        style: Style::default(),
    };
    assert_eq!(run(&request).unwrap(), "");
    assert!(std::fs::read_to_string(html).unwrap().contains("</html>"));
    assert!(run(&DiffOptions { html: None, ..request.clone() }).unwrap().contains(": as predicted"));
    let missing = run(&DiffOptions { after: "/no/such".into(), ..request }).unwrap_err();
    assert!(missing.to_string().contains("/no/such"), "{missing}");
}
