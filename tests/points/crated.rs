//! Instrumented for coz, with the crate `coz`.

use std::hint::black_box;

fn work(n: u64) {
    for i in 0..n {
        black_box(i);
    }
}

fn main() {
    let rounds: u64 = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(100);
    coz::thread_init();
    for _ in 0..rounds {
        coz::begin!("job");
        work(40_000);
        coz::end!("job");
        {
            coz::scope!("scoped");
            work(20_000);
        }
        coz::progress!("step");
    }
    println!("rounds {rounds}");
}
