//! Processes that run already and into which the handler is put, so that they can be delayed; and how they are left.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt::Write as _,
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::{
    kernel::books::{Books, Given},
    target::{
        inject::{self, Entered, Left, Refused},
        process,
    },
};

/// So many processes are entered, or left, at once.
const AT_ONCE: usize = 4;
/// So many are named.
const NAMED: usize = 5;

/// What is to be done with a process.
#[derive(Clone, Copy, Debug)]
enum Job {
    /// Enter it.
    Enter(u32),
    /// Ask its seccomp filters whether they allow what this handler does.
    Ask(u32, u64),
    /// Give it another book in the place of this one.
    Rebook(u32, u32),
}

/// What came of it.
#[derive(Debug)]
pub enum Answer {
    /// Of entering this process.
    Entered(u32, Result<Entered, Refused>),
    /// Of asking this process's filters about this handler: how many there are.
    Asked(u32, u64, Result<u32, Refused>),
    /// Of giving this process another book in the place of this one: which.
    Rebooked(u32, u32, Result<u32, Refused>),
}

/// Those that were entered.
#[derive(Debug)]
pub struct Guests {
    jobs: mpsc::Sender<Job>,
    threads: Vec<thread::JoinHandle<()>>,
    over: Arc<AtomicBool>,
    entered: HashMap<u32, Arc<Entered>>,
    /// Of a child that was forked by one of them: which has its handler from whom.
    origins: HashMap<u32, Arc<Entered>>,
    asked: HashSet<u32>,
    /// Those that are given another book, and those that could not be.
    rebooked: HashSet<u32>,
    /// Of these, those that were not answered yet, and who was forked by them meanwhile.
    pending: HashMap<u32, Vec<u32>>,
    refused: BTreeMap<String, Vec<String>>,
}

impl Guests {
    /// Starts the threads that enter; answers come through the channel.
    #[must_use]
    pub fn new(books: &Books, signal: u32) -> (Self, UnboundedReceiver<Answer>) {
        let (jobs, work) = mpsc::channel();
        let (answers, answered) = unbounded_channel();
        let (work, over) = (Arc::new(Mutex::new(work)), Arc::<AtomicBool>::default());
        let start = |_| {
            let (work, books, answers) = (Arc::clone(&work), books.clone(), answers.clone());
            let over = Arc::clone(&over);
            // They end when `jobs` is dropped. Where none can be started nobody is delayed, which the report says.
            let body = move || enter_each(&work, &books, signal, &over, &answers);
            thread::Builder::new().name("coz-enter".into()).spawn(body).ok()
        };
        let threads = (0..AT_ONCE).filter_map(start).collect();
        let guests = Self {
            jobs,
            threads,
            over,
            entered: HashMap::new(),
            origins: HashMap::new(),
            asked: HashSet::new(),
            rebooked: HashSet::new(),
            pending: HashMap::new(),
            refused: BTreeMap::new(),
        };
        (guests, answered)
    }

    /// Has a process entered, unless it was or will be.
    pub fn enter(&mut self, pid: u32) {
        if self.asked.insert(pid) {
            self.pending.entry(pid).or_default();
            // The threads are gone only if they could not be started.
            let _ = self.jobs.send(Job::Enter(pid));
        }
    }

    /// Has the filters of a process asked whether they allow what its handler does.
    pub fn ask_filters(&self, pid: u32, handler: u64) {
        let _ = self.jobs.send(Job::Ask(pid, handler));
    }

    /// Has a process given the book of the user that it is by now, in the place of this one.
    pub fn rebook(&mut self, pid: u32, book: u32) {
        if self.rebooked.insert(pid) {
            let _ = self.jobs.send(Job::Rebook(pid, book));
        }
    }

    /// It has this one now.
    pub fn has_book(&mut self, pid: u32, book: u32) {
        self.rebooked.remove(&pid);
        // What its children have, they have from it from now on.
        let origin = self.entered.get(&pid).or_else(|| self.origins.get(&pid));
        let own = origin.and_then(|origin| origin.inherited_by(i32::try_from(pid).ok()?));
        if let Some(own) = own {
            self.origins.remove(&pid);
            self.entered.insert(pid, Arc::new(own.with_book(book)));
        }
    }

    /// A process of the set has forked: what was put into it is in the child, too. Where it is being entered just now that will be seen
    /// when it has been. Otherwise: from whom it has it.
    pub fn forked(&mut self, child: u32, parent: u32) -> Option<Arc<Entered>> {
        let is_waiting = |children: &&mut Vec<u32>| children.contains(&parent);
        if let Some(children) = self.pending.get_mut(&parent) {
            children.push(child);
        } else if let Some(family) = self.pending.values_mut().find(is_waiting) {
            family.push(child);
        } else if let Some(origin) = self.entered.get(&parent).or_else(|| self.origins.get(&parent)) {
            let origin = Arc::clone(origin);
            self.origins.insert(child, Arc::clone(&origin));
            return Some(origin);
        }
        None
    }

    /// This process has been answered for: those of its children that have the handler from it. The others are entered themselves, unless
    /// it `was_refused`: what is in its way is in theirs.
    pub fn waiting_for(
        &mut self,
        parent: u32,
        entered: Option<&Entered>,
        was_refused: bool,
    ) -> Vec<(u32, Arc<Entered>)> {
        let children = self.pending.remove(&parent).unwrap_or_default();
        let mut with_handler = Vec::new();
        for child in children {
            let pid = i32::try_from(child).ok();
            match entered.zip(pid).and_then(|(entered, pid)| entered.inherited_by(pid)) {
                Some(inherited) => {
                    let inherited = Arc::new(inherited);
                    self.entered.insert(child, Arc::clone(&inherited));
                    with_handler.push((child, inherited));
                }
                None if was_refused => {}
                None => self.enter(child),
            }
        }
        with_handler
    }

    /// Whether all that were to be entered have been answered for.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.pending.is_empty()
    }

    /// A process has ended, or has another program now.
    pub fn ended(&mut self, pid: u32) {
        self.entered.remove(&pid);
        self.origins.remove(&pid);
        self.asked.remove(&pid);
        self.rebooked.remove(&pid);
    }

    /// Takes note of what came of entering a process.
    pub fn answered(&mut self, pid: u32, result: Result<Entered, Refused>) -> Option<Arc<Entered>> {
        match result {
            Ok(entered) => {
                let entered = Arc::new(entered);
                self.entered.insert(pid, Arc::clone(&entered));
                Some(entered)
            }
            Err(why) => {
                self.refused(pid, &why);
                None
            }
        }
    }

    /// Takes note that a process is not delayed.
    pub fn refused(&mut self, pid: u32, why: &Refused) {
        // It has ended, or will be asked for again.
        if matches!(why, Refused::Gone) {
            return;
        }
        let name = process::stat(pid).map(|stat| String::from_utf8_lossy(&stat.comm).into_owned());
        let who = format!("{pid} ({})", name.unwrap_or_default());
        self.refused.entry(why.to_string()).or_default().push(who);
    }

    /// How many were entered and are there.
    #[must_use]
    pub fn count(&self) -> usize {
        self.entered.len()
    }

    /// Which processes are not delayed, and why.
    pub fn notices(&self) -> impl Iterator<Item = String> + '_ {
        self.refused.iter().map(|(why, who)| {
            let mut text = match who.len() {
                1 => "process ".to_owned(),
                n => format!("{n} processes, "),
            };
            text += &who.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
            if who.len() > NAMED {
                text += ", ...";
            }
            // Writing to a String can not fail.
            let _ = write!(text, ": no delays can be inserted ({why}); samples and visits are counted");
            text
        })
    }

    /// Leaves all of them, those that were being entered just now, and those of `alive` that have it from one of them; what could not be
    /// undone. Nobody sends the signal any more.
    pub fn leave(
        mut self,
        answers: &mut UnboundedReceiver<Answer>,
        alive: impl Iterator<Item = u32>,
    ) -> Vec<String> {
        self.over.store(true, Ordering::Relaxed);
        drop(std::mem::replace(&mut self.jobs, mpsc::channel().0));
        for thread in std::mem::take(&mut self.threads) {
            let _ = thread.join();
        }
        while let Ok(answer) = answers.try_recv() {
            if let Answer::Entered(pid, Ok(entered)) = answer {
                self.entered.insert(pid, Arc::new(entered));
            }
        }
        let Self { entered, origins, .. } = self;
        let children = alive.filter_map(|pid| {
            let origin = origins.get(&pid)?;
            origin.inherited_by(i32::try_from(pid).ok()?).map(Arc::new)
        });
        let all: Vec<Arc<Entered>> = entered.into_values().chain(children).collect();
        let each = all.len().div_ceil(AT_ONCE).max(1);
        thread::scope(|scope| {
            let some = all.chunks(each).map(|some| {
                scope.spawn(move || some.iter().filter_map(|entered| leave(entered)).collect::<Vec<String>>())
            });
            let threads: Vec<_> = some.collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect()
        })
    }
}

fn leave(entered: &Entered) -> Option<String> {
    match entered.leave() {
        Ok(Left::Undone { .. } | Left::Gone) => None,
        Err(error) => Some(format!(
            "process {}: what was put into it is still there, and does nothing: {error}",
            entered.pid()
        )),
    }
}

fn enter_each(
    work: &Mutex<mpsc::Receiver<Job>>,
    books: &Books,
    signal: u32,
    over: &AtomicBool,
    answers: &UnboundedSender<Answer>,
) {
    loop {
        let job = work.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = job else { return };
        // What it gets goes by whose it is.
        let given = |uid| match books.of(uid) {
            Ok(Given { book, maps }) => Ok(inject::Given { book, maps }),
            Err(error) => Err(io::Error::other(format!("{error:#}"))),
        };
        let is_over = || over.load(Ordering::Relaxed);
        if is_over() {
            return;
        }
        // Process ids are small.
        let answer = match job {
            Job::Enter(pid) => {
                Answer::Entered(pid, inject::enter_unless(pid.cast_signed(), &given, signal, &is_over))
            }
            Job::Ask(pid, handler) => {
                Answer::Asked(pid, handler, inject::filters_allow(pid.cast_signed(), &is_over))
            }
            Job::Rebook(pid, book) => {
                let is_paying = || books.is_paying(pid, book);
                Answer::Rebooked(pid, book, inject::rebook(pid.cast_signed(), &given, &is_paying, &is_over))
            }
        };
        if answers.send(answer).is_err() {
            return;
        }
    }
}
