//! Programs whose answer is known, by name.

use super::program::Op::{
    Cpu, Get, Io, Join, Lock, Meet, Progress, Put, Receive, Repeat, Send, Sleep, Spawn, Unlock,
};
use super::program::{Fairness, HOT, OTHER, Program, Span, Waiting};
use super::{MS, Ns, US};

/// A program by name.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Its name.
    pub name: &'static str,
    /// CPUs that it is usually looked at on.
    pub cpus: usize,
    /// Visits after which it is where it began; 1 for a program without phases.
    pub cycle: u64,
    /// What it does.
    pub about: &'static str,
    build: fn(usize) -> Program,
}

impl Shape {
    /// The program, for so many CPUs.
    #[must_use]
    pub fn program(&self, cpus: usize) -> Program {
        (self.build)(cpus)
    }
}

const fn shape(name: &'static str, cpus: usize, about: &'static str, build: fn(usize) -> Program) -> Shape {
    Shape { name, cpus, cycle: 1, about, build }
}

fn hot(ns: Ns) -> super::program::Op {
    Cpu(HOT, Span::Fixed(ns))
}

fn other(ns: Ns) -> super::program::Op {
    Cpu(OTHER, Span::Fixed(ns))
}

/// The same, a fifth more or less each time.
fn varied(line: u32, ns: Ns) -> super::program::Op {
    Cpu(line, Span::Even(ns * 4 / 5, ns * 6 / 5))
}

const SLEEPY: Fairness = Fairness::Barging { spin: 0 };

fn barrier(a: Ns, b: Ns, waiting: Waiting) -> Program {
    let mut p = Program::new();
    let meet = p.barrier(2, waiting);
    p.thread(&[hot(a), Meet(meet), Progress]);
    p.thread(&[other(b), Meet(meet)]);
    p
}

fn locked(threads: usize, inside: Ns, outside: Ns, fairness: Fairness) -> Program {
    let mut p = Program::new();
    let m = p.mutex(fairness);
    for _ in 0..threads {
        p.thread(&[Lock(m), varied(HOT, inside), Unlock(m), varied(OTHER, outside), Progress]);
    }
    p
}

fn independent(threads: usize, piece: Ns) -> Program {
    let mut p = Program::new();
    for _ in 0..threads {
        p.thread(&[varied(HOT, piece), varied(OTHER, piece), Progress]);
    }
    p
}

/// All of them.
pub const SHAPES: &[Shape] = &[
    shape("single", 1, "one thread, half of its time in the line", |_| {
        let mut p = Program::new();
        p.thread(&[hot(500 * US), other(500 * US), Progress]);
        p
    }),
    shape("barrier", 2, "two threads meet each round, 6.7 ms in the line against 6.4 ms", |_| {
        barrier(6_700 * US, 6_400 * US, Waiting::Asleep)
    }),
    shape("barrier-born", 2, "the same, both threads are made anew each round and joined", |_| {
        let mut p = Program::new();
        let a = p.script(&[hot(6_700 * US)]);
        let b = p.script(&[other(6_400 * US)]);
        p.thread(&[Spawn(a), Spawn(b), Join, Progress]);
        p
    }),
    shape("barrier-short", 2, "two threads meet each round, 0.67 ms in the line against 0.64 ms", |_| {
        barrier(670 * US, 640 * US, Waiting::Asleep)
    }),
    shape("barrier-spin", 2, "two threads meet at a spinning barrier, 1 ms in the line against 0.8 ms", |_| {
        barrier(1_000 * US, 800 * US, Waiting::Spinning)
    }),
    shape("barrier-all", 4, "as many threads as CPUs meet each round, 1 ms each, half of it in the line", |cpus| {
        let mut p = Program::new();
        let meet = p.barrier(cpus, Waiting::Asleep);
        for thread in 0..cpus {
            let mut ops = vec![varied(HOT, 500 * US), varied(OTHER, 500 * US), Meet(meet)];
            if thread == 0 {
                ops.push(Progress);
            }
            p.thread(&ops);
        }
        p
    }),
    shape("pipeline", 2, "producer (the line, 1 ms) and consumer (0.62 ms), mutex and condition variables", |_| {
        let mut p = Program::new();
        let q = p.queue(16);
        p.thread(&[hot(MS), Put(q)]);
        p.thread(&[Get(q), other(620 * US), Progress]);
        p
    }),
    shape("pipeline-short", 2, "the same with items of a tenth", |_| {
        let mut p = Program::new();
        let q = p.queue(16);
        p.thread(&[hot(100 * US), Put(q)]);
        p.thread(&[Get(q), other(62 * US), Progress]);
        p
    }),
    shape("pipe", 2, "the same as pipeline through the kernel's queue", |_| {
        let mut p = Program::new();
        let q = p.pipe(16);
        p.thread(&[hot(MS), Send(q)]);
        p.thread(&[Receive(q), other(620 * US), Progress]);
        p
    }),
    shape("consumers-3", 2, "one producer, three consumers (the line), two CPUs", |_| {
        let mut p = Program::new();
        let q = p.queue(16);
        p.thread(&[other(300 * US), Put(q)]);
        for _ in 0..3 {
            p.thread(&[Get(q), varied(HOT, 700 * US), Progress]);
        }
        p
    }),
    shape("mutex-2", 2, "two threads, 200 us in a mutex (the line) and 170 us outside", |_| {
        locked(2, 200 * US, 170 * US, SLEEPY)
    }),
    shape("mutex-2-fifo", 2, "the same, handed over in order", |_| {
        locked(2, 200 * US, 170 * US, Fairness::Fifo)
    }),
    shape("mutex-2-adaptive", 2, "the same, spinning up to 20 us before sleeping", |_| {
        locked(2, 200 * US, 170 * US, Fairness::Barging { spin: 20 * US })
    }),
    shape("mutex-2-short", 2, "the same, 20 us and 17 us", |_| locked(2, 20 * US, 17 * US, SLEEPY)),
    shape("mutex-2-long", 2, "the same, 2 ms and 1.7 ms", |_| locked(2, 2 * MS, 1_700 * US, SLEEPY)),
    shape("mutex-4", 2, "four threads on two CPUs, 200 us in a mutex (the line) and 170 us outside", |_| {
        locked(4, 200 * US, 170 * US, SLEEPY)
    }),
    shape("mutex-all", 8, "as many threads as CPUs, 50 us in a mutex (the line) and 300 us outside", |cpus| {
        locked(cpus, 50 * US, 300 * US, SLEEPY)
    }),
    shape("mutex-all-fifo", 8, "the same, handed over in order", |cpus| {
        locked(cpus, 50 * US, 300 * US, Fairness::Fifo)
    }),
    shape("spinlock", 2, "two threads, a spinlock: 20 us inside (the line), 17 us outside", |_| {
        locked(2, 20 * US, 17 * US, Fairness::Spin)
    }),
    shape("independent", 2, "as many threads as CPUs, half of the time in the line", |cpus| {
        independent(cpus, 300 * US)
    }),
    shape("independent-4x", 2, "four times as many", |cpus| independent(4 * cpus, 300 * US)),
    shape("independent-long", 2, "four times as many, 20 ms at a stretch", |cpus| independent(4 * cpus, 20 * MS)),
    shape("cpu-sleep", 1, "2 ms in the line, then a timed wait of 3 ms", |_| {
        let mut p = Program::new();
        p.thread(&[hot(2 * MS), Sleep(Span::Fixed(3 * MS)), Progress]);
        p
    }),
    shape("slow-io", 2, "a CPU thread (the line, 0.6 ms) feeds one that waits 1 ms for a device", |_| {
        let mut p = Program::new();
        let q = p.pipe(16);
        p.thread(&[hot(600 * US), Send(q)]);
        p.thread(&[Receive(q), other(50 * US), Sleep(Span::Fixed(MS)), Progress]);
        p
    }),
    shape("background", 2, "a useless hot thread on a CPU of its own", background),
    shape("background-pair", 3, "a useless hot thread beside two that hand a token to and fro", |_| {
        let mut p = Program::new();
        p.thread(&[hot(MS), other(100 * US)]);
        let (there, back) = (p.pipe(1), p.pipe(1));
        p.thread(&[other(200 * US), Send(there), Receive(back), Progress]);
        p.thread(&[Receive(there), other(200 * US), Send(back)]);
        p
    }),
    shape("background-1", 1, "a useless hot thread on the same CPU", background),
    shape("io-12", 2, "twelve threads on two CPUs: 0.5 ms in the line, 0.5 ms not, then 5 ms of I/O", |_| io(12)),
    shape("io-8", 2, "eight of them", |_| io(8)),
    shape("io-disk", 2, "four threads, 0.3 ms in the line, then 0.4 ms at one device", |_| {
        let mut p = Program::new();
        let disk = p.device();
        for _ in 0..4 {
            p.thread(&[varied(HOT, 300 * US), Io(disk, Span::Exponential(400 * US)), Progress]);
        }
        p
    }),
    shape("periodic", 1, "rounds of exactly 1 ms, 0.3 ms in the line", |_| {
        let mut p = Program::new();
        p.thread(&[hot(300 * US), other(700 * US), Progress]);
        p
    }),
    Shape {
        name: "phased",
        cpus: 1,
        cycle: 40,
        about: "one thread, all of its time in the line for 20 ms, then none for as long",
        build: |_| {
            let mut p = Program::new();
            p.thread(&[Repeat(20, vec![hot(MS), Progress]), Repeat(20, vec![other(MS), Progress])]);
            p
        },
    },
];

fn background(_: usize) -> Program {
    let mut p = Program::new();
    p.thread(&[other(MS), Progress]);
    p.thread(&[hot(MS), other(100 * US)]);
    p
}

fn io(threads: usize) -> Program {
    let mut p = Program::new();
    for _ in 0..threads {
        p.thread(&[
            varied(HOT, 500 * US),
            varied(OTHER, 500 * US),
            Sleep(Span::Exponential(5 * MS)),
            Progress,
        ]);
    }
    p
}
