//! Whether a program's output and exit code are those of a plain run.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use anyhow::{Context as _, Result, ensure};

use super::workload::statements;
use super::{build, folder};
use crate::sh;

/// Runs the program so many times plain and profiled, on little work, and compares. `None` for a program without output.
///
/// # Errors
/// At the first difference.
pub fn outputs(name: &str, profiler: &Path, runs: u32) -> Result<Option<u32>> {
    let folder = folder();
    let program = build::program(name, &folder)?;
    let (args, input, point) = match name {
        "pbzip2" => {
            let part = folder.join("part");
            let text = fs::read(folder.join("text"))?;
            fs::write(&part, &text[..text.len().min(20_000_000)])?;
            (
                vec!["-c".to_owned(), "-k".into(), "-p2".into(), "-b1".into(), part.display().to_string()],
                None,
                "BZ2_bzBuffToBuffCompress",
            )
        }
        "sqlite3" => {
            let script = folder.join("few.sql");
            fs::write(&script, statements(800))?;
            (vec![":memory:".to_owned()], Some(script), "sqlite3_finalize")
        }
        _ => return Ok(None),
    };
    let output = |command: &mut Command| -> Result<Output> {
        let input = input
            .as_deref()
            .map_or_else(|| Ok(Stdio::null()), |path| fs::File::open(path).map(Stdio::from))?;
        command.stdin(input).output().with_context(|| format!("cannot start `{}`", sh::shown(command)))
    };
    eprintln!("{name}: {runs} runs plain and profiled, for their output");
    for run in 1..=runs {
        let plain = output(Command::new(&program).args(&args))?;
        let mut command = super::command(profiler, point, &folder.join("same.jsonl"));
        let profiled = output(command.arg(&program).args(&args))?;
        ensure!(
            plain.stdout == profiled.stdout,
            "{name}, run {run}: another output than that of a plain run"
        );
        let (plain, profiled) = (plain.status, profiled.status);
        ensure!(plain.code() == profiled.code(), "{name}, run {run}: {profiled}, in a plain run {plain}");
    }
    Ok(Some(runs))
}
