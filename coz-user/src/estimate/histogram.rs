//! Log-linear histograms of latencies: what share was shorter than what.

use coz_common::latency::bucket_begin;

/// The value below which a share `q` (0.0 to 1.0) of what was counted lies, nanoseconds; `None` of nothing. `counted`: bucket
/// and number, ascending. Within a bucket values are taken to lie evenly: it is 3 % wide.
#[must_use]
pub fn quantile(counted: &[(u32, u64)], q: f64) -> Option<f64> {
    let total: u64 = counted.iter().map(|(_, n)| n).sum();
    quantile_of(counted.iter().map(|&(bucket, n)| (bucket, n as f64)), total as f64, q)
}

/// The same of weights, whose sum is `total`.
#[must_use]
pub fn quantile_of(counted: impl Iterator<Item = (u32, f64)>, total: f64, q: f64) -> Option<f64> {
    let wanted = total * q.clamp(0.0, 1.0);
    let mut below = 0.0;
    let mut last = None;
    for (bucket, n) in counted.filter(|(_, n)| *n > 0.0) {
        let (begin, end) = (bucket_begin(bucket) as f64, bucket_begin(bucket + 1) as f64);
        if below + n >= wanted {
            return Some(begin + (end - begin) * ((wanted - below) / n).clamp(0.0, 1.0));
        }
        below += n;
        last = Some(end);
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;
    use coz_common::latency::bucket;

    fn counted(values: impl Iterator<Item = u64>) -> Vec<(u32, u64)> {
        let mut all = std::collections::BTreeMap::new();
        values.for_each(|value| *all.entry(bucket(value)).or_insert(0) += 1);
        all.into_iter().collect()
    }

    #[test]
    fn quantiles_are_within_a_bucket_of_the_true_ones() {
        let counted = counted((1..=10_000).map(|i| i * 1_000));
        for (q, value) in [(0.5, 5e6), (0.99, 9.9e6), (0.0, 1e3), (1.0, 1e7)] {
            let found = quantile(&counted, q).unwrap();
            assert!((found / value - 1.0).abs() < 0.032, "{q}: {found} for {value}");
        }
    }

    #[test]
    fn of_nothing_there_is_none() {
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!(quantile(&[(3, 0)], 0.5), None);
    }
}
