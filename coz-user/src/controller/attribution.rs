//! From sampled addresses to lines: the modules in scope, and a thread that reads their debug information, so that
//! neither the target nor an experiment ever waits for it.

use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc},
    thread,
};

use anyhow::Result;
use coz_common::{
    abi::{LineCount, LineEntry, MAX_RANGES, PageKey, PendingKey, Range},
    lookup,
    units::LineId,
};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::{
    symbols::{Granularity, Lines, Mapping, Module, Scope},
    target::process::CodeMapping,
};

/// A page of code whose lines are known now.
#[derive(Debug)]
pub struct ResolvedPage {
    /// Which one.
    pub key: PageKey,
    /// Its lines.
    pub entries: Vec<LineEntry>,
}

/// Modules, lines, and what is still being looked up.
pub struct Attribution {
    scope: Scope,
    debug_dirs: Vec<std::path::PathBuf>,
    lines: Arc<Mutex<Lines>>,
    modules: Vec<Arc<Module>>,
    by_file: HashMap<((u32, u32), u64), Option<u32>>,
    /// Addresses whose page has been asked for.
    waiting: HashMap<PageKey, Vec<(u64, LineCount)>>,
    jobs: mpsc::Sender<(Arc<Module>, PageKey)>,
    /// What was sampled before the kernel knew the page.
    late: HashMap<LineId, LineCount>,
}

impl Attribution {
    /// Starts the thread; answers come through the channel.
    #[must_use]
    pub fn new(
        scope: Scope,
        debug_dirs: Vec<std::path::PathBuf>,
        granularity: Granularity,
    ) -> (Self, UnboundedReceiver<ResolvedPage>) {
        let lines = Arc::new(Mutex::new(Lines::new()));
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
            late: HashMap::new(),
        };
        (attribution, resolved)
    }

    /// The lines met so far.
    pub fn lines(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Modules in scope, in the order of their numbers (from 1 on).
    #[must_use]
    pub fn modules(&self) -> &[Arc<Module>] {
        &self.modules
    }

    /// The main program: its sources are the default scope.
    ///
    /// # Errors
    /// Where the file can not be read as an ELF program.
    pub fn main_module(&mut self, path: &Path, device: (u32, u32), inode: u64) -> Result<Arc<Module>> {
        let module = Arc::new(Module::open(path, &self.scope, &self.debug_dirs)?);
        let number = self.scope.binary(path, true).then(|| self.add(Arc::clone(&module)));
        self.by_file.insert((device, inode), number);
        Ok(module)
    }

    fn add(&mut self, module: Arc<Module>) -> u32 {
        self.modules.push(module);
        self.modules.len() as u32
    }

    /// The mappings in scope of a process, for the kernel. At most [`MAX_RANGES`]; the second value counts what
    /// did not fit.
    pub fn ranges(&mut self, mappings: &[CodeMapping], main: Option<&Path>) -> (Vec<Range>, usize) {
        let mut ranges = Vec::new();
        for mapping in mappings {
            let Some(number) = self.module_of(mapping, main) else { continue };
            let module = &self.modules[number as usize - 1];
            let place = Mapping { start: mapping.start, end: mapping.end, file_offset: mapping.offset };
            let Some(bias) = module.load_bias(&[place]) else { continue };
            ranges.push(Range { start: mapping.start, end: mapping.end, bias, module: number, _pad: 0 });
        }
        let left_out = ranges.len().saturating_sub(MAX_RANGES);
        ranges.truncate(MAX_RANGES);
        (ranges, left_out)
    }

    fn module_of(&mut self, mapping: &CodeMapping, main: Option<&Path>) -> Option<u32> {
        let file = (mapping.device, mapping.inode);
        let is_main = main == Some(mapping.path.as_path());
        match self.by_file.get(&file) {
            Some(&Some(number)) => return Some(number),
            // What was left out as a library can be the main program of a later exec.
            Some(None) if !is_main => return None,
            _ => {}
        }
        let wanted = !mapping.deleted && self.scope.binary(&mapping.path, is_main);
        let number = wanted
            .then(|| Module::open(&mapping.path, &self.scope, &self.debug_dirs).ok())
            .flatten()
            .map(|module| self.add(Arc::new(module)));
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
            let module = (key.module as usize).checked_sub(1).and_then(|index| self.modules.get(index));
            if let Some(module) = module {
                // The thread is gone only if it could not be started.
                let _ = self.jobs.send((Arc::clone(module), key));
            }
        }
        self.waiting.entry(key).or_default()
    }

    /// Has the pages of these addresses of a module looked up before any sample falls on them.
    pub fn look_ahead(&mut self, module: &Arc<Module>, addresses: &[u64]) {
        let Some(index) = self.modules.iter().position(|known| Arc::ptr_eq(known, module)) else { return };
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
            if line.is_some() {
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

fn read_pages(
    work: &mpsc::Receiver<(Arc<Module>, PageKey)>,
    answers: &UnboundedSender<ResolvedPage>,
    lines: &Mutex<Lines>,
    granularity: Granularity,
) {
    for (module, key) in work {
        module.prepare(key.page);
        let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
        let entries = module.page(key.page, granularity, &mut lines);
        drop(lines);
        if answers.send(ResolvedPage { key, entries }).is_err() {
            return;
        }
    }
}
