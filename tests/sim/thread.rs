//! A simulated thread.

use std::collections::VecDeque;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::Ns;
use super::handler::Handler;
use super::program::Line;
use super::sync::Id;

/// Never ends by itself.
pub(super) const ENDLESS: Ns = Ns::MAX;

/// What a thread does on its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Runs a line of the program.
    Line(Line),
    /// Runs the kernel, for it.
    Kernel,
    /// Spins for somebody else to do something.
    Spin,
    /// Runs the shim's handler.
    Handler,
}

/// A stretch of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Burst {
    pub left: Ns,
    pub work: Work,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Ready,
    /// On its way to an idle CPU.
    Arriving,
    Running(usize),
    Blocked,
    Dead,
}

#[derive(Debug)]
pub(super) struct Thread {
    pub body: usize,
    pub at: usize,
    /// The kind of the step that it is in, which stands for its place in the code.
    pub site: u64,
    /// How far it is within a step of the script.
    pub stage: u8,
    pub counters: Vec<u64>,
    pub state: State,
    /// What it has to do, last first.
    pub bursts: Vec<Burst>,
    /// Up to when the last of them is accounted.
    pub since: Ns,
    pub handler: Option<Handler>,
    /// Whom it still has to wake.
    pub wakes: VecDeque<Id>,
    /// It was woken before it slept.
    pub permit: bool,
    /// It has slept for the mutex that it is about to take.
    pub slept: bool,
    /// CPU time that counts for its turn.
    pub turn: Ns,
    pub last_cpu: usize,
    /// Tells a timer of now from one of before.
    pub sleeps: u64,
    pub parent: Option<Id>,
    pub children: usize,
    pub joining: bool,
    pub rng: ChaCha8Rng,
}

impl Thread {
    pub fn new(body: usize, counters: usize, parent: Option<Id>, seed: u64) -> Self {
        Self {
            body,
            at: 0,
            site: 0,
            stage: 0,
            counters: vec![0; counters],
            state: State::Blocked,
            bursts: Vec::new(),
            since: 0,
            handler: None,
            wakes: VecDeque::new(),
            permit: false,
            slept: false,
            turn: 0,
            last_cpu: 0,
            sleeps: 0,
            parent,
            children: 0,
            joining: false,
            rng: ChaCha8Rng::seed_from_u64(seed),
        }
    }

    pub fn push(&mut self, work: Work, left: Ns) {
        self.bursts.push(Burst { left, work });
    }

    /// The part of its bursts that belongs to the handler.
    pub fn floor(&self) -> usize {
        self.handler.as_ref().map_or(0, |handler| handler.floor)
    }
}
