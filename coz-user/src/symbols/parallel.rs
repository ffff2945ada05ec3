//! Work on many things, on all CPUs.

use std::thread;

/// At most so many threads at once: each may need memory of its own.
const MAX_WORKERS: usize = 8;
/// It is not worth a thread for fewer things than this.
const MIN_SHARE: usize = 512;

/// Does the same to all items, in contiguous shares, one a CPU; the results in the order of the items.
pub fn shares<T: Sync, R: Send>(items: &[T], work: impl Fn(&[T]) -> Vec<R> + Sync) -> Vec<R> {
    let workers = thread::available_parallelism().map_or(1, usize::from).min(MAX_WORKERS);
    let size = items.len().div_ceil(workers).max(MIN_SHARE);
    if items.len() <= size {
        return work(items);
    }
    thread::scope(|scope| {
        let started: Vec<_> = items.chunks(size).map(|share| (share, scope.spawn(|| work(share)))).collect();
        let mut results = Vec::with_capacity(items.len());
        for (share, handle) in started {
            // What panicked there does so here, too, where the caller sees it.
            results.extend(handle.join().unwrap_or_else(|_| work(share)));
        }
        results
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_items() {
        for count in [0, 1, MIN_SHARE, 10 * MIN_SHARE + 7] {
            let items: Vec<usize> = (0..count).collect();
            let doubled = shares(&items, |share| share.iter().map(|item| item * 2).collect());
            assert_eq!(doubled, items.iter().map(|item| item * 2).collect::<Vec<_>>());
        }
    }
}
