//! From code to the rows by which the kernel finds a frame's caller: a thread that reads them, so that neither the target
//! nor an experiment waits for it.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, mpsc},
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
        (Self { jobs, asked: HashSet::new(), space: RowSpace::default(), is_full: false }, rows)
    }

    /// Has a page of a module read, once, and its neighbours after it: code that is close by is likely to be met next, and
    /// each page costs a sample that came too early.
    pub fn ask(&mut self, module: &Arc<Module>, key: PageKey) {
        let first = key.page & !(NEIGHBOURS - 1);
        for page in std::iter::once(key.page).chain(first..first.saturating_add(NEIGHBOURS)) {
            let key = PageKey { page, ..key };
            if self.asked.insert(key) {
                // The thread is gone only if it could not be started.
                let _ = self.jobs.send((Arc::clone(module), key));
            }
        }
    }
}

fn read(work: &mpsc::Receiver<(Arc<Module>, PageKey)>, answers: &UnboundedSender<Rows>) {
    let mut tables: HashMap<u32, UnwindTable> = HashMap::new();
    for (module, key) in work {
        let table = tables.entry(key.module).or_insert_with(|| UnwindTable::of(module.elf()));
        if answers.send(Rows { key, rows: table.page(key.page) }).is_err() {
            return;
        }
    }
}
