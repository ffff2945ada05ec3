//! A small job server, for the demonstration: a program with a bottleneck and a decoy.
//!
//! Clients hand in jobs, one serving thread decodes each and encodes its answer; it is busy all the time, and what it
//! does is what clients wait for. Beside it an auditor goes over the books again and again on a CPU of its own: it
//! uses more CPU time on one line than anything else, nobody waits for it, and an ordinary profiler ranks it first.
//!
//! | line | thread | CPU | what making it 25 / 50 / 100 % faster gives |
//! | --- | --- | --- | --- |
//! | in `audit`: the decoy | the auditor, 87 % of a CPU | about 47 % of all samples | 0 / 0 / 0 % |
//! | in `encode`: the bottleneck | the server, 60 % of its time | about 32 % | 15 / 30 / 60 % |
//! | in `decode` | the server, 40 % of its time | about 21 % | 10 / 20 / 40 % |
//!
//! All threads together use less than two CPUs: on a machine with two nobody waits for one, and threads that wait
//! for a CPU are what causal profiling answers badly.

mod common;

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use common::{FACTOR, Options, progress};

const DECODE_US: f64 = 400.0;
const ENCODE_US: f64 = 600.0;
/// The auditor works so long and sleeps so long, in turn: 87 % of a CPU.
const AUDIT_US: f64 = 4000.0;
const AUDIT_PAUSE: Duration = Duration::from_micros(600);
/// Jobs that wait at most; clients are let in by the batch, so that they cost next to nothing.
const WAITING: usize = 64;

static BOOKS: AtomicU64 = AtomicU64::new(0);

struct Job {
    number: u64,
}

#[rustfmt::skip]
fn decode(job: &Job, steps: u64) -> u64 {
    let (mut step, mut state) = (0, job.number);
    while step < steps { state = black_box(state.wrapping_mul(FACTOR).wrapping_add(step)); step += 1; } // COZ: other
    state
}

#[rustfmt::skip]
fn encode(result: u64, steps: u64) -> u64 {
    let (mut step, mut state) = (0, result);
    while step < steps { state = black_box(state.wrapping_mul(FACTOR).wrapping_add(step)); step += 1; } // COZ: line
    state
}

#[rustfmt::skip]
fn audit(entry: u64, steps: u64) -> u64 {
    let (mut step, mut state) = (0, entry);
    while step < steps { state = black_box(state.wrapping_mul(FACTOR).wrapping_add(step)); step += 1; } // COZ: decoy
    state
}

fn clients(jobs: &SyncSender<Vec<Job>>) {
    let mut number = 0;
    loop {
        let batch = (number..number + WAITING as u64 / 2).map(|number| Job { number }).collect();
        if jobs.send(batch).is_err() {
            return;
        }
        number += WAITING as u64 / 2;
    }
}

fn auditor(steps: u64) -> ! {
    loop {
        black_box(audit(BOOKS.load(Ordering::Relaxed), steps));
        std::thread::sleep(AUDIT_PAUSE);
    }
}

fn serve(jobs: &Receiver<Vec<Job>>, options: &Options) {
    let (decoding, encoding) = (options.steps(DECODE_US), options.shrunk(ENCODE_US));
    for batch in jobs {
        for job in batch {
            if options.finished() {
                return;
            }
            let answer = encode(decode(&job, decoding), encoding);
            BOOKS.fetch_xor(answer, Ordering::Relaxed);
            progress();
        }
    }
}

fn main() {
    let options = Options::parse();
    let (to_server, jobs) = sync_channel(2);
    std::thread::scope(|scope| {
        scope.spawn(move || clients(&to_server));
        let steps = options.steps(AUDIT_US);
        scope.spawn(move || auditor(steps));
        serve(&jobs, &options);
        options.report();
        // The auditor, and the clients asleep on their queue, are let go by the end of the process.
        std::process::exit(0);
    });
}
