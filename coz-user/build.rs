//! Builds the shim (`preload/`) with its own profile, so that `target/shim.rs` can embed it.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, exit};

/// What a nested build needs of cargo's own variables; the others describe this build, not that one.
const KEPT: [&str; 7] = [
    "CARGO_HOME",
    "CARGO_HTTP_",
    "CARGO_MAKEFLAGS",
    "CARGO_NET_",
    "CARGO_REGISTRIES_",
    "CARGO_REGISTRY_",
    "CARGO_SOURCE_",
];

fn main() {
    let root = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
    let out = PathBuf::from(variable("OUT_DIR"));
    for path in ["build.rs", "preload", "../coz-common"] {
        println!("cargo::rerun-if-changed={}", root.join(path).display());
    }
    let target_dir = out.join("shim");
    // Offline first: a plain build must not wait for the network. With it only where something is missing.
    if !build(&root, &target_dir, true) && !build(&root, &target_dir, false) {
        eprintln!(
            "The shim could not be built; see above. By hand: cargo build -p coz-preload --profile shim"
        );
        exit(1);
    }
    let library = target_dir.join(variable("HOST")).join("shim/libcoz_preload.so");
    println!("cargo::rustc-env=COZ_SHIM={}", library.display());
}

fn build(root: &Path, target_dir: &Path, offline: bool) -> bool {
    let mut cargo = Command::new(variable("CARGO"));
    // Flags of the outer build (coverage, sanitizers, clippy's and miri's wrappers) are not for the shim:
    // it has no `std` to carry what they bring along.
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        let cargos = text.starts_with("CARGO_") && !KEPT.iter().any(|kept| text.starts_with(kept));
        if cargos
            || text.starts_with("RUSTC_")
            || matches!(&*text, "RUSTFLAGS" | "RUSTDOCFLAGS" | "MIRI_SYSROOT")
        {
            cargo.env_remove(name);
        }
    }
    // Set here, it takes the place of whatever a configuration file says. No start files: they would bring
    // imports that are not libc's.
    cargo.env("CARGO_ENCODED_RUSTFLAGS", "-Clink-arg=-nostartfiles\u{1f}-Cforce-frame-pointers=yes");
    cargo.current_dir(root).args(["build", "--locked", "--quiet", "--profile", "shim", "--manifest-path"]);
    cargo.arg(root.join("preload/Cargo.toml")).arg("--target-dir").arg(target_dir);
    cargo.args(["--target", &variable("HOST")]);
    if offline {
        cargo.arg("--offline");
    }
    match cargo.status() {
        Ok(status) => status.success(),
        Err(error) => {
            eprintln!("cannot run {}: {error}", variable("CARGO"));
            false
        }
    }
}

/// A variable that cargo sets for build scripts.
fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|error| {
        eprintln!("{name}: {error}; run this through cargo");
        exit(1);
    })
}
