use super::*;

const LIMIT: f64 = 0.2;
const PRICE: Nanos = Nanos(6_000);

fn second(n: u64) -> Nanos {
    Nanos(n * 1_000_000_000)
}

fn parts(samples: f64, points: f64) -> Parts {
    Parts { samples, points, ..Parts::default() }
}

fn pace() -> Pace {
    Pace::new(3989, false, PRICE, Some(LIMIT))
}

/// Looks at this load for so many seconds; the rate that is to be changed to.
fn after(pace: &mut Pace, load: Parts, seconds: u64) -> Option<u32> {
    (0..=seconds).for_each(|n| pace.judge(&load, second(n)));
    pace.pending().map(|change| change.to)
}

#[test]
fn half_of_what_is_allowed_is_for_delays() {
    // 2 % for samples and 7 for points: within it.
    assert_eq!(after(&mut pace(), parts(0.02, 0.07), 60), None);
    // 9 for points: the highest rate at which samples take no more than the tenth part that is left.
    assert_eq!(after(&mut pace(), parts(0.02, 0.09), 60), Some(1499));
    assert_eq!(after(&mut pace(), parts(0.02, 0.094), 60), Some(997));
}

#[test]
fn where_that_is_not_to_be_had_the_lowest_keeps_within_the_limit() {
    assert_eq!(after(&mut pace(), parts(0.02, 0.19), 60), Some(499), "21 % become 19.3");
    assert_eq!(after(&mut pace(), parts(0.02, 0.3), 60), None, "nothing helps: the profile will be ended");
}

#[test]
fn what_saves_next_to_nothing_is_left_alone() {
    assert_eq!(after(&mut pace(), parts(0.01, 0.15), 60), None, "0.9 % saved of 20");
    let mut lowest = Pace::new(499, false, PRICE, Some(LIMIT));
    assert_eq!(after(&mut lowest, parts(0.05, 0.1), 60), None, "there is no lower one");
}

#[test]
fn a_peak_is_no_reason() {
    let mut pace = pace();
    for n in 0..60 {
        let points = if n % 4 < 3 { 0.15 } else { 0.01 };
        pace.judge(&parts(0.02, points), second(n));
        assert_eq!(pace.pending(), None, "second {n}");
    }
}

#[test]
fn what_the_user_has_asked_for_stays_and_so_does_a_rate_without_a_limit() {
    for mut pace in [Pace::new(3989, true, PRICE, Some(LIMIT)), Pace::new(3989, false, PRICE, None)] {
        assert_eq!(pace.wants_looks(), None);
        assert_eq!(after(&mut pace, parts(0.1, 0.05), 60), None);
    }
}

#[test]
fn a_sample_that_has_become_dearer_is_taken_less_often() {
    let mut pace = pace();
    assert_eq!(pace.wants_looks(), Some(true));
    // What is seen by a look is not the price itself: the ratio counts.
    for look in [9_000, 9_900, 9_100] {
        pace.looked(Nanos(look), 0);
        pace.judge(&Parts::default(), second(1));
    }
    assert_eq!((pace.wants_looks(), pace.price()), (Some(false), PRICE));
    // One that was disturbed says nothing.
    pace.looked(Nanos(40_000), 0);
    pace.judge(&Parts::default(), second(2));
    assert_eq!(pace.pending(), None);
    for _ in 0..2 {
        pace.looked(Nanos(18_200), 0);
    }
    pace.judge(&Parts::default(), second(3));
    assert_eq!(pace.price(), Nanos(12_000), "twice as dear");
    let change = pace
        .pending()
        .expect("at 12 us, 2.5 % of the time are 2,083 samples a second; a third more is within error");
    assert_eq!((change.from, change.to), (3989, 2503));
    assert!(change.to_string().contains("from 3989 to 2503 Hz"), "{change}");
    assert!(change.to_string().contains("a sample took 12.0 us, and 6.0 at the start"), "{change}");
    let less = pace.change(0);
    assert!((less - 2503.0 / 3989.0).abs() < 1e-9);
    assert_eq!((pace.rate(), pace.price(), pace.wants_looks()), (2503, Nanos(12_000), Some(true)));
    pace.judge(&Parts::default(), second(4));
    assert_eq!(pace.pending(), None, "once");
}

#[test]
fn why_it_was_is_told_in_figures() {
    let mut pace = pace();
    after(&mut pace, Parts { ourselves: 0.01, switches: 0.005, ..parts(0.02, 0.09) }, 10);
    let text = pace.pending().expect("it is too much").to_string();
    assert!(
        text.contains("12.5 % of the machine's time (samples 2.0, points 9.0, switches of threads 0.5, its own process 1.0)"),
        "{text}"
    );
}

#[test]
fn samples_that_are_rarer_stand_for_more_time() {
    let mut pace = pace();
    assert_eq!((pace.nominal(1000), pace.scaled(10)), (1000, 10));
    after(&mut pace, parts(0.02, 0.19), 10);
    pace.change(1000);
    assert_eq!((pace.rate(), pace.period()), (499, Nanos(2_004_008)));
    assert_eq!(pace.nominal(1000), 1000);
    // 3989 / 499 = 7.99.
    assert_eq!((pace.nominal(1100), pace.scaled(100)), (1799, 799));
    // What is scaled to the first rate is compared with what there should be at that.
    assert_eq!(pace.expected(Nanos(2_000_000_000)), 2 * 3989);
}

#[test]
fn what_samples_took_is_summed_up_at_the_price_that_they_had() {
    let mut pace = pace();
    for _ in 0..LOOKS {
        pace.looked(Nanos(5_000), 1000);
    }
    assert_eq!(pace.taken(2000), Nanos(12_000_000));
    for _ in 0..LOOKS {
        pace.looked(Nanos(10_000), 2000);
    }
    assert_eq!(pace.taken(2000), Nanos(12_000_000), "what is past stays as it was");
    assert_eq!(pace.taken(3000), Nanos(24_000_000));
}
