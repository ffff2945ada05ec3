//! What this machine's clock costs: the price of a sample, from which the rate follows, and of a wake-up.

use std::{
    io::{self, Read, Write},
    os::unix::net::UnixStream,
    thread,
    time::{Duration, Instant},
};

use coz_common::units::Nanos;

/// Sampling is to take about this part of a busy CPU's time.
const BUDGET: f64 = 0.02;
/// Rates to choose from, in Hz: primes, so that no program that works in round milliseconds keeps step with us.
const RATES: [u32; 7] = [997, 1249, 1499, 1999, 2503, 3001, 3989];

/// The highest rate of 1 to 4 kHz at which sampling takes at most about 2 % of a CPU; 1 kHz where none does.
#[must_use]
pub fn rate_for(cost_of_sample: Nanos) -> u32 {
    let affordable = BUDGET / cost_of_sample.as_secs_f64().max(1e-9);
    RATES.into_iter().rev().find(|&rate| f64::from(rate) <= affordable).unwrap_or(RATES[0])
}

/// The price of a sample: how much longer a fixed piece of work takes while it is sampled. `sampled` runs the piece
/// with sampling on, `plain` without; both return its time. The median of interleaved pairs.
pub fn sample_cost(
    rate: u32,
    mut plain: impl FnMut() -> Duration,
    mut sampled: impl FnMut() -> Duration,
) -> Nanos {
    let mut costs: Vec<f64> = (0..7)
        .map(|_| {
            let (without, with) = (plain().as_secs_f64(), sampled().as_secs_f64());
            let samples = with * f64::from(rate);
            ((with - without) / samples.max(1.0)).max(0.0) * 1e9
        })
        .collect();
    costs.sort_by(f64::total_cmp);
    Nanos(costs[costs.len() / 2] as u64)
}

/// A piece of work of a few milliseconds that nothing optimises away; the CPU time it took.
#[must_use]
pub fn work() -> Duration {
    let before = cpu_time();
    let mut x = std::hint::black_box(1u64);
    for _ in 0..2_000_000 {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        std::hint::black_box(x);
    }
    cpu_time().saturating_sub(before)
}

/// CPU time of this thread: what others take away from us does not count.
fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid pointer; the call can not fail for this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// How long a thread that is woken takes to run, on this machine when idle: the median of ping-pongs between two
/// threads, halved. 35 us where it can not be measured.
#[must_use]
pub fn wake_latency() -> Nanos {
    measure_wake().unwrap_or(Nanos(35_000))
}

fn measure_wake() -> io::Result<Nanos> {
    const ROUNDS: usize = 200;
    let (mut here, mut there) = UnixStream::pair()?;
    here.set_read_timeout(Some(Duration::from_secs(1)))?;
    there.set_read_timeout(Some(Duration::from_secs(1)))?;
    let echo = thread::spawn(move || -> io::Result<()> {
        let mut byte = [0];
        for _ in 0..ROUNDS {
            there.read_exact(&mut byte)?;
            there.write_all(&byte)?;
        }
        Ok(())
    });
    let mut trips = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let before = Instant::now();
        here.write_all(&[0])?;
        here.read_exact(&mut [0])?;
        trips.push(before.elapsed());
    }
    echo.join().map_err(|_| io::Error::other("the echo thread failed"))??;
    trips.sort();
    Ok(Nanos(trips[ROUNDS / 2].as_nanos() as u64 / 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_follows_from_the_price() {
        assert_eq!(rate_for(Nanos(20_000)), 997, "a virtual machine whose timer costs 20 us");
        assert_eq!(rate_for(Nanos(10_000)), 1999);
        assert_eq!(rate_for(Nanos(1_000)), 3989, "bare metal: never above 4 kHz");
        assert_eq!(rate_for(Nanos(0)), 3989);
        assert_eq!(rate_for(Nanos(1_000_000)), 997, "never below 1 kHz");
    }

    #[test]
    fn no_rate_is_in_step_with_a_millisecond() {
        for rate in RATES {
            assert!((2..).take_while(|d| d * d <= rate).all(|d| rate % d != 0), "{rate} is prime");
        }
    }

    #[test]
    fn one_stolen_slice_does_not_set_the_price() {
        let mut n = 0;
        let cost = sample_cost(
            4000,
            || Duration::from_millis(10),
            || {
                n += 1;
                if n == 3 { Duration::from_millis(40) } else { Duration::from_micros(10_400) }
            },
        );
        assert!((8_000..12_000).contains(&cost.0), "{cost:?}");
    }
}
