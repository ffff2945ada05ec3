//! Judges the machine's facts.

use super::{
    Check,
    Level::{Fail, Note, Ok as Good, Warn},
};
use crate::kernel::environment::{
    Capabilities, Lockdown, Machine, Reading, Refusal, capability, kernel_version,
};

/// The highest rate that is chosen by default, samples a second and CPU.
const WANTED_RATE: i64 = 4000;
/// From here on all that is used is there: the last pieces came with 5.15.
const FULL_KERNEL: (u32, u32) = (5, 15);
/// Below, the ring buffer and the capabilities for BPF are missing (5.8), unless a distribution put them in.
const OLDEST_KERNEL: (u32, u32) = (5, 8);
/// Above this share of stolen CPU time, experiments go wrong often enough to say so.
const MUCH_STEAL: f64 = 0.02;

/// All checks of the machine.
pub(super) fn judge(machine: &Machine) -> Vec<Check> {
    let (rights, namespace) = (privileges(machine), user_namespace(machine));
    let powerless = rights.level == Fail || namespace.level == Fail;
    let probe = |name, answer, needed| probe(name, answer, needed, powerless);
    let mut checks = vec![
        rights,
        namespace,
        others(machine),
        filters(machine),
        architecture(machine),
        kernel(machine),
        btf(machine),
        tracepoints(machine),
        interrupts(machine),
        helpers(machine),
        probe("BPF maps", machine.probes.map, "a BPF map that the program can share (bpf, BPF_F_MMAPABLE)"),
        probe("sampling", machine.probes.sampling, "a software clock on each CPU (perf_event_open)"),
        shim_memory(machine),
        uprobes(machine),
        tracefs(machine),
        paranoid(machine),
        sample_rate(machine),
        unprivileged_bpf(machine),
        lockdown(machine),
        jit(machine),
        hidepid(machine),
        counters(machine),
        cpus(machine),
        steal(machine),
    ];
    if machine.uid != 0 {
        for fix in checks.iter_mut().filter_map(|check| check.fix.as_mut()) {
            if fix.starts_with("sysctl ") || fix.starts_with("mount ") {
                fix.insert_str(0, "sudo ");
            }
        }
    }
    checks
}

/// Everything without root; the last two for points in code on newer kernels, and for other users' programs.
const FIX: &str = "sudo coz-bpf ...   (in a container: start it with --privileged --pid=host; or: sudo setcap cap_bpf,cap_perfmon,cap_sys_ptrace,cap_sys_admin,cap_dac_override=ep \"$(command -v coz-bpf)\")";

fn privileges(machine: &Machine) -> Check {
    const NAME: &str = "privileges";
    const NEEDED: &str = "root, or CAP_BPF and CAP_PERFMON, and CAP_SYS_PTRACE to see the program's mappings";
    let Reading::Value(held) = machine.capabilities else {
        let found = format!("/proc/self/status: capabilities {}", shown(&machine.capabilities));
        return Check::new(NAME, Warn, found, NEEDED).fix("mount -t proc proc /proc");
    };
    let admin = held.has(capability::SYS_ADMIN);
    let missing = |wanted: &[(u32, &'static str)]| -> Vec<&'static str> {
        wanted.iter().filter(|&&one| !held.has(one)).map(|one| one.1).collect()
    };
    let who = if machine.uid == 0 { "root".to_owned() } else { format!("user {}", machine.uid) };
    // CAP_SYS_ADMIN holds what CAP_BPF and CAP_PERFMON were split from.
    let vital = if admin { vec![] } else { missing(&[capability::BPF, capability::PERFMON]) };
    if !vital.is_empty() {
        return Check::new(NAME, Fail, format!("{who} without {}", vital.join(", ")), NEEDED).fix(FIX);
    }
    let useful = missing(&[capability::SYS_PTRACE]);
    if !useful.is_empty() {
        return Check::new(NAME, Warn, format!("{who} without {}", useful.join(", ")), NEEDED).fix(FIX);
    }
    let switching = missing(&[capability::SETUID, capability::SETGID, capability::CHOWN]);
    if machine.uid == 0 && !switching.is_empty() {
        let found = format!("{who} without {}", switching.join(", "));
        return Check::new(NAME, Note, found, "these, to run the program as another user (sudo, --user)");
    }
    Check::new(NAME, Good, who, NEEDED)
}

/// Entering other users' programs, which `attach` does to delay them.
fn others(machine: &Machine) -> Check {
    const NAME: &str = "attach";
    const NEEDED: &str = "root, or CAP_SYS_PTRACE and for other users' programs CAP_DAC_OVERRIDE; what cannot be delayed is watched only";
    let Reading::Value(held) = machine.capabilities else {
        return Check::new(NAME, Note, "capabilities are not known", NEEDED);
    };
    let missing: Vec<_> = [capability::SYS_PTRACE, capability::DAC_OVERRIDE]
        .into_iter()
        .filter(|&one| !held.has(one))
        .map(|one| one.1)
        .collect();
    match missing.is_empty() {
        true => Check::new(NAME, Good, "every user's programs can be delayed", NEEDED),
        false => {
            let found = format!("only user {}'s own programs: without {}", machine.uid, missing.join(", "));
            Check::new(NAME, Note, found, NEEDED).fix(FIX)
        }
    }
}

/// Delaying programs with a seccomp filter: who asks the kernel for it may have none itself.
fn filters(machine: &Machine) -> Check {
    const NAME: &str = "seccomp filters";
    const NEEDED: &str = "CAP_SYS_ADMIN and no filter on coz-bpf itself, to delay programs with a filter: containers, sandboxes";
    let admin = machine.capabilities.value().map(|held| held.has(capability::SYS_ADMIN));
    match (&machine.filtered, admin) {
        (Reading::Value(true), _) => Check::new(
            NAME,
            Warn,
            "coz-bpf is behind one: neither what it starts nor others with one can be delayed, only watched",
            NEEDED,
        )
        .fix("run coz-bpf on the host, or start the container with --security-opt seccomp=unconfined or --privileged"),
        (Reading::Value(false), Some(true)) => Check::new(NAME, Good, "can be read", NEEDED),
        (Reading::Value(false), Some(false)) => {
            let found = "cannot be read: without CAP_SYS_ADMIN, programs with one are only watched";
            Check::new(NAME, Note, found, NEEDED).fix(FIX)
        }
        // A kernel without seccomp has no filters.
        _ => Check::new(NAME, Good, "not known to be there", NEEDED),
    }
}

fn user_namespace(machine: &Machine) -> Check {
    const NAME: &str = "user namespace";
    match machine.user_namespace {
        Reading::Value(true) => Check::new(
            NAME,
            Fail,
            "inside a user namespace: root here is not root on the machine",
            "the machine's own user namespace, for BPF and sampling",
        )
        .fix("run coz-bpf on the host, or start the container as root with --privileged --userns=host --pid=host"),
        Reading::Value(false) => Check::new(NAME, Good, "the machine's own", ""),
        _ => Check::new(NAME, Note, "cannot be told: /proc/self/uid_map is missing", ""),
    }
}

fn architecture(machine: &Machine) -> Check {
    let level = if machine.architecture == "x86_64" { Good } else { Fail };
    Check::new("architecture", level, machine.architecture, "x86_64, the only one supported so far")
}

fn kernel(machine: &Machine) -> Check {
    const NAME: &str = "kernel";
    const NEEDED: &str =
        "Linux 5.15 or later, or one that has what is needed from there: `BPF helpers` below tells";
    let Some(release) = machine.release.value() else {
        return Check::new(NAME, Warn, format!("version {}", machine.release), NEEDED);
    };
    let version = kernel_version(release);
    let level = match version {
        Some(version) if version >= FULL_KERNEL => Good,
        Some(version) if version < OLDEST_KERNEL => Fail,
        _ => Warn,
    };
    let check = Check::new(NAME, level, release.as_str(), NEEDED);
    if level == Warn {
        check.fix("a newer kernel, if helpers are missing: distributions add features to old ones")
    } else {
        check
    }
}

/// What is called in the kernel. Asked of the kernel itself, whatever its version.
fn helpers(machine: &Machine) -> Check {
    const NAME: &str = "BPF helpers";
    const NEEDED: &str = "what the kernel side calls; Linux has all of it from 5.15 on";
    match &machine.missing_helpers {
        Some(missing) if missing.is_empty() => Check::new(NAME, Good, "all present", NEEDED),
        Some(missing) => Check::new(NAME, Fail, format!("missing: {}", missing.join(", ")), NEEDED)
            .fix("a kernel from 5.15 on; no option goes without"),
        None => Check::new(NAME, Note, "the kernel does not say", NEEDED),
    }
}

fn btf(machine: &Machine) -> Check {
    const NEEDED: &str = "the kernel's type information: where its structs keep what";
    match &machine.btf {
        Ok(_) => Check::new("BTF", Good, "present", NEEDED),
        Err(error) => Check::new("BTF", Fail, error.to_string(), NEEDED)
            .fix("a kernel with CONFIG_DEBUG_INFO_BTF=y: `apt-get install linux-image-amd64`, `dnf install kernel`"),
    }
}

fn tracepoints(machine: &Machine) -> Check {
    const NAME: &str = "tracepoints";
    const NEEDED: &str = "the scheduler's BTF tracepoints: they keep the virtual clock";
    match &machine.btf {
        Err(_) => Check::new(NAME, Fail, "unknown without BTF", NEEDED),
        Ok(facts) if facts.needed_missing.is_empty() => Check::new(NAME, Good, "all present", NEEDED),
        Ok(facts) => Check::new(NAME, Fail, format!("missing: {}", facts.needed_missing.join(", ")), NEEDED)
            .fix("a kernel with CONFIG_TRACEPOINTS=y and CONFIG_BPF_EVENTS=y"),
    }
}

fn interrupts(machine: &Machine) -> Check {
    const NAME: &str = "interrupts";
    const NEEDED: &str =
        "irq, softirq and irq_vectors tracepoints: they tell a wake-up by a thread from one by an interrupt";
    match &machine.btf {
        Err(_) => Check::new(NAME, Warn, "unknown without BTF", NEEDED),
        Ok(facts) if facts.interrupt_missing.is_empty() => Check::new(NAME, Good, "all present", NEEDED),
        Ok(facts) => {
            Check::new(NAME, Warn, format!("missing: {}", facts.interrupt_missing.join(", ")), NEEDED)
        }
    }
}

/// `powerless`: missing privileges were said already, and explain a refusal.
fn probe(name: &'static str, answer: Result<(), Refusal>, needed: &str, powerless: bool) -> Check {
    match answer {
        Ok(()) => Check::new(name, Good, "works", needed),
        Err(Refusal::NotPermitted) if powerless => {
            Check::new(name, Note, "refused for want of privileges; whether the kernel can is not known", needed)
        }
        Err(Refusal::NotPermitted) => Check::new(
            name,
            Fail,
            "refused: privileges, a seccomp filter or a security module. Whether the kernel can is not known",
            needed,
        )
        .fix("sudo coz-bpf ...   (in a container: --privileged, or --cap-add BPF,PERFMON,SYS_PTRACE with --security-opt seccomp=unconfined)"),
        Err(Refusal::NotSupported) => Check::new(name, Fail, "this kernel cannot", needed),
        Err(Refusal::Other(errno)) => {
            let error = std::io::Error::from_raw_os_error(errno);
            Check::new(name, Warn, format!("failed: {error}"), needed)
        }
    }
}

fn uprobes(machine: &Machine) -> Check {
    const NEEDED: &str = "perf's event source for uprobes, for progress points in unchanged programs";
    match &machine.uprobe_source {
        Reading::Value(_) if machine.probes.uprobe.is_err() => Check::new(
            "uprobes",
            Warn,
            "refused for want of privileges (kernel 6.16 and later ask for CAP_SYS_ADMIN): only points of coz.h, of system calls, \
             and sampled ones work",
            NEEDED,
        )
        .fix(FIX),
        Reading::Value(_) => Check::new("uprobes", Good, "event source present", NEEDED),
        Reading::Absent => {
            Check::new("uprobes", Warn, "no event source: only coz.h points and end-to-end runs work", NEEDED)
                .fix("a kernel with CONFIG_UPROBE_EVENTS=y, and /sys mounted: `mount -t sysfs sysfs /sys`")
        }
        refused => Check::new("uprobes", Warn, refused.to_string(), NEEDED),
    }
}

fn tracefs(machine: &Machine) -> Check {
    let found = match &machine.tracefs {
        Reading::Value(places) if !places.is_empty() => format!("mounted at {}", places.join(", ")),
        Reading::Value(_) => "not mounted, and not needed".to_owned(),
        other => format!("mounts {}", shown(other)),
    };
    // Either way is good: BTF tracepoints need no tracefs, uprobes go through perf's event source.
    Check::new("tracefs", Good, found, "nothing: uprobes go through perf's event source")
}

fn privileged(machine: &Machine) -> bool {
    let held = machine.capabilities.value().copied().unwrap_or(Capabilities(0));
    held.has(capability::SYS_ADMIN) || held.has(capability::PERFMON)
}

fn paranoid(machine: &Machine) -> Check {
    const NAME: &str = "perf paranoia";
    let found = format!("kernel.perf_event_paranoid = {}", machine.paranoid);
    let needed = "any level with root or CAP_PERFMON; -1 without";
    match machine.paranoid {
        Reading::Value(level) if level > -1 && !privileged(machine) => {
            Check::new(NAME, Warn, found, needed).fix("sysctl kernel.perf_event_paranoid=-1")
        }
        Reading::Absent => {
            Check::new(NAME, Warn, "no perf events in this kernel, or /proc/sys is not mounted", needed)
        }
        _ => Check::new(NAME, Good, found, needed),
    }
}

fn sample_rate(machine: &Machine) -> Check {
    let found = format!(
        "at most {} samples/s on a CPU (kernel.perf_event_max_sample_rate); perf_cpu_time_max_percent = {}",
        machine.max_sample_rate, machine.cpu_time_max_percent
    );
    let needed =
        format!("{WANTED_RATE} samples/s on a CPU; the kernel lowers its limit where samples take too long");
    match machine.max_sample_rate {
        Reading::Value(limit) if limit < WANTED_RATE => Check::new("sample rate", Warn, found, needed)
            .fix("sysctl kernel.perf_event_max_sample_rate=100000"),
        _ => Check::new("sample rate", Good, found, needed),
    }
}

fn unprivileged_bpf(machine: &Machine) -> Check {
    let found = format!("kernel.unprivileged_bpf_disabled = {}", machine.unprivileged_bpf_disabled);
    Check::new("unprivileged BPF", Good, found, "any: only we call bpf, the program never does")
}

fn lockdown(machine: &Machine) -> Check {
    const NEEDED: &str = "none or integrity: BPF must read the scheduler's structs";
    match machine.lockdown {
        Reading::Value(Lockdown::None) => Check::new("lockdown", Good, "none", NEEDED),
        Reading::Value(Lockdown::Integrity) => Check::new("lockdown", Good, "integrity", NEEDED),
        Reading::Value(Lockdown::Confidentiality) => Check::new("lockdown", Fail, "confidentiality", NEEDED)
            .fix("start the kernel without lockdown=confidentiality on its command line, and reboot"),
        // No file: no lockdown in this kernel, or securityfs is not mounted. Loading will tell.
        Reading::Absent => Check::new("lockdown", Good, "none that can be seen", NEEDED),
        Reading::Refused(ref why) => Check::new("lockdown", Note, format!("not readable ({why})"), NEEDED),
    }
}

fn jit(machine: &Machine) -> Check {
    const NEEDED: &str = "net.core.bpf_jit_enable = 1: interpreted BPF takes several times longer";
    match machine.jit {
        Reading::Value(0) => {
            Check::new("BPF compiler", Warn, "off", NEEDED).fix("sysctl net.core.bpf_jit_enable=1")
        }
        Reading::Value(_) => Check::new("BPF compiler", Good, "on", NEEDED),
        ref other => Check::new("BPF compiler", Note, format!("net.core.bpf_jit_enable {other}"), NEEDED),
    }
}

fn shim_memory(machine: &Machine) -> Check {
    const NAME: &str = "shim's memory";
    let needed = "a file in memory whose code can be mapped (memfd_create): the shim";
    let setting = match machine.memfd_noexec {
        Reading::Absent => String::new(),
        ref value => format!(" (vm.memfd_noexec = {value})"),
    };
    match machine.probes.shim {
        Ok(()) => Check::new(NAME, Good, format!("works{setting}"), needed),
        Err(refusal) => {
            let why = match refusal {
                Refusal::NotPermitted => "refused".to_owned(),
                Refusal::NotSupported => "this kernel cannot".to_owned(),
                Refusal::Other(errno) => std::io::Error::from_raw_os_error(errno).to_string(),
            };
            Check::new(NAME, Fail, format!("{why}{setting}"), needed).fix("sysctl vm.memfd_noexec=0")
        }
    }
}

fn hidepid(machine: &Machine) -> Check {
    let sees_all = machine.capabilities.value().is_some_and(|held| held.has(capability::SYS_PTRACE));
    match &machine.hidepid {
        Reading::Value(Some(value)) if !sees_all => {
            Check::new("/proc", Warn, format!("hidepid={value}"), "to see other users' processes")
                .fix("mount -o remount,hidepid=0 /proc")
        }
        Reading::Value(Some(value)) => {
            Check::new("/proc", Good, format!("hidepid={value}, which does not bind us"), "")
        }
        Reading::Value(None) => Check::new("/proc", Good, "shows every process", ""),
        other => Check::new("/proc", Note, format!("mounts {}", shown(other)), ""),
    }
}

fn counters(machine: &Machine) -> Check {
    if machine.hardware_counters {
        Check::new("hardware counters", Good, "present, not needed", "")
    } else {
        Check::new(
            "hardware counters",
            Note,
            "none (usual in a virtual machine); the software clock is used",
            "",
        )
    }
}

fn cpus(machine: &Machine) -> Check {
    let found = format!("{} to run on", machine.cpus);
    if machine.cpus < 2 {
        return Check::new(
            "CPUs",
            Warn,
            found,
            "2 or more: with threads that wait for one CPU, effects are hard to tell from scheduling",
        );
    }
    Check::new("CPUs", Good, found, "2 or more")
}

fn steal(machine: &Machine) -> Check {
    const NEEDED: &str = "little: a stolen CPU spoils the experiment that it falls into";
    match machine.steal {
        Reading::Value(share) => {
            let level = if share > MUCH_STEAL { Warn } else { Good };
            let found =
                format!("{:.1} % of busy time since boot went to other virtual machines", share * 100.0);
            let check = Check::new("stolen time", level, found, NEEDED);
            if level == Warn { check.fix("a quieter host, or a longer --duration") } else { check }
        }
        ref other => Check::new("stolen time", Note, format!("/proc/stat {}", shown(other)), NEEDED),
    }
}

/// A reading whose value is known not to be there.
fn shown<T>(reading: &Reading<T>) -> String {
    match reading {
        Reading::Value(_) => "read".to_owned(),
        Reading::Absent => "not there".to_owned(),
        Reading::Refused(why) => format!("not readable ({why})"),
    }
}

#[cfg(test)]
mod tests;
