use coz_common::units::{Nanos, Speedup};

use super::*;

fn parsed(words: &[&str]) -> Result<Command, Usage> {
    parse(["coz-bpf"].iter().chain(words))
}

fn run(words: &[&str]) -> RunConfig {
    match parsed(&[&["run"], words].concat()) {
        Ok(Command::Run(config)) => *config,
        other => panic!("{words:?}: {other:?}"),
    }
}

fn attach(words: &[&str]) -> RunConfig {
    match parsed(&[&["attach"], words].concat()) {
        Ok(Command::Attach(config)) => *config,
        other => panic!("{words:?}: {other:?}"),
    }
}

fn program(config: &RunConfig) -> &[std::ffi::OsString] {
    match &config.subject {
        Subject::Program { words, .. } => words,
        other => panic!("{other:?}"),
    }
}

/// The exit code and text of a command line that is refused.
fn refused(words: &[&str]) -> (i32, String) {
    match parsed(words) {
        Err(Usage::Clap(e)) => (e.exit_code(), e.to_string()),
        Err(Usage::Exit(e)) => (i32::from(e.code()), e.to_string()),
        Ok(command) => panic!("{words:?} was taken: {command:?}"),
    }
}

#[test]
fn the_parser_is_sound() {
    senseless::hidden(args::Cli::command()).debug_assert();
}

#[test]
fn defaults_are_those_of_the_contract() {
    let c = run(&["./app"]);
    assert_eq!((program(&c), c.max_overhead), (&["./app".into()][..], None));
    assert_eq!(c.output.to_str(), Some("profile.jsonl"));
    assert_eq!((c.view.min_visits, c.view.min_speedups, c.view.all, c.view.sort), (5, 5, false, Sort::Slope));
    assert_eq!(
        (c.rate, c.seed, c.duration, c.fixed, c.granularity),
        (None, None, None, None, Granularity::Line)
    );
    assert_eq!(c.speedups.len(), 20);
    assert_eq!((c.speedups[0], c.speedups[19]), (Speedup::from_percent(5).unwrap(), Speedup::FULL));
}

#[test]
fn the_programs_words_are_its_own() {
    for separator in [&[][..], &["--"], &["---"]] {
        let words = [separator, &["prog", "-o", "x", "--", "---", "--help", "-P", "", "a b"]].concat();
        let c = run(&words);
        assert_eq!(
            program(&c),
            ["prog", "-o", "x", "--", "---", "--help", "-P", "", "a b"],
            "after {separator:?}"
        );
        assert_eq!(c.output.to_str(), Some("profile.jsonl"));
        assert!(c.progress.is_empty());
    }
    assert_eq!(program(&run(&["--", "-prog", "-x"])), ["-prog", "-x"]);
    assert_eq!(program(&run(&["---", "-prog", "-x"])), ["-prog", "-x"]);
    assert_eq!(run(&["-qo", "out", "---", "prog"]).output.to_str(), Some("out"));
}

#[test]
fn a_program_need_not_be_utf8() {
    use std::os::unix::ffi::OsStrExt;
    let name = std::ffi::OsStr::from_bytes(b"\xff\xfe");
    let words = ["coz-bpf".as_ref(), "run".as_ref(), name, name];
    assert!(matches!(parse(words), Ok(Command::Run(c)) if program(&c) == [name, name]));
}

#[test]
fn specs_are_taken_as_typed() {
    let specs = ["n=lib.so@'ns::f(int, char)'", "a.c:12", "-x", "f%return", "\"a,b\""];
    let words: Vec<_> = specs.iter().map(|s| format!("--progress={s}")).collect();
    let words: Vec<_> = words.iter().map(String::as_str).chain(["p"]).collect();
    assert_eq!(run(&words).progress, specs);
    assert_eq!(run(&["-P", "a,b", "-Pc", "p"]).progress, ["a,b", "c"]);
}

#[test]
fn speedups_are_percentages_without_the_baseline() {
    let list = |words: &[&str]| -> Vec<u32> { run(words).speedups.iter().map(|s| s.permille()).collect() };
    assert_eq!(list(&["--speedups", "100,0,12.5,50,50", "p"]), [125, 500, 1000]);
    assert_eq!(list(&["--speedups", "0", "p"]), [0u32; 0]);
    assert_eq!(list(&["--fixed-speedup", "50", "p"]), [500]);
    for bad in ["101", "-1", "x", "", "10,,20", "nan"] {
        assert_eq!(refused(&["run", &format!("--speedups={bad}"), "p"]).0, 2, "{bad}");
    }
    assert_eq!(refused(&["run", "--fixed-speedup", "50", "--speedups", "1", "p"]).0, 2);
}

#[test]
fn what_is_chosen_is_shown() {
    for chosen in ["--speedups=50", "--fixed-speedup=50", "--fixed-line=a.c:1", "--fixed-function=f", "--all"]
    {
        assert!(run(&[chosen, "p"]).view.all, "{chosen}");
    }
}

#[test]
fn the_page_is_served_where_it_is_asked_for() {
    assert_eq!(run(&["p"]).live, None);
    assert_eq!(run(&["--live", "p"]).live, Some(0), "a port that is free; what follows is the program");
    assert_eq!(run(&["--live=8000", "p"]).live, Some(8000));
    let view = |words: &[&str]| match parse([&["coz-bpf", "view"], words].concat()) {
        Ok(Command::View(view)) => (view.file.display().to_string(), view.port, view.open),
        other => panic!("{other:?}"),
    };
    assert_eq!(view(&[]), ("profile.jsonl".into(), None, true));
    assert_eq!(view(&["--no-open", "--port", "80", "x"]), ("x".into(), Some(80), false));
    assert_eq!(refused(&["view", "--port", "65536"]).0, 2);
}

#[test]
fn a_fixed_line_is_a_file_and_a_number() {
    let line = |file: &str, line| Some(Fixed::Line { file: file.into(), line });
    assert_eq!(run(&["--fixed-line", "src/a.c:12", "p"]).fixed, line("src/a.c", 12));
    assert_eq!(run(&["--fixed-line", "a:b.c:12", "p"]).fixed, line("a:b.c", 12));
    for bad in ["a.c", "a.c:", ":3", "a.c:0", "a.c:x", "a.c:-1"] {
        let (code, text) = refused(&["run", "--fixed-line", bad, "p"]);
        assert_eq!(code, 2);
        assert!(text.contains("FILE:LINE"), "{text}");
    }
}

#[test]
fn a_fixed_function_means_function_granularity() {
    assert_eq!(run(&["--fixed-function", "f", "p"]).granularity, Granularity::Function);
    assert_eq!(refused(&["run", "--fixed-function", "f", "-g", "line", "p"]).0, 2);
    assert_eq!(refused(&["run", "--fixed-line", "f:1", "-g", "function", "p"]).0, 2);
    assert_eq!(refused(&["run", "--fixed-line", "f:1", "--fixed-function", "f", "p"]).0, 2);
}

#[test]
fn durations_are_seconds() {
    assert_eq!(run(&["-d", "2.5", "p"]).duration, Some(Nanos(2_500_000_000)));
    for bad in ["0", "-1", "x", "inf", "1e30"] {
        assert_eq!(refused(&["run", &format!("-d{bad}"), "p"]).0, 2, "{bad}");
    }
}

#[test]
fn until_is_a_number_of_points() {
    assert_eq!(run(&["--until", "2.5", "p"]).until, Some(2.5));
    for bad in ["0", "-1", "x", "nan", "101"] {
        assert_eq!(refused(&["run", &format!("--until={bad}"), "p"]).0, 2, "{bad}");
    }
    assert_eq!(refused(&["run", "--until", "2", "--end-to-end", "p"]).0, 2);
}

#[test]
fn options_before_and_after_the_command() {
    let expected = Talk { quiet: true, verbose: 0, color: Color::Never };
    assert!(
        matches!(parsed(&["-q", "--color=never", "doctor"]), Ok(Command::Doctor(c)) if c.talk == expected)
    );
    assert!(
        matches!(parsed(&["doctor", "--color", "never", "-q"]), Ok(Command::Doctor(c)) if c.talk == expected)
    );
    assert_eq!(run(&["-vv", "p"]).talk.verbose, 2);
    assert_eq!(refused(&["run", "-q", "-v", "p"]).0, 2);
}

#[test]
fn report_points_and_doctor() {
    let Ok(Command::Report(c)) = parsed(&["report"]) else { panic!() };
    assert_eq!((c.file.to_str(), c.json, c.coz, c.csv), (Some("profile.jsonl"), false, None, None));
    let Ok(Command::Report(c)) =
        parsed(&["report", "p", "--json", "--coz", "-", "--top=3", "--sort", "effect"])
    else {
        panic!()
    };
    assert_eq!((c.json, c.coz, c.view.top, c.view.sort), (true, Some("-".into()), 3, Sort::Effect));
    let Ok(Command::Watch(c)) = parsed(&["points", "--run", "-d", "3", "--", "./a", "-x"]) else { panic!() };
    assert_eq!((c.program, c.duration.0), (vec!["./a".into(), "-x".into()], 3_000_000_000));
    for wrong in [
        &["points", "--run"][..],
        &["points", "./a", "-d", "3"],
        &["points", "./a", "--", "x"],
        &["points", "--run", "./a", "--", "b"],
    ] {
        assert!(parsed(wrong).is_err(), "{wrong:?}");
    }
    let Ok(Command::Points(c)) = parsed(&["points", "./a", "han", "--debug-dir", "d"]) else { panic!() };
    assert_eq!((c.filter.as_deref(), c.debug_dirs.len()), (Some("han"), 1));
    assert!(matches!(parsed(&["doctor"]), Ok(Command::Doctor(DoctorConfig { program: None, .. }))));
}

#[test]
fn wrong_usage_is_2_and_help_is_0() {
    for wrong in [
        &[][..],
        &["run"],
        &["run", "--bogus", "p"],
        &["run", "--"],
        &["bogus"],
        &["points"],
        &["report", "a", "b"],
        &["run", "-F", "0", "p"],
        &["run", "--runs", "2", "p"],
        &["run", "--end-to-end", "-P", "f", "p"],
        &["attach"],
    ] {
        assert_eq!(refused(wrong).0, 2, "{wrong:?}");
    }
    for fine in [&["--help"][..], &["run", "--help"], &["-V"], &["help", "run"]] {
        assert_eq!(refused(fine).0, 0, "{fine:?}");
    }
    let help = refused(&["run", "--help"]).1;
    assert!(help.contains("--progress") && help.contains("--runs"), "{help}");
    let help = refused(&["attach", "--help"]).1;
    assert!(help.contains("--progress") && !help.contains("--runs"), "help shows what makes sense: {help}");
}

#[test]
fn who_is_attached_to() {
    let whom = |words: &[&str]| match attach(words).subject {
        Subject::Running(whom) => whom,
        other => panic!("{other:?}"),
    };
    assert_eq!(whom(&["-p", "7,3", "-p", "7", "-P", "f"]), Whom::Pids(vec![3, 7]));
    let named = |comms: &[&str], groups: &[&str]| Whom::Named {
        comms: comms.iter().map(ToString::to_string).collect(),
        groups: groups.iter().map(Into::into).collect(),
    };
    assert_eq!(whom(&["--comm", "nginx"]), named(&["nginx"], &[]));
    assert_eq!(whom(&["--comm", "b,a", "--comm", "c", "--comm=a"]), named(&["a", "b", "c"], &[]));
    assert_eq!(whom(&["--cgroup", "a.slice/b"]), named(&[], &["a.slice/b"]));
    // A folder's name may have a comma.
    assert_eq!(whom(&["--cgroup", "a,b", "--cgroup", "a", "--comm", "x"]), named(&["x"], &["a", "a,b"]));
    assert_eq!(whom(&["-a"]), Whom::All);
    for wrong in [
        &["-p", "0"][..],
        &["-p", "x"],
        &["-p", "1", "-a"],
        &["--comm", ""],
        &["--comm", "a/b"],
        &["--comm", "a,"],
        &["--comm", "a", "-a"],
        &["--cgroup", "a", "-p", "1"],
        &["--comm", "a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q"],
        &[],
        &["-p", "1", "prog"],
        &["-a", "--end-to-end"],
    ] {
        assert_eq!(refused(&[&["attach"], wrong].concat()).0, 2, "{wrong:?}");
    }
}

#[test]
fn others_programs_are_not_slowed_down_by_more_than_a_fifth_unless_asked_for() {
    assert_eq!(attach(&["-a"]).max_overhead, Some(0.2));
    assert_eq!(attach(&["-a", "--max-overhead", "5"]).max_overhead, Some(0.05));
    assert_eq!(run(&["--max-overhead=50", "p"]).max_overhead, Some(0.5));
    for bad in ["0", "-1", "x", "101"] {
        assert_eq!(refused(&["run", &format!("--max-overhead={bad}"), "p"]).0, 2, "{bad}");
    }
}

#[test]
fn a_port_that_would_pass_for_the_program_is_told() {
    let (code, text) = refused(&["run", "--live", "8000", "./app"]);
    assert!(code == 2 && text.contains("equals sign"), "{text}");
    assert_eq!(run(&["--live=8000", "./app"]).live, Some(8000));
    assert_eq!(run(&["--live", "./app"]).live, Some(0));
}

#[test]
fn run_alone_explains_itself_in_five_lines() {
    let Err(Usage::Exit(exit)) = parse(["coz-bpf", "run"]) else { panic!("it was taken") };
    let (text, code) = exit::explain(&exit.into());
    assert_eq!((text.lines().count(), code), (5, 2), "{text}");
    assert!(text.contains("sudo coz-bpf run -P") && text.contains("points"), "{text}");
}

#[test]
fn every_command_has_examples_a_manual_page_and_completions() {
    let mut parser = parser();
    for command in
        parser.get_subcommands_mut().filter(|command| !command.is_hide_set() && command.get_name() != "help")
    {
        let name = command.get_name().to_owned();
        let help = command.render_help().to_string();
        assert!(help.contains("Examples:\n"), "{name}: {help}");
    }
    let folder = tempfile::tempdir().unwrap();
    crate::commands::man(&folder.path().join("man")).unwrap();
    let page = |name: &str| std::fs::read_to_string(folder.path().join("man").join(name)).unwrap();
    assert!(page("coz-bpf.1").contains("Causal profiler"));
    assert!(page("coz-bpf-run.1").contains("handle_request"), "with its examples");
    for shell in [clap_complete::Shell::Bash, clap_complete::Shell::Zsh, clap_complete::Shell::Fish] {
        let script = crate::commands::completions(shell);
        assert!(script.contains("folded-by"), "{shell}");
    }
}

#[test]
fn whole_runs_are_as_many_as_asked_for() {
    assert_eq!(run(&["--end-to-end", "p"]).end_to_end, Some(20));
    assert_eq!(run(&["--end-to-end", "--runs", "3", "p"]).end_to_end, Some(3));
    assert_eq!(run(&["p"]).end_to_end, None);
    assert_eq!(refused(&["run", "--end-to-end", "--runs", "0", "p"]).0, 2);
    assert_eq!(refused(&["run", "--end-to-end", "--max-overhead", "5", "p"]).0, 2);
}

#[test]
fn of_two_ways_to_count_a_sample_the_later_holds() {
    assert!(!run(&["p"]).inclusive && run(&["--inclusive", "p"]).inclusive);
    assert!(!run(&["--inclusive", "--self", "p"]).inclusive);
}

#[test]
fn colours_follow_the_stream_unless_told() {
    assert!(Color::Always.enabled(false));
    assert!(!Color::Never.enabled(true));
    assert!(!Color::Auto.enabled(false));
}
