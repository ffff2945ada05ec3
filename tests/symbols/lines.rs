//! What the profiler knows of addresses: `lines BINARY < ADDRESSES` (hexadecimal, one a line); JSON, one object a line.

use std::io::{BufRead, Write};

use anyhow::{Context as _, Result};
use coz_user::symbols::{Granularity, Lines, Module, Scope};

fn main() -> Result<()> {
    let path = std::env::args_os().nth(1).context("usage: lines BINARY < ADDRESSES")?;
    // Everything is in scope: what is asked for is the innermost line.
    let module = Module::open(path.as_ref(), &Scope::new(&["*"], &[])?, &[])?;
    let mut lines = Lines::new();
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let address =
            u64::from_str_radix(line.trim().trim_start_matches("0x"), 16).with_context(|| line.clone())?;
        let stack = module.stack(address);
        // What the kernel's table would say.
        let id = module.resolve(address, Granularity::Line, &mut lines);
        let table = id.and_then(|id| lines.get(id)).map(coz_user::symbols::Line::location);
        let frames: Vec<_> = stack.iter().map(|f| serde_json::json!([f.symbol, f.file, f.line])).collect();
        writeln!(out, "{}", serde_json::json!({ "address": address, "frames": frames, "table": table }))?;
    }
    Ok(())
}
