//! Threads that share nothing but CPUs and devices.

use super::super::program::Op::{Cpu, Io, Progress, Repeat, Sleep};
use super::super::program::{HOT, OTHER, Program, Span};
use super::super::{MS, US};
use super::{Shape, hot, other, shape, varied};

pub const SHAPES: &[Shape] = &[
    shape("single", 1, "one thread, half of its time in the line", |_| {
        let mut p = Program::new();
        p.thread(&[hot(730), other(730), Progress]);
        p
    }),
    shape("periodic", 1, "rounds of exactly 1 ms, 0.4 ms in the line", |_| {
        let mut p = Program::new();
        p.thread(&[Cpu(HOT, Span::Fixed(400 * US)), Cpu(OTHER, Span::Fixed(600 * US)), Progress]);
        p
    }),
    Shape {
        name: "phased",
        cpus: 1,
        cycle: 40,
        about: "one thread, all of its time in the line for 23 ms, then none for as long",
        build: |_| {
            let mut p = Program::new();
            p.thread(&[Repeat(20, vec![hot(1170), Progress]), Repeat(20, vec![other(1170), Progress])]);
            p
        },
    },
    shape("cpu_sleep", 1, "2 ms in the line, then a timed wait of 3 ms", |_| {
        let mut p = Program::new();
        p.thread(&[hot(2000), Sleep(Span::Fixed(3 * MS)), Progress]);
        p
    }),
    shape("independent", 2, "as many threads as CPUs, half of the time in the line", |cpus| {
        independent(cpus, 430)
    }),
    shape("independent_many", 2, "four times as many threads as CPUs", |cpus| independent(4 * cpus, 430)),
    shape("independent_long", 2, "four times as many, 20 ms at a stretch", |cpus| {
        independent(4 * cpus, 20_000)
    }),
    shape("background", 2, "a useless hot thread on a CPU of its own", background),
    shape("background_same", 1, "a useless hot thread on the same CPU", background),
    shape("io_many", 2, "six threads a CPU: 0.5 ms in the line, 0.5 ms not, then 5 ms of I/O", |cpus| {
        io(6 * cpus)
    }),
    shape("io_few", 2, "four threads a CPU, the same", |cpus| io(4 * cpus)),
    shape("io_disk", 2, "four threads, 0.3 ms in the line, then 0.4 ms at one device", |_| {
        let mut p = Program::new();
        let disk = p.device();
        for _ in 0..4 {
            p.thread(&[varied(HOT, 300), Io(disk, Span::Exponential(400 * US)), Progress]);
        }
        p
    }),
];

fn independent(threads: usize, us: u64) -> Program {
    let mut p = Program::new();
    for _ in 0..threads {
        p.thread(&[hot(us), other(us), Progress]);
    }
    p
}

fn background(_: usize) -> Program {
    let mut p = Program::new();
    p.thread(&[other(970), Progress]);
    p.thread(&[hot(800), other(50)]);
    p
}

fn io(threads: usize) -> Program {
    let mut p = Program::new();
    for _ in 0..threads {
        p.thread(&[varied(HOT, 500), varied(OTHER, 500), Sleep(Span::Exponential(5 * MS)), Progress]);
    }
    p
}
