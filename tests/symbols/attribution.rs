//! Pages of the line table against the sources, and against an independent reader of debug information.

use crate::harness::{Table, Workshop, open, remark};
use coz_common::units::LineId;
use coz_user::symbols::{Detail, Granularity, Lines, Module, Scope, demangle};
use std::collections::BTreeSet;
use std::path::Path;

/// What `addr2line` (the crate) says of an address: the innermost frame in scope.
fn oracle(loader: &addr2line::Loader, scope: &Scope, address: u64) -> Option<String> {
    let mut frames = loader.find_frames(address).expect("readable");
    while let Some(frame) = frames.next().expect("readable") {
        let Some(place) = frame.location else { continue };
        if let (Some(file), Some(line)) = (place.file, place.line)
            && scope.source(Path::new(file))
        {
            let file = file.rsplit('/').next().unwrap_or(file);
            return Some(format!("{file}:{line}"));
        }
    }
    None
}

/// Every address of every function says the same as the oracle, with two intended differences: code that the
/// compiler made up (line 0) belongs to the line before, and in a function of the program's own, code
/// of which the oracle knows no line in scope belongs to the line before too.
fn agrees_with_the_oracle(path: &Path) {
    let (module, scope) = (open(path), Scope::default());
    let loader = addr2line::Loader::new(path).expect("readable");
    let mut table = Table::new(&module, Granularity::Line);
    let (mut compared, mut differ) = (0, Vec::new());
    for function in module.symbols().functions() {
        let own = scope.function(&demangle(&function.symbol));
        // The standard library is large: some of its addresses are enough.
        let step = if own { 1 } else { 17 };
        for address in (function.address..function.address + function.size).step_by(step) {
            let Ok(Some(place)) = loader.find_location(address) else { continue };
            if place.line.is_none() {
                continue;
            }
            let (ours, theirs) =
                (table.at(address).map(|(place, _)| place), oracle(&loader, &scope, address));
            compared += 1;
            if theirs.is_none() && own {
                continue;
            }
            if ours != theirs {
                differ.push(format!("{address:#x} in {}: {ours:?}, not {theirs:?}", function.symbol));
            }
        }
    }
    assert!(compared > 100, "only {compared} addresses had a line in {}", path.display());
    assert!(
        differ.is_empty(),
        "{}: {} of {compared} differ: {:#?}",
        path.display(),
        differ.len(),
        &differ[..differ.len().min(10)]
    );
}

#[test]
fn c_agrees_with_the_oracle_in_every_format() {
    let shop = Workshop::new();
    for (name, flags) in [
        ("dwarf4", &["-O2", "-g", "-gdwarf-4"][..]),
        ("dwarf5", &["-O2", "-g", "-gdwarf-5"]),
        ("dwarf3", &["-O2", "-g", "-gdwarf-3", "-gstrict-dwarf"]),
        ("o0", &["-O0", "-g"]),
        ("o3", &["-O3", "-g"]),
        ("g1", &["-O2", "-g1"]),
        ("gz", &["-O2", "-g", "-gz=zlib"]),
        ("nopie", &["-O2", "-g", "-no-pie"]),
        ("static", &["-O2", "-g", "-static"]),
        ("lto", &["-O2", "-g", "-flto"]),
        ("sections", &["-O2", "-g", "-ffunction-sections", "-Wl,--gc-sections"]),
    ] {
        let path = shop.compile("plain.c", name, flags);
        assert_eq!(open(&path).detail(), Detail::Lines, "{name}");
        agrees_with_the_oracle(&path);
    }
}

#[test]
fn cpp_agrees_with_the_oracle() {
    let shop = Workshop::new();
    agrees_with_the_oracle(&shop.compile("names.cpp", "o2", &["-O2", "-g"]));
    agrees_with_the_oracle(&shop.compile("names.cpp", "o0", &["-O0", "-g", "-gdwarf-4"]));
}

#[test]
fn rust_agrees_with_the_oracle() {
    let shop = Workshop::new();
    agrees_with_the_oracle(&shop.compile("iter.rs", "debug", &["-g"]));
    agrees_with_the_oracle(&shop.compile("iter.rs", "opt", &["-g", "-O"]));
    agrees_with_the_oracle(&shop.compile(
        "iter.rs",
        "tables",
        &["-Cdebuginfo=line-tables-only", "-O", "-Clto"],
    ));
}

/// A large program with many crates: this test itself, at some of its addresses.
#[test]
fn a_large_program_agrees_with_the_oracle() {
    let path = std::env::current_exe().expect("this test");
    let scope = Scope::new(&["*"], &[]).expect("a glob");
    let module = Module::open(&path, &scope, &[]).expect("ELF");
    let loader = addr2line::Loader::new(&path).expect("readable");
    let functions = module.symbols().functions();
    let (mut compared, mut lines) = (0, Lines::new());
    for function in functions.iter().step_by(functions.len() / 400) {
        let address = function.address + function.size / 2;
        if loader.find_location(address).expect("readable").is_none_or(|place| place.line.is_none()) {
            continue;
        }
        let Some(theirs) = oracle(&loader, &scope, address) else { continue };
        let id = module.resolve(address, Granularity::Line, &mut lines);
        let ours = id.and_then(|id| lines.get(id)).map(|line| line.location());
        let ours = ours.as_deref().and_then(|place| place.rsplit('/').next());
        assert_eq!(ours, Some(theirs.as_str()), "{address:#x} in {}", function.symbol);
        compared += 1;
    }
    assert!(compared > 200, "only {compared} addresses have lines");
}

#[test]
fn inlined_code_belongs_to_its_innermost_line_in_scope() {
    let shop = Workshop::new();
    let path = shop.compile("plain.c", "app", &["-O2", "-g"]);
    let places = |scope: Scope| -> BTreeSet<(String, String)> {
        let module = Module::open(&path, &scope, &[]).expect("ELF");
        Table::new(&module, Granularity::Line).of_function("work").into_iter().flatten().collect()
    };
    let mix = (format!("inline.h:{}", remark("inline.h", "mix")), "mix".to_owned());
    assert!(places(Scope::default()).contains(&mix), "the header's own line, in the inlined function");

    let without = places(Scope::new(&["!inline.h"], &[]).expect("a glob"));
    assert!(!without.iter().any(|(place, _)| place.starts_with("inline.h")), "{without:?}");
    for call in ["twice first", "twice second"] {
        let call = (format!("plain.c:{}", remark("plain.c", call)), "twice".to_owned());
        assert!(without.contains(&call), "the call that was inlined: {call:?} in {without:?}");
    }
}

/// All frames in scope of an address, innermost first, each line once, as the oracle has them.
fn all_of_oracle(loader: &addr2line::Loader, scope: &Scope, address: u64) -> BTreeSet<String> {
    let mut frames = loader.find_frames(address).expect("readable");
    let mut found = BTreeSet::new();
    while let Some(frame) = frames.next().expect("readable") {
        let Some(place) = frame.location else { continue };
        if let (Some(file), Some(line @ 1..)) = (place.file, place.line)
            && scope.source(Path::new(file))
        {
            found.insert(format!("{}:{line}", file.rsplit('/').next().unwrap_or(file)));
        }
    }
    found
}

/// With `--inclusive` code counts for every line that it was inlined at, and for its own.
#[test]
fn lines_that_code_was_inlined_at_are_known_where_they_are_asked_for() {
    let shop = Workshop::new();
    for (source, name, flags) in [
        ("plain.c", "c", &["-O2", "-g"][..]),
        ("plain.c", "lto", &["-O2", "-g", "-flto"]),
        ("iter.rs", "rust", &["-g", "-O"]),
    ] {
        let path = shop.compile(source, name, flags);
        let (module, scope) = (open(&path), Scope::default());
        let loader = addr2line::Loader::new(&path).expect("readable");
        let mut lines = Lines::nested();
        let (mut compared, mut several) = (0, 0);
        for function in module.symbols().functions() {
            if !scope.function(&demangle(&function.symbol)) {
                continue;
            }
            for address in function.address..function.address + function.size {
                let theirs = all_of_oracle(&loader, &scope, address);
                let located = loader.find_location(address).expect("readable");
                // Intended differences: see above.
                if theirs.is_empty() || located.is_none_or(|place| place.line.is_none()) {
                    continue;
                }
                let ours = module.lines_at(address, Granularity::Line, &mut lines);
                let last = |line: &LineId| lines.get(*line).map(|line| line.location());
                let ours: BTreeSet<String> = ours.iter().filter_map(last).collect();
                let ours = ours
                    .iter()
                    .map(|place| place.rsplit('/').next().unwrap_or_default().to_owned())
                    .collect();
                assert_eq!(theirs, ours, "{name}: {address:#x} in {}", function.symbol);
                (compared, several) = (compared + 1, several + usize::from(theirs.len() > 1));
            }
        }
        assert!(compared > 50 && several > 10, "{name}: {several} of {compared} are within others");
    }
}

#[test]
fn functions_within_others_count_for_all_of_them_where_that_is_asked_for() {
    let shop = Workshop::new();
    let module = open(&shop.compile("plain.c", "app", &["-O2", "-g"]));
    let mut lines = Lines::nested();
    let work = module.symbols().functions().iter().find(|f| f.symbol == "work").expect("work").clone();
    let mut found = BTreeSet::new();
    for address in work.address..work.address + work.size {
        let at = module.lines_at(address, Granularity::Function, &mut lines);
        let names = at.iter().filter_map(|line| Some(lines.get(*line)?.function.to_string()));
        found.insert(names.collect::<Vec<_>>().join(" in "));
    }
    assert!(found.contains("work") && found.contains("mix in twice in work"), "{found:?}");
    assert!(found.iter().all(|names| names.ends_with("work")), "{found:?}");
}

#[test]
fn rust_iterators_count_for_the_line_that_uses_them() {
    let shop = Workshop::new();
    for flags in [&["-g", "-O"][..], &["-g"]] {
        let path = shop.compile("iter.rs", "app", flags);
        let module = open(&path);
        let mut table = Table::new(&module, Granularity::Line);
        let places = table.of_function("engine::sum_squares");
        assert!(places.iter().all(Option::is_some), "no address of the user's function is out of scope");
        let known: BTreeSet<_> = places.into_iter().flatten().collect();
        assert!(known.iter().all(|(place, _)| place.starts_with("iter.rs:")), "{known:?}");
        assert!(known.iter().any(|(_, function)| function.contains("sum_squares")), "{known:?}");
        if flags.len() == 2 {
            let square = format!("iter.rs:{}", remark("iter.rs", "square"));
            assert!(known.iter().any(|(place, _)| *place == square), "closures that were inlined: {known:?}");
        }
    }
}

#[test]
fn single_addresses_say_what_their_page_says() {
    let shop = Workshop::new();
    let path = shop.compile("plain.c", "app", &["-O2", "-g"]);
    let module = open(&path);
    let mut table = Table::new(&module, Granularity::Line);
    let work = module.symbols().functions().iter().find(|f| f.symbol == "work").expect("work").clone();
    for address in work.address - 64..work.address + work.size + 64 {
        let page = table.id(address);
        let alone = module.resolve(address, Granularity::Line, &mut table.lines);
        assert_eq!(alone.unwrap_or(LineId::NONE), page, "{address:#x}");
    }
}

#[test]
fn functions_are_told_apart_with_and_without_debug_information() {
    let shop = Workshop::new();
    let path = shop.compile("plain.c", "app", &["-O2", "-g"]);
    let module = open(&path);
    let known: BTreeSet<_> =
        Table::new(&module, Granularity::Function).of_function("work").into_iter().flatten().collect();
    let functions: Vec<&str> = known.iter().map(|(_, function)| function.as_str()).collect();
    assert!(functions.contains(&"work") && functions.contains(&"mix"), "{known:?}");

    let path = shop.compile("plain.c", "bare", &["-O2"]);
    let module = open(&path);
    let known: BTreeSet<_> = Table::new(&module, Granularity::Line).of_function("work").into_iter().collect();
    assert_eq!(known, BTreeSet::from([Some(("work".to_owned(), "work".to_owned()))]));
    let Detail::Functions { why, nameless: false } = module.detail() else { panic!("functions") };
    assert_eq!(why, "has no debug information");
    let mut table = Table::new(&module, Granularity::Line);
    assert!(table.of_function("_start").iter().all(Option::is_none), "the C runtime is out of scope");
}

/// Line tables alone say of inlined functions neither where they are declared nor what module they are of. Those of the standard
/// library must not count for themselves all the same.
#[test]
fn with_line_tables_only_inlined_library_functions_count_for_who_uses_them() {
    let shop = Workshop::new();
    let known = |flags: &[&str]| -> BTreeSet<String> {
        let module = open(&shop.compile("iter.rs", "app", flags));
        let mut table = Table::new(&module, Granularity::Function);
        let found = table.of_function("engine::sum_squares");
        assert!(found.iter().all(Option::is_some), "no address of the user's function is out of scope");
        found.into_iter().flatten().map(|(_, function)| function).collect()
    };
    let full = known(&["-g", "-O"]);
    let tables = known(&["-Cdebuginfo=line-tables-only", "-O"]);
    let own = |name: &String| name.contains("sum_squares") || name.contains("iter.rs");
    assert!(full.iter().all(|name| name.contains("sum_squares")), "{full:?}");
    assert!(tables.iter().all(own) && tables.iter().any(|name| name.contains("sum_squares")), "{tables:?}");
}
