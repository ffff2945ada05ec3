//! A controller and a kernel side for the shim, made of files without a name.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use coz_common::abi::*;
use coz_tests::table::Table;
use coz_user::target::registration::{Listener, Peer, Registrar, Registration};
use coz_user::target::shim;

/// The signal that the stage uses.
pub const SIGNAL: i32 = 60;
/// A pid namespace's number, made up.
const NAMESPACE: u32 = 0xF000_0007;
/// The descriptor that the shim comes in.
const SHIM_FD: RawFd = 77;
/// How many threads after a process's first get slots in advance.
const THREADS: u32 = 400;

/// Compiles `shim/NAME.c` once; the program's path.
pub fn compile(name: &str) -> PathBuf {
    compile_with(name, &[])
}

/// The same with options.
pub fn compile_with(name: &str, options: &[&str]) -> PathBuf {
    static DONE: OnceLock<(tempfile::TempDir, Mutex<BTreeMap<String, PathBuf>>)> = OnceLock::new();
    let (folder, done) = DONE.get_or_init(|| (tempfile::tempdir().unwrap(), Mutex::default()));
    let key = format!("{name}{}", options.concat());
    let mut done = done.lock().unwrap();
    done.entry(key.clone())
        .or_insert_with(|| {
            let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("shim").join(name).with_extension("c");
            let program = folder.path().join(&key);
            let status = Command::new("gcc")
                .args(["-O1", "-Wall", "-Wextra", "-Wno-deprecated-declarations", "-pthread", "-o"])
                .arg(&program)
                .arg(source)
                .args(options)
                .status()
                .expect("gcc is needed to build the test programs: apt-get install gcc libc6-dev");
            assert!(status.success(), "{name}.c does not compile");
            program
        })
        .clone()
}

/// A program to run, with or without the shim.
#[derive(Clone)]
pub struct Program {
    path: PathBuf,
    arguments: Vec<OsString>,
    preload: Option<OsString>,
}

impl Program {
    pub fn new(path: &Path) -> Self {
        Self { path: path.into(), arguments: Vec::new(), preload: None }
    }

    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.arguments.push(argument.as_ref().into());
        self
    }

    /// The user's own `LD_PRELOAD`.
    pub fn preload(mut self, preload: Option<&str>) -> Self {
        self.preload = preload.map(Into::into);
        self
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.args(&self.arguments).env_clear();
        let folder = self.path.parent().unwrap();
        command.env("PATH", folder).env("HOME", "/root").env("ZZZ", "last one").env("AAA", "first");
        if let Some(preload) = &self.preload {
            command.env("LD_PRELOAD", preload);
        }
        command
    }

    /// Runs it as the user would.
    pub fn alone(&self) -> Output {
        self.command().output().unwrap()
    }
}

struct Maps {
    control: Table<Control>,
    global: Table<Global>,
    slots: Table<KernelSlot>,
    payments: Table<TargetSlot>,
    counters: Table<CounterSlot>,
}

#[derive(Clone, Copy, PartialEq)]
enum Mood {
    Willing,
    Refusing,
    Silent,
    Foreign,
}

struct Controller {
    maps: Maps,
    mood: Mood,
    signal: AtomicU32,
    shim: Arc<OwnedFd>,
    registered: Mutex<Vec<u32>>,
    stamp: AtomicBool,
    epoch: AtomicU32,
    debt: AtomicU64,
}

fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` lives through the call.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

impl Controller {
    fn welcome(&self) -> Welcome {
        let abi_version = ABI_VERSION + u32::from(self.mood == Mood::Foreign);
        let signal = self.signal.load(Ordering::Relaxed);
        Welcome { abi_version, signal, pid_namespace: NAMESPACE, _pad: 0 }
    }

    /// Gives a slot to each thread that the process may come to have, each with one signal pending.
    fn claim_slots(&self, pid: u32) {
        let sent_at = if self.stamp.load(Ordering::Relaxed) { now() } else { 0 };
        let epoch = self.epoch.load(Ordering::Relaxed);
        for tid in pid..pid + THREADS {
            let key = slot_key(NAMESPACE, tid);
            let places: Vec<usize> = (0..SLOT_PROBES).map(|p| slot_place(key, p) as usize).collect();
            if places.iter().any(|&p| self.maps.slots.read(p).key == key) {
                continue;
            }
            let free = places.into_iter().find(|&p| self.maps.slots.read(p).key == 0).expect("room");
            self.maps.slots.change(free, |slot| {
                *slot = KernelSlot { key, tid, tgid: pid, epoch, sent: 1, sent_at, ..KernelSlot::default() };
            });
        }
    }
}

impl Registrar for Controller {
    fn register(&self, Peer { pid, .. }: Peer, hello: Hello) -> Option<Registration> {
        assert!(hello.handler != 0);
        match self.mood {
            Mood::Refusing => return None,
            Mood::Silent => std::thread::sleep(Duration::from_millis(1500)),
            Mood::Willing | Mood::Foreign => {}
        }
        self.claim_slots(pid);
        self.registered.lock().unwrap().push(pid);
        let maps = &self.maps;
        Some(Registration {
            welcome: self.welcome(),
            maps: [
                maps.control.read_only(),
                maps.global.read_only(),
                maps.slots.read_only(),
                maps.payments.file(),
                maps.counters.file(),
            ],
        })
    }

    fn shim(&self, _: Peer) -> Option<(Welcome, Arc<OwnedFd>)> {
        Some((self.welcome(), Arc::clone(&self.shim)))
    }
}

/// A controller at work, and the kernel's maps.
pub struct Stage {
    controller: Arc<Controller>,
    socket: String,
    _stop: tokio::sync::oneshot::Sender<()>,
}

/// A counter that is in use.
pub struct Counter {
    pub kind: u32,
    pub name: String,
    pub count: u64,
}

impl Stage {
    /// An experiment runs; nobody owes anything.
    pub fn new() -> Self {
        Self::owing(0)
    }

    /// An experiment runs; everyone owes `debt` nanoseconds.
    pub fn owing(debt: u64) -> Self {
        Self::with(Mood::Willing, debt)
    }

    /// Nobody listens.
    pub fn deaf() -> Self {
        Self { socket: "coz-bpf-nobody".into(), ..Self::new() }
    }

    /// Says no.
    pub fn refusing() -> Self {
        Self::with(Mood::Refusing, 0)
    }

    /// Says nothing for longer than the shim waits.
    pub fn silent() -> Self {
        Self::with(Mood::Silent, 0)
    }

    /// Speaks another version.
    pub fn of_another_version() -> Self {
        Self::with(Mood::Foreign, 0)
    }

    fn with(mood: Mood, debt: u64) -> Self {
        let maps = Maps {
            control: Table::new(c"stage", 1),
            global: Table::new(c"stage", 1),
            slots: Table::new(c"stage", MAX_SLOTS as usize),
            payments: Table::new(c"stage", MAX_SLOTS as usize),
            counters: Table::new(c"stage", MAX_COUNTERS as usize),
        };
        let controller = Arc::new(Controller {
            maps,
            mood,
            signal: AtomicU32::new(SIGNAL as u32),
            shim: Arc::new(shim::memfd().unwrap()),
            registered: Mutex::default(),
            stamp: AtomicBool::new(false),
            epoch: AtomicU32::new(0),
            debt: AtomicU64::new(debt),
        });
        let (name_to, name_from) = std::sync::mpsc::channel();
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let registrar = Arc::clone(&controller);
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let (listener, name) = Listener::bind().unwrap();
                name_to.send(name).unwrap();
                tokio::select! {
                    () = listener.serve(registrar) => {}
                    _ = stopped => {}
                }
            });
        });
        let stage = Self { controller, socket: name_from.recv().unwrap(), _stop: stop };
        stage.set_epoch(0x1_0005);
        stage.controller.epoch.store(0x1_0005, Ordering::Relaxed);
        stage.controller.maps.control.change(0, |control| {
            control.abi_version = ABI_VERSION;
            control.state = STATE_RUNNING;
        });
        stage.deadline_in(Duration::from_secs(60));
        stage
    }

    /// The experiment's number.
    pub fn epoch(&self) -> u32 {
        self.controller.maps.control.read(0).epoch
    }

    /// Another experiment, with the same debt; slots keep the number that they had.
    pub fn set_epoch(&self, epoch: u32) {
        let debt = self.controller.debt.load(Ordering::Relaxed);
        self.controller.maps.global.change(0, |g| g.required = u64::from(epoch & 0xFFFF) << 48 | debt);
        self.controller.maps.control.change(0, |control| control.epoch = epoch);
    }

    pub fn set_state(&self, state: u32) {
        self.controller.maps.control.change(0, |control| control.state = state);
    }

    pub fn deadline_in(&self, time: Duration) {
        let deadline = now() + time.as_nanos() as u64;
        self.controller.maps.control.change(0, |control| control.deadline_ns = deadline);
    }

    /// From now on the pending signals were sent when the program registered.
    pub fn sent_at_registration(&self) {
        self.controller.stamp.store(true, Ordering::Relaxed);
    }

    /// From now on another signal is the profiler's.
    pub fn set_signal(&self, signal: i32) {
        self.controller.signal.store(signal as u32, Ordering::Relaxed);
    }

    /// All that was paid, by whomever.
    pub fn paid(&self) -> u64 {
        (0..MAX_SLOTS as usize).map(|i| self.controller.maps.payments.read(i).paid).sum()
    }

    /// Who has registered, by process id.
    pub fn registered(&self) -> Vec<u32> {
        self.controller.registered.lock().unwrap().clone()
    }

    /// What a thread has said of itself.
    pub fn target_slot(&self, tid: u32) -> TargetSlot {
        let key = slot_key(NAMESPACE, tid);
        let place = (0..SLOT_PROBES)
            .map(|p| slot_place(key, p) as usize)
            .find(|&p| self.controller.maps.slots.read(p).key == key)
            .expect("the thread has a slot");
        self.controller.maps.payments.read(place)
    }

    /// Returns once somebody pays.
    pub fn wait_for_payer(&self) {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(20) {
            if (0..MAX_SLOTS as usize).any(|i| self.controller.maps.payments.read(i).paying != 0) {
                return;
            }
        }
        panic!("nobody pays");
    }

    /// The counters in use.
    pub fn counters(&self) -> Vec<Counter> {
        (0..MAX_COUNTERS as usize)
            .map(|i| self.controller.maps.counters.read(i))
            .filter(|c| c.state == 2)
            .map(|c| {
                let name = c.name.split(|&b| b == 0).next().unwrap();
                Counter { kind: c.kind, name: String::from_utf8_lossy(name).into_owned(), count: c.count }
            })
            .collect()
    }

    /// Runs a program with the shim, as the launcher does.
    pub fn run(&self, program: Program) -> Output {
        let mut command = program.command();
        command.envs(shim::variables(SHIM_FD, &self.socket, program.preload.as_deref()));
        let fd = self.controller.shim.as_raw_fd();
        // SAFETY: one system call; the copy survives exec, the original does not.
        unsafe {
            command.pre_exec(move || {
                if libc::dup2(fd, SHIM_FD) == SHIM_FD { Ok(()) } else { Err(std::io::Error::last_os_error()) }
            });
        }
        command.output().unwrap()
    }
}
