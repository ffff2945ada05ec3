//! `mutex.c` with the mutex of `parking_lot`, which spins for a while and then waits on a futex of its own.
//! Known answer: rounds of 0.4, 0.3, 0.25, 0.2, 0.15 ms, as there.

mod common;

use std::hint::black_box;

use common::{FACTOR, Options, progress};
use parking_lot::Mutex;

#[rustfmt::skip]
fn round(lock: &Mutex<u64>, with: u64, without: u64) {
    let mut guard = lock.lock();
    let (mut step, mut state) = (0, *guard);
    while step < with { state = black_box(state.wrapping_mul(FACTOR).wrapping_add(step)); step += 1; } // COZ: line
    *guard = state;
    drop(guard);
    let mut step = 0;
    while step < without { state = black_box(state.wrapping_mul(FACTOR).wrapping_add(step)); step += 1; }
    progress();
}

fn main() {
    let options = Options::parse();
    let lock = Mutex::new(1);
    let (with, without) = (options.shrunk(400.0), options.steps(300.0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !options.finished() {
                    round(&lock, with, without);
                }
            });
        }
    });
    options.report();
}
