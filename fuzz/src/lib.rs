//! What is fuzzed: everything of the profiler that reads what others have written. Each target takes any bytes, and must
//! come back soon, without a panic, whatever they are. What it says does not matter.
//!
//! `cargo run --release` in this folder fuzzes (see `README.md`); `tests/tests/corpora.rs` runs the committed inputs.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd};
use std::path::{Path, PathBuf};

use coz_user::controller::quota;
use coz_user::estimate::Sort;
use coz_user::experiment::record;
use coz_user::points::{self, Spec};
use coz_user::report;
use coz_user::symbols::{
    Granularity, JitMap, Lines, Mapping, Module, Scope, UnwindTable, demangle, short_name,
};
use coz_user::target::{cgroup, process, seccomp};

/// A target.
pub struct Target {
    /// Its name, which is that of its corpus's folder.
    pub name: &'static str,
    /// What it does.
    pub run: fn(&[u8]),
}

/// All of them.
pub const TARGETS: &[Target] = &[
    Target { name: "elf", run: elf },
    Target { name: "split", run: split },
    Target { name: "maps", run: maps },
    Target { name: "perf_map", run: perf_map },
    Target { name: "spec", run: spec },
    Target { name: "names", run: names },
    Target { name: "profile", run: profile },
    Target { name: "quota", run: quota_files },
    Target { name: "seccomp", run: filters },
];

/// A file in memory, and the path that it is opened by.
fn file(data: &[u8]) -> Option<(File, PathBuf)> {
    // SAFETY: a valid string; what the call returns is a new descriptor, or an error.
    let descriptor = unsafe { libc::memfd_create(c"input".as_ptr(), libc::MFD_CLOEXEC) };
    if descriptor < 0 {
        return None;
    }
    // SAFETY: the descriptor is new and nobody else's.
    let mut file = unsafe { File::from_raw_fd(descriptor) };
    file.write_all(data).ok()?;
    let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    Some((file, path))
}

/// A program or library: its headers, symbols, debug information, unwinding tables and probes.
pub fn elf(data: &[u8]) {
    if let Some((_file, path)) = file(data) {
        everything(&path, &[]);
    }
}

/// The `.dwo` file of a good program (`tests/symbols/fixtures/clang-thinlto-split`).
pub fn split(data: &[u8]) {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/symbols/fixtures/clang-thinlto-split");
    let Ok(folder) = tempfile::tempdir() else { return };
    let copy = folder.path().join("app");
    if std::fs::copy(&program, &copy).is_err() || std::fs::write(folder.path().join("1.dwo"), data).is_err() {
        return;
    }
    everything(&copy, &[]);
}

fn everything(path: &Path, dirs: &[PathBuf]) {
    let Ok(module) = Module::open(path, &Scope::default(), dirs) else { return };
    let (mut lines, mut functions, mut nested) = (Lines::new(), Lines::new(), Lines::nested());
    let table = UnwindTable::of(module.elf());
    let pages: Vec<u64> =
        module.elf().segments().iter().filter(|s| s.executable).map(|s| s.address / 4096).take(8).collect();
    for page in pages {
        for page in [page, page.wrapping_add(1)] {
            let entries = module.page(page as u32, Granularity::Line, &mut lines);
            assert!(entries.first().is_some_and(|entry| entry.start == 0), "a page begins at 0");
            module.page(page as u32, Granularity::Function, &mut functions);
            for granularity in [Granularity::Line, Granularity::Function] {
                for entry in module.page(page as u32, granularity, &mut nested) {
                    let known = nested.each(entry.line).all(|line| nested.get(line).is_some());
                    assert!(known, "a number stands for lines that are there");
                }
            }
            let _ = table.page(page as u32);
        }
        module.stack(page.wrapping_mul(4096));
    }
    let _ = (module.detail(), module.advice());
    for line in [9, 14, 17] {
        let _ = module.line_sites("plain.c", line);
    }
    let _ = module.inlined(|_| true);
    let _ = module.load_bias(&[Mapping { start: 0x5000, end: 0x9000, file_offset: 0x1000 }]);
    points::candidates(&module, "");
    let _ = points::usdt_probes(&module);
}

/// `/proc/PID/maps` and `/proc/PID/status`.
pub fn maps(data: &[u8]) {
    for mapping in process::parse_mappings(data) {
        let _ = (mapping.end.wrapping_sub(mapping.start), mapping.path.file_name());
    }
    let _ = process::Status::parse(&String::from_utf8_lossy(data));
}

/// `/tmp/perf-PID.map`, in two pieces.
pub fn perf_map(data: &[u8]) {
    let (mut map, mut lines) = (JitMap::default(), Lines::new());
    let (one, two) = data.split_at(data.len() / 3);
    let added = [map.add(one), map.add(two)].concat();
    for (start, _) in added.into_iter().take(64) {
        let entries = map.page(start & !0xFFF, &mut lines);
        assert!(entries.windows(2).all(|pair| pair[0].start < pair[1].start), "entries are sorted");
        let _ = map.at(start);
    }
}

/// Progress and latency points.
pub fn spec(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Err(error) = text.parse::<Spec>() {
        let _ = error.to_string();
    }
    let _ = points::split_pair(&text).map(|(first, second)| (first.len(), second.map(str::len)));
    let _ = Scope::new(&[text.as_ref()], &[text.as_ref()]);
}

/// Symbols to be made readable.
pub fn names(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let _ = (demangle(&text).len(), short_name(&text).len());
}

/// `profile.jsonl`, and a report of it.
pub fn profile(data: &[u8]) {
    let Ok(profile) = record::parse(data) else { return };
    let options = report::Options { sort: Sort::Slope, ..report::Options::default() };
    let _ = report::from_profile(&profile, &options).len();
    let _ = report::json_from_profile(&profile, &options).len();
}

/// `cpu.stat` and `/proc/PID/cgroup`.
pub fn quota_files(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let _ = quota::Counts::parse(&text).since(&quota::Counts::default());
    let _ = cgroup::folders(&text, "cpu").len();
}

/// A process's seccomp filter.
pub fn filters(data: &[u8]) {
    let filter: seccomp::Filter =
        data.as_chunks().0.iter().map(|bytes| seccomp::Instruction::of(*bytes)).collect();
    let _ = seccomp::forbidden(&[filter], seccomp::ENTER.iter().chain(seccomp::PAY));
}
