//! Builds the shim (`preload/`) with its own profile, so that `target/shim.rs` can embed it, and from the same sources the code
//! that `target/inject` puts into running processes, as a flat image.

#[path = "build/flat.rs"]
mod flat;

use std::env;
use std::ffi::OsString;
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
    for path in ["build.rs", "build", "preload", "../coz-common"] {
        println!("cargo::rerun-if-changed={}", root.join(path).display());
    }
    let target_dir = out.join("shim");
    let shim = ["build", "--lib"].map(OsString::from).to_vec();
    make(&root, &target_dir, shim, "cargo build -p coz-preload --profile shim");
    let folder = target_dir.join(variable("HOST")).join("shim");
    println!("cargo::rustc-env=COZ_SHIM={}", folder.join("libcoz_preload.so").display());

    let mut script = OsString::from("-Clink-arg=-Wl,-T,");
    script.push(root.join("preload/injected/flat.ld"));
    let mut injected = ["rustc", "--example", "coz_injected"].map(OsString::from).to_vec();
    injected.extend([OsString::from("--"), OsString::from("-Clink-arg=-nostdlib"), script]);
    make(&root, &target_dir, injected, "cargo rustc -p coz-preload --example coz_injected --profile shim");
    if let Err(why) = flat::extract(&folder.join("examples/libcoz_injected.so"), &out) {
        eprintln!("the code for running processes (preload/injected) cannot be used: {why}");
        exit(1);
    }
}

/// Offline first: a plain build must not wait for the network. With it only where something is missing.
fn make(root: &Path, target_dir: &Path, arguments: Vec<OsString>, by_hand: &str) {
    if !build(root, target_dir, &arguments, true) && !build(root, target_dir, &arguments, false) {
        eprintln!("The shim could not be built; see above. By hand: {by_hand}");
        exit(1);
    }
}

fn build(root: &Path, target_dir: &Path, arguments: &[OsString], offline: bool) -> bool {
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
    let (command, more) =
        arguments.split_first().map_or((None, arguments), |(first, more)| (Some(first), more));
    cargo.current_dir(root).args(command).args([
        "--locked",
        "--quiet",
        "--profile",
        "shim",
        "--manifest-path",
    ]);
    cargo.arg(root.join("preload/Cargo.toml")).arg("--target-dir").arg(target_dir);
    cargo.args(["--target", &variable("HOST")]);
    if offline {
        cargo.arg("--offline");
    }
    cargo.args(more);
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
