//! The rules against what engine and paper say of them.

use super::*;
use crate::abi::Share;
use crate::stretch::{SHARE_ONE, observe};
use proptest::prelude::*;

fn experiment(speedup: u32) -> Experiment {
    Experiment {
        epoch: 7,
        running: true,
        speedup,
        started_ns: 1_000,
        period_ns: 1_000_000,
        wake_latency_ns: 35_000,
        sample_cost_ns: 0,
    }
}

fn thread() -> KernelSlot {
    KernelSlot { epoch: 7, ..KernelSlot::default() }
}

#[test]
fn required_delay_only_grows_within_its_epoch() {
    let g = TaggedDelay::new(7, 100);
    assert_eq!(g.in_epoch(7), 100);
    assert_eq!(g.in_epoch(8), 0, "another experiment's delay is nobody's debt");
    assert_eq!(g.raised(7, 100), None);
    assert_eq!(g.raised(7, 101), Some(TaggedDelay::new(7, 101)));
    assert_eq!(g.raised(6, 1_000), None, "a late hit of the experiment before changes nothing");
    assert_eq!(g.raised(8, 3), Some(TaggedDelay::new(8, 3)), "the next one's first hit starts anew");
}

#[test]
fn epochs_wrap_without_confusion() {
    let g = TaggedDelay::new(0x1_0003, 5);
    assert_eq!(g.in_epoch(0x1_0003), 5);
    assert_eq!(g.in_epoch(0x1_0004), 0);
    let last = TaggedDelay::new(0xFFFF, 5);
    assert_eq!(last.raised(0x1_0000, 1), Some(TaggedDelay::new(0x1_0000, 1)));
    assert_eq!(TaggedDelay::new(0x1_0000, 1).raised(0xFFFF, 9), None);
}

#[test]
fn who_spins_for_one_in_the_line_absorbs_that_part_of_its_time_and_no_more_than_it_owes() {
    let mut t = KernelSlot { local: 100, spinning: Share { value: SHARE_ONE / 4, weight: 9 }, ..thread() };
    assert_eq!(absorb_spinning(&mut t, 10_000, 4_000), 1_000);
    assert_eq!((t.local, t.credit), (1_100, 0));
    assert_eq!(absorb_spinning(&mut t, 1_300, 4_000), 200, "nobody absorbs what is not owed");
    assert_eq!((t.local, debt(&t, 1_300)), (1_300, 0));
    let mut works = thread();
    assert_eq!(absorb_spinning(&mut works, 10_000, 4_000), 0);
}

#[test]
fn only_another_thread_that_was_just_seen_in_the_line_is_waited_for() {
    let (me, other, period) = (5, 6, 1_000);
    assert!(line_runs_elsewhere(other, 10_000, me, 10_900, period));
    assert!(!line_runs_elsewhere(other, 10_000, me, 11_001, period), "it may be anywhere by now");
    assert!(!line_runs_elsewhere(me, 10_000, me, 10_900, period));
    assert!(!line_runs_elsewhere(0, 10_000, me, 10_900, period), "it has been seen elsewhere since");
}

#[test]
fn what_a_sample_takes_is_absorbed_and_no_time_of_the_line() {
    let e = Experiment { sample_cost_ns: 8_000, ..experiment(500) };
    let mut t = KernelSlot { cpu_uncharged: 100_000, local: 1_000, ..thread() };
    absorb_sample(&mut t, &e, 5_000);
    assert_eq!(
        (absorbed(&t), t.local, debt(&t, 5_000)),
        (9_000, 5_000, 0),
        "beyond what is required it is credit"
    );
    assert_eq!(t.cpu_uncharged, 92_000);
    assert_eq!(rest_of_sample(&e), 4_000, "a payment begins behind it: nothing is booked twice");
    let mut short = KernelSlot { cpu_uncharged: 3_000, ..thread() };
    absorb_sample(&mut short, &e, 0);
    assert_eq!(short.cpu_uncharged, 0);
}

#[test]
fn what_a_probe_takes_is_absorbed_and_no_time_of_the_program() {
    let (none, e) = (TargetSlot::default(), experiment(500));
    let mut t = KernelSlot { on_cpu_since: 10_000, ..thread() };
    absorb_visit(&mut t, 0, 3_000);
    assert_eq!((absorbed(&t), account_cpu(&mut t, &none, 30_000)), (3_000, 17_000));
    absorb_visit(&mut t, 0, 3_000);
    assert_eq!(account_cpu(&mut t, &none, 31_000), 0, "it is not over yet");
    assert_eq!(account_cpu(&mut t, &none, 35_000), 4_000);
    let mut unseen = KernelSlot { on_cpu_since: 0, ..thread() };
    absorb_visit(&mut unseen, 0, 3_000);
    assert_eq!(unseen.on_cpu_since, 0, "a switch that was missed is still to be made up for");
    assert_eq!(charge(&mut t, &e, 0), 0);
}

#[test]
fn a_new_experiment_forgives_everything() {
    let mut t = KernelSlot {
        epoch: 6,
        local: 50,
        credit: 9,
        share: Share { value: 3, weight: 4 },
        ..KernelSlot::default()
    };
    t.cpu_uncharged = 1 << 40;
    t.blocked_at = 10;
    let paid = TargetSlot { paid: 77, ..TargetSlot::default() };
    assert!(enter_epoch(&mut t, &paid, &experiment(500), 3_000));
    assert_eq!((absorbed(&t), t.share.weight, t.paid_seen), (0, 0, 77));
    assert_eq!(t.cpu_uncharged, 2_000, "CPU time before the experiment is not charged to it");
    assert_eq!(t.blocked_at, 1_000, "nor is waiting before it");
    assert!(!enter_epoch(&mut t, &paid, &experiment(500), 3_000));
}

#[test]
fn overpayment_is_credit_and_never_billed_to_others() {
    let mut t = thread();
    let target = TargetSlot { paid: 130, ..TargetSlot::default() };
    assert_eq!(fold_payment(&mut t, &target, 100, 1_000), Some(130));
    assert_eq!((t.local, t.credit), (100, 30));
    // The next hit raises G by its own delay only.
    t.cpu_uncharged = 1_000;
    t.share = Share { value: SHARE_ONE, weight: 1 };
    assert_eq!(charge(&mut t, &experiment(1000), 100), 1_000);
    assert_eq!((t.local, t.credit), (1_100, 30));
}

#[test]
fn a_target_that_lies_gains_nothing() {
    let mut t = thread();
    let target = TargetSlot { paid: u64::MAX / 2, ..TargetSlot::default() };
    assert_eq!(fold_payment(&mut t, &target, 100, 1_000), None);
    assert_eq!(absorbed(&t), 0);
    assert_eq!(fold_payment(&mut t, &target, 100, 1_000), Some(0), "and it is not asked twice");
}

#[test]
fn a_target_that_lies_credibly_is_ahead_by_a_millisecond_at_most() {
    let mut t = thread();
    let mut target = TargetSlot::default();
    for _ in 0..100 {
        target.paid += 40_000_000;
        fold_payment(&mut t, &target, 5_000_000, 50_000_000);
    }
    // What it has beyond what is required it would hand on to whoever waits for it.
    assert_eq!((t.local, t.credit), (5_000_000, OVERSLEPT));
    assert_eq!(fold_payment(&mut t, &target, 5_000_000, 50_000_000), Some(0));
    // What it has absorbed by other ways stays.
    t.credit = 3 * OVERSLEPT;
    target.paid += 1;
    assert_eq!(fold_payment(&mut t, &target, 5_000_000, 50_000_000), Some(0));
    assert_eq!(t.credit, 3 * OVERSLEPT);
}

#[test]
fn woken_by_a_thread_that_owes_the_debt_comes_along() {
    // W owes 40 of 100; T, all paid, waits 1000 for it.
    let mut t = thread();
    t.local = 100;
    t.blocked_at = 5_000;
    t.woken_at = 6_000;
    t.woken_local = 60;
    t.woken_epoch = 7;
    apply_wake(&mut t, &experiment(500), 100, 35_000, 6_020);
    assert_eq!(debt(&t, 100), 40);
}

#[test]
fn woken_by_a_thread_that_has_paid_while_this_one_waited() {
    // G rose from 0 to 500 while T waited 1000 for W, which paid it all: T has been delayed with it.
    let mut t = thread();
    t.blocked_at = 5_000;
    t.woken_at = 6_000;
    t.woken_local = 500;
    t.woken_epoch = 7;
    assert_eq!(apply_wake(&mut t, &experiment(500), 500, 35_000, 6_020), 500);
    assert_eq!(debt(&t, 500), 0);
}

#[test]
fn what_would_have_been_there_already_makes_the_whole_wait_delay() {
    // T waited 100 only, W had 500 of delay: without it T would not have waited, nor needed a wake-up.
    let mut t = thread();
    t.blocked_at = 5_900;
    t.woken_at = 6_000;
    t.woken_local = 500;
    t.woken_epoch = 7;
    assert_eq!(apply_wake(&mut t, &experiment(500), 500, 35_000, 6_030), 130);
    assert_eq!(debt(&t, 500), 370);
    // Waiting for a CPU is not the wake-up's fault.
    let mut t = thread();
    t.blocked_at = 5_900;
    t.woken_at = 6_000;
    t.woken_local = 500;
    t.woken_epoch = 7;
    assert_eq!(apply_wake(&mut t, &experiment(500), 500, 35_000, 9_000_000), 100 + 35_000);
}

#[test]
fn a_wake_up_of_another_experiment_says_nothing() {
    let mut t = thread();
    t.local = 100;
    t.woken_at = 6_000;
    t.woken_local = 7;
    t.woken_epoch = 6;
    assert_eq!(apply_wake(&mut t, &experiment(500), 100, 35_000, 6_030), 0);
    assert_eq!((t.local, t.woken_at), (100, 0));
}

#[test]
fn handler_time_is_not_the_programs() {
    let mut t = thread();
    t.on_cpu_since = 1_000;
    let target = TargetSlot { ended_at: 1_400, ..TargetSlot::default() };
    assert_eq!(account_cpu(&mut t, &target, 2_000), 600);
    let paying = TargetSlot { paying: 1, ..TargetSlot::default() };
    assert_eq!(account_cpu(&mut t, &paying, 3_000), 0);
    assert_eq!(t.on_cpu_since, 3_000);
    let mut off = thread();
    assert_eq!(account_cpu(&mut off, &target, 9_000), 0, "off its CPU a thread uses none");
}

#[test]
fn waiting_for_a_cpu_is_no_payment_but_waking_up_is() {
    let mut t = thread();
    let paying = TargetSlot { paying: 1, ..TargetSlot::default() };
    book_wait(&mut t, &paying, 35_000, 20_000);
    assert_eq!(t.pay_wait, 0, "a wake-up takes as long on an idle machine");
    book_wait(&mut t, &paying, 35_000, 3_035_000);
    assert_eq!(t.pay_wait, 3_000_000, "a whole slice behind another thread does not");
    book_wait(&mut t, &TargetSlot::default(), 35_000, 3_035_000);
    assert_eq!(t.pay_wait, 3_000_000, "and only while it pays");
}

#[test]
fn a_sample_weighs_a_period_less_what_was_paid() {
    let mut t = thread();
    assert_eq!(take_sample_weight(&mut t, &experiment(0), 9_000_000), 1_000_000, "the first one");
    assert_eq!(take_sample_weight(&mut t, &experiment(0), 12_000_000), 1_000_000, "it may have waited");
    assert_eq!(take_sample_weight(&mut t, &experiment(0), 12_600_000), 600_000, "it has come to another CPU");
    let target = TargetSlot { paid: 700_000, ..TargetSlot::default() };
    fold_payment(&mut t, &target, 1_000_000, 1_000_000);
    assert_eq!(take_sample_weight(&mut t, &experiment(0), 13_600_000), 300_000);
    assert_eq!(take_sample_weight(&mut t, &experiment(0), 14_600_000), 1_000_000);
}

#[test]
fn nothing_is_charged_before_the_line_has_been_looked_for() {
    let mut t = thread();
    t.cpu_uncharged = 400_000;
    assert_eq!(charge(&mut t, &experiment(1000), 0), 0);
    observe(&mut t, true, 400_000, &experiment(1000));
    assert_eq!(charge(&mut t, &experiment(1000), 0), 400_000);
}

#[test]
fn short_threads_count_for_those_that_no_sample_met() {
    // Life 250 us, period 1 ms: one in four is sampled, each of these stands for four.
    let mut t = thread();
    t.lived = 250_000;
    t.cpu_uncharged = 250_000;
    observe(&mut t, true, 250_000, &experiment(1000));
    assert_eq!(charge_exit(&mut t, &experiment(1000), 0), 1_000_000);
}

proptest! {
    /// After a wake-up `v(T) >= v(W)` and `v(T) >= v(T) at block` (engine's invariant), with every latency.
    #[test]
    fn a_wake_never_turns_time_back(
        local in 0u64..10_000_000, blocked in 1u64..1_000_000_000, waited in 0u64..50_000_000,
        latency in 0u64..5_000_000, woken_local in 0u64..20_000_000, extra in 0u64..20_000_000,
    ) {
        let required = local.max(woken_local) + extra;
        let mut t = thread();
        t.local = local;
        t.blocked_at = blocked;
        t.woken_at = blocked + waited;
        t.woken_local = woken_local;
        t.woken_epoch = 7;
        let now = t.woken_at + latency;
        let v_block = blocked as i128 - local as i128;
        let v_waker = t.woken_at as i128 - woken_local as i128;
        let wake = t.woken_at as i128;
        apply_wake(&mut t, &experiment(500), required, 35_000, now);
        let v_after = now as i128 - absorbed(&t) as i128;
        prop_assert!(v_after >= v_block);
        prop_assert!(v_after >= v_waker.min(wake - local as i128 - waited as i128));
        prop_assert!(t.local <= required);
    }

    /// A speedup of 0 changes nothing, whatever is sampled.
    #[test]
    fn a_baseline_delays_nobody(hits in proptest::collection::vec((any::<bool>(), 0u64..5_000_000), 0..100)) {
        let mut t = thread();
        for (hit, ran) in hits {
            t.cpu_uncharged += ran;
            observe(&mut t, hit, ran, &experiment(0));
            prop_assert_eq!(charge(&mut t, &experiment(0), 0), 0);
        }
        prop_assert_eq!(absorbed(&t), 0);
    }

    /// What is charged equals speedup times the line's CPU time, in expectation: fluid charging neither loses nor
    /// invents time, from the first sample on.
    #[test]
    fn the_sum_charged_is_what_the_line_used(seed in any::<u64>(), share in 0.05f64..0.95, samples in 1u32..40) {
        let mut state = seed | 1;
        let mut random = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as f64 / (1u64 << 53) as f64
        };
        let (mut charged, mut used) = (0u64, 0f64);
        for _ in 0..3_000 {
            let mut t = thread();
            let mut required = 0;
            for _ in 0..samples {
                let ran = 200_000 + (random() * 1_600_000.0) as u64;
                t.cpu_uncharged += ran;
                used += share * ran as f64;
                let hit = random() < share;
                observe(&mut t, hit, ran, &experiment(400));
                charged += charge(&mut t, &experiment(400), required);
                required = required.max(t.local);
            }
        }
        let ratio = charged as f64 / (0.4 * used);
        let noise = 5.0 * ((1.0 - share) / share / (3_000.0 * f64::from(samples)) * 4.0).sqrt();
        prop_assert!((ratio - 1.0).abs() < noise + 0.01, "charged {ratio} of what the line used");
    }

    /// The share stays a share.
    #[test]
    fn the_share_stays_within_bounds(hits in proptest::collection::vec((any::<bool>(), any::<u32>()), 0..200)) {
        let mut t = thread();
        for (hit, weight) in hits {
            observe(&mut t, hit, u64::from(weight), &experiment(1000));
            prop_assert!(t.share.value <= SHARE_ONE);
        }
    }
}

#[test]
fn a_switch_that_was_not_seen_is_made_up_for() {
    // Blocked at 5,000, woken at 9,000 by a thread that had absorbed 300; seen next by a sample at 400,000.
    let mut t = thread();
    (t.blocked_at, t.woken_at, t.ready_at, t.woken_local, t.woken_epoch) = (5_000, 9_000, 9_000, 300, 7);
    let since = missed_switch(&t, 400_000);
    assert_eq!(since, Some(9_000), "it has run since it was ready, as far as one can know");
    let began = get_cpu(&mut t, &TargetSlot::default(), &experiment(500), 1_000, NOBODY, 9_000);
    assert_eq!(began, Began { waited: 0, inherited: 300 });
    assert_eq!((t.on_cpu_since, t.blocked_at, t.ready_at, t.woken_at), (9_000, 0, 0, 0));
    assert_eq!(missed_switch(&t, 400_000), None);
    assert_eq!(account_cpu(&mut t, &TargetSlot::default(), 400_000), 391_000);
    assert_eq!(missed_switch(&thread(), 400_000), Some(400_000), "nothing was seen: nothing is charged");
}

/// A CPU that a thread of clock `local` left at `at`.
fn left(at: u64, local: u64) -> CpuClock {
    CpuClock { at, local, epoch: 7, _pad: 0 }
}

/// A CPU that no thread of the set has had in this experiment.
const NOBODY: Place<'static> = Place { clock: &CpuClock { at: 0, local: 0, epoch: 0, _pad: 0 }, idle: false };

#[test]
fn who_waits_for_a_cpu_is_there_no_earlier_than_who_had_it() {
    // Ready at 10,000; the other one, which had absorbed 5,000, left at 13,000.
    let mut t = KernelSlot { local: 1_000, ready_at: 10_000, ..thread() };
    let began = get_cpu(
        &mut t,
        &TargetSlot::default(),
        &experiment(500),
        9_000,
        Place { clock: &left(13_000, 5_000), idle: false },
        13_000,
    );
    assert_eq!(
        (began.waited, began.inherited, absorbed(&t)),
        (3_000, 3_000, 4_000),
        "no more than it waited"
    );
    let mut t = KernelSlot { local: 4_000, ready_at: 10_000, ..thread() };
    get_cpu(
        &mut t,
        &TargetSlot::default(),
        &experiment(500),
        9_000,
        Place { clock: &left(13_000, 5_000), idle: false },
        13_000,
    );
    assert_eq!(absorbed(&t), 5_000, "nor more than the other one");
}

#[test]
fn a_cpu_that_stood_idle_is_behind_nobody() {
    let mut t = KernelSlot { local: 1_000, ready_at: 50_000, blocked_at: 20_000, ..thread() };
    get_cpu(
        &mut t,
        &TargetSlot::default(),
        &experiment(500),
        9_000,
        Place { clock: &left(13_000, 5_000), idle: false },
        50_100,
    );
    assert_eq!(absorbed(&t), 1_000);
}

#[test]
fn a_debt_for_input_or_output_is_not_handed_to_who_gets_the_cpu_next() {
    let mut t = KernelSlot { local: 1_000, ready_at: 50_000, blocked_at: 20_000, ..thread() };
    get_cpu(&mut t, &TargetSlot::default(), &experiment(500), 9_000, NOBODY, 50_000);
    assert_eq!(t.private, 8_000);
    let mut clock = CpuClock::default();
    leave_cpu(&t, &mut clock, 9_500, 51_000);
    assert_eq!((clock.at, clock.local), (51_000, 9_000), "as if only what came since were owed");
}

#[test]
fn the_latency_of_waking_an_idle_cpu_is_all_of_the_payments_making() {
    let paying = TargetSlot { paying: 1, ..TargetSlot::default() };
    let mut t = KernelSlot { ready_at: 10_000, ..thread() };
    get_cpu(&mut t, &paying, &experiment(500), 0, Place { idle: true, ..NOBODY }, 90_000);
    assert_eq!(t.pay_wait, 0, "however long it took");
    let mut t = KernelSlot { ready_at: 10_000, ..thread() };
    get_cpu(&mut t, &paying, &experiment(500), 0, NOBODY, 90_000);
    assert_eq!(t.pay_wait, 45_000, "behind another thread, only what a wake-up takes");
}
