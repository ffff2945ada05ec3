//! As `library_time.c`, in Rust.

use std::fs::File;
use std::hint::black_box;
use std::io::Read as _;

const SIZE: usize = 1 << 16;

#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn progress() {
    black_box(());
}

#[inline(never)]
fn copy(rounds: usize, from: &[u8], to: &mut [u8]) {
    for i in 0..rounds { let n = SIZE - i % 64; to[..n].copy_from_slice(black_box(&from[..n])); black_box(&mut *to); } // PART: copy
}

#[inline(never)]
fn heap(rounds: usize) {
    for i in 0..rounds { drop(black_box(Vec::<u8>::with_capacity(black_box(100 + i % 5000)))); } // PART: heap
}

#[inline(never)]
fn read(rounds: usize, zero: &mut File, to: &mut [u8]) {
    for _ in 0..rounds { zero.read_exact(&mut to[..SIZE / 2]).expect("it has no end"); } // PART: read
}

/// CPU time of this thread, nanoseconds.
fn cpu() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("it is there");
    text.split(' ').next().and_then(|word| word.parse().ok()).expect("a number")
}

fn main() {
    let seconds: f64 = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(1.0);
    let (from, mut to) = (vec![1; SIZE], vec![0; SIZE]);
    let mut zero = File::open("/dev/zero").expect("it is there");
    let mut spent = [0.0; 3];
    let begin = cpu();
    let mut last = begin;
    while last - begin < seconds * 1e9 {
        for (part, spent) in spent.iter_mut().enumerate() {
            match part {
                0 => copy(16_000, &from, &mut to),
                1 => heap(1_000_000),
                _ => read(16_000, &mut zero, &mut to),
            }
            let now = cpu();
            *spent += now - last;
            last = now;
        }
        progress();
    }
    for (name, spent) in ["copy", "heap", "read"].iter().zip(spent) {
        println!("{name} {spent:.0}");
    }
}
