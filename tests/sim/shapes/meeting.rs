//! Threads that meet each round.

use super::super::program::Op::{Join, Meet, Progress, Spawn};
use super::super::program::{HOT, OTHER, Program, Waiting};
use super::{Shape, hot, other, shape, varied};

pub const SHAPES: &[Shape] = &[
    shape("barrier", 2, "two threads meet each round, 6.7 ms in the line against 6.4 ms", |_| {
        barrier(6700, 6400, Waiting::Asleep)
    }),
    shape("barrier_short", 2, "the same, a tenth as long", |_| barrier(670, 640, Waiting::Asleep)),
    shape("barrier_create", 2, "both threads are made anew each round and joined", |_| {
        let mut p = Program::new();
        let a = p.script(&[hot(6700)]);
        let b = p.script(&[other(6400)]);
        p.thread(&[Spawn(a), Spawn(b), Join, Progress]);
        p
    }),
    shape("barrier_spin", 2, "a spinning barrier, 1 ms in the line against 0.8 ms", |_| {
        barrier(1000, 800, Waiting::Spinning)
    }),
    shape(
        "barrier_all",
        4,
        "as many threads as CPUs meet each round, 1 ms each, half of it in the line",
        |cpus| {
            let mut p = Program::new();
            let meet = p.barrier(cpus, Waiting::Asleep);
            for thread in 0..cpus {
                let mut ops = vec![varied(HOT, 500), varied(OTHER, 500), Meet(meet)];
                if thread == 0 {
                    ops.push(Progress);
                }
                p.thread(&ops);
            }
            p
        },
    ),
];

fn barrier(a: u64, b: u64, waiting: Waiting) -> Program {
    let mut p = Program::new();
    let meet = p.barrier(2, waiting);
    p.thread(&[hot(a), Meet(meet), Progress]);
    p.thread(&[other(b), Meet(meet)]);
    p
}
