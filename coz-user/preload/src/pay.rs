//! Paying: the thread sleeps its debt away. Compiled into the code that is put into running processes too (`injected/`).

use coz_common::slot::{Payment, debt};
use coz_common::units::Nanos;

use crate::slot::Slot;
use crate::{clock, sys};

/// Longest single sleep, nanoseconds: how late a payer can notice that the experiment is over.
const SLICE: u64 = 10_000_000;
/// How long before its time a sleeper is woken, nanoseconds; the rest is spun. Covers what a wake-up costs.
const EARLY: u64 = 45_000;
/// Debt not worth another round once something has been paid, nanoseconds.
const CRUMB: u64 = 10_000;
/// Timer slack while paying, nanoseconds; the usual 50 us would be overslept each time.
const SLACK: usize = 1_000;

/// Answers the signal: pays what is owed.
pub fn asked() {
    if let Some(slot) = Slot::current() {
        settle(slot, true);
    }
}

/// Pays without having been asked, if anything is owed. The signal is kept away meanwhile: a payment within
/// a payment would count the same time twice.
pub fn volunteer() {
    let Some(slot) = Slot::current() else { return };
    if debt(&slot.page(), &slot.kernel(), &slot.target(), Nanos(clock::now())).0 == 0 {
        return;
    }
    let before = sys::change_mask(libc::SIG_SETMASK, !0);
    settle(slot, false);
    sys::change_mask(libc::SIG_SETMASK, before);
}

/// All signals are blocked here.
fn settle(slot: Slot, asked: bool) {
    let (page, kernel, target) = (slot.page(), slot.kernel(), slot.target());
    let mut payment = Payment::begin(&kernel, &target, asked, || Nanos(clock::now()));
    let mut slack = Slack::Untouched;
    let mut worth = 1;
    loop {
        let now = clock::now();
        payment.publish(&kernel, &target, Nanos(now));
        let debt = payment.remaining(&page, &kernel, &target, Nanos(now)).0;
        if debt < worth {
            break;
        }
        worth = CRUMB;
        rest(now, debt, &mut slack);
    }
    slack.restore();
    // What the last steps took is paid time too.
    let now = Nanos(clock::now());
    payment.publish(&kernel, &target, now);
    if asked { payment.answer(&target, now) } else { payment.end(&target, now) }
}

/// Lets `debt` pass, or one slice of it.
fn rest(now: u64, debt: u64, slack: &mut Slack) {
    if debt > SLICE + EARLY {
        slack.lower();
        sys::sleep_until(now + SLICE);
        return;
    }
    let until = now + debt;
    if debt > EARLY {
        slack.lower();
        sys::sleep_until(until - EARLY);
    }
    while clock::now() < until {
        core::hint::spin_loop();
    }
}

/// The thread's timer slack, changed only if it sleeps, and given back as it was found.
enum Slack {
    Untouched,
    Lowered(usize),
}

impl Slack {
    fn lower(&mut self) {
        if matches!(self, Self::Untouched) {
            let found = sys::timer_slack();
            // 0: a real-time thread, which has no slack; setting it would mean "back to the default".
            if found > SLACK {
                sys::set_timer_slack(SLACK);
            }
            *self = Self::Lowered(found);
        }
    }

    fn restore(self) {
        if let Self::Lowered(found) = self
            && found > SLACK
        {
            sys::set_timer_slack(found);
        }
    }
}
