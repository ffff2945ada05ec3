//! What the page holds, and what it must not.

use super::*;
use crate::{
    estimate::simulate::{Program, SimulatedLine, name},
    experiment::record::Profile,
    report::{Options, estimate_profile, from_profile, html_from_profile},
};
use std::path::Path;

fn profile() -> Profile {
    let lines: Vec<SimulatedLine> = vec![(0.5, |s| 0.5 * s), (0.6, |_| 0.0)];
    let mut program = Program::steady(60.0, lines);
    program.phases[0].visit = 2e-4;
    program.profile(7)
}

fn options() -> Options {
    Options { replicates: 49, ..Options::default() }
}

fn page(profile: &Profile) -> String {
    html_from_profile(profile, &options(), Path::new("/somewhere/profile.jsonl"))
}

/// What stands between two marks.
fn between<'a>(text: &'a str, before: &str, after: &str) -> &'a str {
    let rest = text.split_once(before).expect(before).1;
    rest.split_once(after).expect(after).0
}

fn data(page: &str) -> serde_json::Value {
    serde_json::from_str(between(page, "id=\"data\">", "</script>")).expect("the data are JSON")
}

#[test]
fn everything_is_in_it_and_nothing_is_fetched() {
    let page = page(&profile());
    assert!(!page.contains("{{"), "every place is filled");
    for outside in ["http://", "https://", "src=", "<link", "@import", "url("] {
        let found = page.replace("http://www.w3.org/2000/svg", "");
        assert!(!found.contains(outside), "{outside}");
    }
    let data = data(&page);
    assert_eq!((&data["file"], &data["live"]), (&"profile.jsonl".into(), &false.into()));
    assert_eq!(data["report"]["lines"].as_array().unwrap().len(), data["lines"].as_array().unwrap().len());
}

#[test]
fn the_page_says_what_the_terminal_says() {
    let mut program = Program::steady(14.0, vec![(0.5, |s| 0.5 * s), (0.6, |_| 0.0), (0.1, |s| 0.1 * s)]);
    program.noise = 0.06;
    let profile = program.profile(7);
    let style = crate::report::Style { color: false, width: 200 };
    let text = from_profile(&profile, &Options { all: true, style, ..options() });
    let data = data(&page(&profile));
    let facts: Vec<&str> = data["facts"].as_array().unwrap().iter().map(|f| f.as_str().unwrap()).collect();
    assert_eq!(text.lines().nth(1), Some(&*facts.join(", ")));
    let open: Vec<&str> =
        data["lines"].as_array().unwrap().iter().filter_map(|line| line["undecided"].as_str()).collect();
    assert!(open.iter().any(|words| words.contains("about ")), "{open:?}");
    for words in open {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn whole_runs_are_said_to_be_such() {
    let mut profile = profile();
    assert_eq!(data(&page(&profile))["runs"], serde_json::Value::Null);
    profile.startup.end_to_end = true;
    profile.experiments.truncate(20);
    profile.experiments[3].experiment.valid = false;
    let data = data(&page(&profile));
    assert_eq!(data["runs"], 20);
    let facts = data["facts"].to_string();
    assert!(facts.starts_with("[\"end to end\",\"20 runs\",\"19 of them count\""), "{facts}");
}

#[test]
fn the_policy_names_what_the_page_runs() {
    let page = page(&profile());
    let policy = between(&page, "Content-Security-Policy\" content=\"", "\"");
    let script = between(&page, "<script type=\"module\">", "</script>");
    let style = between(&page, "<style>", "</style>");
    for (kind, text) in [("script-src", script), ("style-src", style)] {
        let hash = base64(&Sha256::digest(text));
        assert!(policy.contains(&format!("{kind} 'sha256-{hash}';")), "{kind}: {policy}");
    }
    assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"));
    assert!(policy.contains("connect-src 'none'"), "from disk it asks nobody");
    assert!(super::text("{}", Served::Yes).contains("connect-src 'self'"));
}

#[test]
fn the_modules_are_one_script() {
    let script = script();
    assert!(!script.contains("\nimport ") && !script.contains("\nexport "), "nothing is left to be imported");
    let mut names: Vec<&str> = script
        .lines()
        .filter_map(|line| {
            ["const ", "let ", "function ", "async function "].iter().find_map(|kind| line.strip_prefix(kind))
        })
        .filter_map(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next())
        .filter(|name| !name.is_empty())
        .collect();
    assert!(names.len() > 40, "{names:?}");
    names.sort_unstable();
    let all = names.len();
    names.dedup();
    assert_eq!(names.len(), all, "two modules call something by the same name");
}

#[test]
fn no_name_ends_the_data_or_begins_anything() {
    let evil = "</script><script>alert(1)</script><!-- \u{2028}\u{2029} {{script}} \"'&";
    let mut profile = profile();
    profile.startup.program = vec![evil.into()];
    for samples in &mut profile.samples {
        samples.function = Some(evil.into());
    }
    let page = page(&profile);
    assert_eq!(page.matches("</script>").count(), 2, "its own two");
    assert_eq!(page.matches("<script").count(), 2);
    assert!(!page.contains("<!--") && !page.contains('\u{2028}') && !page.contains('\u{2029}'));
    let data = data(&page);
    assert_eq!(data["report"]["program"][0], evil, "and yet nothing is lost");
    assert_eq!(data["report"]["lines"][0]["function"], evil);
}

#[test]
fn experiments_are_dots_about_the_curve() {
    let profile = profile();
    let data = data(&page(&profile));
    let first =
        data["report"]["lines"].as_array().unwrap().iter().position(|l| l["location"] == name(0)).unwrap();
    let dots = data["lines"][first]["dots"].as_array().unwrap();
    let estimate = estimate_profile(&profile, &options());
    assert_eq!(dots.len(), estimate.lines[first].dots.len());
    let mean = |permille: i64| {
        let of: Vec<f64> =
            dots.iter().filter(|d| d[0] == permille).map(|d| d[1].as_f64().unwrap() / 1e4).collect();
        of.iter().sum::<f64>() / of.len() as f64
    };
    assert!(mean(0).abs() < 0.02, "baselines about zero: {}", mean(0));
    assert!((mean(1000) - 0.5).abs() < 0.05, "{}", mean(1000));
}

#[test]
fn base64_is_that_of_rfc_4648() {
    let vectors = [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")];
    for (text, code) in vectors {
        assert_eq!(base64(text.as_bytes()), code);
    }
    assert_eq!(base64(&[0xfb, 0xff]), "+/8=");
}

#[test]
fn the_source_comes_from_the_profile_where_its_files_are_not() {
    let mut profile = profile();
    let lines = vec!["int work(void) {".to_owned(), "  return 1;".to_owned()];
    profile.samples[0].around = vec![crate::experiment::record::Excerpt { first: 9, lines }];
    let page = page(&profile);
    let sources = &data(&page)["sources"];
    assert_eq!(sources[0]["file"], "/src/app.c");
    assert_eq!(
        (&sources[0]["parts"][0]["first"], &sources[0]["parts"][0]["lines"][1]),
        (&9.into(), &"  return 1;".into())
    );
}
