//! From code to the rows by which the kernel finds a frame's caller: a thread that reads them, so that neither the target
//! nor an experiment waits for it.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc,
        mpsc::{self, TryRecvError},
    },
    thread,
};

use coz_common::{abi::PageKey, unwind::Row};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::{
    kernel::unwind::RowSpace,
    symbols::{Module, UnwindTable},
};

/// A page of code whose rows are known now.
#[derive(Debug)]
pub struct Rows {
    /// Which one.
    pub key: PageKey,
    /// Its rows.
    pub rows: Vec<Row>,
}

/// So many pages are read together. A power of two.
const NEIGHBOURS: u32 = 8;

/// What has been asked for.
#[derive(Debug)]
pub struct Unwinding {
    jobs: mpsc::Sender<(Arc<Module>, PageKey)>,
    asked: HashSet<PageKey>,
    /// Pages that the kernel has.
    known: HashSet<PageKey>,
    /// How much of the kernel's table is in use.
    pub space: RowSpace,
    /// Whether that it is full has been said.
    pub is_full: bool,
}

impl Unwinding {
    /// Starts the thread; answers come through the channel.
    #[must_use]
    pub fn new() -> (Self, UnboundedReceiver<Rows>) {
        let (jobs, work) = mpsc::channel();
        let (answers, rows) = unbounded_channel();
        // It ends when `jobs` is dropped. Where it can not be started there are frame pointers only.
        let _ = thread::Builder::new().name("coz-unwind".into()).spawn(move || read(&work, &answers));
        (
            Self {
                jobs,
                asked: HashSet::new(),
                known: HashSet::new(),
                space: RowSpace::default(),
                is_full: false,
            },
            rows,
        )
    }

    /// Has a page of a module read, once. Its neighbours are read too, when nothing else is wanted: code that is close by is
    /// likely to be met next, and each page costs a sample that came too early. `false`: the kernel has it by now.
    pub fn ask(&mut self, module: &Arc<Module>, key: PageKey) -> bool {
        if self.known.contains(&key) {
            return false;
        }
        if self.asked.insert(key) {
            // The thread is gone only if it could not be started.
            let _ = self.jobs.send((Arc::clone(module), key));
        }
        true
    }

    /// The kernel has a page.
    pub fn is_known(&mut self, key: PageKey) {
        self.known.insert(key);
    }
}

fn read(work: &mpsc::Receiver<(Arc<Module>, PageKey)>, answers: &UnboundedSender<Rows>) {
    let mut tables: HashMap<u32, UnwindTable> = HashMap::new();
    let mut done: HashSet<PageKey> = HashSet::new();
    let mut neighbours = Vec::new();
    loop {
        let wanted = match work.try_recv() {
            Ok(wanted) => Some(wanted),
            Err(TryRecvError::Disconnected) => return,
            Err(TryRecvError::Empty) if !neighbours.is_empty() => None,
            Err(TryRecvError::Empty) => match work.recv() {
                Ok(wanted) => Some(wanted),
                Err(_) => return,
            },
        };
        let key = match wanted {
            Some((module, key)) => {
                tables.entry(key.module).or_insert_with(|| UnwindTable::of(module.elf()));
                let first = key.page & !(NEIGHBOURS - 1);
                let pages = first..first.saturating_add(NEIGHBOURS);
                neighbours.extend(pages.map(|page| PageKey { page, ..key }));
                key
            }
            None => match neighbours.pop() {
                Some(key) => key,
                None => continue,
            },
        };
        if let Some(table) = tables.get(&key.module).filter(|_| done.insert(key))
            && answers.send(Rows { key, rows: table.page(key.page) }).is_err()
        {
            return;
        }
    }
}
