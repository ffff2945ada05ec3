use super::*;

fn experiment(epoch: u32) -> Experiment {
    Experiment {
        epoch,
        running: true,
        speedup: 500,
        started_ns: 1_000,
        period_ns: 1_000_000,
        wake_latency_ns: 35_000,
        sample_cost_ns: 0,
    }
}

fn frame(at: u64, absorbed: u64, frame: u64) -> Frame {
    Frame { at, absorbed, frame, epoch: 1, delayed: 1 }
}

#[test]
fn buckets_follow_each_other_without_a_gap_and_are_narrow() {
    for index in 0..BUCKETS as u32 {
        let (begin, end) = (bucket_begin(index), bucket_begin(index + 1));
        assert!(begin < end);
        assert_eq!((bucket(begin), bucket(end - 1)), (index, index));
        assert!(end - begin <= 1 || (end - begin) * 32 <= begin, "{begin} to {end}");
    }
    assert_eq!(bucket(u64::MAX), BUCKETS as u32 - 1);
}

#[test]
fn an_interval_is_wall_time_less_what_the_thread_absorbed_meanwhile() {
    let mut open = Open::new(1);
    open.push(frame(5_000, 100, 0));
    assert_eq!(open.pop(0, &experiment(1), 400, 9_000), Ended::Measured(3_700));
    assert_eq!(open.pop(0, &experiment(1), 400, 9_000), Ended::Unmatched, "it has ended already");
}

#[test]
fn calls_within_calls_end_newest_first() {
    let mut open = Open::new(1);
    open.push(frame(1_000, 0, 0x900));
    open.push(frame(2_000, 0, 0x800));
    assert_eq!(open.pop(0x800, &experiment(1), 0, 2_500), Ended::Measured(500));
    assert_eq!(open.pop(0x900, &experiment(1), 0, 4_000), Ended::Measured(3_000));
}

#[test]
fn a_function_left_by_an_exception_is_found_out_at_the_next_call_or_return() {
    let mut open = Open::new(1);
    open.push(frame(1_000, 0, 0x900));
    open.push(frame(2_000, 0, 0x800));
    // The outer one returns: the inner one's frame is no more.
    assert_eq!(open.pop_abandoned(0x900, false), Some(frame(2_000, 0, 0x800)));
    assert_eq!(open.pop_abandoned(0x900, false), None);
    assert_eq!(open.pop(0x900, &experiment(1), 0, 4_000), Ended::Measured(3_000));
    open.push(frame(5_000, 0, 0x800));
    assert_eq!(
        open.pop_abandoned(0x800, true),
        Some(frame(5_000, 0, 0x800)),
        "called again from the same place"
    );
}

#[test]
fn which_end_belongs_to_which_begin_is_not_guessed() {
    let mut open = Open::new(1);
    open.push(frame(1_000, 0, 0));
    open.push(frame(2_000, 0, 0));
    assert_eq!(open.pop(0, &experiment(1), 0, 3_000), Ended::Unmatched);
    assert_eq!(open.pop(0, &experiment(1), 0, 4_000), Ended::Unmatched);
    open.push(frame(5_000, 0, 0));
    assert_eq!(open.pop(0, &experiment(1), 0, 6_000), Ended::Measured(1_000), "and then it is told again");
}

#[test]
fn an_interval_of_two_experiments_is_known_only_if_the_first_had_no_delays() {
    let mut open = Open::new(1);
    open.push(Frame { delayed: 0, ..frame(1_000, 70, 0) });
    assert_eq!(open.pop(0, &experiment(2), 300, 3_000), Ended::Measured(1_700));
    open.push(frame(1_000, 70, 0));
    assert_eq!(open.pop(0, &experiment(2), 300, 3_000), Ended::Lost);
    open.push(Frame { delayed: 0, ..frame(1_000, 70, 0) });
    assert_eq!(open.pop(0, &experiment(3), 300, 3_000), Ended::Lost, "there was an experiment in between");
}

#[test]
fn deeper_than_there_is_room_is_counted_and_comes_back() {
    let mut open = Open::new(1);
    for depth in 0..u64::from(OPEN_FRAMES) + 2 {
        open.push(frame(1_000 + depth, 0, 0x10_000 - depth * 16));
    }
    assert_eq!(open.pop(1, &experiment(1), 0, 9_000), Ended::Lost);
    assert_eq!(open.pop(1, &experiment(1), 0, 9_000), Ended::Lost);
    let last = 0x10_000 - (u64::from(OPEN_FRAMES) - 1) * 16;
    let took = 9_000 - (1_000 + u64::from(OPEN_FRAMES) - 1);
    assert_eq!(open.pop(last, &experiment(1), 0, 9_000), Ended::Measured(took));
}

#[test]
fn virtual_time_begins_with_the_experiment() {
    assert_eq!(virtual_time(&experiment(1), 200, 5_000), 3_800);
    let slot = KernelSlot { local: 30, credit: 4, epoch: 1, ..KernelSlot::default() };
    assert_eq!(absorbed_in(&slot, &experiment(1)), 34);
    assert_eq!(absorbed_in(&slot, &experiment(2)), 0, "another epoch counts as zero");
}
