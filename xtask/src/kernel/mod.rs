//! `cargo xtask kernel`: another kernel than the machine's own, in a virtual machine, with this machine's programs.
//!
//! The guest's root is this machine's, read only, over 9p; the repository is there under its own path, and can be written. Nothing is
//! installed and nothing of the host's boot is touched: a package is unpacked (`dpkg -x`) and its kernel named.

mod archive;
mod initramfs;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail, ensure};

use crate::sh;

/// What the guest runs, if nothing else is said.
const LOOK: &str = "uname -r; target/release/coz-bpf doctor";

/// Which kernel, and what for.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// The kernel: `boot/vmlinuz-VERSION` of an unpacked package; its modules are looked for below `lib/modules` beside `boot`
    vmlinuz: PathBuf,
    /// Emulate the CPU: some 20 times slower, and the only way where /dev/kvm runs no ordinary kernels
    #[arg(long)]
    emulate: bool,
    /// CPUs of the guest
    #[arg(long, default_value_t = 2)]
    cpus: u32,
    /// Memory of the guest, MB
    #[arg(long, default_value_t = 4096)]
    memory: u32,
    /// Longest time, seconds
    #[arg(long, default_value_t = 1800)]
    limit: u64,
    /// A shell command to run as root in the repository's folder (`coz-bpf doctor`)
    #[arg(last = true)]
    command: Vec<String>,
}

/// Boots the kernel, runs the command in it, prints what that prints.
///
/// # Errors
/// When the guest does not come up, or the command ends with anything but 0.
pub fn run(options: &Options) -> Result<()> {
    const QEMU: &str = "qemu-system-x86_64";
    for (program, package) in [(QEMU, "qemu-system-x86"), ("depmod", "kmod"), ("modprobe", "kmod")] {
        ensure!(sh::find(program).is_some(), "no {program}: `apt-get install {package}`");
    }
    let folder = tempfile::tempdir()?;
    let shared = folder.path().join("shared");
    fs::create_dir(&shared)?;
    let command = if options.command.is_empty() { LOOK.to_owned() } else { options.command.join(" ") };
    fs::write(shared.join("command"), command)?;
    let initrd = folder.path().join("initrd");
    initramfs::write(&options.vmlinuz, &sh::root(), &initrd)?;
    let console = folder.path().join("console");

    let mut qemu = Command::new("timeout");
    qemu.arg(options.limit.to_string()).arg(QEMU).args([
        "-M",
        "q35",
        "-nographic",
        "-no-reboot",
        "-nic",
        "none",
    ]);
    qemu.args(if options.emulate {
        ["-accel", "tcg,thread=multi", "-cpu", "max"]
    } else {
        ["-accel", "kvm", "-cpu", "host"]
    });
    qemu.args(["-smp", &options.cpus.to_string(), "-m", &options.memory.to_string()]);
    qemu.arg("-kernel").arg(&options.vmlinuz).arg("-initrd").arg(&initrd);
    // An emulated CPU's clock is as good as the host's, which the kernel cannot know.
    qemu.args(["-append", "console=ttyS0 panic=-1 loglevel=4 tsc=reliable clocksource=tsc"]);
    share(&mut qemu, initramfs::ROOT, Path::new("/"), ",readonly=on,multidevs=remap");
    share(&mut qemu, initramfs::REPOSITORY, &sh::root(), "");
    share(&mut qemu, initramfs::SHARED, &shared, "");
    let output = fs::File::create(&console)?;
    qemu.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
    let status = qemu.status().with_context(|| format!("cannot start `{}`", sh::shown(&qemu)))?;

    let Ok(code) = fs::read_to_string(shared.join("code")) else {
        let console = String::from_utf8_lossy(&fs::read(&console)?).into_owned();
        let lines: Vec<&str> = console.lines().collect();
        let last = lines[lines.len().saturating_sub(20)..].join("\n");
        let hint = if options.emulate { "" } else { " (with --emulate?)" };
        bail!("the guest did not get to the command's end{hint}: {status}\n{last}");
    };
    print!("{}", String::from_utf8_lossy(&fs::read(shared.join("output"))?));
    ensure!(code.trim() == "0", "the command ended with {} in the guest", code.trim());
    Ok(())
}

/// Has the guest see a folder by this name.
fn share(qemu: &mut Command, name: &str, folder: &Path, more: &str) {
    let folder = folder.display();
    qemu.args(["-fsdev", &format!("local,id={name},path={folder},security_model=passthrough{more}")]);
    qemu.args(["-device", &format!("virtio-9p-pci,fsdev={name},mount_tag={name}")]);
}
