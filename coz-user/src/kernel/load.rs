//! Loading the eBPF object and attaching its programs. Everything is held by file descriptors of this process:
//! when it ends, however it ends, the kernel removes it all.

use std::{
    os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd},
    path::Path,
};

use anyhow::{Context, Result, anyhow, bail};
use aya::{
    Btf, Ebpf, EbpfLoader, include_bytes_aligned,
    maps::{Map, MapData, RingBuf},
    programs::{
        BtfTracePoint, PerfEvent, UProbe,
        perf_event::{PerfEventConfig, PerfEventLinkId, PerfEventScope, SamplePolicy, SoftwareEvent},
        uprobe::{UProbeAttachLocation, UProbeAttachPoint, UProbeScope},
    },
    util::online_cpus,
};
use coz_common::abi::{
    Control, CounterSlot, Global, KernelSlot, LineCount, MAX_COUNTERS, MAX_LINES, MAX_SLOTS, Offsets, TargetSlot,
};

use super::mapped::MappedArray;

static OBJECT: &[u8] = include_bytes_aligned!("../../../coz-ebpf/prebuilt/coz-ebpf.o");

/// Programs without which there is no virtual clock.
const REQUIRED: [&str; 5] =
    ["sched_switch", "sched_waking", "sched_process_fork", "sched_process_exec", "sched_process_exit"];
/// Programs that tell wakers from interrupts. Which of them a kernel has depends on its configuration; without
/// softirq and timer ones the answer suffers, the others are rare.
const INTERRUPTS: [&str; 17] = [
    "irq_handler_entry",
    "irq_handler_exit",
    "softirq_entry",
    "softirq_exit",
    "softirq_raise",
    "local_timer_entry",
    "local_timer_exit",
    "irq_work_entry",
    "irq_work_exit",
    "reschedule_entry",
    "reschedule_exit",
    "call_function_entry",
    "call_function_exit",
    "call_function_single_entry",
    "call_function_single_exit",
    "x86_platform_ipi_entry",
    "x86_platform_ipi_exit",
];

/// The loaded object with its shared maps.
#[derive(Debug)]
pub struct Kernel {
    pub(super) ebpf: Ebpf,
    /// The control page.
    pub control: MappedArray<Control>,
    /// `G`.
    pub global: MappedArray<Global>,
    /// Threads, as the kernel knows them.
    pub slots: MappedArray<KernelSlot>,
    /// Threads, as they say of themselves.
    pub payments: MappedArray<TargetSlot>,
    /// coz.h counters.
    pub counters: MappedArray<CounterSlot>,
    /// Samples by line.
    pub line_counts: MappedArray<LineCount>,
    sampling: Vec<PerfEventLinkId>,
    /// Interrupt tracepoints that this kernel does not have.
    pub missing: Vec<&'static str>,
}

impl Kernel {
    /// Loads the object; nothing is attached yet.
    ///
    /// # Errors
    /// Where the kernel refuses a map or a program, with its own words.
    pub fn load(offsets: &Offsets, pid_max: u32) -> Result<Self> {
        let mut ebpf = EbpfLoader::new()
            .override_global("OFFSETS", offsets_bytes(offsets), true)
            .map_max_entries("TIDS", pid_max)
            .load(OBJECT)
            .context("cannot load the eBPF maps into the kernel")?;
        let btf = Btf::from_sys_fs().context("cannot read the kernel's BTF (/sys/kernel/btf/vmlinux)")?;
        for name in REQUIRED {
            tracepoint(&mut ebpf, name)?.load(name, &btf).with_context(|| refused(name))?;
        }
        let mut missing = Vec::new();
        for name in INTERRUPTS {
            if tracepoint(&mut ebpf, name)?.load(name, &btf).is_err() {
                missing.push(name);
            }
        }
        program::<&mut PerfEvent>(&mut ebpf, "sample")?.load().with_context(|| refused("sample"))?;
        program::<&mut UProbe>(&mut ebpf, "visit")?.load().with_context(|| refused("visit"))?;
        Ok(Self {
            control: mapped(&ebpf, "CONTROL", 1)?,
            global: mapped(&ebpf, "GLOBAL", 1)?,
            slots: mapped(&ebpf, "SLOTS", MAX_SLOTS)?,
            payments: mapped(&ebpf, "PAYMENTS", MAX_SLOTS)?,
            counters: mapped(&ebpf, "COUNTERS", MAX_COUNTERS)?,
            line_counts: mapped(&ebpf, "LINE_COUNTS", MAX_LINES)?,
            ebpf,
            sampling: Vec::new(),
            missing,
        })
    }

    /// Attaches the scheduler's tracepoints. The interrupts' first: a wake-up must not be judged without them.
    ///
    /// # Errors
    /// Where one without which there is no clock can not be attached.
    pub fn attach_scheduler(&mut self) -> Result<()> {
        for name in INTERRUPTS {
            if !self.missing.contains(&name) && tracepoint(&mut self.ebpf, name)?.attach().is_err() {
                self.missing.push(name);
            }
        }
        for name in REQUIRED {
            tracepoint(&mut self.ebpf, name)?
                .attach()
                .with_context(|| format!("cannot attach to the tracepoint {name}"))?;
        }
        Ok(())
    }

    /// Starts sampling on every CPU that is online, every `period_ns` of its clock.
    ///
    /// # Errors
    /// Where perf events are refused.
    pub fn start_sampling(&mut self, period_ns: u64) -> Result<()> {
        let cpus = online_cpus().map_err(|(file, error)| anyhow!("cannot read {file}: {error}"))?;
        let sample = program::<&mut PerfEvent>(&mut self.ebpf, "sample")?;
        for cpu in cpus {
            let link = sample
                .attach(
                    PerfEventConfig::Software(SoftwareEvent::CpuClock),
                    PerfEventScope::AllProcessesOneCpu { cpu },
                    SamplePolicy::Period(period_ns),
                    false,
                )
                .with_context(|| format!("cannot sample CPU {cpu} (perf_event_open of the software clock)"))?;
            self.sampling.push(link);
        }
        Ok(())
    }

    /// Stops sampling on every CPU.
    pub fn stop_sampling(&mut self) {
        if let Ok(sample) = program::<&mut PerfEvent>(&mut self.ebpf, "sample") {
            for link in self.sampling.drain(..) {
                // A link that is gone already samples no more.
                let _ = sample.detach(link);
            }
        }
    }

    /// The ring buffer of births, execs and deaths: once.
    ///
    /// # Errors
    /// Where it has been taken already.
    pub fn take_events(&mut self) -> Result<RingBuf<MapData>> {
        let map = self.ebpf.take_map("EVENTS").context("the eBPF object has no map EVENTS")?;
        Ok(RingBuf::try_from(map)?)
    }

    /// Puts a progress point's probe at an offset of a file: in every process that has it mapped or will.
    ///
    /// # Errors
    /// Where the kernel refuses the probe.
    pub fn attach_point(&mut self, point: u32, file: &Path, offset: u64) -> Result<()> {
        program::<&mut UProbe>(&mut self.ebpf, "visit")?
            .attach(
                UProbeAttachPoint {
                    location: UProbeAttachLocation::AbsoluteOffset(offset),
                    cookie: Some(u64::from(point)),
                },
                file,
                UProbeScope::AllProcesses,
            )
            .with_context(|| format!("cannot put a probe at offset {offset:#x} of {}", file.display()))?;
        Ok(())
    }

    /// The maps that the shim gets, in the order of `abi::HELLO_REGISTER`: those that it must not write are opened
    /// read-only, which no `mprotect` in the target undoes.
    ///
    /// # Errors
    /// Where a descriptor can not be made.
    pub fn shared_maps(&self) -> Result<[OwnedFd; 5]> {
        Ok([
            self.reopen("CONTROL", true)?,
            self.reopen("GLOBAL", true)?,
            self.reopen("SLOTS", true)?,
            self.reopen("PAYMENTS", false)?,
            self.reopen("COUNTERS", false)?,
        ])
    }

    fn reopen(&self, name: &str, read_only: bool) -> Result<OwnedFd> {
        let id = data(&self.ebpf, name)?.info().with_context(|| format!("cannot read the map {name}'s id"))?.id();
        map_by_id(id, read_only).with_context(|| format!("cannot open the map {name} again (CAP_SYS_ADMIN?)"))
    }
}

fn refused(name: &str) -> String {
    format!("the kernel refused the eBPF program {name}; `coz-bpf doctor` shows what is missing")
}

fn program<'a, P>(ebpf: &'a mut Ebpf, name: &str) -> Result<P>
where
    P: TryFrom<&'a mut aya::programs::Program, Error = aya::programs::ProgramError>,
{
    let program = ebpf.program_mut(name).ok_or_else(|| anyhow!("the eBPF object has no program {name}"))?;
    program.try_into().with_context(|| format!("the eBPF program {name} is of another kind"))
}

fn tracepoint<'a>(ebpf: &'a mut Ebpf, name: &str) -> Result<&'a mut BtfTracePoint> {
    program(ebpf, name)
}

fn data<'a>(ebpf: &'a Ebpf, name: &str) -> Result<&'a MapData> {
    match ebpf.map(name) {
        Some(Map::Array(data) | Map::HashMap(data) | Map::PerCpuArray(data) | Map::RingBuf(data)) => Ok(data),
        _ => bail!("the eBPF object has no map {name}"),
    }
}

fn mapped<T>(ebpf: &Ebpf, name: &str, len: u32) -> Result<MappedArray<T>> {
    MappedArray::new(data(ebpf, name)?.fd().as_fd(), len, name)
}

fn offsets_bytes(offsets: &Offsets) -> &[u8] {
    // SAFETY: a repr(C) struct of sixteen u32: no padding, every byte is initialised.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(offsets).cast(), size_of::<Offsets>()) }
}

/// `bpf(BPF_MAP_GET_FD_BY_ID)`: aya has it, but not read-only.
fn map_by_id(id: u32, read_only: bool) -> std::io::Result<OwnedFd> {
    const BPF_MAP_GET_FD_BY_ID: libc::c_long = 14;
    const BPF_F_RDONLY: u32 = 1 << 3;
    #[repr(C)]
    struct Attr {
        id: u32,
        next_id: u32,
        open_flags: u32,
    }
    let attr = Attr { id, next_id: 0, open_flags: if read_only { BPF_F_RDONLY } else { 0 } };
    // SAFETY: the attribute is as long as is said and outlives the call.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, BPF_MAP_GET_FD_BY_ID, &raw const attr, size_of::<Attr>()) };
    if fd < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: a new descriptor that nobody else owns; the kernel makes it close-on-exec.
    let fd = unsafe { OwnedFd::from_raw_fd(fd as i32) };
    debug_assert!(fd.as_raw_fd() >= 0);
    Ok(fd)
}
