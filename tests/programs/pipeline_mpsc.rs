//! The pipeline of `pipeline_condvar.c` with a bounded channel of Rust's standard library.
//! Known answer: as there, the producer's line pays until the consumer is the slower one, 38 %.

mod common;

use std::hint::black_box;
use std::sync::mpsc::{SyncSender, sync_channel};

use common::{FACTOR, Options, progress};

#[rustfmt::skip]
fn produce(items: &SyncSender<u64>, work: u64) {
    loop {
        let (mut step, mut state) = (0, 1u64);
        while step < work { state = black_box(state.wrapping_mul(FACTOR).wrapping_add(step)); step += 1; } // COZ: line
        if items.send(state).is_err() { return; }
    }
}

#[rustfmt::skip]
fn consume(item: u64, work: u64) {
    let (mut step, mut state) = (0, item);
    while step < work { state = black_box(state.wrapping_mul(FACTOR).wrapping_add(step)); step += 1; }
    progress();
}

fn main() {
    let options = Options::parse();
    let (sender, items) = sync_channel(16);
    let (made, taken) = (options.shrunk(1000.0), options.steps(620.0));
    let producer = std::thread::spawn(move || produce(&sender, made));
    while !options.finished() {
        consume(items.recv().expect("the producer sends until we hang up"), taken);
    }
    options.report();
    drop(items);
    producer.join().expect("it does not panic");
}
