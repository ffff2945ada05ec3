//! The shim's payment, with the very protocol of [`coz_common::slot`]: the steps of coz-preload's `pay`.

use std::sync::atomic::{AtomicU32, AtomicU64};

use coz_common::slot::{KernelWords, Native, PageWords, Payment, TargetWords};
use coz_common::units::Nanos;

use super::profiler::Profiler;
use super::sync::Id;
use super::{Ns, US};

/// As in coz-preload.
const SLICE: Ns = 10_000 * US;
const EARLY: Ns = 45 * US;
const CRUMB: Ns = 10 * US;
/// CPU time of a system call or two.
const CALL: Ns = 1_500;

/// A handler under way.
#[derive(Debug)]
pub(super) struct Handler {
    /// How many bursts lie below it.
    pub floor: usize,
    payment: Option<Payment>,
    worth: Ns,
    pub stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The signal is on its way.
    Delivery,
    /// Looks what is owed.
    Look,
    /// Has slept; spins until then.
    Spin(Ns),
    /// The last steps.
    Leave,
}

/// What the handler wants next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Want {
    Cpu(Ns),
    SleepUntil(Ns),
    Done,
}

impl Handler {
    pub fn new(floor: usize) -> Self {
        Self { floor, payment: None, worth: 1, stage: Stage::Delivery }
    }

    /// The next step, at `now`.
    pub fn step(&mut self, profiler: &mut Profiler, id: Id, now: Ns) -> Want {
        let (page, kernel, target) = words(profiler, id);
        let clock = Nanos(now);
        loop {
            match self.stage {
                Stage::Delivery => {
                    self.payment = Some(Payment::begin(&kernel, &target, true, || clock));
                    self.stage = Stage::Look;
                }
                Stage::Look => {
                    let Some(payment) = &mut self.payment else { return Want::Done };
                    payment.publish(&kernel, &target, clock);
                    let debt = payment.remaining(&page, &kernel, &target, clock).0;
                    if debt < self.worth {
                        self.stage = Stage::Leave;
                        return Want::Cpu(CALL);
                    }
                    self.worth = CRUMB;
                    if debt > SLICE + EARLY {
                        self.stage = Stage::Look;
                        return Want::SleepUntil(now + SLICE);
                    }
                    self.stage = Stage::Spin(now + debt);
                    if debt > EARLY {
                        return Want::SleepUntil(now + debt - EARLY);
                    }
                }
                Stage::Spin(until) => {
                    if now < until {
                        return Want::Cpu(until - now);
                    }
                    self.stage = Stage::Look;
                }
                Stage::Leave => {
                    if let Some(mut payment) = self.payment.take() {
                        payment.publish(&kernel, &target, clock);
                        payment.answer(&target, clock);
                    }
                    return Want::Done;
                }
            }
        }
    }
}

type Words<'a> = (PageWords<'a, Native>, KernelWords<'a, Native>, TargetWords<'a, Native>);

fn words(profiler: &mut Profiler, id: Id) -> Words<'_> {
    let (control, slot, target) =
        (&mut *profiler.control, &mut profiler.slots[id], &mut profiler.targets[id]);
    (
        PageWords {
            epoch: word32(&mut control.epoch),
            state: word32(&mut control.state),
            deadline: word64(&mut control.deadline_ns),
            required: word64(&mut profiler.required),
        },
        KernelWords {
            epoch: word32(&mut slot.epoch),
            local: word64(&mut slot.local),
            credit: word64(&mut slot.credit),
            paid_seen: word64(&mut slot.paid_seen),
            sent: word32(&mut slot.sent),
            sent_at: word64(&mut slot.sent_at),
            pay_wait: word64(&mut slot.pay_wait),
        },
        TargetWords {
            paid: word64(&mut target.paid),
            acked: word32(&mut target.acked),
            paying: word32(&mut target.paying),
            ended_at: word64(&mut target.ended_at),
        },
    )
}

fn word64(word: &mut u64) -> &AtomicU64 {
    // SAFETY: borrowed alone, for as long as the atomic is.
    unsafe { AtomicU64::from_ptr(word) }
}

fn word32(word: &mut u32) -> &AtomicU32 {
    // SAFETY: as above.
    unsafe { AtomicU32::from_ptr(word) }
}
