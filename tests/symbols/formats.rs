//! Forms of debug information that compilers, linkers and distributions make.

use crate::harness::{Table, Workshop, everything, open, remark, run};
use coz_user::symbols::{Detail, Granularity, Module, Scope};
use std::path::{Path, PathBuf};
use std::process::Command;

const FUNCTIONS: [&str; 3] = ["work", "main", "fail"];

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// What is said of `plain.c` in the usual format.
fn usual(shop: &Workshop, flags: &[&str]) -> Vec<String> {
    everything(&open(&shop.compile("plain.c", "usual", flags)), &FUNCTIONS)
}

#[test]
fn every_version_says_the_same() {
    let shop = Workshop::new();
    let usual = usual(&shop, &["-O2", "-g", "-gdwarf-5"]);
    assert!(usual.iter().any(|line| line.contains("mix within work")), "{usual:#?}");
    for version in ["-gdwarf-2", "-gdwarf-3", "-gdwarf-4"] {
        for strict in ["-gno-strict-dwarf", "-gstrict-dwarf"] {
            let app = shop.compile("plain.c", "app", &["-O2", "-g", version, strict]);
            let mut said = everything(&open(&app), &FUNCTIONS);
            let mut usual = usual.clone();
            if (version, strict) == ("-gdwarf-2", "-gstrict-dwarf") {
                // It knows no `DW_AT_ranges`: of an inlined function, and of the cold part of one, only the first piece is described.
                let lines = |line: &String| line.starts_with("Line ");
                said.retain(lines);
                usual.retain(lines);
                said = said.iter().map(|line| line.replace("\"mix\"", "\"work\"")).collect();
                usual = usual.iter().map(|line| line.replace("\"mix\"", "\"work\"")).collect();
            }
            assert_eq!(said, usual, "{version} {strict}");
        }
    }
    // 64-bit offsets.
    let wide = shop.compile("plain.c", "wide", &["-O2", "-g", "-gdwarf64"]);
    assert_eq!(everything(&open(&wide), &FUNCTIONS), usual);
}

#[test]
fn compressed_sections_say_the_same() {
    let shop = Workshop::new();
    let usual = usual(&shop, &["-O2", "-g"]);
    let app = shop.compile("plain.c", "app", &["-O2", "-g"]);
    for kind in ["zlib", "zlib-gnu", "zstd"] {
        let packed = shop.path(kind);
        run("objcopy", &[&format!("--compress-debug-sections={kind}"), text(&app), text(&packed)]);
        let names = Command::new("readelf").args(["-SW", text(&packed)]).output().expect("binutils").stdout;
        let names = String::from_utf8_lossy(&names).into_owned();
        let compressed =
            names.lines().filter(|line| line.contains("debug_")).any(|line| line.contains(" C "));
        assert!(compressed || names.contains(".zdebug_"), "{kind}: objcopy did compress: {names}");
        assert_eq!(everything(&open(&packed), &FUNCTIONS), usual, "{kind}");
    }
}

/// `dwz` moves what several units have in common into partial units, of the same file here.
#[test]
fn partial_units_are_followed() {
    let shop = Workshop::new();
    for version in ["-gdwarf-4", "-gdwarf-5"] {
        let flags = ["-O2", "-g", version];
        let (first, second) = (shop.path("first.o"), shop.path("second.o"));
        let source = crate::harness::sources().join("plain.c");
        run("gcc", &[&flags[..], &["-c", text(&source), "-o", text(&first)]].concat());
        run(
            "gcc",
            &[
                &flags[..],
                &[
                    "-Dmain=other",
                    "-Dwork=other_work",
                    "-Dfail=other_fail",
                    "-c",
                    text(&source),
                    "-o",
                    text(&second),
                ],
            ]
            .concat(),
        );
        let app = shop.path("app");
        run("gcc", &[text(&first), text(&second), "-o", text(&app)]);
        let before = everything(&open(&app), &["other_work", "work"]);
        run("dwz", &[text(&app)]);
        let units = Command::new("readelf")
            .args(["--debug-dump=info", text(&app)])
            .output()
            .expect("binutils")
            .stdout;
        assert!(String::from_utf8_lossy(&units).contains("DW_TAG_partial_unit"), "dwz made partial units");
        assert_eq!(everything(&open(&app), &["other_work", "work"]), before, "{version}");
    }
}

#[test]
fn link_time_optimisation_keeps_lines_and_inlining() {
    let shop = Workshop::new();
    for flags in [&["-O2", "-g", "-flto"][..], &["-O2", "-g", "-gdwarf-4", "-flto", "-ffat-lto-objects"]] {
        let module = open(&shop.compile("plain.c", "app", flags));
        let said = everything(&module, &["work", "main"]);
        let mix = format!("(\"inline.h:{}\", \"mix\")", remark("inline.h", "mix"));
        assert!(
            said.iter().any(|line| line.starts_with("Line work") && line.contains(&mix)),
            "{flags:?}: {said:#?}"
        );
        assert!(said.iter().any(|line| line.contains("mix within work")), "{flags:?}: {said:#?}");
    }
}

/// Two identical functions share their code: one of them stands for both, with a line and a name that fit each other.
#[test]
fn folded_functions_are_one_of_the_two() {
    let shop = Workshop::new();
    let root = Command::new("rustc").args(["--print", "sysroot"]).output().expect("rustc").stdout;
    let lld = format!(
        "-B{}/lib/rustlib/x86_64-unknown-linux-gnu/bin/gcc-ld",
        String::from_utf8_lossy(&root).trim()
    );
    let (one, two) = (remark("folded.c", "first"), remark("folded.c", "second"));
    for linker in [&["-fuse-ld=gold"][..], &["-fuse-ld=lld", &lld]] {
        for version in ["-gdwarf-4", "-gdwarf-5"] {
            let flags = [linker, &["-O2", "-g", version, "-ffunction-sections", "-Wl,--icf=all"]].concat();
            let module = open(&shop.compile("folded.c", "app", &flags));
            let address = |name: &str| {
                module.symbols().functions().iter().find(|f| f.symbol == name).map(|f| f.address)
            };
            assert_eq!(address("first"), address("second"), "{linker:?} folded them");
            let mut table = Table::new(&module, Granularity::Line);
            let said: Vec<_> = table.of_function("first").into_iter().flatten().collect();
            assert!(!said.is_empty(), "{linker:?} {version}");
            for (place, function) in said {
                let line = if function == "first" { one } else { two };
                assert_eq!(place, format!("folded.c:{line}"), "{linker:?} {version}: in {function}");
            }
        }
    }
}

/// The cold part of a function stands elsewhere (`DW_AT_ranges`), with a symbol of its own.
#[test]
fn a_part_that_was_moved_away_belongs_to_its_function() {
    let shop = Workshop::new();
    for flags in [&["-O2", "-g"][..], &["-O2", "-g", "-gdwarf-4"], &["-O2"]] {
        let module = open(&shop.compile("folded.c", "app", flags));
        let cold =
            module.symbols().functions().iter().find(|f| f.symbol == "parts.cold").expect("gcc cut it");
        let mut table = Table::new(&module, Granularity::Function);
        let (_, function) = table.at(cold.address).expect("in scope");
        assert_eq!(function, "parts", "{flags:?}");
        if flags.contains(&"-g") {
            let mut table = Table::new(&module, Granularity::Line);
            let moved = format!("folded.c:{}", remark("folded.c", "moved away"));
            let said: Vec<_> = (0..cold.size).filter_map(|at| table.at(cold.address + at)).collect();
            assert!(said.contains(&(moved, "parts".to_owned())), "{said:?}");
        }
    }
}

/// Several folders may be named; each is searched in turn.
#[test]
fn all_named_folders_are_searched() {
    let shop = Workshop::new();
    let app = shop.compile("plain.c", "app", &["-O2", "-g", "-Wl,--build-id=0xabcdef0124"]);
    let usual = everything(&open(&app), &FUNCTIONS);
    let (debug, stripped) = (shop.path("app.debug"), shop.path("stripped"));
    run("objcopy", &["--only-keep-debug", text(&app), text(&debug)]);
    run("strip", &[text(&app), "-o", text(&stripped)]);
    let folder = shop.path("second/.build-id/ab");
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::rename(&debug, folder.join("cdef0124.debug")).expect("renamed");
    let dirs = ["first", "second"].map(|name| shop.path(name));
    let found = Module::open(&stripped, &Scope::default(), &dirs).expect("ELF");
    assert_eq!(everything(&found, &FUNCTIONS), usual);
}

/// A library of which only the names for the dynamic linker are left: its exported functions.
#[test]
fn a_stripped_library_has_its_exported_functions() {
    let shop = Workshop::new();
    let library = shop.compile("plain.c", "lib.so", &["-O2", "-shared", "-fPIC", "-s"]);
    let module = open(&library);
    let Detail::Functions { why, nameless: false } = module.detail() else {
        panic!("functions: {:?}", module.detail())
    };
    assert_eq!(why, "has no debug information");
    let names: Vec<&str> = module.symbols().functions().iter().map(|f| f.symbol.as_str()).collect();
    assert!(names.contains(&"work") && names.contains(&"fail"), "{names:?}");
    let said = Table::new(&module, Granularity::Line).of_function("work");
    assert!(said.iter().all(|line| line == &Some(("work".into(), "work".into()))), "{said:?}");
}

/// LLVM writes less where only line tables are asked for: functions are named only where they were inlined.
#[test]
fn line_tables_alone_give_lines_and_what_was_inlined() {
    let shop = Workshop::new();
    for level in ["line-tables-only", "limited", "full"] {
        for version in ["-Cdwarf-version=4", "-Cdwarf-version=5"] {
            let app = shop.compile("iter.rs", "app", &["-O", &format!("-Cdebuginfo={level}"), version]);
            let mut table = Table::new(&open(&app), Granularity::Line).of_function("engine::sum_squares");
            assert!(table.iter().all(Option::is_some), "{level} {version}: {table:?}");
            table.retain(|line| {
                line.as_ref().is_some_and(|(_, function)| {
                    function.contains("{{closure}}") || function.contains("{closure#")
                })
            });
            let square = format!("iter.rs:{}", remark("iter.rs", "square"));
            assert!(
                table.iter().flatten().any(|(place, _)| *place == square),
                "{level} {version}: {table:?}"
            );
        }
    }
}

/// Programs made by other compilers, kept as they came out (`fixtures/README.md` says how).
#[test]
fn clang_agrees_with_gcc_on_what_was_inlined_where() {
    let folder: PathBuf = crate::harness::sources().join("fixtures");
    for name in
        ["clang-dwarf4", "clang-dwarf5", "clang-line-tables", "clang-split-dwarf5", "clang-thinlto-split"]
    {
        let module = Module::open(&folder.join(name), &Scope::default(), &[]).expect("ELF");
        assert_eq!(module.advice(), None, "{name}");
        let said = everything(&module, &["work", "main"]);
        let mix = format!("(\"inline.h:{}\", \"mix\")", remark("inline.h", "mix"));
        assert!(
            said.iter().any(|line| line.starts_with("Line work") && line.contains(&mix)),
            "{name}: {said:#?}"
        );
        assert!(said.iter().any(|line| line.starts_with("mix within work")), "{name}: {said:#?}");
        let call = format!("plain.c:{}", remark("plain.c", "twice first"));
        let without = Scope::new(&["plain.c"], &[]).expect("a glob");
        let module = Module::open(&folder.join(name), &without, &[]).expect("ELF");
        let said = Table::new(&module, Granularity::Line).of_function("work");
        assert!(
            said.iter().flatten().any(|(place, function)| *place == call && function == "twice"),
            "{name}: {said:?}"
        );
    }
}
