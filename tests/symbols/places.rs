//! Specs of progress points on real binaries.

use crate::harness::{Workshop, open, remark};
use coz_user::points::{Binaries, Listing, Resolved, Spec, candidates, resolve};
use coz_user::symbols::{Module, Scope};
use std::path::Path;
use std::sync::Arc;

fn try_point(path: &Path, spec: &str) -> Result<Resolved, String> {
    let spec: Spec = spec.parse().unwrap_or_else(|e| panic!("{e}"));
    let binaries = Binaries::new(Arc::new(open(path)), Scope::default(), Vec::new());
    resolve(&spec, &binaries).map_err(|e| format!("{e:#}"))
}

fn point(path: &Path, spec: &str) -> Resolved {
    try_point(path, spec).unwrap_or_else(|e| panic!("{spec}: {e}"))
}

fn whats(resolved: &Resolved) -> Vec<&str> {
    resolved.sites().iter().map(|site| site.what.as_str()).collect()
}

/// The bytes at the file offsets are those that the segments put at the addresses.
fn check_offsets(module: &Module, resolved: &Resolved) {
    let bytes = std::fs::read(module.path()).expect("the binary");
    let object = object::File::parse(&*bytes).expect("ELF");
    for site in resolved.sites() {
        use object::{Object, ObjectSection};
        let section =
            object.sections().find(|s| (s.address()..s.address() + s.size()).contains(&site.address));
        let section = section.expect("a section");
        let inside = (site.address - section.address()) as usize;
        let code = &section.data().expect("data")[inside..inside + 4];
        assert_eq!(code, &bytes[site.file_offset as usize..site.file_offset as usize + 4], "{}", site.what);
    }
}

#[test]
fn c_symbols_and_offsets() {
    let shop = Workshop::new();
    for (name, flags) in
        [("pie", &["-O2", "-g"][..]), ("nopie", &["-O2", "-g", "-no-pie"]), ("bare", &["-O2"])]
    {
        let path = shop.compile("plain.c", name, flags);
        let module = open(&path);
        let work = point(&path, "jobs=work");
        assert_eq!((work.name.as_str(), whats(&work)), ("jobs", vec!["work"]));
        assert_eq!(work.note, None);
        check_offsets(&module, &work);
        let later = point(&path, "work+4");
        assert_eq!(later.sites()[0].address, work.sites()[0].address + 4);
        let error = try_point(&path, "work+100000").expect_err("too far");
        assert!(error.contains("has only") && error.contains("+100000"), "{error}");
    }
}

#[test]
fn cpp_names_in_every_form() {
    let shop = Workshop::new();
    let path = shop.compile("names.cpp", "app", &["-O2", "-g"]);
    for spec in
        ["_ZN3app5inner4onlyEi", "app::inner::only(int)", "app::inner::only", "inner::only", "::only", "only"]
    {
        assert_eq!(whats(&point(&path, spec)), ["app::inner::only(int)"], "{spec}");
    }
    let both = point(&path, "app::work");
    assert_eq!(both.sites().len(), 2, "both overloads: {both:?}");
    let note = both.note.expect("a note");
    assert!(note.contains("2 places") && note.contains("app::work(char const*)"), "{note}");
    assert_eq!(point(&path, "app::work(int)").sites().len(), 1);
    assert_eq!(point(&path, "app::scale").sites().len(), 2, "both instances of the template");
    assert_eq!(point(&path, "'app::Job::operator=='").sites().len(), 1);
    assert_eq!(point(&path, "Job::run").sites().len(), 1);
}

#[test]
fn rust_names_in_every_form() {
    let shop = Workshop::new();
    for flags in [&["-O", "-g"][..], &["-O", "-Csymbol-mangling-version=v0"]] {
        let path = shop.compile("iter.rs", "app", flags);
        for spec in ["app::engine::sum_squares", "engine::sum_squares", "sum_squares"] {
            let spec = spec.replace("app::", "iter::");
            assert_eq!(whats(&point(&path, &spec)), ["iter::engine::sum_squares"], "{spec} {flags:?}");
        }
        assert_eq!(point(&path, "engine::generic").sites().len(), 2, "both instances {flags:?}");
    }
}

#[test]
fn inlined_copies_are_counted_too() {
    let shop = Workshop::new();
    let path = shop.compile("plain.c", "app", &["-O2", "-g"]);
    let twice = point(&path, "twice");
    assert_eq!(whats(&twice), ["twice inlined into work"]);
    check_offsets(&open(&path), &twice);
    let mix = point(&path, "mix");
    assert_eq!(whats(&mix), ["mix inlined into work"; 2]);
    assert!(mix.note.is_some_and(|note| note.contains("2 places")));
}

#[test]
fn unknown_symbols_come_with_the_nearest_names() {
    let shop = Workshop::new();
    let path = shop.compile("plain.c", "app", &["-O2", "-g"]);
    let error = try_point(&path, "wrok").expect_err("no such function");
    assert!(error.contains("no function 'wrok'") && error.contains("did you mean work"), "{error}");
    let error = try_point(&path, "puts").or_else(|_| try_point(&path, "fprintf")).expect_err("from libc");
    assert!(error.contains("only calls it") && error.contains("LIBRARY@"), "{error}");
    let error = try_point(&path, "environ_that_is_not").expect_err("nothing");
    assert!(error.contains("no function"), "{error}");
    let bare = shop.path("bare");
    crate::harness::run("strip", &[path.to_str().expect("UTF-8"), "-o", bare.to_str().expect("UTF-8")]);
    let error = try_point(&bare, "work").expect_err("stripped");
    assert!(error.contains("stripped"), "{error}");
}

#[test]
fn lines_and_their_neighbours() {
    let shop = Workshop::new();
    let path = shop.compile("plain.c", "app", &["-O2", "-g"]);
    let report = remark("plain.c", "report");
    let site = point(&path, &format!("plain.c:{report}"));
    assert_eq!(whats(&site), [format!("plain.c:{report} in main")]);
    check_offsets(&open(&path), &site);
    let full = crate::harness::sources().join("plain.c");
    assert_eq!(point(&path, &format!("{}:{report}", full.display())).sites(), site.sites());
    assert_eq!(point(&path, &format!("symbols/plain.c:{report}")).sites(), site.sites());

    let error = try_point(&path, "plain.c:2").expect_err("no code there");
    assert!(error.contains("no code on line 2") && error.contains("nearest lines"), "{error}");
    let error = try_point(&path, "lain.c:12").expect_err("no such file");
    assert!(error.contains("no source file 'lain.c'") && error.contains("did you mean plain.c"), "{error}");

    let mix = remark("inline.h", "mix");
    let inlined = point(&path, &format!("inline.h:{mix}"));
    assert_eq!(whats(&inlined), vec![format!("inline.h:{mix} in mix inlined into work"); 2]);
}

/// A line is a breakpoint where gdb would set one: the first `is_stmt` row outside of cold parts.
#[test]
fn a_line_whose_calls_are_all_inlined_is_one_place() {
    let shop = Workshop::new();
    let path = shop.compile("plain.c", "app", &["-O2", "-g"]);
    let call = remark("plain.c", "call");
    assert_eq!(whats(&point(&path, &format!("plain.c:{call}"))), [format!("plain.c:{call} in work")]);
}

#[test]
fn a_line_that_strays_into_what_was_inlined_beside_it_is_its_own_functions() {
    let program = xtask::programs::Program::build("barrier").expect("it compiles");
    let line = program.marked("line").expect("one line is marked");
    let found = point(&program.path, &line);
    assert!(matches!(whats(&found)[..], [what] if !what.contains("finished")), "{:?}", whats(&found));
}

#[test]
fn without_debug_information_a_line_is_refused_with_the_reason() {
    let shop = Workshop::new();
    let path = shop.compile("plain.c", "app", &["-O2"]);
    let error = try_point(&path, "plain.c:12").expect_err("no lines");
    assert!(error.contains("has no debug information") && error.contains("-g"), "{error}");
}

#[test]
fn parts_and_copies_that_the_compiler_makes() {
    let shop = Workshop::new();
    for flags in [&["-O2", "-g"][..], &["-O2"]] {
        let path = shop.compile("parts.c", "app", flags);
        assert_eq!(whats(&point(&path, "hot")), ["hot"], "its cold part is no entry");
        let error = try_point(&path, "hot.cold").expect_err("no entry");
        assert!(error.contains("no function") && error.contains("name 'hot'"), "{error}");
        assert_eq!(whats(&point(&path, "copied")), ["copied (.constprop.0)"]);
        assert_eq!(whats(&point(&path, "slimmed")), ["slimmed (.constprop.0.isra.0)"]);
        assert_eq!(whats(&point(&path, "slimmed.constprop.0.isra.0")), ["slimmed (.constprop.0.isra.0)"]);
        let split = point(&path, "split");
        let has_lines = flags.contains(&"-g");
        if has_lines {
            assert!(
                whats(&split).iter().all(|what| what.contains("inlined into")),
                "the rest is called by these"
            );
        } else {
            assert_eq!(whats(&split), ["split (.part.0)"]);
            assert!(split.note.as_ref().is_some_and(|note| note.contains("part of it")), "{split:?}");
        }
        assert_eq!(
            whats(&point(&path, "split.part.0")),
            ["split (.part.0)"],
            "by its own name it can be had"
        );
    }
}

#[test]
fn no_probe_in_the_middle_of_an_instruction() {
    let shop = Workshop::new();
    let path = shop.compile("plain.c", "app", &["-O2"]);
    let mut places = 0;
    for offset in 1..40 {
        match try_point(&path, &format!("work+{offset}")) {
            Ok(_) => places += 1,
            Err(error) => assert!(error.contains("middle of an instruction"), "{error}"),
        }
    }
    assert!((3..30).contains(&places), "{places} instructions in 40 bytes");
}

#[test]
fn data_is_no_place_for_a_probe() {
    let shop = Workshop::new();
    // A table that stands among the code, under a function's name.
    let source = shop.path("table.s");
    let text = ".section .table,\"a\",@progbits\n.globl table\n.type table,@function\ntable: .long 6,6,6,6\n.size table,16\n\
                .text\n.globl main\n.type main,@function\nmain: ret\n.size main,1\n";
    std::fs::write(&source, text).expect("the folder is writable");
    let path = shop.path("app");
    let (source, output) = (source.to_str().expect("UTF-8"), path.to_str().expect("UTF-8"));
    // Without separate segments, what is only read is where code is.
    crate::harness::run("gcc", &["-Wl,-z,noseparate-code", "-Wl,-z,noexecstack", source, "-o", output]);
    let error = try_point(&path, "table").expect_err("data");
    assert!(error.contains("no probe can stand there") || error.contains("no function"), "{error}");
    assert_eq!(whats(&point(&path, "main")), ["main"]);
}

#[test]
fn libraries_by_name_and_what_cannot_be_probed() {
    let shop = Workshop::new();
    let path = shop.compile("plain.c", "app", &["-O2"]);
    let by_name = point(&path, "c@malloc");
    assert!(by_name.sites()[0].path.to_string_lossy().contains("libc.so"), "{by_name:?}");
    let by_path = point(&path, &format!("{}@malloc", by_name.sites()[0].path.display()));
    assert_eq!(by_path.sites(), by_name.sites());
    let error = try_point(&path, "c@strlen").expect_err("chosen at start");
    assert!(error.contains("ifunc"), "{error}");
    let error = try_point(&path, "nosuchlib@f").expect_err("no such library");
    assert!(error.contains("nosuchlib"), "{error}");
}

#[test]
fn candidates_are_the_programs_own_functions() {
    let shop = Workshop::new();
    let path = shop.compile("names.cpp", "app", &["-O2", "-g"]);
    let all = candidates(&open(&path), "");
    let names: Vec<&str> = all.iter().map(|c| c.name.as_str()).collect();
    assert!(names.contains(&"app::work(int)") && names.contains(&"main"), "{names:?}");
    assert!(!names.iter().any(|name| name.starts_with("std::") || *name == "_start"), "{names:?}");
    for candidate in &all {
        let found = point(&path, &candidate.spec);
        assert!(found.sites().iter().any(|site| site.address == candidate.address), "{candidate:?}");
        assert!(
            candidate.location.as_ref().is_some_and(|place| place.contains("names.cpp:")),
            "{candidate:?}"
        );
    }
    // A word that no folder above the sources can hold: locations are searched too.
    let found = candidates(&open(&path), "WORK(INT)");
    assert!(!found.is_empty() && found.iter().all(|c| c.name.contains("work(int)")), "{found:?}");
}

/// Functions, the lines of a file that the filter names, declared probes, and the word of coz.h.
#[test]
fn everything_that_can_be_a_point_is_listed() {
    let shop = Workshop::new();
    let path = shop.compile("plain.c", "app", &["-O2", "-g"]);
    let specs = |filter: &str| {
        let listing = Listing::of(&open(&path), filter);
        let names =
            |entries: Vec<coz_user::points::Entry>| entries.into_iter().map(|e| e.spec).collect::<Vec<_>>();
        (names(listing.functions), names(listing.lines), listing.coz_h)
    };
    let (functions, lines, coz_h) = specs("");
    assert!(functions.contains(&"work".to_owned()) && lines.is_empty() && !coz_h, "{functions:?} {lines:?}");
    let report = format!("plain.c:{}", remark("plain.c", "report"));
    let (functions, lines, _) = specs("plain.c");
    assert!(
        functions.contains(&"main".to_owned()) && lines.contains(&report),
        "by its file: {functions:?} {lines:?}"
    );
    assert!(!functions.iter().any(|name| name == "_start"), "{functions:?}");
    assert_eq!(specs(&report).1, std::slice::from_ref(&report));
    let found = point(&path, &report);
    assert!(!found.sites().is_empty(), "what is listed can be used");
    assert_eq!(specs("no such thing").0.len(), 0);

    let marked = shop.compile("marked.c", "marked", &["-O2", "-g"]);
    assert!(Listing::of(&open(&marked), "").coz_h);
}
