// Iterators of the standard library, inlined into the user's function.
use std::hint::black_box;

mod engine {
    #[inline(never)]
    pub fn sum_squares(values: &[u64]) -> u64 {
        values
            .iter() // line: iter
            .map(|v| v.wrapping_mul(*v)) // line: square
            .filter(|v| v % 3 != 1) // line: filter
            .fold(0, u64::wrapping_add) // line: fold
    }

    pub struct Job(pub u64);

    pub trait Run {
        fn run(&self) -> u64;
    }

    impl Run for Job {
        #[inline(never)]
        fn run(&self) -> u64 {
            self.0.rotate_left(3) ^ 5
        }
    }

    #[inline(never)]
    pub fn generic<T: Into<u64> + Copy>(value: T) -> u64 {
        value.into().wrapping_mul(7)
    }
}

fn main() {
    use engine::Run;
    let values: Vec<u64> = (0..black_box(10_000)).collect();
    let mut total = 0u64;
    for _ in 0..black_box(10) {
        total = total.wrapping_add(engine::sum_squares(black_box(&values)));
    }
    total ^= engine::Job(total).run() ^ engine::generic(black_box(3u32)) ^ engine::generic(black_box(9u8));
    println!("{total}");
}
