//! The pipeline of `pipeline_condvar.c` with Rust's own `Mutex` and `Condvar`, which wait on futexes directly.
//! Known answer: as there, the producer's line pays until the consumer is the slower one, 38 %.

mod common;

use std::hint::black_box;
use std::sync::{Condvar, Mutex};

use common::{FACTOR, Options, progress};

const CAPACITY: usize = 16;

struct Queue {
    state: Mutex<State>,
    filled: Condvar,
    emptied: Condvar,
}

struct State {
    waiting: usize,
    stop: bool,
}

#[rustfmt::skip]
fn produce(queue: &Queue, work: u64) {
    loop {
        let (mut step, mut state) = (0, 1u64);
        while step < work { state = black_box(state.wrapping_mul(FACTOR).wrapping_add(step)); step += 1; } // COZ: line
        let full = |state: &mut State| state.waiting == CAPACITY && !state.stop;
        let guard = queue.state.lock().expect("no thread panics");
        let mut guard = queue.emptied.wait_while(guard, full).expect("no thread panics");
        if guard.stop { return; }
        guard.waiting += 1;
        drop(guard);
        queue.filled.notify_one();
    }
}

#[rustfmt::skip]
fn consume(queue: &Queue, work: u64) {
    let guard = queue.state.lock().expect("no thread panics");
    let mut guard = queue.filled.wait_while(guard, |state| state.waiting == 0).expect("no thread panics");
    guard.waiting -= 1;
    drop(guard);
    queue.emptied.notify_one();
    let (mut step, mut state) = (0, 1u64);
    while step < work { state = black_box(state.wrapping_mul(FACTOR).wrapping_add(step)); step += 1; }
    progress();
}

fn main() {
    let options = Options::parse();
    let queue = Queue {
        state: Mutex::new(State { waiting: 0, stop: false }),
        filled: Condvar::new(),
        emptied: Condvar::new(),
    };
    std::thread::scope(|scope| {
        scope.spawn(|| produce(&queue, options.shrunk(1000.0)));
        while !options.finished() {
            consume(&queue, options.steps(620.0));
        }
        options.report();
        queue.state.lock().expect("no thread panics").stop = true;
        queue.emptied.notify_one();
    });
}
