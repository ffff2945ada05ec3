//! The kernel side's object: compiled here, committed, and checked against its sources.
//!
//! A plain `cargo build` takes the committed object, so that stable Rust is all that it needs.

mod panics;
mod provenance;
mod strip;
mod toolchain;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

pub use provenance::{Provenance, stale};
pub use strip::without_dwarf;
pub use toolchain::{Toolchain, Way};

use crate::sh;

/// What mends a stale or missing object.
pub const MEND: &str = "cargo xtask build-ebpf";

/// Where the committed object and its provenance are.
#[must_use]
pub fn prebuilt() -> PathBuf {
    sh::root().join("coz-ebpf/prebuilt")
}

const OBJECT: &str = "coz-ebpf.o";
const PROVENANCE: &str = "provenance.json";

/// Compiles the kernel side and puts object and provenance in the place of the committed ones.
///
/// # Errors
/// When no toolchain for it is there, or the compiler, the linker or the checks of the result fail.
pub fn build(way: Way) -> Result<()> {
    let built = compile(way)?;
    let folder = prebuilt();
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    write(&folder.join(OBJECT), &built.object)?;
    write(&folder.join(PROVENANCE), built.provenance.to_json()?.as_bytes())?;
    println!(
        "{}: {} bytes, {}",
        folder.join(OBJECT).display(),
        built.object.len(),
        built.provenance.made_with()
    );
    Ok(())
}

/// Compiles the kernel side, leaves the committed object alone, and compares.
///
/// # Errors
/// When the committed object is stale or missing, or the build fails. Different bytes from the same sources are
/// only reported: another compiler may well make them.
pub fn check(way: Way) -> Result<()> {
    let committed = committed()?;
    if let Some(reason) = stale()? {
        bail!("{} is stale: {reason}; mend it with `{MEND}`", prebuilt().join(OBJECT).display());
    }
    let built = compile(way)?;
    if built.object == committed {
        println!("the committed object is byte for byte what its sources give");
    } else {
        println!(
            "the committed object is of the same sources, its bytes differ: {} bytes by {}, {} bytes by {}",
            committed.len(),
            Provenance::read(&prebuilt().join(PROVENANCE))?.made_with(),
            built.object.len(),
            built.provenance.made_with()
        );
    }
    Ok(())
}

fn committed() -> Result<Vec<u8>> {
    let path = prebuilt().join(OBJECT);
    fs::read(&path).with_context(|| format!("cannot read {}; make it with `{MEND}`", path.display()))
}

struct Built {
    object: Vec<u8>,
    provenance: Provenance,
}

fn compile(way: Way) -> Result<Built> {
    let toolchain = Toolchain::find(way)?;
    println!("building coz-ebpf with {}", toolchain.describe());
    let path = toolchain.compile()?;
    let raw = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let object = without_dwarf(&raw).with_context(|| format!("cannot strip {}", path.display()))?;
    panics::ensure_none(&object)?;
    let provenance = Provenance::of(&object, &toolchain)?;
    Ok(Built { object, provenance })
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}
