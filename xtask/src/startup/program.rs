//! A program with much debug information: C++ units full of templates, and a small `main`.
//!
//! One unit is compiled; the others are copies of its assembly text under other names, so that hundreds of megabytes
//! take a minute. To the linker and to us they are different: names of functions, types and template instances all
//! differ, and so do the units' strings.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use anyhow::{Context as _, Result, ensure};

use crate::sh;

/// Functions in each unit; each makes some 200 kB of debug information.
const FUNCTIONS: usize = 20;
/// Debug information of a unit, megabytes, roughly.
const UNIT_MB: usize = 4;
/// The name of the unit that is compiled. Others are as long, so that mangled names stay right.
const FIRST: &str = "u000";

/// The program, built.
pub struct Large {
    /// The executable.
    pub path: PathBuf,
    /// Bytes of its debug sections.
    pub debug_bytes: u64,
    /// A line of `main` that is passed once a round, as `FILE:LINE`.
    pub line: String,
}

impl Large {
    /// Builds it in this folder, with at least so many megabytes of debug information, unless it is there.
    ///
    /// # Errors
    /// When a tool is missing or fails.
    pub fn build(folder: &Path, megabytes: usize) -> Result<Self> {
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        // A tenth more: what units have in common the linker merges.
        let units = (megabytes * 11).div_ceil(UNIT_MB * 10).clamp(1, 999);
        let path = folder.join(format!("large-{units}"));
        let text = main_text(units);
        if !path.is_file() {
            ensure!(sh::find("g++").is_some(), "g++ is missing: apt-get install -y g++");
            eprintln!("building a program of {units} units");
            compile(folder, &text, units, &path)?;
        }
        let debug_bytes = debug_bytes(&path)?;
        ensure!(
            debug_bytes >= megabytes as u64 * 1_000_000,
            "{} has only {debug_bytes} bytes of debug information",
            path.display()
        );
        let number = text.lines().position(|line| line.contains("progress();")).unwrap_or(0) + 1;
        Ok(Self { path, debug_bytes, line: format!("main.cpp:{number}") })
    }
}

fn compile(folder: &Path, main: &str, units: usize, path: &Path) -> Result<()> {
    let (source, assembly) = (folder.join("u000.cpp"), folder.join("u000.s"));
    fs::write(&source, unit_text())?;
    let mut gcc = Command::new("g++");
    gcc.args(["-std=c++17", "-O1", "-g", "-fno-omit-frame-pointer", "-S", "-o"]).arg(&assembly).arg(&source);
    sh::run(&mut gcc)?;
    let text = fs::read_to_string(&assembly)?;
    let object = |unit: usize| folder.join(format!("{}.o", name(unit)));
    let workers = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let assemble = |worker: usize| -> Result<()> {
            for unit in (worker..units).step_by(workers) {
                let copy = folder.join(format!("{}.s", name(unit)));
                fs::write(&copy, text.replace(FIRST, &name(unit)))?;
                sh::run(Command::new("as").arg(&copy).arg("-o").arg(object(unit)))?;
                if unit > 0 {
                    fs::remove_file(copy)?;
                }
            }
            Ok(())
        };
        let running: Vec<_> = (0..workers).map(|worker| scope.spawn(move || assemble(worker))).collect();
        let failed = || Err(anyhow::anyhow!("a thread that assembles has failed"));
        running.into_iter().try_for_each(|worker| worker.join().unwrap_or_else(|_| failed()))
    })?;
    let source = folder.join("main.cpp");
    fs::write(&source, main)?;
    let mut link = Command::new("g++");
    link.args(["-std=c++17", "-O1", "-g", "-fno-omit-frame-pointer"]).arg(source);
    link.args((0..units).map(object)).arg("-o").arg(path);
    sh::run(&mut link)?;
    for unit in 0..units {
        fs::remove_file(object(unit))?;
    }
    Ok(fs::remove_file(assembly)?)
}

fn name(unit: usize) -> String {
    format!("u{unit:03}")
}

fn unit_text() -> String {
    let mut text = String::from(
        "#include <algorithm>\n#include <functional>\n#include <map>\n#include <memory>\n#include <string>\n\
         #include <unordered_map>\n#include <vector>\n",
    );
    for number in 0..FUNCTIONS {
        let _ = writeln!(
            text,
            "namespace {FIRST} {{\n\
             struct S{number} {{ std::string name; std::vector<int> values; std::map<std::string, std::vector<int>> by_name; }};\n\
             int f{number}(int x)\n{{\n\
             S{number} s;\n\
             s.values.push_back(x);\n\
             s.by_name[\"key\"].push_back(x + {number});\n\
             std::vector<std::shared_ptr<S{number}>> all;\n\
             all.push_back(std::make_shared<S{number}>(s));\n\
             std::unordered_map<int, S{number}> table;\n\
             table[x] = s;\n\
             std::sort(s.values.begin(), s.values.end(), [](int a, int b) {{ return a < b; }});\n\
             std::function<int(int)> more = [&](int y) {{ return y + (int)s.values.size(); }};\n\
             return more(x) + (int)table.size();\n}}\n}}"
        );
    }
    let calls: Vec<_> = (0..FUNCTIONS).map(|number| format!("{FIRST}::f{number}(x)")).collect();
    let _ = writeln!(text, "int {FIRST}_all(int x) {{ return {}; }}", calls.join(" + "));
    text
}

/// Says when it was reached; then most of its time is spent in one line of its own, the rest in all units in turn.
fn main_text(units: usize) -> String {
    let mut text = String::from(
        "#include <cstdint>\n#include <cstdio>\n#include <cstdlib>\n#include <ctime>\n\
         static std::uint64_t now()\n{\n    timespec t;\n    clock_gettime(CLOCK_MONOTONIC, &t);\n    \
         return std::uint64_t(t.tv_sec) * 1000000000u + std::uint64_t(t.tv_nsec);\n}\n\
         extern \"C\" __attribute__((noipa)) void progress() {}\n",
    );
    for unit in 0..units {
        let _ = writeln!(text, "int {}_all(int);", name(unit));
    }
    let list: Vec<_> = (0..units).map(|unit| format!("{}_all", name(unit))).collect();
    let _ = writeln!(text, "static int (*const all[])(int) = {{{}}};", list.join(", "));
    text += "int main(int, char **argv)\n{\n    const std::uint64_t begin = now();\n    \
         std::printf(\"%llu\\n\", (unsigned long long)begin);\n    std::fflush(stdout);\n    \
         const double seconds = std::atof(argv[1]);\n    volatile std::uint64_t x = 1;\n    int sum = 0;\n    \
         for (unsigned round = 0; double(now() - begin) < seconds * 1e9; round++) {\n        \
         for (int i = 0; i < 200000; i++)\n            x = x * 3 + 1;\n        \
         sum += all[round % (sizeof all / sizeof *all)](int(round));\n        progress();\n    }\n    \
         return sum == 42 ? 3 : 0;\n}\n";
    text
}

/// Of all sections of debug information, as they stand in the file.
fn debug_bytes(path: &Path) -> Result<u64> {
    use object::{Object as _, ObjectSection as _};
    let data = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let file = object::File::parse(&*data).with_context(|| format!("{} is no ELF file", path.display()))?;
    let is_debug = |section: &object::Section| section.name().is_ok_and(|name| name.starts_with(".debug"));
    Ok(file.sections().filter(is_debug).map(|section| section.size()).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_has_a_name_as_long_as_the_first() {
        assert!([0, 7, 42, 999].into_iter().all(|unit| name(unit).len() == FIRST.len()));
        assert_eq!(name(0), FIRST);
    }

    #[test]
    fn main_calls_every_unit_and_passes_one_line_a_round() {
        let text = main_text(3);
        assert!(text.contains("all[])(int) = {u000_all, u001_all, u002_all}"), "{text}");
        assert_eq!(text.matches("progress();").count(), 1, "where its line is must be plain");
        assert!(unit_text().contains("int u000_all(int x) { return u000::f0(x) +"));
    }
}
