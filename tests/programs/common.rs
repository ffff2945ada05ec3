//! What the Rust programs with a known answer share; see `common.h` for the same in C.

use std::ffi::{c_char, c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

static ROUNDS: AtomicU64 = AtomicU64::new(0);

/// Multiplier of the work loop (a linear congruential generator's: the value does not matter).
pub const FACTOR: u64 = 6_364_136_223_846_793_005;

/// A round is done. Not inlined, so that it can serve as a progress point by its name.
// SAFETY: no other function of the program has this name.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn progress() {
    ROUNDS.fetch_add(1, Ordering::Relaxed);
    static COUNTER: OnceLock<Option<&'static AtomicUsize>> = OnceLock::new();
    if let Some(counter) = COUNTER.get_or_init(coz_counter) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

// SAFETY: as dlsym(3) declares it.
unsafe extern "C" {
    safe fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// Where coz, when it runs us, counts the visits of a point; it exports a function that finds the place.
fn coz_counter() -> Option<&'static AtomicUsize> {
    type Find = extern "C" fn(throughput: c_int, name: *const c_char) -> *mut AtomicUsize;
    let find = dlsym(std::ptr::null_mut(), c"_coz_get_counter".as_ptr());
    if find.is_null() {
        return None;
    }
    // SAFETY: the function of this name has this type, see coz.h.
    let find = unsafe { std::mem::transmute::<*mut c_void, Find>(find) };
    // SAFETY: it returns null, or a counter that stays for as long as the program runs.
    unsafe { find(1, c"progress".as_ptr()).as_ref() }
}

/// Rounds done so far.
pub fn rounds() -> u64 {
    ROUNDS.load(Ordering::Relaxed)
}

/// How long to run, what to shorten, how fast the machine is.
pub struct Options {
    rounds: Option<u64>,
    seconds: Option<f64>,
    shrink: f64,
    steps_per_us: f64,
    start: Instant,
}

impl Options {
    /// From the command line; ends the program on wrong usage, or after printing the speed on `--calibrate`.
    pub fn parse() -> Self {
        let mut options =
            Self { rounds: None, seconds: None, shrink: 0.0, steps_per_us: 0.0, start: Instant::now() };
        let mut calibrate_only = false;
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            match word.as_str() {
                "--calibrate" => calibrate_only = true,
                "--rounds" => options.rounds = Some(value(words.next()) as u64),
                "--seconds" => options.seconds = Some(value(words.next())),
                "--shrink" => options.shrink = value(words.next()) / 100.0,
                _ => usage(),
            }
        }
        if options.rounds.is_none() && options.seconds.is_none() {
            options.seconds = Some(2.0);
        }
        let given = std::env::var("COZ_STEPS_PER_US").ok().and_then(|speed| speed.parse().ok());
        options.steps_per_us = given.unwrap_or_else(calibrate);
        if calibrate_only {
            println!("{:.3}", options.steps_per_us);
            std::process::exit(0);
        }
        options.start = Instant::now();
        options
    }

    /// Steps that take so many microseconds.
    pub fn steps(&self, us: f64) -> u64 {
        (us * self.steps_per_us) as u64
    }

    /// The same for the line that `--shrink` makes shorter.
    pub fn shrunk(&self, us: f64) -> u64 {
        self.steps(us * (1.0 - self.shrink))
    }

    /// Whether the last round is done.
    pub fn finished(&self) -> bool {
        self.rounds.is_some_and(|most| rounds() >= most)
            || self.seconds.is_some_and(|most| self.start.elapsed().as_secs_f64() >= most)
    }

    /// The last line of output.
    pub fn report(&self) {
        println!("rounds {} ns {}", rounds(), self.start.elapsed().as_nanos());
    }
}

fn value(word: Option<String>) -> f64 {
    word.and_then(|word| word.parse().ok()).unwrap_or_else(|| usage())
}

fn usage() -> ! {
    eprintln!("usage: PROGRAM [--seconds S] [--rounds N] [--shrink PERCENT] [--calibrate]");
    std::process::exit(2)
}

/// Steps a microsecond: the best of a few tries.
fn calibrate() -> f64 {
    let speed = |_| {
        let (start, steps) = (Instant::now(), 1_000_000u64);
        let (mut step, mut state) = (0, 1u64);
        while step < steps {
            state = std::hint::black_box(state.wrapping_mul(FACTOR).wrapping_add(step));
            step += 1;
        }
        steps as f64 / (start.elapsed().as_secs_f64() * 1e6)
    };
    (0..7).map(speed).fold(0.0, f64::max)
}
