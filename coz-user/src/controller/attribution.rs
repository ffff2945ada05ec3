//! From sampled addresses to lines: the modules, and a thread that reads their debug information, so that
//! neither the target nor an experiment ever waits for it.

use std::{
    collections::HashMap,
    os::{fd::AsRawFd, unix::fs::MetadataExt},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc},
    thread,
};

use anyhow::Result;
use coz_common::{
    abi::{LineCount, LineEntry, Nest, PageKey, PendingKey},
    lookup,
    units::LineId,
    unwind::{MAX_RANGES, Range},
};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::{
    jits::{Jit, Jits},
    runtimes::Maker,
};
use crate::{
    symbols::{ANONYMOUS, Granularity, Lines, Mapping, Module, Scope},
    target::{
        process::{self, CodeMapping},
        vdso,
    },
};

/// A page of code whose lines are known now.
#[derive(Debug)]
pub struct ResolvedPage {
    /// Which one.
    pub key: PageKey,
    /// Its lines.
    pub entries: Vec<LineEntry>,
    /// Lines within others that nobody has been told of yet, in the order of their numbers.
    pub nests: Vec<Nest>,
}

/// Who knows the lines of a page.
enum Code {
    /// A file.
    Module(Arc<Module>),
    /// A process that makes code while it runs.
    Jit(Arc<Jit>),
}

/// When a file was written, and its length: another file may have the same number later.
type Stamp = (i64, i64, u64);

/// A module that some process has mapped.
struct Known {
    module: Arc<Module>,
    /// Of the file when it was opened; `None` where it has no name.
    stamp: Option<Stamp>,
    /// Whether lines of it are in scope, in any process.
    in_scope: bool,
}

/// Modules, lines, and what is still being looked up.
pub struct Attribution {
    scope: Scope,
    debug_dirs: Vec<PathBuf>,
    lines: Arc<Mutex<Lines>>,
    modules: Vec<Known>,
    by_file: HashMap<((u32, u32), u64), Option<u32>>,
    /// Addresses whose page has been asked for.
    waiting: HashMap<PageKey, Vec<(u64, LineCount)>>,
    jobs: mpsc::Sender<(Code, PageKey)>,
    jits: Jits,
    /// What was sampled before the kernel knew the page.
    late: HashMap<LineId, LineCount>,
}

impl Attribution {
    /// Starts the thread; answers come through the channel. `inclusive`: code that was inlined belongs to the lines that it was
    /// inlined at, too.
    #[must_use]
    pub fn new(
        scope: Scope,
        debug_dirs: Vec<PathBuf>,
        granularity: Granularity,
        inclusive: bool,
    ) -> (Self, UnboundedReceiver<ResolvedPage>) {
        let lines = if inclusive { Lines::nested() } else { Lines::new() };
        let lines = Arc::new(Mutex::new(lines));
        let (jobs, work) = mpsc::channel();
        let (answers, resolved) = unbounded_channel();
        let shared = Arc::clone(&lines);
        // It ends when `jobs` is dropped. Where it can not be started there are no lines, which the report says.
        let _ = thread::Builder::new()
            .name("coz-symbols".into())
            .spawn(move || read_pages(&work, &answers, &shared, granularity));
        let attribution = Self {
            scope,
            debug_dirs,
            lines,
            modules: Vec::new(),
            by_file: HashMap::new(),
            waiting: HashMap::new(),
            jobs,
            jits: Jits::default(),
            late: HashMap::new(),
        };
        (attribution, resolved)
    }

    /// The lines met so far.
    pub fn lines(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Modules in scope, in the order of their numbers.
    pub fn modules(&self) -> impl Iterator<Item = &Arc<Module>> {
        self.modules.iter().filter(|known| known.in_scope).map(|known| &known.module)
    }

    /// The module of a number.
    #[must_use]
    pub fn module(&self, number: u32) -> Option<&Arc<Module>> {
        self.modules.get((number as usize).checked_sub(1)?).map(|known| &known.module)
    }

    /// The main program, which is reached under this path, and which its users know by that `name`: its sources are the default
    /// scope.
    ///
    /// # Errors
    /// Where the file can not be read as an ELF program.
    pub fn main_module(
        &mut self,
        path: &Path,
        name: &Path,
        device: (u32, u32),
        inode: u64,
    ) -> Result<Arc<Module>> {
        let module = Arc::new(Module::open(path, &self.scope, &self.debug_dirs)?.called(name));
        let number = self.add(Arc::clone(&module), stamp(path, inode));
        self.by_file.insert((device, inode), Some(number));
        self.modules[number as usize - 1].in_scope = self.scope.binary(path, true);
        Ok(module)
    }

    fn add(&mut self, module: Arc<Module>, stamp: Option<Stamp>) -> u32 {
        self.modules.push(Known { module, stamp, in_scope: false });
        self.modules.len() as u32
    }

    /// The executable mappings of a process, for the kernel, by address. At most [`MAX_RANGES`]; the second value counts
    /// what did not fit.
    pub fn ranges(&mut self, pid: u32, mappings: &[CodeMapping], main: Option<&Path>) -> (Vec<Range>, usize) {
        let mut ranges = Vec::new();
        self.jits.seen(pid, mappings);
        for mapping in mappings {
            if mapping.path == Path::new(ANONYMOUS) {
                if self.scope.jit()
                    && let Some((module, bias)) = self.jits.of(pid, mapping.start)
                {
                    ranges.push(Range { start: mapping.start, end: mapping.end, bias, module, scope: 1 });
                }
                continue;
            }
            let Some(module) = self.module_of(pid, mapping) else { continue };
            let known = &mut self.modules[module as usize - 1];
            let place = Mapping { start: mapping.start, end: mapping.end, file_offset: mapping.offset };
            let Some(bias) = known.module.load_bias(&[place]) else { continue };
            // What is a library here can be the main program of a later exec.
            let is_main = main == Some(mapping.path.as_path());
            // A program goes on running when its file is replaced; of anything else that was removed there is nothing to change.
            let in_scope = (is_main || !mapping.deleted) && self.scope.binary(&mapping.path, is_main);
            known.in_scope |= in_scope;
            let scope = u32::from(in_scope);
            ranges.push(Range { start: mapping.start, end: mapping.end, bias, module, scope });
        }
        ranges.sort_unstable_by_key(|range| range.start);
        let left_out = ranges.len().saturating_sub(MAX_RANGES);
        ranges.truncate(MAX_RANGES);
        (ranges, left_out)
    }

    fn module_of(&mut self, pid: u32, mapping: &CodeMapping) -> Option<u32> {
        let file = (mapping.device, mapping.inode);
        let stamp = if mapping.deleted { None } else { stamp(&mapping.path, mapping.inode) };
        if let Some(known) = self.by_file.get(&file) {
            // A file that was removed leaves its number to the next one.
            let before = known.and_then(|number| self.modules.get(number as usize - 1)?.stamp);
            if before.is_none() || stamp.is_none() || before == stamp {
                return *known;
            }
        }
        let open =
            |path: &Path| Some(Module::open(path, &self.scope, &self.debug_dirs).ok()?.called(&mapping.path));
        let module = if mapping.path == Path::new(vdso::NAME) {
            vdso::file()
                .ok()
                .and_then(|file| open(&PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))))
        } else {
            open(&process::reachable(pid, mapping))
        };
        let number = module.map(|module| self.add(Arc::new(module), stamp));
        self.by_file.insert(file, number);
        number
    }

    /// Takes note of addresses that the kernel could not place; asks for pages that nobody has asked for yet.
    pub fn look_up(&mut self, pending: Vec<(PendingKey, LineCount)>) {
        for (address, count) in pending {
            let key = PageKey { module: address.module, page: (address.address >> 12) as u32 };
            self.ask(key).push((address.address, count));
        }
    }

    /// Has a page looked up that nobody has asked for yet; what waits for it.
    fn ask(&mut self, key: PageKey) -> &mut Vec<(u64, LineCount)> {
        if !self.waiting.contains_key(&key) {
            self.send(key);
        }
        self.waiting.entry(key).or_default()
    }

    fn send(&mut self, key: PageKey) {
        let code = match self.jits.get(key.module) {
            Some(jit) => Some(Code::Jit(Arc::clone(jit))),
            None => self.module(key.module).map(|module| Code::Module(Arc::clone(module))),
        };
        self.jits.asked(key);
        if let Some(code) = code {
            // The thread is gone only if it could not be started.
            let _ = self.jobs.send((code, key));
        }
    }

    /// Reads what programs have written about code that they made since the last time.
    pub fn read_on(&mut self) {
        for key in self.jits.read_on() {
            self.send(key);
        }
    }

    /// The processes that made code while they ran, and whether such code is in scope.
    #[must_use]
    pub fn made_code(&self) -> (Vec<Maker>, bool) {
        (self.jits.makers(), self.scope.jit())
    }

    /// Whether the kernel is to be told of a page: not if it has it already.
    pub fn is_news(&mut self, page: &ResolvedPage) -> bool {
        self.jits.is_news(page.key, &page.entries)
    }

    /// A process has ended, or has another program now.
    pub fn ended(&mut self, pid: u32) {
        self.jits.ended(pid);
    }

    /// Has the pages of these addresses of a module looked up before any sample falls on them.
    pub fn look_ahead(&mut self, module: &Arc<Module>, addresses: &[u64]) {
        let Some(index) = self.modules.iter().position(|known| Arc::ptr_eq(&known.module, module)) else {
            return;
        };
        for address in addresses {
            self.ask(PageKey { module: index as u32 + 1, page: (address >> 12) as u32 });
        }
    }

    /// The line with the most samples; [`LineId::NONE`] while there is none.
    #[must_use]
    pub fn hottest(&self, samples: impl Fn(LineId) -> u64) -> LineId {
        let count = self.lines().len() as u32;
        let most = (1..=count).map(LineId).map(|line| (samples(line), line)).filter(|(n, _)| *n > 0);
        most.max_by_key(|&(n, line)| (n, std::cmp::Reverse(line.0))).map_or(LineId::NONE, |(_, line)| line)
    }

    /// Whether anything has been asked for and not been answered.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// A page has come: what was waiting for it gets its lines.
    pub fn arrived(&mut self, page: &ResolvedPage) {
        for (address, count) in self.waiting.remove(&page.key).unwrap_or_default() {
            let offset = (address & 0xFFF) as u32;
            let line = lookup::line_at(page.entries.len() as u32, offset, |index| {
                page.entries.get(index as usize).copied()
            });
            let counted: Vec<LineId> = self.lines().each(line.0).collect();
            for line in counted {
                let late = self.late.entry(line).or_default();
                late.samples += count.samples;
                late.weight_ns += count.weight_ns;
            }
        }
    }

    /// Samples of a line that came before its page was known.
    #[must_use]
    pub fn late(&self, line: LineId) -> LineCount {
        self.late.get(&line).copied().unwrap_or_default()
    }
}

/// The stamp of a file, if it is still the one with this number.
fn stamp(path: &Path, inode: u64) -> Option<Stamp> {
    let meta = std::fs::metadata(path).ok().filter(|meta| meta.ino() == inode)?;
    Some((meta.mtime(), meta.mtime_nsec(), meta.len()))
}

fn read_pages(
    work: &mpsc::Receiver<(Code, PageKey)>,
    answers: &UnboundedSender<ResolvedPage>,
    lines: &Mutex<Lines>,
    granularity: Granularity,
) {
    for (code, key) in work {
        if let Code::Module(module) = &code {
            module.prepare(key.page);
        }
        let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
        let entries = match &code {
            Code::Module(module) => module.page(key.page, granularity, &mut lines),
            Code::Jit(jit) => jit.page(key.page, &mut lines),
        };
        let nests = lines.new_nests();
        drop(lines);
        if answers.send(ResolvedPage { key, entries, nests }).is_err() {
            return;
        }
    }
}
