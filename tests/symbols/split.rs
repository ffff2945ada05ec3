//! Split debug information: as good as the whole, wherever its files are; and what is said when they are not there.

use crate::harness::{Workshop, everything, open, run};
use coz_user::symbols::{Module, Scope};
use std::path::{Path, PathBuf};

const FUNCTIONS: [&str; 3] = ["work", "main", "fail"];

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

fn with_dirs(path: &Path, dirs: &[PathBuf]) -> Module {
    Module::open(path, &Scope::default(), dirs).expect("ELF")
}

/// The `.dwo` files of a folder.
fn split_files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    entries.filter(|path| path.extension().is_some_and(|ending| ending == "dwo")).collect()
}

/// The same program with all debug information in it, and with a `.dwo` file.
fn pair(shop: &Workshop, version: &str) -> (Vec<String>, PathBuf, PathBuf) {
    let whole = shop.compile("plain.c", "whole", &["-O2", "-g", version]);
    let whole = everything(&open(&whole), &FUNCTIONS);
    assert!(whole.iter().any(|line| line.contains("mix within work")), "{whole:?}");
    let app = shop.compile("plain.c", "app", &["-O2", "-g", version, "-gsplit-dwarf"]);
    let files = split_files(app.parent().expect("a folder"));
    assert_eq!(files.len(), 1, "gcc wrote a .dwo file: {files:?}");
    (whole, app, files[0].clone())
}

#[test]
fn a_split_file_tells_what_was_inlined() {
    for version in ["-gdwarf-4", "-gdwarf-5"] {
        let shop = Workshop::new();
        let (whole, app, _) = pair(&shop, version);
        let module = open(&app);
        assert_eq!(everything(&module, &FUNCTIONS), whole, "{version}");
        assert_eq!(module.advice(), None, "{version}");
    }
}

#[test]
fn split_files_that_were_moved_are_found_beside_the_program_and_in_named_folders() {
    let shop = Workshop::new();
    let (whole, app, file) = pair(&shop, "-gdwarf-5");
    let (beside, away) = (shop.path("beside"), shop.path("away"));
    for folder in [&beside, &away] {
        std::fs::create_dir(folder).expect("a folder");
    }
    let moved = beside.join("app");
    std::fs::rename(&app, &moved).expect("moved");
    let name = file.file_name().expect("a name");
    std::fs::rename(&file, beside.join(name)).expect("moved");
    assert_eq!(everything(&open(&moved), &FUNCTIONS), whole, "beside the program");
    std::fs::rename(beside.join(name), away.join(name)).expect("moved");
    assert_eq!(everything(&with_dirs(&moved, &[away]), &FUNCTIONS), whole, "in a named folder");
}

#[test]
fn without_its_split_file_a_program_still_has_lines_and_says_what_is_missing() {
    let shop = Workshop::new();
    let (_, app, file) = pair(&shop, "-gdwarf-5");
    std::fs::remove_file(&file).expect("removed");
    let module = open(&app);
    let mut table = crate::harness::Table::new(&module, coz_user::symbols::Granularity::Line);
    assert!(table.of_function("work").iter().all(Option::is_some));
    let advice = module.advice().expect("what is missing");
    let name = file.file_name().expect("a name").to_str().expect("UTF-8");
    assert!(advice.contains(name) && advice.contains("--debug-dir"), "{advice}");
    assert_eq!(advice.lines().count(), 1, "{advice}");
}

#[test]
fn a_split_file_of_another_build_is_refused() {
    let shop = Workshop::new();
    let (_, app, file) = pair(&shop, "-gdwarf-5");
    let other = shop.path("other");
    std::fs::create_dir(&other).expect("a folder");
    let output = other.join("app");
    let source = crate::harness::sources().join("plain.c");
    run("gcc", &["-O1", "-g", "-gdwarf-5", "-gsplit-dwarf", text(&source), "-o", text(&output)]);
    std::fs::copy(&split_files(&other)[0], &file).expect("replaced");
    let advice = open(&app).advice().expect("what is wrong");
    assert!(advice.contains("was not built together with"), "{advice}");
}

/// `dwp` of binutils collects the files of older formats, rustc those of the newest.
#[test]
fn packages_serve_like_the_files_in_them() {
    let shop = Workshop::new();
    let (whole, app, file) = pair(&shop, "-gdwarf-4");
    let package = shop.path("app.dwp");
    run("dwp", &["-e", text(&app), "-o", text(&package)]);
    std::fs::remove_file(&file).expect("removed");
    let module = open(&app);
    let said = everything(&module, &FUNCTIONS);
    assert_eq!(module.advice(), None);
    assert_eq!(said, whole);
    let away = shop.path("away");
    std::fs::create_dir(&away).expect("a folder");
    std::fs::rename(&package, away.join("app.dwp")).expect("moved");
    assert!(open(&app).advice().is_some(), "it is gone");
    assert_eq!(everything(&with_dirs(&app, &[away]), &FUNCTIONS), whole, "in a named folder");
}

#[test]
fn rust_programs_may_be_split_or_packed() {
    let functions = ["engine::sum_squares", "iter::main"];
    for version in ["-Cdwarf-version=4", "-Cdwarf-version=5"] {
        let shop = Workshop::new();
        let said = |split: &str| {
            let app =
                shop.compile("iter.rs", split, &["-O", "-g", version, &format!("-Csplit-debuginfo={split}")]);
            everything(&open(&app), &functions)
        };
        let whole = said("off");
        assert!(whole.iter().any(|line| line.contains("{{closure}}")), "{whole:#?}");
        assert_eq!(said("packed"), whole, "{version}");
        assert_eq!(said("unpacked"), whole, "{version}");
    }
}
