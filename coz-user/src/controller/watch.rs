//! `coz-bpf points --run`: which functions are entered at a pace that makes a good progress point. The program is started, the
//! functions that can serve are counted, some at a time and for a moment each, and the best ones once more, thread by thread.

use std::{
    collections::HashMap,
    ffi::OsString,
    fmt::Write as _,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use aya::util::online_cpus;

use super::{launcher::failure, setup::find_program};
use crate::{
    cli::WatchConfig,
    kernel::{
        counting::{Counter, Whose},
        probe::Spot,
    },
    points::{self, Candidate, Pace},
    symbols::{Module, Scope},
    target::{
        identity::{self, Identity},
        launch::{LaunchSpec, Running, Suspended},
        process,
    },
};

/// So many functions are looked at, those whose names sound like work first.
const MOST: usize = 1024;
/// So many at a time.
const BATCH: usize = 64;
/// For so long.
const GLANCE: Duration = Duration::from_millis(60);
/// So many are counted thread by thread.
const FINALISTS: usize = 16;
/// In so many slices.
const SLICES: usize = 10;
/// Of the threads, so many at most.
const THREADS: usize = 64;
/// So many are shown.
const SHOWN: usize = 10;

/// Runs the program, and says what was seen.
///
/// # Errors
/// When it cannot be started, or the kernel lets nothing be counted.
pub fn run(config: &WatchConfig) -> Result<String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the event loop")?;
    runtime.block_on(watch(config))
}

async fn watch(config: &WatchConfig) -> Result<String> {
    let identity = Identity::resolve(config.user.as_deref())?;
    let mut environment = identity.environment();
    let (typed, program) = find_program(&config.program, &environment, &identity)?;
    let (image, _) =
        program.image().with_context(|| format!("{} is not an ELF program", program.path.display()))?;
    let module = Arc::new(Module::open(image, &Scope::default(), &config.debug_dirs)?);
    let all = points::likely(points::candidates(&module, ""), MOST);
    let spots: Vec<(Candidate, u64)> = all
        .into_iter()
        .filter_map(|candidate| Some((module.elf().file_offset(candidate.address)?, candidate)))
        .map(|(offset, candidate)| (candidate, offset))
        .collect();

    if let Some((_, offset)) = spots.first() {
        may_count(&Spot { file: module.path(), offset: *offset, at_return: false, semaphore: None })?;
    }

    let arguments: Vec<OsString> = config.program[1..].to_vec();
    let (file, argv) = program.command(typed, &arguments);
    identity::name_started(&mut environment, &program.path);
    let suspended =
        Suspended::spawn(&LaunchSpec { file, argv, environment, identity: &identity, inherit: None })
            .map_err(failure)?;
    let mut running = suspended.release().map_err(failure)?;
    let seconds = Duration::from_nanos(config.duration.0);
    let watching = Watching { file: module.path().to_owned(), began: Instant::now(), seconds };
    let seen = watching.look(&running, &spots).await;
    end(&mut running).await;
    let (paces, busy) = seen?;
    Ok(text(&spots, paces, busy))
}

/// Refuses before anything is started where we may not count at all. What this place cannot carry, others can.
fn may_count(spot: &Spot<'_>) -> Result<()> {
    match Counter::new(spot, Whose::Cpu(0)) {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => Err(error).context(
            "the kernel lets nothing be counted (perf_event_open of a uprobe): run it as root; `coz-bpf doctor` shows \
             what is missing",
        ),
        _ => Ok(()),
    }
}

/// The program was started for this only.
async fn end(running: &mut Running) {
    const PATIENCE: Duration = Duration::from_secs(2);
    for signal in [libc::SIGTERM, libc::SIGKILL] {
        if running.try_wait().is_ok_and(|status| status.is_some()) || running.send(signal).is_err() {
            return;
        }
        if tokio::time::timeout(PATIENCE, running.wait()).await.is_ok() {
            return;
        }
    }
}

struct Watching {
    file: std::path::PathBuf,
    began: Instant,
    seconds: Duration,
}

type Seen = (Vec<(usize, Pace)>, usize);

impl Watching {
    /// The paces of those that can serve (by number in `spots`), and how many threads visited any of them.
    async fn look(&self, running: &Running, spots: &[(Candidate, u64)]) -> Result<Seen> {
        // Beginnings are not typical.
        tokio::time::sleep(self.seconds / 6).await;
        let mut rates: Vec<(usize, f64)> = Vec::new();
        let mut refusal = None;
        for batch in (0..spots.len()).collect::<Vec<_>>().chunks(BATCH) {
            if self.began.elapsed() > self.seconds / 2 {
                break;
            }
            rates.extend(self.glance(spots, batch, &mut refusal).await?);
        }
        if let (true, Some(error)) = (rates.is_empty(), refusal) {
            return Err(error)
                .context("the kernel lets nothing be counted (perf_event_open of a uprobe); `coz-bpf doctor` shows what is missing");
        }
        let useful = |rate: f64| Pace { rate, spread: 0.0, threads: 1, busiest: 1.0 };
        rates.retain(|(_, rate)| useful(*rate).is_useful());
        rates.sort_by(|a, b| useful(a.1).penalty(1).total_cmp(&useful(b.1).penalty(1)));
        rates.truncate(FINALISTS);
        let left = self.seconds.saturating_sub(self.began.elapsed()).max(Duration::from_millis(500));
        let threads = process::threads(running.pid())?.unwrap_or_default();
        let finalists: Vec<usize> = rates.iter().map(|(number, _)| *number).collect();
        Ok(self.by_thread(spots, &finalists, &threads, left).await)
    }

    /// How often each of a batch is entered in a moment, per second, on any CPU.
    async fn glance(
        &self,
        spots: &[(Candidate, u64)],
        batch: &[usize],
        refusal: &mut Option<anyhow::Error>,
    ) -> Result<Vec<(usize, f64)>> {
        let cpus = online_cpus().map_err(|(file, error)| anyhow::anyhow!("cannot read {file}: {error}"))?;
        let mut counters: Vec<(usize, Counter)> = Vec::new();
        for &number in batch {
            for &cpu in &cpus {
                match Counter::new(&self.spot(spots[number].1), Whose::Cpu(cpu)) {
                    Ok(counter) => counters.push((number, counter)),
                    // Some instructions cannot carry a probe.
                    Err(error) => drop(refusal.get_or_insert(error.into())),
                }
            }
        }
        let total = |counters: &[(usize, Counter)]| {
            let mut sums: HashMap<usize, u64> = HashMap::new();
            for (number, counter) in counters {
                *sums.entry(*number).or_default() += counter.visits().unwrap_or(0);
            }
            sums
        };
        let (before, began) = (total(&counters), Instant::now());
        tokio::time::sleep(GLANCE).await;
        let (after, seconds) = (total(&counters), began.elapsed().as_secs_f64());
        close(counters.into_iter().map(|(_, counter)| counter).collect());
        Ok(after
            .into_iter()
            .map(|(number, visits)| (number, (visits - before[&number]) as f64 / seconds))
            .collect())
    }

    /// How often the finalists are entered by each thread, slice by slice.
    async fn by_thread(
        &self,
        spots: &[(Candidate, u64)],
        finalists: &[usize],
        threads: &[i32],
        left: Duration,
    ) -> Seen {
        let mut counters: Vec<Vec<Counter>> = Vec::new();
        for &number in finalists {
            let of = |thread: &i32| Counter::new(&self.spot(spots[number].1), Whose::Thread(*thread)).ok();
            counters.push(threads.iter().take(THREADS).filter_map(of).collect());
        }
        let slice = left / SLICES as u32;
        let read = |counter: &Counter| counter.visits().unwrap_or(0);
        let mut last: Vec<Vec<u64>> =
            counters.iter().map(|threads| threads.iter().map(read).collect()).collect();
        let mut counts: Vec<Vec<Vec<u64>>> =
            last.iter().map(|threads| vec![Vec::new(); threads.len()]).collect();
        for _ in 0..SLICES {
            tokio::time::sleep(slice).await;
            for (which, threads) in counters.iter().enumerate() {
                for (thread, counter) in threads.iter().enumerate() {
                    let visits = read(counter);
                    counts[which][thread].push(visits.saturating_sub(last[which][thread]));
                    last[which][thread] = visits;
                }
            }
        }
        close(counters.into_iter().flatten().collect());
        let busy = threads.iter().enumerate().filter(|(thread, _)| {
            counts
                .iter()
                .any(|threads| threads.get(*thread).is_some_and(|slices| slices.iter().any(|n| *n > 0)))
        });
        let busy = busy.count();
        let pace = |(number, counts): (&usize, &Vec<Vec<u64>>)| {
            Some((*number, Pace::of(counts, slice.as_secs_f64())?))
        };
        (finalists.iter().zip(&counts).filter_map(pace).collect(), busy)
    }

    fn spot(&self, offset: u64) -> Spot<'_> {
        Spot { file: &self.file, offset, at_return: false, semaphore: None }
    }
}

/// To take a probe away, the kernel waits until nobody can be in it.
fn close(counters: Vec<Counter>) {
    const AT_ONCE: usize = 32;
    let mut shares: Vec<Vec<Counter>> = (0..AT_ONCE).map(|_| Vec::new()).collect();
    for (number, counter) in counters.into_iter().enumerate() {
        shares[number % AT_ONCE].push(counter);
    }
    std::thread::scope(|scope| {
        for share in shares.into_iter().filter(|share| !share.is_empty()) {
            scope.spawn(move || drop(share));
        }
    });
}

fn text(spots: &[(Candidate, u64)], mut paces: Vec<(usize, Pace)>, busy: usize) -> String {
    paces.retain(|(_, pace)| pace.is_useful());
    paces.sort_by(|a, b| a.1.penalty(busy).total_cmp(&b.1.penalty(busy)));
    if paces.is_empty() {
        return "no function in scope is entered between 2 and 100,000 times a second; a longer run (-d), or one with work to \
                do, may show some\n"
            .to_owned();
    }
    let mut out = format!("{:>9}  {:>6}  {:>7}  point\n", "visits/s", "spread", "threads");
    for (number, pace) in paces.iter().take(SHOWN) {
        let spread = format!("±{:.0} %", pace.spread * 100.0);
        // Writing to a String can not fail.
        let _ =
            writeln!(out, "{:>9.0}  {spread:>6}  {:>7}  {}", pace.rate, pace.threads, spots[*number].0.spec);
    }
    out
}
