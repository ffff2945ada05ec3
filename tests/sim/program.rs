//! Programs: a script for each thread.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::Ns;

/// A line of the program; 0 is none.
pub type Line = u32;
/// The line whose speedup is asked for, in every program here.
pub const HOT: Line = 1;
/// Any other line.
pub const OTHER: Line = 2;

/// How long something takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Span {
    /// Always the same.
    Fixed(Ns),
    /// Anything between the two, evenly.
    Even(Ns, Ns),
    /// Exponentially distributed about this mean, at most ten times it.
    Exponential(Ns),
}

impl Span {
    /// One duration.
    pub fn draw(self, rng: &mut ChaCha8Rng) -> Ns {
        match self {
            Self::Fixed(ns) => ns,
            Self::Even(from, to) => rng.random_range(from..=to),
            Self::Exponential(mean) => {
                let u: f64 = rng.random_range(0.0..1.0);
                (-(1.0 - u).ln()).min(10.0).mul_add(mean as f64, 0.0) as Ns
            }
        }
    }
}

/// A step of a script. The numbers name the program's locks, barriers and queues.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Work on a line.
    Cpu(Line, Span),
    /// Takes a mutex.
    Lock(usize),
    /// Gives it back.
    Unlock(usize),
    /// Takes a reader-writer lock to read.
    Read(usize),
    /// Gives it back after reading.
    EndRead(usize),
    /// Takes it to write.
    Write(usize),
    /// Gives it back after writing.
    EndWrite(usize),
    /// Meets the others at a barrier.
    Meet(usize),
    /// Puts an item into a bounded queue, under its mutex, waiting on a condition variable for room.
    Put(usize),
    /// Takes one out, alike.
    Get(usize),
    /// Writes an item into a pipe (the kernel's queue, no mutex).
    Send(usize),
    /// Reads one.
    Receive(usize),
    /// A timed wait.
    Sleep(Span),
    /// A device's wait: the same, but requests at one device are served one after the other.
    Io(usize, Span),
    /// Starts a thread that runs this script once.
    Spawn(usize),
    /// Waits for all threads that this one has started.
    Join,
    /// A progress point.
    Progress,
    /// Does the steps so many times.
    Repeat(u64, Vec<Op>),
}

/// How a mutex is handed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fairness {
    /// As futex mutexes: who comes first after the unlocking gets it; a woken thread may find it taken.
    Barging {
        /// How long a thread spins before it sleeps.
        spin: Ns,
    },
    /// Handed to the one that has waited longest.
    Fifo,
    /// Never sleeps.
    Spin,
}

/// How a barrier's threads wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// Asleep on a futex.
    Asleep,
    /// Spinning on the CPU.
    Spinning,
}

/// A step after [`Op::Repeat`] has been unrolled into jumps.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    Op(Op),
    /// Sets a counter.
    Set(usize, u64),
    /// Counts down, and goes back there unless it has come to 0.
    Again(usize, usize),
    /// Puts the counter above, for [`Op::Put`] and [`Op::Get`]: wait on a queue's condition.
    AwaitRoom(usize),
    AwaitItem(usize),
    /// An item goes in or out; then the other side's condition is signalled.
    Push(usize),
    Pop(usize),
}

impl Step {
    /// A number for its kind: all mutexes are locked by the same code. Two that wait in different places of a
    /// function have as many numbers, two that wait in the same have one.
    pub(super) fn site(&self) -> u64 {
        match self {
            Self::Op(Op::Lock(_)) => 1,
            Self::Op(Op::Unlock(_)) => 2,
            Self::Op(Op::Meet(_)) => 3,
            Self::Op(Op::Read(_)) => 4,
            Self::Op(Op::EndRead(_)) => 5,
            Self::Op(Op::Write(_)) => 6,
            Self::Op(Op::EndWrite(_)) => 7,
            Self::Op(Op::Send(_)) => 8,
            Self::Op(Op::Receive(_)) => 9,
            Self::Op(Op::Sleep(_) | Op::Io(..)) => 10,
            Self::Op(Op::Spawn(_)) => 11,
            Self::Op(Op::Join) => 12,
            Self::AwaitRoom(_) | Self::AwaitItem(_) => 13,
            Self::Push(_) | Self::Pop(_) => 14,
            Self::Op(_) | Self::Set(..) | Self::Again(..) => 15,
        }
    }
}

/// What a program consists of.
#[derive(Clone, Debug, Default)]
pub struct Program {
    pub(super) bodies: Vec<Vec<Step>>,
    pub(super) forever: Vec<bool>,
    pub(super) initial: Vec<usize>,
    pub(super) mutexes: Vec<Fairness>,
    pub(super) shared: usize,
    pub(super) barriers: Vec<(usize, Waiting)>,
    pub(super) queues: Vec<(usize, usize)>,
    pub(super) pipes: Vec<usize>,
    pub(super) devices: usize,
    pub(super) counters: usize,
}

impl Program {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A script that is run over and over, by a thread that is there from the beginning.
    pub fn thread(&mut self, ops: &[Op]) -> &mut Self {
        let body = self.body(ops, true);
        self.initial.push(body);
        self
    }

    /// A script for [`Op::Spawn`]; its number.
    pub fn script(&mut self, ops: &[Op]) -> usize {
        self.body(ops, false)
    }

    /// A mutex; its number.
    pub fn mutex(&mut self, fairness: Fairness) -> usize {
        self.mutexes.push(fairness);
        self.mutexes.len() - 1
    }

    /// A reader-writer lock; its number.
    pub fn shared(&mut self) -> usize {
        self.shared += 1;
        self.shared - 1
    }

    /// A barrier for so many threads; its number.
    pub fn barrier(&mut self, threads: usize, waiting: Waiting) -> usize {
        self.barriers.push((threads, waiting));
        self.barriers.len() - 1
    }

    /// A queue of so many places, with a mutex of its own; its number.
    pub fn queue(&mut self, places: usize) -> usize {
        let mutex = self.mutex(Fairness::Barging { spin: 0 });
        self.queues.push((places, mutex));
        self.queues.len() - 1
    }

    /// A pipe for so many items; its number.
    pub fn pipe(&mut self, items: usize) -> usize {
        self.pipes.push(items);
        self.pipes.len() - 1
    }

    /// A device; its number.
    pub fn device(&mut self) -> usize {
        self.devices += 1;
        self.devices - 1
    }

    fn body(&mut self, ops: &[Op], forever: bool) -> usize {
        let mut steps = Vec::new();
        self.unroll(ops, &mut steps, 0);
        self.bodies.push(steps);
        self.forever.push(forever);
        self.bodies.len() - 1
    }

    fn unroll(&mut self, ops: &[Op], steps: &mut Vec<Step>, depth: usize) {
        self.counters = self.counters.max(depth);
        for op in ops {
            match op {
                Op::Repeat(times, inner) => {
                    steps.push(Step::Set(depth, *times));
                    let start = steps.len();
                    self.unroll(inner, steps, depth + 1);
                    steps.push(Step::Again(depth, start));
                }
                Op::Put(queue) => {
                    let mutex = self.queues[*queue].1;
                    steps.extend([Step::Op(Op::Lock(mutex)), Step::AwaitRoom(*queue)]);
                    steps.extend([Step::Push(*queue), Step::Op(Op::Unlock(mutex))]);
                }
                Op::Get(queue) => {
                    let mutex = self.queues[*queue].1;
                    steps.extend([Step::Op(Op::Lock(mutex)), Step::AwaitItem(*queue)]);
                    steps.extend([Step::Pop(*queue), Step::Op(Op::Unlock(mutex))]);
                }
                other => steps.push(Step::Op(other.clone())),
            }
        }
    }
}
