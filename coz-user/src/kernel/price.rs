//! What a visit of a probe costs on this machine.

use std::{
    fs,
    hint::black_box,
    os::fd::AsFd,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use aya::programs::UProbe;
use coz_common::{point::Code, units::Nanos};

use super::{
    load::{Kernel, program},
    probe::{self, Spot},
};

/// Where it can not be measured.
const USUAL: Nanos = Nanos(1_500);
/// Visits in a series, and series: the quickest series counts, for others were disturbed.
const VISITS: u32 = 50;
const SERIES: usize = 7;

/// What the probe is put on.
#[inline(never)]
extern "C" fn visited(n: u64) -> u64 {
    black_box(n)
}

impl Kernel {
    /// The price of passing a probe, or one at a function's return: measured on a function of our own.
    #[must_use]
    pub fn visit_cost(&mut self, at_return: bool) -> Nanos {
        self.try_visit_cost(at_return).unwrap_or(USUAL)
    }

    fn try_visit_cost(&mut self, at_return: bool) -> Result<Nanos> {
        let offset = offset_of_visited()?;
        let program = program::<&mut UProbe>(&mut self.ebpf, "visit")?;
        let spot = Spot { file: Path::new("/proc/self/exe"), offset, at_return, semaphore: None };
        let file = fs::canonicalize(spot.file)?;
        let without = quickest();
        let link =
            probe::attach(program.fd()?.as_fd(), &Spot { file: &file, ..spot }, Code::visit(0).0.into())?;
        let with = quickest();
        // Taking a probe away waits for all CPUs: it goes with us.
        self.probes.push(link);
        Ok(Nanos((with.saturating_sub(without) / VISITS).as_nanos() as u64))
    }
}

fn quickest() -> Duration {
    let series = || {
        let before = Instant::now();
        for n in 0..VISITS {
            black_box(visited(u64::from(n)));
        }
        before.elapsed()
    };
    (0..SERIES).map(|_| series()).min().unwrap_or_default()
}

/// Where in our own file the function stands.
fn offset_of_visited() -> Result<u64> {
    let address = visited as *const () as u64;
    let maps = fs::read_to_string("/proc/self/maps").context("cannot read /proc/self/maps")?;
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let within = |line: &str| {
        let mut words = line.split_whitespace();
        let (begin, end) = words.next()?.split_once('-')?;
        let (begin, end, offset) = (hex(begin)?, hex(end)?, hex(words.nth(1)?)?);
        (begin..end).contains(&address).then(|| address - begin + offset)
    };
    maps.lines().find_map(within).context("our own code is mapped nowhere")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_function_is_found_in_our_own_file() {
        let offset = offset_of_visited().expect("it is mapped from a file") as usize;
        let file = fs::read("/proc/self/exe").expect("it is readable");
        // SAFETY: the code of a function of this program, at least one byte long.
        let byte = unsafe { *(visited as *const u8) };
        assert_eq!(file.get(offset), Some(&byte));
    }
}
