use core::sync::atomic::{AtomicU32, AtomicU64};

use proptest::prelude::*;

use super::*;

/// The words of one thread, and what a kernel side would do with them.
#[derive(Default)]
struct Words {
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

impl Words {
    fn running(epoch: u32, required: u64) -> Self {
        let words = Self::default();
        words.epoch.store(epoch, Relaxed);
        words.slot_epoch.store(epoch, Relaxed);
        words.state.store(STATE_RUNNING, Relaxed);
        words.deadline.store(1_000_000_000_000, Relaxed);
        words.require(required);
        words
    }

    fn require(&self, delay: u64) {
        let tag = u64::from(self.epoch.load(Relaxed) & 0xFFFF);
        self.required.store(tag << DELAY_BITS | delay, Relaxed);
    }

    fn kernel(&self) -> KernelWords<'_, Native> {
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

    fn target(&self) -> TargetWords<'_, Native> {
        TargetWords { paid: &self.paid, acked: &self.acked, paying: &self.paying, ended_at: &self.ended_at }
    }

    fn page(&self) -> PageWords<'_, Native> {
        PageWords {
            epoch: &self.epoch,
            state: &self.state,
            deadline: &self.deadline,
            required: &self.required,
        }
    }

    fn debt(&self, now: u64) -> u64 {
        debt(&self.page(), &self.kernel(), &self.target(), Nanos(now)).0
    }

    fn remaining(&self, payment: &Payment) -> u64 {
        payment.remaining(&self.page(), &self.kernel(), &self.target(), Nanos(0)).0
    }

    /// Pays from `begin` to `end`; what was credited.
    fn pay(&self, asked: bool, begin: u64, end: u64) -> u64 {
        let before = self.paid.load(Relaxed);
        let mut payment = Payment::begin(&self.kernel(), &self.target(), asked, || Nanos(begin));
        payment.publish(&self.kernel(), &self.target(), Nanos(end));
        payment.answer(&self.target(), Nanos(end));
        self.paid.load(Relaxed) - before
    }
}

#[test]
fn what_is_paid_and_not_yet_folded_is_not_owed() {
    let words = Words::running(1, 100);
    words.kernel().write_clock(1, 20, 10, 1000);
    words.paid.store(1040, Relaxed);
    assert_eq!(words.debt(0), 100 - 20 - 10 - 40);
}

#[test]
fn who_has_paid_too_much_owes_nothing() {
    let words = Words::running(1, 100);
    words.paid.store(500, Relaxed);
    assert_eq!(words.debt(0), 0);
}

#[test]
fn nobody_owes_outside_an_experiment() {
    let words = Words::running(3, 100);
    assert_eq!(words.debt(0), 100);
    assert_eq!(words.debt(1_000_000_000_000), 0, "past the deadline");
    words.state.store(crate::abi::STATE_IDLE, Relaxed);
    assert_eq!(words.debt(0), 0, "idle");
    words.state.store(STATE_RUNNING, Relaxed);
    words.slot_epoch.store(2, Relaxed);
    assert_eq!(words.debt(0), 0, "the slot is the last experiment's");
    words.slot_epoch.store(3, Relaxed);
    words.required.store(2 << DELAY_BITS | 100, Relaxed);
    assert_eq!(words.debt(0), 0, "the required delay is the last experiment's");
}

#[test]
fn the_tag_is_the_low_part_of_the_epoch() {
    assert_eq!(required_in(0x0005_0000_0000_0064, 0x1_0005), Some(0x64));
    assert_eq!(required_in(0x0005_0000_0000_0064, 6), None);
    assert_eq!(required_in(u64::MAX, 0xFFFF), Some((1 << DELAY_BITS) - 1));
}

#[test]
fn a_payment_counts_from_the_sending_if_that_is_plausible() {
    let second = STALE.0;
    for (sent_at, spent) in [
        (0, 30),                   // the thread has lost its CPU since
        (5 * second - 10, 40),     // just now
        (5 * second + 1, 30),      // in the future: nonsense
        (4 * second, second + 30), // as old as can be
        (4 * second - 1, 30),      // too old
    ] {
        let words = Words::running(1, 1_000_000_000);
        words.sent_at.store(sent_at, Relaxed);
        assert_eq!(words.pay(true, 5 * second, 5 * second + 30), spent, "{sent_at}");
        assert_eq!(words.pay(false, 5 * second, 5 * second + 30), 30, "no signal, no sending");
    }
}

#[test]
fn waiting_for_a_cpu_is_not_paying() {
    let words = Words::running(1, 100);
    words.pay_wait.store(500, Relaxed);
    let mut payment = Payment::begin(&words.kernel(), &words.target(), true, || Nanos(1000));
    words.pay_wait.store(512, Relaxed);
    payment.publish(&words.kernel(), &words.target(), Nanos(1100));
    assert_eq!(words.paid.load(Relaxed), 88);
    payment.end(&words.target(), Nanos(1100));
    assert_eq!(words.ended_at.load(Relaxed), 1100, "CPU time after this is the program's");
}

#[test]
fn what_an_old_experiment_is_owed_is_not_paid_to_a_new_one() {
    let words = Words::running(1, 100);
    let mut payment = Payment::begin(&words.kernel(), &words.target(), true, || Nanos(1000));
    payment.publish(&words.kernel(), &words.target(), Nanos(1010));
    words.slot_epoch.store(2, Relaxed);
    words.epoch.store(2, Relaxed);
    words.require(100);
    payment.publish(&words.kernel(), &words.target(), Nanos(1050));
    assert!(words.debt(0) > 0, "the new experiment wants something, too");
    assert_eq!(words.remaining(&payment), 0, "but not from this payment: it could never end");
    payment.answer(&words.target(), Nanos(1050));
    assert_eq!(words.paid.load(Relaxed), 10);
}

#[test]
fn an_answer_is_to_the_signal_that_was_pending_at_the_beginning() {
    let words = Words::running(1, 100);
    words.sent.store(7, Relaxed);
    assert!(!may_send(7, words.acked.load(Relaxed)));
    let payment = Payment::begin(&words.kernel(), &words.target(), true, || Nanos(1));
    assert_eq!(words.paying.load(Relaxed), 1);
    payment.answer(&words.target(), Nanos(9));
    assert_eq!((words.paying.load(Relaxed), words.acked.load(Relaxed)), (0, 7));
    assert_eq!(words.ended_at.load(Relaxed), 9);
    assert!(may_send(7, words.acked.load(Relaxed)));
}

proptest! {
    /// Published in however many steps, a payment adds up to the time it took, waits taken off.
    #[test]
    fn steps_add_up(steps in prop::collection::vec((0u64..1000, 0u64..1000), 1..20)) {
        let words = Words::running(1, u64::MAX >> 16);
        let mut payment = Payment::begin(&words.kernel(), &words.target(), true, || Nanos(0));
        let (mut now, mut waited, mut most) = (0, 0, 0u64);
        for (step, wait) in steps {
            now += step + wait;
            waited += wait;
            most = most.max(now - waited);
            words.pay_wait.store(waited, Relaxed);
            payment.publish(&words.kernel(), &words.target(), Nanos(now));
        }
        payment.answer(&words.target(), Nanos(now));
        prop_assert_eq!(words.paid.load(Relaxed), most);
    }

    /// Whatever the words hold, nothing overflows and nobody owes more than `G`.
    #[test]
    fn debt_is_at_most_what_is_required(
        required in 0u64..1 << DELAY_BITS,
        local in any::<u64>(), credit in any::<u64>(), paid in any::<u64>(), seen in any::<u64>(),
    ) {
        let words = Words::running(9, required);
        words.kernel().write_clock(9, local, credit, seen);
        words.paid.store(paid, Relaxed);
        prop_assert!(words.debt(0) <= required);
    }
}
