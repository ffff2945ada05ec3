//! Programs whose answer is known, by name: likenesses of the truth suite's (`tests/programs`), with its figures, and
//! some that it does not have.

mod alone;
mod locks;
mod meeting;
mod queues;

use super::program::{HOT, Op, Program, Span};
use super::{Ns, US};

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

/// All of them.
#[must_use]
pub fn shapes() -> Vec<Shape> {
    [alone::SHAPES, meeting::SHAPES, queues::SHAPES, locks::SHAPES].concat()
}

const fn shape(name: &'static str, cpus: usize, about: &'static str, build: fn(usize) -> Program) -> Shape {
    Shape { name, cpus, cycle: 1, about, build }
}

/// Work on a line that takes the same time each round, but for the percent or two by which any machine differs.
fn work(line: u32, us: u64) -> Op {
    let ns: Ns = us * US;
    Op::Cpu(line, Span::Even(ns * 99 / 100, ns * 101 / 100))
}

fn hot(us: u64) -> Op {
    work(HOT, us)
}

fn other(us: u64) -> Op {
    work(super::program::OTHER, us)
}

/// Work that takes a fifth more or less each time.
fn varied(line: u32, us: u64) -> Op {
    let ns: Ns = us * US;
    Op::Cpu(line, Span::Even(ns * 4 / 5, ns * 6 / 5))
}
