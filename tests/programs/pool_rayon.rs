//! Short tasks on a work-stealing pool of two threads: 16 tasks of 0.1 ms a round, 0.06 ms of each in the line.
//! Known answer: 0.6 of the line's own speedup, a little less when tasks get too short for the pool.

mod common;

use std::hint::black_box;

use common::{FACTOR, Options, progress};
use rayon::prelude::*;

#[rustfmt::skip]
fn task(number: u64, a: u64, b: u64) {
    let (mut step, mut state) = (0, number);
    while step < a { state = black_box(state.wrapping_mul(FACTOR).wrapping_add(step)); step += 1; } // COZ: line
    let mut step = 0;
    while step < b { state = black_box(state.wrapping_mul(FACTOR).wrapping_add(step)); step += 1; }
}

fn main() {
    let options = Options::parse();
    let (a, b) = (options.shrunk(60.0), options.steps(40.0));
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().expect("two threads can be made");
    pool.install(|| {
        while !options.finished() {
            (0..16u32).into_par_iter().with_max_len(1).for_each(|number| task(number.into(), a, b));
            progress();
        }
    });
    options.report();
}
