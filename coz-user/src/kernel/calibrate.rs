//! What this machine's clock costs: the price of a sample, from which the rate follows, and of a wake-up.

use std::{
    io::{self, Read, Write},
    os::unix::net::UnixStream,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, anyhow};
use coz_common::units::Nanos;

use super::environment::{Whom, software_clock};

/// Sampling is to take about this part of a busy CPU's time. Less would be too coarse for threads that meet at a lock over and over: the effect of a
/// line in a spinlock (truth 37 and 62 %) was seen as 27 and 50 % at 1,499 Hz, as 32 and 57 % at 3,001 and 3,989.
const BUDGET: f64 = 0.025;
/// Rates to choose from, in Hz: primes, so that no program that works in round milliseconds keeps step with us. At 1 kHz
/// such a program would be met in nearly the same place for the whole of an experiment (simulated: 6 points off).
pub const RATES: [u32; 5] = [1499, 1999, 2503, 3001, 3989];
/// Rates that are only come down to, where the load has grown: lines in locks that are taken over and over seem less worth than they are.
pub const LOWER: [u32; 2] = [499, 997];

/// The highest rate of 1.5 to 4 kHz at which sampling takes at most about 2.5 % of a CPU, or a quarter of what everything of ours may
/// take, if that is less; 1.5 kHz where none does.
#[must_use]
pub fn rate_for(cost_of_sample: Nanos, max_overhead: Option<f64>) -> u32 {
    let budget = max_overhead.map_or(BUDGET, |all| BUDGET.min(all / 4.0));
    let affordable = budget / cost_of_sample.as_secs_f64().max(1e-9);
    RATES.into_iter().rev().find(|&rate| f64::from(rate) <= affordable).unwrap_or(RATES[0])
}

/// Rate at which the price of a sample is measured: one of those that are used, for the more there are the less each costs (measured: 6 us at 4 kHz,
/// 10 at 2 kHz).
const TRIAL_RATE: u32 = 2503;
/// So many samples are seen when it is looked again, while sampling goes on.
const AGAIN: u32 = 24;
/// How long a thread looks at the clock to see its samples pass: some 120 of them. The kernel side takes longer to load.
const LOOK: Duration = Duration::from_millis(48);
/// Shorter gaps between two looks at the clock are no interrupts.
const GAP: Nanos = Nanos(500);
/// Longer ones are not either: another thread had the CPU, or another machine.
const SLICE: Nanos = Nanos(100_000);

/// What a thread that does nothing but look at the clock saw: the gaps in its time.
#[derive(Debug, Clone)]
struct Gaps {
    /// All that were longer than half a microsecond.
    lengths: Vec<Nanos>,
    /// CPU time that it had meanwhile.
    had: Duration,
}

/// The price of a sample on this machine now. The clock interrupts this thread for nothing: in a thread of another program,
/// which is what we are, the kernel side does no more than a look-up. So this can be done while that is being loaded.
///
/// # Errors
/// Where the kernel refuses the clock.
pub fn measure_sample() -> Result<Nanos> {
    let clock = software_clock(Whom::Us, 1_000_000_000 / u64::from(TRIAL_RATE), true)
        .map_err(|refusal| anyhow!("cannot sample (perf_event_open of the software clock): {refusal:?}"))?;
    let gaps = look(LOOK);
    drop(clock);
    Ok(sample_cost(TRIAL_RATE, gaps))
}

/// What the interrupts take that come at this rate to every CPU, now: to be compared with what this said before. A rate per second.
#[must_use]
pub fn watch_samples(rate: u32) -> Nanos {
    let rate = rate.max(1);
    sample_cost(rate, look(Duration::from_secs(1) * AGAIN / rate))
}

/// Looks at the clock for so long. Every interrupt shows as a gap, the whole of it: what a virtual machine's host
/// does for it too.
fn look(long: Duration) -> Gaps {
    let mut lengths = Vec::with_capacity(4096);
    let before = cpu_time();
    let start = Instant::now();
    let mut last = start;
    while last.duration_since(start) < long {
        let now = Instant::now();
        let gap = Nanos(now.duration_since(last).as_nanos() as u64);
        if gap > GAP {
            lengths.push(gap);
        }
        last = now;
    }
    Gaps { lengths, had: cpu_time().saturating_sub(before) }
}

/// The price of a sample, from the gaps that a thread saw while it was sampled at this rate. As many of the longest
/// gaps as there were samples are taken for them, and of these the mean of the middle half: other ticks, stolen time
/// and time slices of other programs are either few or at the ends.
fn sample_cost(rate: u32, gaps: Gaps) -> Nanos {
    let Gaps { mut lengths, had } = gaps;
    lengths.retain(|gap| *gap < SLICE);
    lengths.sort_unstable_by(|a, b| b.cmp(a));
    let samples = (had.as_secs_f64() * f64::from(rate)) as usize;
    lengths.truncate(samples.max(1));
    let quarter = lengths.len() / 4;
    let middle = &lengths[quarter..lengths.len() - quarter];
    // None at all: the machine is faster than we can see.
    let sum: u64 = middle.iter().map(|gap| gap.0).sum();
    Nanos(sum.checked_div(middle.len() as u64).unwrap_or(GAP.0))
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
        assert_eq!(rate_for(Nanos(20_000), None), 1499, "a virtual machine whose timer costs 20 us");
        assert_eq!(rate_for(Nanos(10_000), None), 1999);
        assert_eq!(rate_for(Nanos(1_000), None), 3989, "bare metal: never above 4 kHz");
        assert_eq!(rate_for(Nanos(0), None), 3989);
        assert_eq!(rate_for(Nanos(1_000_000), None), 1499, "never below 1.5 kHz");
    }

    #[test]
    fn no_rate_is_in_step_with_a_millisecond() {
        for rate in LOWER.into_iter().chain(RATES) {
            assert!((2..).take_while(|d| d * d <= rate).all(|d| rate % d != 0), "{rate} is prime");
        }
    }

    #[test]
    fn stolen_slices_and_small_gaps_do_not_set_the_price() {
        // 30 ms at 4 kHz: 120 samples, of 10 us; beside them stolen time, and interrupts of other kinds.
        let mut lengths = vec![Nanos(10_000); 120];
        lengths.extend([Nanos(4_000_000); 5]);
        lengths.extend([Nanos(700); 300]);
        let gaps = Gaps { lengths, had: Duration::from_millis(30) };
        assert_eq!(sample_cost(4000, gaps), Nanos(10_000));
    }

    #[test]
    fn half_of_a_cpu_sees_half_of_the_samples() {
        let mut lengths = vec![Nanos(10_000); 60];
        lengths.extend([Nanos(800); 500]);
        let gaps = Gaps { lengths, had: Duration::from_millis(15) };
        assert_eq!(sample_cost(4000, gaps), Nanos(10_000));
    }

    #[test]
    fn on_a_crowded_cpu_time_slices_are_not_taken_for_samples() {
        // 2 ms of CPU time in 30: eight samples, and ten slices of others.
        let mut lengths = vec![Nanos(10_000); 8];
        lengths.extend([Nanos(2_800_000); 10]);
        assert_eq!(sample_cost(4000, Gaps { lengths, had: Duration::from_millis(2) }), Nanos(10_000));
    }

    #[test]
    fn no_gap_is_the_cheapest_price() {
        assert_eq!(sample_cost(4000, Gaps { lengths: Vec::new(), had: LOOK }), GAP);
    }

    #[test]
    fn looking_takes_its_time_and_some_of_it_is_ours() {
        let gaps = look(Duration::from_millis(3));
        assert!(gaps.had > Duration::ZERO && gaps.lengths.iter().all(|&gap| gap > GAP), "{gaps:?}");
    }
}
