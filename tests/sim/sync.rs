//! What threads wait for.

use std::collections::VecDeque;

use super::Ns;
use super::program::{Fairness, Waiting};

/// Number of a thread.
pub(super) type Id = usize;

#[derive(Debug)]
pub(super) struct Mutex {
    pub fairness: Fairness,
    pub owner: Option<Id>,
    /// Some thread has slept on it since it was last free: unlocking must look for sleepers.
    pub contended: bool,
    pub sleepers: VecDeque<Id>,
    pub spinners: Vec<Id>,
}

/// A reader-writer lock.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub readers: usize,
    pub written: bool,
    pub want_read: VecDeque<Id>,
    pub want_write: VecDeque<Id>,
}

#[derive(Debug)]
pub(super) struct Barrier {
    pub size: usize,
    pub waiting: Waiting,
    pub arrived: usize,
    pub round: u64,
    pub waiters: Vec<Id>,
}

#[derive(Debug)]
pub(super) struct Queue {
    pub places: usize,
    pub mutex: usize,
    pub items: usize,
    pub want_room: VecDeque<Id>,
    pub want_item: VecDeque<Id>,
}

#[derive(Debug)]
pub(super) struct Pipe {
    pub places: usize,
    pub items: usize,
    pub want_room: VecDeque<Id>,
    pub want_item: VecDeque<Id>,
}

#[derive(Debug)]
pub(super) struct Sync {
    pub mutexes: Vec<Mutex>,
    pub shared: Vec<Shared>,
    pub barriers: Vec<Barrier>,
    pub queues: Vec<Queue>,
    pub pipes: Vec<Pipe>,
    /// When each device has done all that was asked of it.
    pub devices: Vec<Ns>,
}

impl Sync {
    pub fn of(program: &super::program::Program) -> Self {
        Self {
            mutexes: program
                .mutexes
                .iter()
                .map(|&fairness| Mutex {
                    fairness,
                    owner: None,
                    contended: false,
                    sleepers: VecDeque::new(),
                    spinners: Vec::new(),
                })
                .collect(),
            shared: (0..program.shared).map(|_| Shared::default()).collect(),
            barriers: program
                .barriers
                .iter()
                .map(|&(size, waiting)| Barrier { size, waiting, arrived: 0, round: 0, waiters: Vec::new() })
                .collect(),
            queues: program
                .queues
                .iter()
                .map(|&(places, mutex)| Queue {
                    places,
                    mutex,
                    items: 0,
                    want_room: VecDeque::new(),
                    want_item: VecDeque::new(),
                })
                .collect(),
            pipes: program
                .pipes
                .iter()
                .map(|&places| Pipe {
                    places,
                    items: 0,
                    want_room: VecDeque::new(),
                    want_item: VecDeque::new(),
                })
                .collect(),
            devices: vec![0; program.devices],
        }
    }
}
