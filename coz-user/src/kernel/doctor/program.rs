//! Judges a program: can it be started, delayed, and its samples be given a line?

use std::{
    ffi::OsStr,
    fs::File,
    io::BufReader,
    path::{Path, PathBuf},
};

use object::{Object, ReadCache};

use super::{
    Check,
    Level::{Fail, Note, Ok as Good, Warn},
    frame::{self, Image},
};
use crate::target::{
    binary::{Elf, Kind, Linkage, Program},
    identity::Identity,
};

/// Below this share of framed functions call chains are too often cut short.
const MOSTLY_FRAMED: usize = 70;
const FRAME_FLAGS: &str = "gcc, clang: -fasynchronous-unwind-tables (the default)";
/// Where distributions put separate debug information.
const DEBUG_FOLDER: &str = "/usr/lib/debug";

/// All checks of a program.
pub(super) fn judge(name: &OsStr) -> Vec<Check> {
    let identity = match Identity::resolve(None) {
        Ok(identity) => identity,
        Err(error) => {
            return vec![Check::new("user", Fail, format!("{error:#}"), "whom to run the program as")];
        }
    };
    let environment = identity.environment();
    let path = environment.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.as_os_str());
    match Program::find(name, path, &identity) {
        Ok(program) => checks(&program),
        Err(error) => {
            vec![Check::new("program", Fail, error.to_string(), "a program that this user may execute")]
        }
    }
}

fn checks(program: &Program) -> Vec<Check> {
    let mut checks = vec![kind(program), preload(program)];
    let Some((path, elf)) = program.image() else { return checks };
    let of_image = checks.len();
    checks.push(symbols(elf));
    checks.extend(contents(path, elf).unwrap_or_else(|why| {
        vec![Check::new("contents", Warn, why, "a whole, readable ELF file").fix("build it anew")]
    }));
    // Behind a script these are about its interpreter.
    if path != program.path {
        for check in checks.iter_mut().skip(of_image) {
            check.found = format!("{}: {}", path.display(), check.found);
        }
    }
    checks
}

fn contents(path: &Path, elf: &Elf) -> Result<Vec<Check>, String> {
    let data = ReadCache::new(BufReader::new(File::open(path).map_err(|e| e.to_string())?));
    let file = Image::parse(&data).map_err(|e| e.to_string())?;
    Ok(vec![debug_information(path, elf, &file), call_chains(&file)])
}

fn kind(program: &Program) -> Check {
    let path = program.path.display();
    match &program.kind {
        Kind::Elf(elf) => {
            let linked = match &elf.linkage {
                Linkage::Dynamic(_) => "dynamic",
                Linkage::Static => "static",
            };
            let placed = if elf.position_independent { ", position-independent" } else { "" };
            let found = format!("{path}: {}, {}-bit, {linked}{placed}", elf.machine_name(), elf.bits);
            Check::new("program", Good, found, "")
        }
        Kind::Script { runs, .. } => Check::new(
            "program",
            Note,
            format!("{path}: a script, run by {}", runs.path.display()),
            "a compiled program: of a script, the interpreter's own lines are profiled, not the script's",
        ),
        Kind::Unknown => Check::new(
            "program",
            Warn,
            format!("{path}: neither an ELF program nor a script"),
            "an ELF program",
        ),
    }
}

fn preload(program: &Program) -> Check {
    const NEEDED: &str =
        "to load the shim into it, which delays its threads; without, samples are counted and no more";
    match &program.can_preload {
        Ok(()) => Check::new("delays", Good, "possible", NEEDED),
        Err(why) if why.can_be_entered() => Check::new(
            "delays",
            Good,
            format!("possible, from when it runs: {why}; it is entered then"),
            NEEDED,
        ),
        Err(why) => Check::new("delays", Warn, format!("not possible: {why}"), NEEDED),
    }
}

fn symbols(elf: &Elf) -> Check {
    const NEEDED: &str = "a symbol table, for functions and for progress points by name";
    if elf.has_symbols {
        Check::new("symbols", Good, "present", NEEDED)
    } else {
        Check::new("symbols", Warn, "stripped", NEEDED)
            .fix("build without stripping (no `strip`, `install -s`, `gcc -s`; Cargo: strip = false)")
    }
}

fn debug_information(path: &Path, elf: &Elf, file: &Image<'_>) -> Check {
    const NAME: &str = "debug information";
    const NEEDED: &str = "line tables, for lines; without, functions are profiled";
    const FIX: &str =
        "build with -g (gcc, clang, rustc); Cargo: [profile.release] debug = \"line-tables-only\"";
    if elf.debug.info && elf.debug.line {
        return Check::new(NAME, Good, "in the program", NEEDED);
    }
    let places = separate_files(path, elf, file.build_id().ok().flatten());
    if let Some(found) = places.iter().find(|place| place.is_file()) {
        return Check::new(NAME, Good, format!("in {}", found.display()), NEEDED);
    }
    match places.first() {
        Some(place) if elf.debug.link.is_some() => {
            let found = format!("kept apart and not installed: {}", place.display());
            Check::new(NAME, Warn, found, NEEDED)
                .fix("install its -dbgsym (Debian) or -debuginfo (Fedora) package")
        }
        _ => Check::new(NAME, Warn, "none", NEEDED).fix(FIX),
    }
}

/// Where a program's separate debug information would be, the surest place first.
fn separate_files(path: &Path, elf: &Elf, build_id: Option<&[u8]>) -> Vec<PathBuf> {
    let mut places = Vec::new();
    if let Some((first, rest)) = build_id.and_then(<[u8]>::split_first) {
        let rest: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
        places.push(Path::new(DEBUG_FOLDER).join(format!(".build-id/{first:02x}/{rest}.debug")));
    }
    // A name, not a path: anything else would lead out of the folders below.
    let link = elf.debug.link.as_ref().filter(|link| !link.contains('/'));
    let folder = path.canonicalize().ok().and_then(|path| path.parent().map(Path::to_owned));
    if let (Some(link), Some(folder)) = (link, folder) {
        places.push(folder.join(link));
        places.push(folder.join(".debug").join(link));
        let below = folder.strip_prefix("/").unwrap_or(&folder);
        places.push(Path::new(DEBUG_FOLDER).join(below).join(link));
    }
    places
}

fn call_chains(file: &Image<'_>) -> Check {
    const NAME: &str = "call chains";
    const NEEDED: &str = "unwind tables, to bill a sample in a library to the line that called it";
    if frame::has_unwind_tables(file) {
        return Check::new(NAME, Good, "there are unwind tables (.eh_frame)", NEEDED);
    }
    let estimate = frame::estimate(file);
    let found = match estimate.percent() {
        Some(percent) => format!(
            "no unwind tables; frame pointers in {percent} % of {} functions, by their first instructions",
            estimate.seen
        ),
        None => "no unwind tables".to_owned(),
    };
    let framed = estimate.percent().is_some_and(|percent| percent >= MOSTLY_FRAMED);
    Check::new(NAME, if framed { Good } else { Warn }, found, NEEDED).fix(FRAME_FLAGS)
}

#[cfg(test)]
mod tests {
    use std::{fmt::Write as _, process::Command};

    use super::*;
    use crate::kernel::doctor::{Level, exit_code};

    /// Builds a program with enough functions to judge and gives the level of each check.
    fn levels(folder: &Path, flags: &[&str]) -> Vec<(&'static str, Level)> {
        let mut source = String::new();
        for n in 0..20 {
            let _ = writeln!(
                source,
                "__attribute__((noinline)) long f{n}(long a, long b) {{ volatile long s = a; \
                 for (long i = 0; i < b; i++) s += i * a ^ {n}; return s * b; }}"
            );
        }
        let calls: Vec<String> = (0..20).map(|n| format!("f{n}(c, {n})")).collect();
        let _ = writeln!(source, "int main(int c, char **v) {{ return (int)({}); }}", calls.join(" + "));
        let input = folder.join("main.c");
        std::fs::write(&input, source).unwrap();
        let out = folder.join("program");
        let done = Command::new("gcc").args(flags).arg("-o").arg(&out).arg(&input).status();
        assert!(done.expect("gcc is there").success(), "gcc {flags:?}");
        judge(out.as_os_str()).into_iter().map(|check| (check.name, check.level)).collect()
    }

    #[test]
    fn a_program_built_well_passes() {
        let folder = tempfile::tempdir().unwrap();
        let levels = levels(folder.path(), &["-O2", "-g", "-fno-omit-frame-pointer"]);
        assert!(levels.iter().all(|&(_, level)| level == Good), "{levels:?}");
        assert_eq!(levels.len(), 5);
    }

    #[test]
    fn each_gap_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let warned = |flags: &[&str]| -> Vec<&'static str> {
            let found = levels(folder.path(), flags);
            found.into_iter().filter(|&(_, level)| level == Warn).map(|(name, _)| name).collect()
        };
        assert_eq!(warned(&["-O2"]), ["debug information"]);
        // Stripped, the unwind tables stay.
        assert_eq!(warned(&["-O2", "-s"]), ["symbols", "debug information"]);
        let none = "-fno-asynchronous-unwind-tables";
        assert_eq!(warned(&["-O2", none]), ["debug information", "call chains"]);
        assert!(warned(&["-O2", "-g", none]).is_empty(), "-g writes .debug_frame");
        let framed = "-fno-omit-frame-pointer";
        assert_eq!(warned(&["-O2", none, framed]), ["debug information"]);
        let with_static = warned(&["-O2", "-g", "-static"]);
        assert!(!with_static.contains(&"delays"), "it is entered: {with_static:?}");
    }

    #[test]
    fn separate_debug_information_is_looked_for_where_debuggers_do() {
        let folder = tempfile::tempdir().unwrap();
        levels(folder.path(), &["-O2", "-g", "-fno-omit-frame-pointer"]);
        let run = |words: &[&str]| {
            let done = Command::new(words[0]).args(&words[1..]).current_dir(folder.path()).status();
            assert!(done.expect("binutils are there").success(), "{words:?}");
        };
        run(&["objcopy", "--only-keep-debug", "program", "program.debug"]);
        run(&["objcopy", "--strip-debug", "--add-gnu-debuglink=program.debug", "program"]);
        let debug = || {
            let checks = judge(folder.path().join("program").as_os_str());
            checks.into_iter().find(|check| check.name == "debug information").unwrap()
        };
        let there = debug();
        assert_eq!(there.level, Good);
        assert!(there.found.ends_with("program.debug"), "{there:?}");
        std::fs::remove_file(folder.path().join("program.debug")).unwrap();
        assert!(debug().level == Warn && debug().found.contains("not installed"), "{:?}", debug());
    }

    #[test]
    fn no_program_fails_and_a_script_is_named() {
        let missing = judge(OsStr::new("no-such-program"));
        assert_eq!(exit_code(&missing), 1);
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("script");
        std::fs::write(&script, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let checks = judge(script.as_os_str());
        assert!(checks[0].level == Note && checks[0].found.contains("run by /bin/sh"), "{:?}", checks[0]);
    }
}
