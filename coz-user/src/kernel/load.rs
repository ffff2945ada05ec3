//! Loading the eBPF object and attaching its programs. Everything is held by file descriptors of this process:
//! when it ends, however it ends, the kernel removes it all.

use std::{
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    thread::{self, JoinHandle},
};

use anyhow::{Context, Result, anyhow, bail};
use aya::{
    Ebpf, EbpfLoader,
    maps::{Array, Map, MapData, RingBuf},
    programs::{BtfTracePoint, UProbe},
};
use aya_log::EbpfLogger;
use coz_common::{
    abi::{
        Control, CounterSlot, Global, KernelSlot, LineCount, MAX_BOOKS, MAX_COUNTERS, MAX_LINES, MAX_NESTS,
        MAX_SLOTS, Offsets,
    },
    latency::{LatencyCounts, MAX_LATENCIES},
    point::{Code, Level, MAX_LEVELS, SYSCALL_POINTS},
};

use super::{
    books::Books,
    btf::Btf,
    control_file::ControlFile,
    features::Features,
    log::{KernelLog, Printer},
    mapped::MappedArray,
    object::{self, FEWER},
    offsets,
    probe::{self, Spot},
    programs::{self, INTERRUPTS, REQUIRED, SYSCALLS},
    sampling::Clocks,
};

/// At most so many threads take probes away.
const MAX_DETACHING: usize = 16;

/// Probes that are being taken away.
#[derive(Debug, Default)]
pub struct Detaching(Vec<JoinHandle<()>>);

impl Drop for Detaching {
    fn drop(&mut self) {
        for thread in self.0.drain(..) {
            // One that has panicked has dropped its probes, too.
            let _ = thread.join();
        }
    }
}

/// The loaded object with its shared maps.
#[derive(Debug)]
pub struct Kernel {
    pub(super) ebpf: Ebpf,
    /// The control page, as the kernel's programs read it.
    pub(super) control: MappedArray<Control>,
    /// Its copy for the target.
    pub(super) notice: ControlFile,
    /// `G`.
    pub global: MappedArray<Global>,
    /// Threads, as the kernel knows them.
    pub slots: MappedArray<KernelSlot>,
    /// Threads, as they say of themselves: a table for each user.
    pub books: Books,
    /// By table: how many payments were not credible.
    disbelieved: MappedArray<u64>,
    /// coz.h counters.
    pub counters: MappedArray<CounterSlot>,
    /// Samples by line.
    pub line_counts: MappedArray<LineCount>,
    /// Latency points.
    pub latencies: MappedArray<LatencyCounts>,
    /// Which of coz.h's counters are latency points.
    pub(super) levels: MappedArray<Level>,
    pub(super) sampling: Clocks,
    pub(super) probes: Vec<OwnedFd>,
    syscalls: bool,
    /// Interrupt tracepoints that this kernel does not have.
    pub missing: Vec<&'static str>,
}

/// What loads the object, made on a thread of its own: it reads all of the kernel's type information for itself, which
/// takes some 50 ms, and there is other work for so long.
#[derive(Debug)]
pub struct Loader(Option<JoinHandle<EbpfLoader<'static>>>);

impl Loader {
    /// Begins to make it.
    #[must_use]
    pub fn begin() -> Self {
        Self(thread::Builder::new().name("coz-loader".into()).spawn(EbpfLoader::new).ok())
    }

    fn finish(self) -> EbpfLoader<'static> {
        self.0.and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

impl Kernel {
    /// Loads the object; nothing is attached yet. `inclusive`: a sample counts for every line in scope of its call chain.
    /// `log`: its programs write their own messages (see [`Self::log`]).
    ///
    /// # Errors
    /// Where the kernel refuses a map or a program, with its own words.
    pub fn load(loader: Loader, btf: &Btf, pid_max: u32, inclusive: bool, log: bool) -> Result<Self> {
        let mut ebpf = object(loader, btf, pid_max, inclusive, log)?;
        let missing = programs::load_all(&mut ebpf, &programs::numbers(btf)?)?;
        let notice = ControlFile::new()?;
        let copy = |name| -> Result<OwnedFd> {
            fd(&ebpf, name)?
                .try_clone_to_owned()
                .with_context(|| format!("cannot copy the descriptor of {name}"))
        };
        let others = [notice.descriptor()?, copy("GLOBAL")?, copy("SLOTS")?, copy("COUNTERS")?];
        let payments = ebpf.take_map("PAYMENTS").context("the eBPF object has no map PAYMENTS")?;
        let books = Books::new(payments, others)?;
        Ok(Self {
            control: MappedArray::new(fd(&ebpf, "CONTROL")?, 1, "CONTROL")?,
            notice,
            global: frozen(&ebpf, "GLOBAL", 1)?,
            slots: frozen(&ebpf, "SLOTS", MAX_SLOTS)?,
            books,
            disbelieved: MappedArray::read_only(fd(&ebpf, "DISBELIEVED")?, MAX_BOOKS, "DISBELIEVED")?,
            counters: MappedArray::read_only(fd(&ebpf, "COUNTERS")?, MAX_COUNTERS, "COUNTERS")?,
            line_counts: MappedArray::read_only(fd(&ebpf, "LINE_COUNTS")?, MAX_LINES, "LINE_COUNTS")?,
            latencies: MappedArray::read_only(fd(&ebpf, "LATENCIES")?, MAX_LATENCIES, "LATENCIES")?,
            levels: MappedArray::new(fd(&ebpf, "LEVELS")?, MAX_LEVELS, "LEVELS")?,
            ebpf,
            sampling: Vec::new(),
            probes: Vec::new(),
            syscalls: false,
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

    /// The ring buffer of births, execs and deaths: once.
    ///
    /// # Errors
    /// Where it has been taken already.
    pub fn take_events(&mut self) -> Result<RingBuf<MapData>> {
        let map = self.ebpf.take_map("EVENTS").context("the eBPF object has no map EVENTS")?;
        Ok(RingBuf::try_from(map)?)
    }

    /// The programs' own messages: once, and only if they were asked for at load.
    ///
    /// # Errors
    /// Where the object has none.
    pub fn log(&mut self) -> Result<KernelLog> {
        EbpfLogger::init_with_logger(&mut self.ebpf, Printer)
            .context("cannot read the kernel side's messages")
    }

    /// Puts a probe there that stands for this: in every process that has the file mapped or will.
    ///
    /// # Errors
    /// Where the kernel refuses the probe.
    pub fn attach_point(&mut self, code: Code, spot: &Spot<'_>) -> Result<()> {
        let program = program::<&mut UProbe>(&mut self.ebpf, "visit")?;
        let link = probe::attach(program.fd()?.as_fd(), spot, u64::from(code.0))?;
        self.probes.push(link);
        Ok(())
    }

    /// Has the system call of this number stand for this. The first one makes every system call on the machine
    /// a little slower as long as this process lives.
    ///
    /// # Errors
    /// Where the kernel has no such tracepoint, or refuses the program.
    pub fn attach_syscall(&mut self, code: Code, number: u32) -> Result<()> {
        let map = self.ebpf.map_mut("SYSCALLS").context("the eBPF object has no map SYSCALLS")?;
        let mut calls: Array<_, [u32; SYSCALL_POINTS]> = Array::try_from(map)?;
        let mut codes = calls.get(&number, 0).context("cannot read the system calls that are points")?;
        let free = codes.iter_mut().find(|code| **code == 0);
        *free.context("a system call can be no more points")? = code.0;
        calls.set(number, codes, 0).context("cannot note a system call")?;
        if self.syscalls {
            return Ok(());
        }
        let btf = aya::Btf::from_sys_fs().context("cannot read the kernel's BTF")?;
        let exits = tracepoint(&mut self.ebpf, SYSCALLS)?;
        exits.load(SYSCALLS, &btf).map_err(|error| programs::refused(SYSCALLS, &error))?;
        exits.attach().context("cannot attach to the tracepoint sys_exit")?;
        self.syscalls = true;
        Ok(())
    }

    /// Takes all probes of points away, on threads of their own: for each the kernel waits until nobody can be in it any
    /// more, some 100 ms, and waits for several at once. Gone when the answer has been dropped.
    pub fn detach_points(&mut self) -> Detaching {
        let mut links = std::mem::take(&mut self.probes);
        let each = links.len().div_ceil(MAX_DETACHING).max(1);
        let mut threads = Vec::new();
        while !links.is_empty() {
            let some = links.split_off(links.len().saturating_sub(each));
            // Where no thread can be had they are dropped here.
            threads.extend(thread::Builder::new().name("coz-detach".into()).spawn(move || drop(some)));
        }
        Detaching(threads)
    }

    /// Whose payments were not credible, and how many: by user id.
    #[must_use]
    pub fn disbelieved(&self) -> Vec<(u32, u64)> {
        let counts = (0..self.books.count()).filter_map(|book| Some((book, self.disbelieved.read(book)?)));
        counts
            .filter(|(_, count)| *count > 0)
            .filter_map(|(book, count)| Some((self.books.user(book)?, count)))
            .collect()
    }
}

/// The maps, made in the kernel, and the programs, not yet checked by it.
pub(super) fn object(loader: Loader, btf: &Btf, pid_max: u32, inclusive: bool, log: bool) -> Result<Ebpf> {
    let level = if log { u8::MAX } else { 0 };
    let offsets = offsets::find(btf)?;
    let features = Features::ask(btf);
    let mut loader = loader.finish();
    if !features.late_allocation {
        for (map, entries) in FEWER {
            loader.map_max_entries(map, entries);
        }
    }
    if inclusive {
        loader.map_max_entries("NESTS", MAX_NESTS);
    }
    loader
        .override_global("OFFSETS", offsets_bytes(&offsets), true)
        .override_global("INCLUSIVE", &u32::from(inclusive), true)
        .override_global("LOOPS", &u32::from(features.loops), true)
        .override_global("SWITCH_STATE", &u32::from(features.switch_state), true)
        .override_global(aya_log::LEVEL, &level, true)
        .map_max_entries("TIDS", pid_max)
        .load(&object::bytes(features.late_allocation)?)
        .context("cannot load the eBPF maps into the kernel")
}

pub(super) fn program<'a, P>(ebpf: &'a mut Ebpf, name: &str) -> Result<P>
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

pub(super) fn fd<'a>(ebpf: &'a Ebpf, name: &str) -> Result<BorrowedFd<'a>> {
    Ok(data(ebpf, name)?.fd().as_fd())
}

/// Maps what only the kernel's programs write, and forbids everyone else to: a mapping to write, an update by system
/// call. (A descriptor opened read-only would not do: the kernel maps such a BPF map not at all.)
fn frozen<T>(ebpf: &Ebpf, name: &str, len: u32) -> Result<MappedArray<T>> {
    const BPF_MAP_FREEZE: libc::c_long = 22;
    let fd = fd(ebpf, name)?;
    let attr = fd.as_raw_fd() as u32;
    // SAFETY: the attribute's only member is the map's descriptor; it outlives the call.
    if unsafe { libc::syscall(libc::SYS_bpf, BPF_MAP_FREEZE, &raw const attr, size_of::<u32>()) } != 0 {
        return Err(std::io::Error::last_os_error()).with_context(|| format!("cannot freeze the map {name}"));
    }
    MappedArray::read_only(fd, len, name)
}

fn offsets_bytes(offsets: &Offsets) -> &[u8] {
    // SAFETY: a repr(C) struct of u32 only: no padding, every byte is initialised.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(offsets).cast(), size_of::<Offsets>()) }
}
