//! Facts about the machine, read and not judged: [`super::doctor`] judges them.
//!
//! Parsing is apart from reading, so that every machine's words can be tested here. A file that may not be
//! read is [`Reading::Refused`], which is never the same as one that is not there.

mod probe;

use std::{fmt, io, path::Path};

use anyhow::{Context, Result};

pub use self::probe::{Probes, Refusal};
pub(super) use self::probe::{Whom, software_clock};
use super::{
    btf::{Btf, BtfError},
    features,
};
use crate::target::process::status_field;

/// What a file said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading<T> {
    /// This.
    Value(T),
    /// There is no such file: the kernel does not have the feature, or its file system is not mounted.
    Absent,
    /// The file is there and we could not read or understand it: why.
    Refused(String),
}

impl<T> Reading<T> {
    /// The value, if there is one.
    pub const fn value(&self) -> Option<&T> {
        if let Self::Value(value) = self { Some(value) } else { None }
    }

    fn parse(text: Reading<String>, parse: impl Fn(&str) -> Option<T>) -> Self {
        match text {
            Reading::Value(text) => match parse(&text) {
                Some(value) => Self::Value(value),
                None => Self::Refused(format!("not understood: {:?}", text.trim())),
            },
            Reading::Absent => Self::Absent,
            Reading::Refused(why) => Self::Refused(why),
        }
    }
}

impl<T: fmt::Display> fmt::Display for Reading<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(value) => value.fmt(f),
            Self::Absent => f.write_str("not there"),
            Self::Refused(why) => write!(f, "not readable ({why})"),
        }
    }
}

/// How far the kernel is locked down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lockdown {
    /// Not at all.
    None,
    /// Nobody may change the running kernel.
    Integrity,
    /// Nor read its secrets: BPF may not read kernel memory.
    Confidentiality,
}

/// Capabilities, by their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities(pub u64);

/// Capabilities that matter to us: number and name.
pub mod capability {
    /// Read and write files whoever they belong to.
    pub const DAC_OVERRIDE: (u32, &str) = (1, "CAP_DAC_OVERRIDE");
    /// Give files to another user.
    pub const CHOWN: (u32, &str) = (0, "CAP_CHOWN");
    /// Become another group.
    pub const SETGID: (u32, &str) = (6, "CAP_SETGID");
    /// Become another user.
    pub const SETUID: (u32, &str) = (7, "CAP_SETUID");
    /// Look into other users' processes.
    pub const SYS_PTRACE: (u32, &str) = (19, "CAP_SYS_PTRACE");
    /// Nearly everything.
    pub const SYS_ADMIN: (u32, &str) = (21, "CAP_SYS_ADMIN");
    /// Sampling, probes, reading kernel memory from BPF.
    pub const PERFMON: (u32, &str) = (38, "CAP_PERFMON");
    /// Loading BPF programs and maps.
    pub const BPF: (u32, &str) = (39, "CAP_BPF");
}

impl Capabilities {
    /// Whether it is held.
    #[must_use]
    pub const fn has(self, capability: (u32, &str)) -> bool {
        self.0 >> capability.0 & 1 == 1
    }
}

/// Tracepoints without which there is no virtual clock.
pub const NEEDED_TRACEPOINTS: [&str; 5] =
    ["sched_switch", "sched_waking", "sched_process_fork", "sched_process_exec", "sched_process_exit"];
/// Tracepoints that tell a wake-up by a thread from one by an interrupt on the thread's back.
pub const INTERRUPT_TRACEPOINTS: [&str; 15] = [
    "irq_handler_entry",
    "irq_handler_exit",
    "softirq_entry",
    "softirq_exit",
    "softirq_raise",
    "local_timer_entry",
    "local_timer_exit",
    "reschedule_entry",
    "reschedule_exit",
    "call_function_entry",
    "call_function_exit",
    "call_function_single_entry",
    "call_function_single_exit",
    "irq_work_entry",
    "irq_work_exit",
];

/// What the kernel's type information offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BtfFacts {
    /// Of [`NEEDED_TRACEPOINTS`], those that are not there.
    pub needed_missing: Vec<&'static str>,
    /// Of [`INTERRUPT_TRACEPOINTS`], those that are not there.
    pub interrupt_missing: Vec<&'static str>,
}

/// Everything that is looked at.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Effective user id.
    pub uid: u32,
    /// Effective capabilities.
    pub capabilities: Reading<Capabilities>,
    /// Whether a seccomp filter is on coz-bpf itself (containers have one), and so on all that it starts.
    pub filtered: Reading<bool>,
    /// Whether user ids here are not the machine's own: capabilities are worth nothing outside then.
    pub user_namespace: Reading<bool>,
    /// `x86_64`, ...
    pub architecture: &'static str,
    /// `uname -r`.
    pub release: Reading<String>,
    /// Type information.
    pub btf: std::result::Result<BtfFacts, BtfError>,
    /// Where tracefs is mounted; empty where it is not.
    pub tracefs: Reading<Vec<String>>,
    /// `hidepid` of `/proc`, where it is set.
    pub hidepid: Reading<Option<String>>,
    /// Number of the perf event source for uprobes.
    pub uprobe_source: Reading<u32>,
    /// Whether the CPU's counters are visible.
    pub hardware_counters: bool,
    /// `kernel.perf_event_paranoid`.
    pub paranoid: Reading<i64>,
    /// `kernel.perf_event_max_sample_rate`, samples a second and CPU.
    pub max_sample_rate: Reading<i64>,
    /// `kernel.perf_cpu_time_max_percent`.
    pub cpu_time_max_percent: Reading<i64>,
    /// `kernel.unprivileged_bpf_disabled`.
    pub unprivileged_bpf_disabled: Reading<i64>,
    /// Lockdown mode.
    pub lockdown: Reading<Lockdown>,
    /// `net.core.bpf_jit_enable`.
    pub jit: Reading<i64>,
    /// `vm.memfd_noexec`.
    pub memfd_noexec: Reading<i64>,
    /// CPUs that we may use.
    pub cpus: usize,
    /// Share of CPU time since boot that the hypervisor gave to others, 0 to 1.
    pub steal: Reading<f64>,
    /// What the kernel answered when asked for the real thing.
    pub probes: Probes,
    /// Functions that the kernel side calls and that this kernel does not have; `None` where it does not say.
    pub missing_helpers: Option<Vec<&'static str>>,
}

impl Machine {
    /// Looks at the machine that we run on; `btf`: its type information.
    #[must_use]
    pub fn look(btf: &std::result::Result<Btf, BtfError>) -> Self {
        let number = |path: &str| Reading::parse(read(path), |text| text.trim().parse().ok());
        let sysctl = |name: &str| number(&format!("/proc/sys/{}", name.replace('.', "/")));
        let mounts = read("/proc/self/mounts");
        Self {
            uid: nix::unistd::geteuid().as_raw(),
            capabilities: Reading::parse(read("/proc/self/status"), parse_capabilities),
            filtered: Reading::parse(read("/proc/self/status"), |status| {
                Some(status_field(status, "Seccomp")? != "0")
            }),
            user_namespace: Reading::parse(read("/proc/self/uid_map"), |map| Some(!is_identity_map(map))),
            architecture: std::env::consts::ARCH,
            release: Reading::parse(read("/proc/sys/kernel/osrelease"), |text| Some(text.trim().to_owned())),
            btf: btf.as_ref().map(BtfFacts::of).map_err(Clone::clone),
            tracefs: Reading::parse(mounts.clone(), |text| Some(mount_points(text, "tracefs"))),
            hidepid: Reading::parse(mounts, |text| Some(hidepid(text))),
            uprobe_source: Reading::parse(read("/sys/bus/event_source/devices/uprobe/type"), |text| {
                text.trim().parse().ok()
            }),
            hardware_counters: ["cpu", "cpu_core"]
                .iter()
                .any(|name| Path::new("/sys/bus/event_source/devices").join(name).exists()),
            paranoid: sysctl("kernel.perf_event_paranoid"),
            max_sample_rate: sysctl("kernel.perf_event_max_sample_rate"),
            cpu_time_max_percent: sysctl("kernel.perf_cpu_time_max_percent"),
            unprivileged_bpf_disabled: sysctl("kernel.unprivileged_bpf_disabled"),
            lockdown: Reading::parse(read("/sys/kernel/security/lockdown"), parse_lockdown),
            jit: sysctl("net.core.bpf_jit_enable"),
            memfd_noexec: sysctl("vm.memfd_noexec"),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            steal: Reading::parse(read("/proc/stat"), steal_share),
            probes: Probes::ask(),
            missing_helpers: features::missing_helpers(),
        }
    }
}

impl BtfFacts {
    /// Which of the tracepoints that we use are not there.
    #[must_use]
    pub fn of(btf: &Btf) -> Self {
        let missing = |names: &[&'static str]| {
            names.iter().copied().filter(|name| !btf.has_type(&format!("btf_trace_{name}"))).collect()
        };
        Self {
            needed_missing: missing(&NEEDED_TRACEPOINTS),
            interrupt_missing: missing(&INTERRUPT_TRACEPOINTS),
        }
    }
}

fn read(path: &str) -> Reading<String> {
    match std::fs::read(path) {
        Ok(bytes) => Reading::Value(String::from_utf8_lossy(&bytes).into_owned()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Reading::Absent,
        Err(e) => Reading::Refused(e.to_string()),
    }
}

/// The largest number that a thread can have, and one.
///
/// # Errors
/// Where `/proc/sys` does not say.
pub fn pid_max() -> Result<u32> {
    let text = std::fs::read_to_string("/proc/sys/kernel/pid_max")
        .context("cannot read /proc/sys/kernel/pid_max")?;
    text.trim().parse().context("kernel.pid_max is not a number")
}

fn parse_capabilities(status: &str) -> Option<Capabilities> {
    u64::from_str_radix(status_field(status, "CapEff")?, 16).ok().map(Capabilities)
}

/// Whether every user id means itself: the machine's own user namespace.
fn is_identity_map(map: &str) -> bool {
    map.split_ascii_whitespace().eq(["0", "0", "4294967295"])
}

/// Major and minor version of a kernel release such as `6.1.0-18-amd64`.
#[must_use]
pub fn kernel_version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// The active mode stands in brackets: `none [integrity] confidentiality`.
fn parse_lockdown(text: &str) -> Option<Lockdown> {
    let mode = text.split_once('[')?.1.split_once(']')?.0;
    match mode {
        "none" => Some(Lockdown::None),
        "integrity" => Some(Lockdown::Integrity),
        "confidentiality" => Some(Lockdown::Confidentiality),
        _ => None,
    }
}

/// Where file systems of a type are mounted, from the text of `/proc/self/mounts`.
fn mount_points(mounts: &str, kind: &str) -> Vec<String> {
    mounts.lines().filter_map(|line| mount_of(line, kind)).map(|(place, _)| place.to_owned()).collect()
}

/// Place and options of a line, if its type is `kind`.
fn mount_of<'a>(line: &'a str, kind: &str) -> Option<(&'a str, &'a str)> {
    let mut words = line.split_ascii_whitespace().skip(1);
    let (place, found, options) = (words.next()?, words.next()?, words.next()?);
    (found == kind).then_some((place, options))
}

fn hidepid(mounts: &str) -> Option<String> {
    let (_, options) =
        mounts.lines().filter_map(|line| mount_of(line, "proc")).find(|(place, _)| *place == "/proc")?;
    let value = options.split(',').find_map(|option| option.strip_prefix("hidepid="))?;
    (!matches!(value, "0" | "off")).then(|| value.to_owned())
}

/// The hypervisor's share, from the first line of `/proc/stat`: user nice system idle iowait irq softirq steal ...
/// Guest time, which follows, is counted in user time already.
fn steal_share(stat: &str) -> Option<f64> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let times: Vec<u64> = line.split_ascii_whitespace().take(8).map_while(|word| word.parse().ok()).collect();
    let steal = *times.get(7)?;
    // Idle and I/O wait (the 4th and 5th) take no CPU from anyone.
    let idle = times.get(3)?.saturating_add(*times.get(4)?);
    let busy = times.iter().sum::<u64>().saturating_sub(idle);
    Some(if busy == 0 { 0.0 } else { steal as f64 / busy as f64 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_bits() {
        let root = parse_capabilities("Name:\tx\nCapEff:\t000001ffffffffff\n").unwrap();
        assert!(root.has(capability::BPF) && root.has(capability::PERFMON) && root.has(capability::CHOWN));
        let some = parse_capabilities("CapEff:\t0000004000000000\n").unwrap();
        assert!(some.has(capability::PERFMON) && !some.has(capability::BPF));
        assert_eq!(parse_capabilities("CapPrm:\t0\n"), None);
    }

    #[test]
    fn only_the_full_map_is_the_machines_own() {
        assert!(is_identity_map("         0          0 4294967295\n"));
        assert!(!is_identity_map("         0       1000          1\n"));
        assert!(!is_identity_map("         0     100000      65536\n"));
        assert!(!is_identity_map(""));
    }

    #[test]
    fn versions_as_distributions_write_them() {
        assert_eq!(kernel_version("6.1.0-18-amd64"), Some((6, 1)));
        assert_eq!(kernel_version("5.14.0-362.8.1.el9_3.x86_64"), Some((5, 14)));
        assert_eq!(kernel_version("6.18-rc1"), Some((6, 18)));
        assert_eq!(kernel_version("strange"), None);
    }

    #[test]
    fn the_mode_in_brackets_is_the_active_one() {
        assert_eq!(parse_lockdown("[none] integrity confidentiality\n"), Some(Lockdown::None));
        assert_eq!(parse_lockdown("none [integrity] confidentiality\n"), Some(Lockdown::Integrity));
        assert_eq!(parse_lockdown("none integrity [confidentiality]\n"), Some(Lockdown::Confidentiality));
        assert_eq!(parse_lockdown("none\n"), None);
    }

    #[test]
    fn mounts_are_told_by_type() {
        let mounts = "proc /proc proc rw,nosuid,hidepid=invisible,gid=4 0 0\n\
                      tracefs /sys/kernel/tracing tracefs rw,nosuid 0 0\nproc /jail/proc proc rw 0 0\n";
        assert_eq!(mount_points(mounts, "tracefs"), ["/sys/kernel/tracing"]);
        assert_eq!(mount_points(mounts, "bpf"), [""; 0]);
        assert_eq!(hidepid(mounts).as_deref(), Some("invisible"));
        assert_eq!(hidepid("proc /proc proc rw,hidepid=0 0 0\n"), None);
        assert_eq!(hidepid("proc /proc proc rw 0 0\n"), None);
    }

    #[test]
    fn steal_is_a_share_of_busy_time() {
        // 100 user, 700 idle, 100 stolen: half of the 200 that were not idle.
        assert_eq!(steal_share("cpu  100 0 0 700 0 0 0 100 0 0\ncpu0 1\n"), Some(0.5));
        assert_eq!(steal_share("cpu  0 0 0 5 0 0 0 0 0 0\n"), Some(0.0));
        // Kernels before 2.6.11 had no such column.
        assert_eq!(steal_share("cpu  100 0 0 700\n"), None);
    }

    #[test]
    fn a_missing_file_and_a_refused_one_differ() {
        assert_eq!(read("/no/such/file"), Reading::Absent);
        assert!(matches!(read("/proc"), Reading::Refused(_)));
        let odd = Reading::parse(Reading::Value("x\n".to_owned()), |text| text.trim().parse::<i64>().ok());
        assert_eq!(odd, Reading::Refused("not understood: \"x\"".to_owned()));
    }
}
