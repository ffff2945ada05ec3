//! Where debug information is, in which form, and what is said when it is missing or damaged.

use crate::harness::{Table, Workshop, open, run};
use coz_user::symbols::{Detail, Granularity, Lines, Mapping, Module, Scope};
use proptest::prelude::*;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

fn with_dirs(path: &Path, dirs: &[PathBuf]) -> Module {
    Module::open(path, &Scope::default(), dirs).expect("ELF")
}

/// All lines of `work`, which the original has.
fn lines_of_work(module: &Module) -> Vec<Option<(String, String)>> {
    Table::new(module, Granularity::Line).of_function("work")
}

/// Splits `app` into a stripped program and `app.debug`; returns both.
fn split(shop: &Workshop, app: &Path, link: bool) -> (PathBuf, PathBuf) {
    let (debug, stripped) = (shop.path("app.debug"), shop.path("stripped"));
    run("objcopy", &["--only-keep-debug", text(app), text(&debug)]);
    run("objcopy", &["--strip-all", text(app), text(&stripped)]);
    if link {
        run("objcopy", &[&format!("--add-gnu-debuglink={}", text(&debug)), text(&stripped)]);
    }
    (stripped, debug)
}

#[test]
fn separate_debug_files_are_found_by_link() {
    let shop = Workshop::new();
    let app = shop.compile("plain.c", "app", &["-O2", "-g", "-Wl,--build-id=none"]);
    let whole = lines_of_work(&open(&app));
    let (stripped, debug) = split(&shop, &app, true);
    let module = open(&stripped);
    assert_eq!(module.detail(), Detail::Lines);
    assert_eq!(lines_of_work(&module), whole);
    assert_eq!(module.advice(), None);

    let hidden = shop.path(".debug");
    std::fs::create_dir(&hidden).expect("a folder");
    std::fs::rename(&debug, hidden.join("app.debug")).expect("renamed");
    assert_eq!(lines_of_work(&open(&stripped)), whole, "in the folder .debug beside the program");

    let elsewhere = shop.path("elsewhere");
    std::fs::rename(&hidden, &elsewhere).expect("renamed");
    assert!(matches!(open(&stripped).detail(), Detail::Functions { nameless: true, .. }), "it is gone");
    assert_eq!(lines_of_work(&with_dirs(&stripped, &[elsewhere])), whole, "in a folder that was named");
}

#[test]
fn separate_debug_files_are_found_by_build_id() {
    let shop = Workshop::new();
    let app = shop.compile("plain.c", "app", &["-O2", "-g", "-Wl,--build-id=0xabcdef0123"]);
    let whole = lines_of_work(&open(&app));
    let (stripped, debug) = split(&shop, &app, false);
    let folder = shop.path("dir/.build-id/ab");
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::rename(&debug, folder.join("cdef0123.debug")).expect("renamed");
    assert_eq!(lines_of_work(&with_dirs(&stripped, &[shop.path("dir")])), whole);
}

#[test]
fn a_debug_file_of_another_build_is_refused() {
    let shop = Workshop::new();
    for id in ["--build-id=none", "--build-id"] {
        let app = shop.compile("plain.c", "app", &["-O2", "-g", &format!("-Wl,{id}")]);
        let (stripped, debug) = split(&shop, &app, true);
        let other = shop.compile("plain.c", "other", &["-O1", "-g", &format!("-Wl,{id}")]);
        run("objcopy", &["--only-keep-debug", text(&other), text(&debug)]);
        let Detail::Functions { why, .. } = open(&stripped).detail() else { panic!("nothing of it is used") };
        assert!(why.contains("app.debug belongs to another build"), "{why}");
    }
}

#[test]
fn shared_debug_information_is_followed() {
    let shop = Workshop::new();
    let flags = ["-O2", "-g", "-gdwarf-4"];
    let (one, two) = (shop.compile("plain.c", "one", &flags), shop.compile("plain.c", "two", &flags));
    let whole = lines_of_work(&open(&one));
    let shared = shop.path("shared.debug");
    run("dwz", &["-m", text(&shared), "-M", text(&shared), text(&one), text(&two)]);
    assert!(shared.is_file(), "dwz found something to share");
    assert_eq!(lines_of_work(&open(&one)), whole);
}

#[test]
fn what_is_missing_is_said_with_the_way_out() {
    let shop = Workshop::new();
    let bare = shop.compile("plain.c", "bare", &["-O2"]);
    let advice = open(&bare).advice().expect("something to say");
    assert!(advice.contains("has no debug information: functions are shown instead"), "{advice}");
    assert!(advice.contains("-g (gcc, clang)") && advice.contains("line-tables-only"), "{advice}");
    assert_eq!(advice.lines().count(), 1);

    let stripped = shop.path("stripped");
    run("strip", &[text(&bare), "-o", text(&stripped)]);
    let module = open(&stripped);
    let advice = module.advice().expect("words");
    assert!(advice.contains("do not strip it") && advice.contains("by their addresses"), "{advice}");

    let system = Path::new("/bin/ls").canonicalize().expect("ls");
    assert!(open(&system).advice().expect("words").contains("-dbgsym"));
}

/// What is left in a stripped program for unwinding says where its functions are.
#[test]
fn functions_of_a_stripped_program_are_told_apart_by_their_addresses() {
    let shop = Workshop::new();
    let bare = shop.compile("plain.c", "bare", &["-O2", "-g"]);
    let named = open(&bare);
    let work = named.symbols().functions().iter().find(|f| f.symbol == "work").expect("work").clone();
    let stripped = shop.path("stripped");
    run("strip", &[text(&bare), "-o", text(&stripped)]);
    let module = open(&stripped);
    let symbol = format!("sub_{:x}", work.address);
    let known = module.symbols().containing(work.address + work.size - 1).expect("a function");
    assert_eq!((&known.symbol, known.address, known.nameless), (&symbol, work.address, true));
    let said = Table::new(&module, Granularity::Line).of_function(&symbol);
    let name = format!("{symbol} (stripped)");
    assert!(!said.is_empty() && said.iter().all(|l| l == &Some((name.clone(), name.clone()))), "{said:?}");
    // By whatever link it is reached it is the same file; a file that is opened through another place goes by its own name.
    let link = shop.path("link");
    std::os::unix::fs::symlink(&stripped, &link).expect("a link");
    for (called, name) in [(link.as_path(), "stripped"), (Path::new("/srv/app"), "app")] {
        let module = open(&stripped).called(called);
        let name = format!("{symbol} ({name})");
        let said = Table::new(&module, Granularity::Line).of_function(&symbol);
        assert!(
            !said.is_empty() && said.iter().all(|l| l == &Some((name.clone(), name.clone()))),
            "{said:?}"
        );
    }
    assert!(named.symbols().functions().iter().all(|f| !f.nameless), "names are better where there are some");

    let nothing = shop.compile("plain.c", "nothing", &["-O2", "-s", "-Wl,--no-eh-frame-hdr"]);
    run("objcopy", &["-R", ".eh_frame", text(&nothing)]);
    assert!(matches!(open(&nothing).detail(), Detail::Nothing { .. }));
}

/// rustc's own standard library brings debug information along: none of it is the user's.
#[test]
fn debug_information_of_the_toolchain_alone_is_none() {
    let shop = Workshop::new();
    let app = shop.compile("iter.rs", "app", &["-O", "-Cdebuginfo=0"]);
    let module = open(&app);
    let Detail::Functions { why, nameless: false } = module.detail() else {
        panic!("functions: {:?}", module.detail())
    };
    assert!(why.contains("debug information"), "{why}");
    let mut table = Table::new(&module, Granularity::Line);
    let own = table.of_function("engine::sum_squares");
    assert!(
        own.iter().all(|line| line.as_ref().is_some_and(|(name, _)| name.contains("sum_squares"))),
        "{own:?}"
    );
    let library = table.of_function("std::rt::lang_start_internal");
    assert!(library.iter().all(Option::is_none), "the standard library is out of scope by its names");
}

#[test]
fn files_that_are_no_programs_are_named_for_what_they_are() {
    let shop = Workshop::new();
    for (content, word) in [("#!/bin/sh\n", "script"), ("", "empty"), ("hello", "not those of a program")] {
        let path = shop.path("file");
        std::fs::write(&path, content).expect("written");
        let error = format!("{:#}", Module::open(&path, &Scope::default(), &[]).expect_err("no ELF"));
        assert!(error.contains(word) && error.contains(text(&path)), "{error}");
    }
    let error = format!(
        "{:#}",
        Module::open(Path::new("/nowhere/app"), &Scope::default(), &[]).expect_err("missing")
    );
    assert!(error.contains("cannot open /nowhere/app"), "{error}");
}

/// The bias from a live process's maps turns a symbol of it into an address where its code is.
#[test]
fn the_load_bias_fits_live_processes() {
    let shop = Workshop::new();
    let links = [
        &["-O2"][..],
        &["-O2", "-no-pie"],
        &["-O2", "-static"],
        &["-O2", "-Wl,-z,noseparate-code"],
        &["-O2", "-no-pie", "-Wl,-Ttext-segment=0x7654000"],
        &["-O2", "-Wl,-z,max-page-size=0x200000"],
    ];
    for flags in links {
        let app = shop.compile("wait.c", "app", flags);
        let mut child =
            Command::new(&app).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("started");
        let mut address = String::new();
        let out = child.stdout.take().expect("piped");
        std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut address)
            .expect("its address of main");
        let main = u64::from_str_radix(address.trim().trim_start_matches("0x"), 16).expect("hex");
        let maps = executable_mappings(child.id(), &app);
        drop(child.stdin.take());
        child.wait().expect("ended");

        let module = open(&app);
        let bias = module.load_bias(&maps).unwrap_or_else(|| panic!("a bias: {flags:?} {maps:x?}"));
        let symbol = module.symbols().functions().iter().find(|f| f.symbol == "main").expect("main").address;
        assert_eq!(main.wrapping_sub(bias), symbol, "{flags:?}");
        assert_eq!(module.load_bias(&[]), None);
    }
}

fn executable_mappings(pid: u32, path: &Path) -> Vec<Mapping> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("maps");
    let hex = |text: &str| u64::from_str_radix(text, 16).expect("hex");
    maps.lines()
        .filter(|line| line.ends_with(text(path)) && line.split(' ').nth(1).is_some_and(|p| p.contains('x')))
        .map(|line| {
            let mut words = line.split(' ');
            let (start, end) = words.next().and_then(|range| range.split_once('-')).expect("a range");
            Mapping { start: hex(start), end: hex(end), file_offset: hex(words.nth(1).expect("an offset")) }
        })
        .collect()
}

/// Everything that a profile asks of a module, whatever is in it. Must not panic; what it says does not matter.
fn use_everything(path: &Path) {
    let Ok(module) = Module::open(path, &Scope::default(), &[]) else { return };
    let (mut lines, mut functions) = (Lines::new(), Lines::new());
    let pages = module.elf().segments().iter().filter(|s| s.executable).map(|s| s.address / 4096);
    for page in pages.collect::<Vec<_>>() {
        for page in [page, page.wrapping_add(1)] {
            let entries = module.page(page as u32, Granularity::Line, &mut lines);
            assert!(entries.first().is_some_and(|e| e.start == 0));
            module.page(page as u32, Granularity::Function, &mut functions);
        }
    }
    let _ = (module.detail(), module.advice());
    let _ = module.line_sites("plain.c", 14);
    let _ = module.inlined(|_| true);
    let _ = coz_user::points::candidates(&module, "");
}

fn section(bytes: &[u8], name: &str) -> (usize, usize) {
    use object::{Object, ObjectSection};
    let object = object::File::parse(bytes).expect("ELF");
    let (offset, size) = object.section_by_name(name).and_then(|s| s.file_range()).expect("the section");
    (offset as usize, size as usize)
}

/// A binary with a reason to fall back on says the reason.
#[test]
fn debug_information_that_is_cut_off_falls_back_to_functions() {
    let shop = Workshop::new();
    let app = shop.compile("plain.c", "app", &["-O2", "-g", "-gz=zlib"]);
    let mut bytes = std::fs::read(&app).expect("the binary");
    let (offset, size) = section(&bytes, ".debug_info");
    bytes[offset + 24..offset + size].fill(0xff);
    let broken = shop.path("broken");
    std::fs::write(&broken, &bytes).expect("written");
    let module = open(&broken);
    let Detail::Functions { why, nameless: false } = module.detail() else {
        panic!("functions: {:?}", module.detail())
    };
    assert!(why.contains("cannot be read") && why.contains(".debug_info"), "{why}");
    assert!(lines_of_work(&module).iter().all(|line| line == &Some(("work".into(), "work".into()))));
}

#[test]
fn any_damage_is_survived() {
    let shop = Workshop::new();
    let sections = [
        ".debug_info",
        ".debug_abbrev",
        ".debug_line",
        ".debug_str",
        ".debug_line_str",
        ".debug_rnglists",
        ".symtab",
        ".strtab",
    ];
    for flags in [&["-O2", "-g"][..], &["-O2", "-g", "-gz=zlib"]] {
        let app = shop.compile("plain.c", "app", flags);
        let good = std::fs::read(&app).expect("the binary");
        let broken = shop.path("broken");
        let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
            cases: 150,
            failure_persistence: None,
            ..ProptestConfig::default()
        });
        let damage = (
            0..sections.len(),
            prop::collection::vec((0.0..1.0f64, any::<u8>()), 0..12),
            prop::option::weighted(0.2, 0.0..1.0f64),
        );
        let outcome = runner.run(&damage, |(which, flips, cut)| {
            let mut bytes = good.clone();
            let (offset, size) = section(&good, sections[which]);
            for (at, value) in flips {
                bytes[offset + (at * size as f64) as usize] = value;
            }
            if let Some(cut) = cut {
                bytes.truncate((cut * bytes.len() as f64) as usize);
            }
            std::fs::write(&broken, &bytes).expect("written");
            use_everything(&broken);
            Ok(())
        });
        outcome.unwrap_or_else(|e| panic!("{e}"));
    }
}

/// Also the ELF headers themselves.
#[test]
fn damaged_headers_are_survived() {
    let shop = Workshop::new();
    let app = shop.compile("plain.c", "app", &["-O2", "-g"]);
    let good = std::fs::read(&app).expect("the binary");
    let table = u64::from_le_bytes(good[0x28..0x30].try_into().expect("8 bytes")) as usize;
    let broken = shop.path("broken");
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 200,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let flips = prop::collection::vec((any::<bool>(), 0usize..0x300, any::<u8>()), 1..6);
    let outcome = runner.run(&flips, |flips| {
        let mut bytes = good.clone();
        for (head, at, value) in flips {
            let at = if head { at } else { (table + at * 7).min(good.len() - 1) };
            bytes[at] = value;
        }
        std::fs::write(&broken, &bytes).expect("written");
        use_everything(&broken);
        Ok(())
    });
    outcome.unwrap_or_else(|e| panic!("{e}"));
}
