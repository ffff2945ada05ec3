//! A small job server, for the demonstration: a program with a bottleneck and a decoy.
//!
//! Clients hand in documents, two workers check them, one journal thread writes down each result and waits
//! for its "disk". An ordinary profiler ranks the workers' line first: it uses the most CPU time. Yet the workers wait
//! for the journal most of their time, and to make them faster changes nothing.
//!
//! | line | CPU time a job | share of samples | what making it 25 / 50 / 100 % faster gives |
//! | --- | --- | --- | --- |
//! | `check`, in the workers: the decoy | 550 us | about 58 % | 0 / 0 / 0 % |
//! | `encode`, in the journal: the bottleneck | 400 us | about 42 % | 12 / 25 / 47 % |
//!
//! A job takes the journal 400 us of work and 400 us of waiting for the disk; nothing of this depends on the number
//! of CPUs, as long as there are at least two.

mod common;

use std::hint::black_box;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use common::{FACTOR, Options, progress};

const WORKERS: usize = 2;
const CHECK_US: f64 = 550.0;
const ENCODE_US: f64 = 400.0;
const DISK: Duration = Duration::from_micros(400);

struct Job {
    number: u64,
}

struct Outcome {
    number: u64,
    checksum: u64,
}

/// A worker's part of a job.
#[rustfmt::skip]
fn check(job: &Job, steps: u64) -> u64 {
    let (mut step, mut state) = (0, job.number);
    while step < steps { state = black_box(state.wrapping_mul(FACTOR).wrapping_add(step)); step += 1; } // COZ: decoy
    state
}

/// The journal's part of a job.
#[rustfmt::skip]
fn encode(outcome: &Outcome, steps: u64) -> u64 {
    let (mut step, mut state) = (0, outcome.checksum);
    while step < steps { state = black_box(state.wrapping_mul(FACTOR).wrapping_add(step)); step += 1; } // COZ: line
    state ^ outcome.number
}

fn accept(jobs: &SyncSender<Job>) {
    let mut number = 0;
    while jobs.send(Job { number }).is_ok() {
        number += 1;
    }
}

fn work(jobs: &Mutex<Receiver<Job>>, outcomes: &SyncSender<Outcome>, steps: u64) {
    loop {
        let job = jobs.lock().expect("no thread panics").recv();
        let Ok(job) = job else { return };
        let checksum = check(&job, steps);
        if outcomes.send(Outcome { number: job.number, checksum }).is_err() {
            return;
        }
    }
}

fn write_journal(outcomes: Receiver<Outcome>, options: &Options) {
    let steps = options.shrunk(ENCODE_US);
    let mut last = 0;
    while !options.finished() {
        let Ok(outcome) = outcomes.recv() else { break };
        last = encode(&outcome, steps);
        std::thread::sleep(DISK);
        progress();
    }
    black_box(last);
}

fn main() {
    let options = Options::parse();
    let (to_workers, jobs) = sync_channel(8);
    let (to_journal, outcomes) = sync_channel(8);
    let jobs = Mutex::new(jobs);
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            let to_journal = to_journal.clone();
            let (jobs, steps) = (&jobs, options.steps(CHECK_US));
            scope.spawn(move || work(jobs, &to_journal, steps));
        }
        scope.spawn(move || accept(&to_workers));
        write_journal(outcomes, &options);
        options.report();
        // Whoever is still asleep on a queue is let go by the end of the process.
        std::process::exit(0);
    });
}
