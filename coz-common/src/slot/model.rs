//! Model checks: every interleaving (up to a bound on preemptions) of a thread's handler with a kernel side that
//! interrupts it between any two of its accesses, and of a reader on another CPU.

use loom::sync::atomic::{AtomicU32, AtomicU64};
use loom::sync::{Arc, Mutex};
use loom::thread;

use super::*;

fn check(test: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(test);
}

fn tagged(epoch: u32, delay: u64) -> u64 {
    u64::from(epoch) << DELAY_BITS | delay
}

/// Everything, as one CPU sees it. The kernel side changes it while the thread is interrupted: as a whole.
#[derive(Default)]
struct State {
    epoch: u32,
    state: u32,
    deadline: u64,
    /// With its epoch's tag.
    required: u64,
    slot_epoch: u32,
    local: u64,
    credit: u64,
    paid_seen: u64,
    sent: u32,
    sent_at: u64,
    pay_wait: u64,
    paid: u64,
    acked: u32,
    paying: u32,
    ended_at: u64,
    clock: u64,
    /// Signals sent and not yet taken.
    queued: u32,
    /// The most that was truly owed since the reading began.
    most_owed: u64,
    /// What went into clocks of epochs that are over.
    buried: u64,
}

impl State {
    fn delay(&self) -> u64 {
        required_in(self.required, self.epoch).unwrap()
    }

    fn owed(&self) -> u64 {
        let absorbed = self.local + self.credit + (self.paid - self.paid_seen);
        if self.slot_epoch == self.epoch { self.delay().saturating_sub(absorbed) } else { 0 }
    }

    fn fold(&mut self) {
        let total = self.local + self.credit + (self.paid - self.paid_seen);
        self.local = total.min(self.delay()).max(self.local);
        self.credit = total - self.local;
        self.paid_seen = self.paid;
    }

    fn hit_elsewhere(&mut self, delay: u64) {
        self.required += delay;
    }

    fn sample(&mut self) {
        self.fold();
        if may_send(self.sent, self.acked) && self.owed() > 0 {
            self.sent += 1;
            self.sent_at = self.clock;
            self.queued += 1;
            assert!(self.queued <= 1, "a second signal while one is pending");
        }
    }

    fn next_epoch(&mut self) {
        self.fold();
        self.epoch += 1;
        self.required = tagged(self.epoch, 0);
        self.buried += self.local + self.credit;
        (self.slot_epoch, self.local, self.credit, self.paid_seen) = (self.epoch, 0, 0, self.paid);
    }
}

type Shared = Arc<Mutex<State>>;

/// One field of the state; each access is a moment at which the thread can be interrupted.
struct Field<T>(Shared, fn(&mut State) -> &mut T);

impl<T: Copy + PartialEq> Word<T> for Field<T> {
    fn get(&self, _: Ordering) -> T {
        *(self.1)(&mut self.0.lock().unwrap())
    }
    fn set(&self, value: T, _: Ordering) {
        let mut state = self.0.lock().unwrap();
        *(self.1)(&mut state) = value;
        state.most_owed = state.most_owed.max(state.owed());
    }
    fn replace(&self, _: T, _: T) -> bool {
        unreachable!("counters are modelled apart")
    }
}

struct Interrupted;
impl Atomics for Interrupted {
    type U32 = Field<u32>;
    type U64 = Field<u64>;
    fn fence() {}
}

/// The fields as the shim sees them.
struct Fields {
    epoch: Field<u32>,
    state: Field<u32>,
    deadline: Field<u64>,
    required: Field<u64>,
    slot_epoch: Field<u32>,
    local: Field<u64>,
    credit: Field<u64>,
    paid_seen: Field<u64>,
    sent: Field<u32>,
    sent_at: Field<u64>,
    pay_wait: Field<u64>,
    paid: Field<u64>,
    acked: Field<u32>,
    paying: Field<u32>,
    ended_at: Field<u64>,
}

impl Fields {
    fn of(s: &Shared) -> Self {
        let s = || Arc::clone(s);
        // Nobody changes these: a state of their own gives the checker nothing to interleave.
        let fixed = State { state: STATE_RUNNING, deadline: u64::MAX, ..State::default() };
        let fixed = Arc::new(Mutex::new(fixed));
        Self {
            epoch: Field(s(), |s| &mut s.epoch),
            state: Field(Arc::clone(&fixed), |s| &mut s.state),
            deadline: Field(fixed, |s| &mut s.deadline),
            required: Field(s(), |s| &mut s.required),
            slot_epoch: Field(s(), |s| &mut s.slot_epoch),
            local: Field(s(), |s| &mut s.local),
            credit: Field(s(), |s| &mut s.credit),
            paid_seen: Field(s(), |s| &mut s.paid_seen),
            sent: Field(s(), |s| &mut s.sent),
            sent_at: Field(s(), |s| &mut s.sent_at),
            pay_wait: Field(s(), |s| &mut s.pay_wait),
            paid: Field(s(), |s| &mut s.paid),
            acked: Field(s(), |s| &mut s.acked),
            paying: Field(s(), |s| &mut s.paying),
            ended_at: Field(s(), |s| &mut s.ended_at),
        }
    }

    fn page(&self) -> PageWords<'_, Interrupted> {
        PageWords {
            epoch: &self.epoch,
            state: &self.state,
            deadline: &self.deadline,
            required: &self.required,
        }
    }

    fn kernel(&self) -> KernelWords<'_, Interrupted> {
        KernelWords {
            epoch: &self.slot_epoch,
            local: &self.local,
            credit: &self.credit,
            paid_seen: &self.paid_seen,
            sent: &self.sent,
            sent_at: &self.sent_at,
            pay_wait: &self.pay_wait,
        }
    }

    fn target(&self) -> TargetWords<'_, Interrupted> {
        TargetWords { paid: &self.paid, acked: &self.acked, paying: &self.paying, ended_at: &self.ended_at }
    }
}

/// The shim's side: takes a signal if there is one, and pays as `pay.rs` does, in steps of virtual time.
fn handle(shared: &Shared) -> u64 {
    {
        let mut state = shared.lock().unwrap();
        if state.queued == 0 {
            return 0;
        }
        state.queued -= 1;
    }
    let fields = Fields::of(shared);
    let (page, kernel, target) = (fields.page(), fields.kernel(), fields.target());
    let now = || Nanos(shared.lock().unwrap().clock);
    let begun = now();
    let mut payment = Payment::begin(&kernel, &target, true, now);
    loop {
        payment.publish(&kernel, &target, now());
        {
            let mut state = shared.lock().unwrap();
            state.most_owed = state.owed();
        }
        let owed = payment.remaining(&page, &kernel, &target, Nanos(0)).0;
        let mut state = shared.lock().unwrap();
        assert!(owed <= state.most_owed, "{owed} read, {} owed at most", state.most_owed);
        if owed == 0 {
            break;
        }
        state.clock += owed;
    }
    let spent = now().since(begun).0;
    payment.answer(&target, now());
    spent
}

/// Runs `interrupts`, one at a time, between whatever two steps of a handler that is run twice.
fn interrupted(interrupts: &'static [fn(&mut State)]) -> (State, u64) {
    let start = State { epoch: 1, slot_epoch: 1, required: tagged(1, 4), ..State::default() };
    let shared: Shared = Arc::new(Mutex::new(start));
    shared.lock().unwrap().sample();
    let kernel = {
        let shared = Arc::clone(&shared);
        thread::spawn(move || {
            for interrupt in interrupts {
                let mut state = shared.lock().unwrap();
                interrupt(&mut state);
                state.most_owed = state.most_owed.max(state.owed());
            }
        })
    };
    let mut spent = handle(&shared);
    spent += handle(&shared);
    kernel.join().unwrap();
    spent += handle(&shared);
    // What came too late for the last answer is asked for by the next sample.
    shared.lock().unwrap().sample();
    spent += handle(&shared);
    let mut state = shared.lock().unwrap();
    state.fold();
    (std::mem::take(&mut state), spent)
}

#[test]
fn every_payment_counts_once() {
    check(|| {
        let (state, spent) = interrupted(&[
            |s| {
                s.hit_elsewhere(3);
                s.sample();
            },
            State::fold,
            State::sample,
        ]);
        assert_eq!(state.local + state.credit, spent, "what was spent is what is credited");
        assert!(state.local <= state.delay());
        assert_eq!(state.owed(), 0, "and everything is paid");
        assert_eq!((state.paying, state.acked), (0, state.sent), "every signal is answered");
    });
}

#[test]
fn a_new_epoch_begins_with_nothing_and_nothing_counts_twice() {
    check(|| {
        let (state, spent) = interrupted(&[State::next_epoch, |s| {
            s.hit_elsewhere(2);
            s.sample();
        }]);
        // What was spent for the old epoch and not yet published when it ended may be dropped.
        assert!(state.buried + state.local + state.credit <= spent);
        assert_eq!((state.paying, state.acked), (0, state.sent), "every signal is answered");
    });
}

/// The words as they are, with the memory model's liberties.
struct Weak;
impl Atomics for Weak {
    type U32 = AtomicU32;
    type U64 = AtomicU64;
    fn fence() {
        loom::sync::atomic::fence(Ordering::SeqCst);
    }
}

macro_rules! word {
    ($atomic:ty, $value:ty) => {
        impl Word<$value> for $atomic {
            fn get(&self, order: Ordering) -> $value {
                self.load(order)
            }
            fn set(&self, value: $value, order: Ordering) {
                self.store(value, order);
            }
            fn replace(&self, old: $value, new: $value) -> bool {
                self.compare_exchange(old, new, Ordering::AcqRel, Relaxed).is_ok()
            }
        }
    };
}
word!(AtomicU32, u32);
word!(AtomicU64, u64);

#[derive(Default)]
struct Raw {
    epoch: AtomicU32,
    state: AtomicU32,
    deadline: AtomicU64,
    required: AtomicU64,
    slot_epoch: AtomicU32,
    local: AtomicU64,
    credit: AtomicU64,
    paid_seen: AtomicU64,
    sent: AtomicU32,
    sent_at: AtomicU64,
    pay_wait: AtomicU64,
    paid: AtomicU64,
    acked: AtomicU32,
    paying: AtomicU32,
    ended_at: AtomicU64,
}

impl Raw {
    fn kernel(&self) -> KernelWords<'_, Weak> {
        KernelWords {
            epoch: &self.slot_epoch,
            local: &self.local,
            credit: &self.credit,
            paid_seen: &self.paid_seen,
            sent: &self.sent,
            sent_at: &self.sent_at,
            pay_wait: &self.pay_wait,
        }
    }

    fn target(&self) -> TargetWords<'_, Weak> {
        TargetWords { paid: &self.paid, acked: &self.acked, paying: &self.paying, ended_at: &self.ended_at }
    }

    fn debt(&self) -> u64 {
        let page = PageWords {
            epoch: &self.epoch,
            state: &self.state,
            deadline: &self.deadline,
            required: &self.required,
        };
        debt(&page, &self.kernel(), &self.target(), Nanos(0)).0
    }
}

fn running(epoch: u32, required: u64) -> Arc<Raw> {
    let raw = Raw {
        epoch: AtomicU32::new(epoch),
        state: AtomicU32::new(STATE_RUNNING),
        deadline: AtomicU64::new(u64::MAX),
        required: AtomicU64::new(tagged(epoch, required)),
        slot_epoch: AtomicU32::new(epoch),
        ..Raw::default()
    };
    Arc::new(raw)
}

#[test]
fn a_reader_on_another_cpu_never_sees_more_debt_than_there_is() {
    check(|| {
        // 10 required, 2 absorbed, 3 credited, 4 paid and not folded: 1 owed. Then the fold, which changes
        // nothing, and a hit elsewhere of 2, which moves credit: 3 owed.
        let raw = running(1, 10);
        raw.kernel().write_clock(1, 2, 3, 0);
        raw.paid.store(4, Relaxed);
        let kernel = {
            let raw = Arc::clone(&raw);
            thread::spawn(move || {
                raw.kernel().write_clock(1, 9, 0, 4);
                raw.required.store(tagged(1, 12), Release);
            })
        };
        let owed = raw.debt();
        assert!(owed <= 3, "{owed} read, 3 owed at most");
        kernel.join().unwrap();
        assert_eq!(raw.debt(), 3);
    });
}

#[test]
fn a_reader_on_another_cpu_mixes_no_epochs() {
    check(|| {
        // 10 required and 10 absorbed: nothing owed, in either epoch.
        let raw = running(1, 10);
        raw.kernel().write_clock(1, 10, 0, 0);
        let kernel = {
            let raw = Arc::clone(&raw);
            thread::spawn(move || {
                raw.required.store(tagged(2, 0), Release);
                raw.epoch.store(2, Release);
                raw.kernel().write_clock(2, 0, 0, 0);
            })
        };
        assert_eq!(raw.debt(), 0);
        kernel.join().unwrap();
    });
}

#[test]
fn who_sees_the_answer_sees_the_payment() {
    check(|| {
        let raw = running(1, 10);
        raw.sent.store(1, Relaxed);
        let handler = {
            let raw = Arc::clone(&raw);
            thread::spawn(move || {
                let mut payment = Payment::begin(&raw.kernel(), &raw.target(), true, || Nanos(100));
                payment.publish(&raw.kernel(), &raw.target(), Nanos(110));
                payment.answer(&raw.target(), Nanos(110));
            })
        };
        if may_send(1, raw.acked.load(Acquire)) {
            assert_eq!(raw.paid.load(Relaxed), 10);
            assert_eq!(raw.paying.load(Relaxed), 0);
        }
        handler.join().unwrap();
    });
}

struct Place {
    state: AtomicU32,
    name: AtomicU32,
}

struct Searched<'a>(&'a Place, u32);

impl CounterPlace<Weak> for Searched<'_> {
    fn state(&self) -> &AtomicU32 {
        &self.0.state
    }
    fn is_ours(&self) -> bool {
        self.0.name.load(Relaxed) == self.1
    }
    fn write(&self) {
        self.0.name.store(self.1, Relaxed);
    }
}

#[test]
fn a_counter_has_one_place_whoever_asks_first() {
    check(|| {
        let new = || Place { state: AtomicU32::new(0), name: AtomicU32::new(0) };
        let places: Arc<[Place; 2]> = Arc::new([new(), new()]);
        let claim = |places: &[Place; 2], name| {
            let found = claim_counter(places.iter().map(|place| Searched(place, name)), |_| {
                thread::yield_now();
                true
            });
            std::ptr::from_ref(found.expect("there are places enough").0).addr()
        };
        let other = {
            let places = Arc::clone(&places);
            thread::spawn(move || (claim(&places, 7), claim(&places, 8)))
        };
        let mine = claim(&places, 7);
        let (theirs, eighth) = other.join().unwrap();
        assert_eq!(mine, theirs);
        assert_ne!(mine, eighth);
    });
}
