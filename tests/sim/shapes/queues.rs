//! Threads that hand items on.

use super::super::MS;
use super::super::program::Op::{Get, Progress, Put, Receive, Send, Sleep};
use super::super::program::{HOT, Program, Span};
use super::{Shape, hot, other, shape, varied};

pub const SHAPES: &[Shape] = &[
    shape(
        "pipeline",
        2,
        "producer (the line, 1 ms) and consumer (0.62 ms), mutex and condition variables",
        |_| pipeline(16, 1000, 620),
    ),
    shape("pipeline_deep", 2, "the same with a queue of 256 items (`--settle 480`)", |_| {
        pipeline(256, 1000, 620)
    }),
    shape("pipeline_short", 2, "the same with items of a tenth", |_| pipeline(16, 100, 62)),
    shape("pipeline_pipe", 2, "the same as pipeline through the kernel's queue", |_| {
        let mut p = Program::new();
        let q = p.pipe(16);
        p.thread(&[hot(1000), Send(q)]);
        p.thread(&[Receive(q), other(620), Progress]);
        p
    }),
    shape("consumers", 2, "one producer (0.3 ms), three consumers (the line, 0.7 ms)", |_| {
        let mut p = Program::new();
        let q = p.queue(16);
        p.thread(&[other(300), Put(q)]);
        for _ in 0..3 {
            p.thread(&[Get(q), varied(HOT, 700), Progress]);
        }
        p
    }),
    shape("ferret", 2, "four stages, five threads: 0.1, 2 x 0.15, 1 (the line), 0.1 ms", |_| {
        let mut p = Program::new();
        let (loaded, cut, ranked) = (p.queue(16), p.queue(16), p.queue(16));
        p.thread(&[other(100), Put(loaded)]);
        for _ in 0..2 {
            p.thread(&[Get(loaded), other(150), Put(cut)]);
        }
        p.thread(&[Get(cut), hot(1000), Put(ranked)]);
        p.thread(&[Get(ranked), other(100), Progress]);
        p
    }),
    shape("io_bound", 2, "a CPU thread (the line, 0.5 ms) feeds one that waits 1 ms for a device", |_| {
        let mut p = Program::new();
        let q = p.queue(8);
        p.thread(&[hot(500), Put(q)]);
        p.thread(&[Get(q), other(5), Sleep(Span::Fixed(MS)), Progress]);
        p
    }),
    shape("token", 3, "two threads hand a token to and fro, beside a useless hot thread", |_| {
        let mut p = Program::new();
        p.thread(&[hot(1000), other(100)]);
        let (there, back) = (p.pipe(1), p.pipe(1));
        p.thread(&[other(200), Send(there), Receive(back), Progress]);
        p.thread(&[Receive(there), other(200), Send(back)]);
        p
    }),
];

fn pipeline(capacity: usize, make: u64, take: u64) -> Program {
    let mut p = Program::new();
    let q = p.queue(capacity);
    p.thread(&[hot(make), Put(q)]);
    p.thread(&[Get(q), other(take), Progress]);
    p
}
