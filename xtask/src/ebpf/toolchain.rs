//! What can compile the kernel side: rustup's nightly with `rust-src`, or Debian's `rustc-web`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail, ensure};

use crate::sh;

const TARGET: &str = "bpfel-unknown-none";
const DEBIAN_RUSTC: &str = "/usr/bin/rustc";
const DEBIAN_CORE: &str = "/usr/lib/rustlib/bpfel-unknown-none/lib";

const GET_NIGHTLY: &str = "rustup toolchain install nightly --component rust-src";
const GET_DEBIAN: &str =
    "apt-get install -y --no-install-recommends rustc-web libstd-rust-web-dev-bpf llvm-22-dev clang-22";
const GET_LINKER: &str = "cargo install bpf-linker --locked (on Debian, after the packages: LLVM_PREFIX=/usr/lib/llvm-22 \
     LLVM_SYS_221_PREFIX=/usr/lib/llvm-22 cargo install bpf-linker --version 0.13.0 --no-default-features --features llvm-22)";

/// Which of the two to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Way {
    /// The first that is complete: nightly, then Debian's.
    Auto,
    /// rustup's nightly with `rust-src`: core is compiled along.
    Nightly,
    /// Debian's `rustc-web`, with its own compiled core.
    Debian,
}

/// A compiler that makes eBPF, and the linker.
#[derive(Clone, Debug)]
pub struct Toolchain {
    nightly: bool,
    /// What `rustc -V` says.
    pub compiler: String,
    /// What `bpf-linker --version` says.
    pub linker: String,
    sysroot: PathBuf,
}

impl Toolchain {
    /// Finds one.
    ///
    /// # Errors
    /// Says in one line what is missing and how to get it.
    pub fn find(way: Way) -> Result<Self> {
        let mut missing = Vec::new();
        if sh::find("bpf-linker").is_none() {
            bail!("bpf-linker is missing: {GET_LINKER}");
        }
        let linker = sh::output(Command::new("bpf-linker").arg("--version"))?.trim().to_owned();
        if way != Way::Debian {
            match Self::nightly(&linker) {
                Ok(toolchain) => return Ok(toolchain),
                Err(why) => missing.push(format!("{why:#}: {GET_NIGHTLY}")),
            }
        }
        if way != Way::Nightly {
            match Self::debian(&linker) {
                Ok(toolchain) => return Ok(toolchain),
                Err(why) => missing.push(format!("{why:#}: {GET_DEBIAN}")),
            }
        }
        bail!("no compiler for eBPF: {}", missing.join("; or "));
    }

    fn nightly(linker: &str) -> Result<Self> {
        let rustc = || {
            let mut command = Command::new("rustup");
            command.args(["run", "nightly", "rustc"]);
            command
        };
        ensure!(sh::find("rustup").is_some(), "rustup is missing");
        let Ok(compiler) = sh::output(rustc().arg("-V")) else { bail!("rustup has no nightly") };
        let sysroot = PathBuf::from(sh::output(rustc().args(["--print", "sysroot"]))?.trim());
        ensure!(sysroot.join("lib/rustlib/src/rust/library/core").is_dir(), "nightly has no rust-src");
        Ok(Self { nightly: true, compiler: compiler.trim().to_owned(), linker: linker.to_owned(), sysroot })
    }

    fn debian(linker: &str) -> Result<Self> {
        ensure!(Path::new(DEBIAN_RUSTC).is_file(), "{DEBIAN_RUSTC} is missing");
        ensure!(Path::new(DEBIAN_CORE).is_dir(), "{DEBIAN_RUSTC} has no core for {TARGET}");
        let compiler = sh::output(Command::new(DEBIAN_RUSTC).arg("-V"))?.trim().to_owned();
        Ok(Self { nightly: false, compiler, linker: linker.to_owned(), sysroot: "/usr".into() })
    }

    /// Compiler and linker, for people.
    #[must_use]
    pub fn describe(&self) -> String {
        format!("{} and {}", self.compiler, self.linker)
    }

    /// The flags that the object depends on. Paths of this machine are left out of it.
    #[must_use]
    pub fn flags(&self) -> Vec<String> {
        let mut flags: Vec<String> =
            ["-Cdebuginfo=2", "-Ctarget-cpu=v3", "-Clink-arg=--btf"].map(str::to_owned).into();
        flags.push("--cfg".into());
        flags.push("bpf_target_arch=\"x86_64\"".into());
        flags
    }

    fn remapped(&self) -> Vec<String> {
        let home = std::env::var_os("CARGO_HOME").map_or_else(
            || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cargo"),
            PathBuf::from,
        );
        // The registry's folder is named after its host: leave that out, too.
        let sources = std::fs::read_dir(home.join("registry/src"));
        let registries = sources.into_iter().flatten().flatten().map(|entry| (entry.path(), "registry"));
        let fixed = [(sh::root(), "coz-bpf"), (self.sysroot.join("lib/rustlib/src/rust"), "rust")];
        registries
            .chain(fixed)
            .map(|(from, to)| format!("--remap-path-prefix={}={to}", from.display()))
            .collect()
    }

    /// Compiles and links; the path of the object, DWARF still in it.
    ///
    /// # Errors
    /// When the build fails.
    pub fn compile(&self) -> Result<PathBuf> {
        let folder = sh::target_dir().join("ebpf");
        let mut cargo = if self.nightly {
            let mut command = Command::new("rustup");
            command.args(["run", "nightly", "cargo", "build", "-Zbuild-std=core"]);
            command
        } else {
            let mut command = sh::cargo();
            // Debian's compiler is a release; it takes unstable features and the prebuilt core of its own.
            command.arg("build").env("RUSTC", DEBIAN_RUSTC).env("RUSTC_BOOTSTRAP", "1");
            command
        };
        cargo.current_dir(sh::root()).args(["--locked", "--release", "-p", "coz-ebpf", "--target", TARGET]);
        cargo.arg("--target-dir").arg(&folder);
        let flags = self.flags().into_iter().chain(self.remapped()).collect::<Vec<_>>().join("\u{1f}");
        cargo.env("CARGO_ENCODED_RUSTFLAGS", flags);
        cargo.env("CARGO_TARGET_BPFEL_UNKNOWN_NONE_LINKER", "bpf-linker");
        cargo.env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1");
        for inherited in ["RUSTFLAGS", "RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER"] {
            cargo.env_remove(inherited);
        }
        sh::run(&mut cargo)?;
        Ok(folder.join(TARGET).join("release/coz-ebpf"))
    }
}
