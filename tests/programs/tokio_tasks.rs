//! Eight tasks on a tokio runtime of two workers, which yield after each piece of 0.2 ms, half of it in the line.
//! Known answer: half of the line's own speedup.

mod common;

use std::hint::black_box;
use std::sync::Arc;

use common::{FACTOR, Options, progress};

#[rustfmt::skip]
fn piece(a: u64, b: u64) {
    let (mut step, mut state) = (0, 1u64);
    while step < a { state = black_box(state.wrapping_mul(FACTOR).wrapping_add(step)); step += 1; } // COZ: line
    let mut step = 0;
    while step < b { state = black_box(state.wrapping_mul(FACTOR).wrapping_add(step)); step += 1; }
    progress();
}

fn main() {
    let options = Arc::new(Options::parse());
    let (a, b) = (options.shrunk(100.0), options.steps(100.0));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build();
    runtime.expect("two threads can be made").block_on(async {
        let spawn = |_| {
            let options = Arc::clone(&options);
            tokio::spawn(async move {
                while !options.finished() {
                    piece(a, b);
                    tokio::task::yield_now().await;
                }
            })
        };
        for task in (0..8).map(spawn).collect::<Vec<_>>() {
            task.await.expect("no task panics");
        }
    });
    options.report();
}
