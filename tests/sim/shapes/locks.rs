//! Threads that take turns.

use super::super::US;
use super::super::program::Op::{EndRead, EndWrite, Lock, Progress, Read, Repeat, Unlock, Write};
use super::super::program::{Fairness, HOT, OTHER, Program};
use super::{Shape, hot, other, shape, varied};

/// Futex mutexes that do not spin, as glibc's.
const SLEEPY: Fairness = Fairness::Barging { spin: 0 };
const ADAPTIVE: Fairness = Fairness::Barging { spin: 20 * US };

pub const SHAPES: &[Shape] = &[
    shape("mutex", 2, "two threads, 0.4 ms in a mutex (the line), 0.3 ms outside", |_| {
        let mut p = Program::new();
        let m = p.mutex(SLEEPY);
        for _ in 0..2 {
            p.thread(&[Lock(m), hot(400), Unlock(m), other(300), Progress]);
        }
        p
    }),
    shape(
        "mutex_many",
        2,
        "twice as many threads as CPUs, the same with half as much a CPU outside",
        |cpus| {
            let mut p = Program::new();
            let m = p.mutex(SLEEPY);
            for _ in 0..2 * cpus {
                p.thread(&[Lock(m), hot(400), Unlock(m), other(150 * cpus as u64), Progress]);
            }
            p
        },
    ),
    shape("mutex_adaptive", 2, "as mutex, spinning up to 20 us before sleeping", |_| {
        locked(2, 400, 300, ADAPTIVE)
    }),
    shape("mutex_fifo", 2, "as mutex, handed over in order", |_| locked(2, 400, 300, Fairness::Fifo)),
    shape("mutex_long", 2, "2 ms and 1.7 ms", |_| locked(2, 2000, 1700, SLEEPY)),
    shape("mutex_short", 2, "20 us and 17 us: shorter than a wake-up", |_| locked(2, 20, 17, SLEEPY)),
    shape("mutex_cold", 2, "0.3 ms in a mutex, 0.4 ms (the line) outside", |_| {
        let mut p = Program::new();
        let m = p.mutex(SLEEPY);
        for _ in 0..2 {
            p.thread(&[Lock(m), varied(OTHER, 300), Unlock(m), varied(HOT, 400), Progress]);
        }
        p
    }),
    shape("mutex_all", 8, "as many threads as CPUs, 50 us in a mutex (the line), 300 us outside", |cpus| {
        locked(cpus, 50, 300, SLEEPY)
    }),
    shape("mutex_all_fifo", 8, "the same, handed over in order", |cpus| {
        locked(cpus, 50, 300, Fairness::Fifo)
    }),
    shape(
        "memcached",
        2,
        "two threads, each 0.35 ms (the line) in the one or the other of two mutexes, 0.25 ms not",
        |_| {
            let mut p = Program::new();
            let m = [p.mutex(SLEEPY), p.mutex(SLEEPY)];
            // Two fixed orders that collide every other time.
            for order in [[0, 1, 1, 0, 1, 0, 0], [1, 1, 0, 0, 0, 1, 0]] {
                let round = order
                    .map(|i| vec![Lock(m[i]), varied(HOT, 350), Unlock(m[i]), varied(OTHER, 250), Progress]);
                p.thread(&[Repeat(1, round.concat())]);
            }
            p
        },
    ),
    shape("spinlock", 2, "as mutex, with a spinlock", |_| {
        let mut p = Program::new();
        let m = p.mutex(Fairness::Spin);
        for _ in 0..2 {
            p.thread(&[Lock(m), hot(400), Unlock(m), other(300), Progress]);
        }
        p
    }),
    shape(
        "rwlock",
        2,
        "two threads read for 0.2 ms, write for 0.3 ms (the line), do something else for 0.1 ms",
        |_| {
            let mut p = Program::new();
            let l = p.shared();
            for _ in 0..2 {
                p.thread(&[
                    Read(l),
                    other(200),
                    EndRead(l),
                    Write(l),
                    hot(300),
                    EndWrite(l),
                    other(100),
                    Progress,
                ]);
            }
            p
        },
    ),
];

fn locked(threads: usize, inside: u64, outside: u64, fairness: Fairness) -> Program {
    let mut p = Program::new();
    let m = p.mutex(fairness);
    for _ in 0..threads {
        p.thread(&[Lock(m), varied(HOT, inside), Unlock(m), varied(OTHER, outside), Progress]);
    }
    p
}
