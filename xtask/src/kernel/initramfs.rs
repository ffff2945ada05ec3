//! The guest's first root: a shell, the modules that the real one takes, and the way there.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail, ensure};

use super::archive::Archive;
use crate::sh;

/// Name of the shared folder that is the guest's root.
pub(super) const ROOT: &str = "root";
/// That is the repository.
pub(super) const REPOSITORY: &str = "repository";
/// In which the command comes and its output goes.
pub(super) const SHARED: &str = "shared";

/// A shell and its tools in one static file (Debian: `busybox-static`).
const BUSYBOX: &str = "/bin/busybox";
/// What a guest takes that sees its files over 9p. Distributions compile some of it in.
const MODULES: [&str; 3] = ["virtio_pci", "9pnet_virtio", "9p"];

/// What the kernel starts. `@REPOSITORY@` is its path.
const INIT: &str = include_str!("init.sh");

/// Writes it for the kernel of this file.
pub(super) fn write(vmlinuz: &Path, repository: &Path, to: &Path) -> Result<()> {
    let (base, version) = modules_of(vmlinuz)?;
    let busybox = fs::read(BUSYBOX).context("cannot read /bin/busybox: `apt-get install busybox-static`")?;
    let mut archive = Archive::new(fs::File::create(to)?);
    for folder in ["bin", "modules", "proc", "sys", "dev", "root"] {
        archive.folder(folder)?;
    }
    archive.file("bin/busybox", &busybox)?;
    let init = INIT.replace("@REPOSITORY@", &repository.display().to_string());
    archive.file("init", init.as_bytes())?;
    let mut order = String::new();
    for path in needed(&base, &version)? {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let name = name.trim_end_matches(".xz").trim_end_matches(".zst");
        archive.file(&format!("modules/{name}"), &unpacked(&path)?)?;
        order.push_str(name);
        order.push('\n');
    }
    archive.file("modules/order", order.as_bytes())?;
    archive.finish()?;
    Ok(())
}

/// The folder above `lib/modules/VERSION`, and the version.
fn modules_of(vmlinuz: &Path) -> Result<(PathBuf, String)> {
    let name = vmlinuz.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let version = name.strip_prefix("vmlinuz-").context("a kernel is called vmlinuz-VERSION")?.to_owned();
    let top = vmlinuz.parent().and_then(Path::parent).context("a kernel is in a folder `boot`")?;
    for base in [top.to_path_buf(), top.join("usr")] {
        if base.join("lib/modules").join(&version).is_dir() {
            return Ok((base, version));
        }
    }
    bail!("no lib/modules/{version} beside {}", vmlinuz.display())
}

/// The files of the modules, those that others need first.
fn needed(base: &Path, version: &str) -> Result<Vec<PathBuf>> {
    if !base.join("lib/modules").join(version).join("modules.dep").exists() {
        sh::run(Command::new("depmod").arg("-b").arg(base).arg(version))?;
    }
    let mut files = Vec::new();
    for module in MODULES {
        let mut modprobe = Command::new("modprobe");
        modprobe.arg("-d").arg(base).args(["-S", version, "--show-depends", module]);
        // One that is compiled in is said to be, one that there is not is an error: the guest tells what is missing.
        let Ok(words) = sh::output(&mut modprobe) else { continue };
        for path in words.lines().filter_map(|line| line.strip_prefix("insmod ")) {
            let path = PathBuf::from(path.trim());
            if !files.contains(&path) {
                files.push(path);
            }
        }
    }
    Ok(files)
}

fn unpacked(path: &Path) -> Result<Vec<u8>> {
    let tool = match path.extension().and_then(|name| name.to_str()) {
        Some("xz") => "xz",
        Some("zst") => "zstd",
        _ => return fs::read(path).with_context(|| format!("cannot read {}", path.display())),
    };
    let output =
        Command::new(tool).arg("-qdc").arg(path).output().with_context(|| format!("cannot start {tool}"))?;
    ensure!(output.status.success(), "`{tool} -dc {}` failed: {}", path.display(), output.status);
    Ok(output.stdout)
}
