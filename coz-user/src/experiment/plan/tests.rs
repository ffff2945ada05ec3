use std::collections::BTreeSet;

use super::*;

const A: LineId = LineId(1);
const B: LineId = LineId(2);

fn all_levels() -> Vec<Speedup> {
    (0..=100).step_by(5).filter_map(Speedup::from_percent).collect()
}

fn choices(plan: &mut Plan, n: usize) -> Vec<Choice> {
    (0..n).map(|_| plan.choose().expect("a line was sampled")).collect()
}

fn seconds(s: u64) -> Nanos {
    Nanos(s * 1_000_000_000)
}

#[test]
fn nothing_is_chosen_before_a_line_was_sampled() {
    let mut plan = Plan::new(1, Lines::Sampled, &all_levels());
    assert_eq!(plan.choose(), None);
    plan.observe(&[(LineId::NONE, 100), (A, 0)], seconds(1));
    assert_eq!(plan.choose(), None, "samples outside the scope choose nothing");
    plan.observe(&[(A, 60)], seconds(1));
    assert_eq!(plan.choose().map(|c| c.line), Some(A));
}

#[test]
fn a_fixed_line_waits_until_it_is_known_and_stays() {
    let mut plan = Plan::new(1, Lines::Fixed, &all_levels());
    plan.observe(&[(A, 100)], seconds(1));
    assert_eq!(plan.choose(), None);
    plan.fix(B);
    assert!(choices(&mut plan, 200).iter().all(|c| c.line == B));
}

#[test]
fn lines_come_in_proportion_to_their_samples() {
    let mut plan = Plan::new(7, Lines::Sampled, &all_levels());
    plan.observe(&[(A, 300), (B, 100)], seconds(1));
    let of_a = choices(&mut plan, 40_000).iter().filter(|c| c.line == A).count();
    // 10,000 rounds: three standard deviations of the share are 1.3 points.
    assert!((29_400..30_600).contains(&of_a), "{of_a} of 40,000, where 30,000 are expected");
}

#[test]
fn half_are_baselines_and_each_speedup_has_one_beside_it() {
    let mut plan = Plan::new(3, Lines::Sampled, &all_levels());
    plan.observe(&[(A, 300), (B, 100)], seconds(1));
    let mut first = 0;
    for pair in choices(&mut plan, 4_000).chunks(2) {
        assert_eq!((pair[0].line, pair[0].round), (pair[1].line, pair[1].round));
        assert_eq!(pair.iter().filter(|c| c.speedup.is_baseline()).count(), 1);
        first += usize::from(pair[0].speedup.is_baseline());
    }
    assert!((900..1_100).contains(&first), "the baseline comes first as often as last: {first} of 2,000");
}

#[test]
fn every_speedup_is_equally_likely() {
    let mut plan = Plan::new(3, Lines::Sampled, &all_levels());
    plan.observe(&[(A, 60)], seconds(1));
    let drawn = choices(&mut plan, 4_000);
    for level in all_levels().into_iter().filter(|s| !s.is_baseline()) {
        let n = drawn.iter().filter(|c| c.speedup == level).count();
        assert!((99..=101).contains(&n), "{level:?} {n} times in 4,000, expected 100");
    }
}

#[test]
fn the_first_round_of_a_line_suffices_to_show_it_and_spans_the_range() {
    for seed in 0..50 {
        let mut plan = Plan::new(seed, Lines::Sampled, &all_levels());
        plan.observe(&[(A, 60)], seconds(1));
        let round = choices(&mut plan, 2 * FIRST_PAIRS);
        assert!(round.iter().all(|c| c.round == 1));
        let bands: BTreeSet<_> = round
            .iter()
            .filter(|c| !c.speedup.is_baseline())
            .map(|c| (c.speedup.permille() - 1) / 200)
            .collect();
        assert_eq!(bands.len(), 5, "one from each fifth of the range: {round:?}");
        assert_eq!(plan.choose().map(|c| c.round), Some(2));
    }
}

#[test]
fn a_single_speedup_still_has_its_baselines() {
    let mut plan = Plan::new(5, Lines::Fixed, &[Speedup::FULL]);
    plan.fix(A);
    let drawn = choices(&mut plan, 100);
    assert_eq!(drawn.iter().filter(|c| c.speedup == Speedup::FULL).count(), 50);
    let again: Vec<_> = drawn.chunks(2).map(|c| c[0].speedup).collect();
    assert!(again.contains(&Speedup::FULL) && again.contains(&Speedup::BASELINE), "in random order");
}

#[test]
fn without_a_speedup_there_are_baselines_only() {
    let mut plan = Plan::new(5, Lines::Fixed, &[Speedup::BASELINE]);
    plan.fix(A);
    assert!(choices(&mut plan, 20).iter().all(|c| c.speedup.is_baseline()));
}

#[test]
fn the_same_seed_chooses_the_same() {
    let run = |seed| {
        let mut plan = Plan::new(seed, Lines::Sampled, &all_levels());
        plan.observe(&[(A, 300), (B, 100)], seconds(1));
        choices(&mut plan, 100)
    };
    assert_eq!(run(11), run(11));
    assert_ne!(run(11), run(12));
}

#[test]
fn a_line_that_becomes_hot_late_is_found() {
    let mut plan = Plan::new(2, Lines::Sampled, &all_levels());
    for s in 1..=60 {
        plan.observe(&[(A, 1_000)], seconds(s));
    }
    for s in 61..=70 {
        plan.observe(&[(B, 1_000)], seconds(s));
    }
    let of_b = choices(&mut plan, 4_000).iter().filter(|c| c.line == B).count();
    // Ten seconds are five half-lives: what is left of A is 1/32 of the whole.
    assert!(of_b > 3_700, "{of_b} of 4,000");
}

#[test]
fn lines_that_stopped_running_are_forgotten() {
    let mut plan = Plan::new(2, Lines::Sampled, &all_levels());
    plan.observe(&[(A, 1_000)], seconds(1));
    plan.observe(&[], seconds(3_000));
    assert_eq!(plan.choose(), None);
}

#[test]
fn samples_are_wanted_only_where_a_line_is_to_be_drawn() {
    let mut plan = Plan::new(2, Lines::Sampled, &all_levels());
    plan.observe(&[(A, 60)], seconds(1));
    assert!(plan.wants_samples());
    choices(&mut plan, 1);
    assert!(!plan.wants_samples(), "within a round the line is settled");
    assert!(!Plan::new(2, Lines::Fixed, &all_levels()).wants_samples());
}

#[test]
fn a_deck_holds_each_level_once() {
    let mut rng = ChaCha8Rng::seed_from_u64(0);
    for n in 0..=13 {
        let levels: Vec<_> = (1..=n).filter_map(Speedup::from_percent).collect();
        let mut deck = shuffled_deck(&levels, &mut rng);
        deck.sort_unstable();
        assert_eq!(deck, levels);
    }
}

#[test]
fn the_first_choice_waits_until_something_is_known() {
    let mut plan = Plan::new(1, Lines::Sampled, &all_levels());
    plan.observe(&[(LineId(1), 3)], Nanos(1_000_000));
    assert_eq!(plan.choose(), None, "three samples of a program that has just started say nothing");
    plan.observe(&[(LineId(2), 60)], Nanos(100_000_000));
    assert!(plan.choose().is_some());
}

#[test]
fn a_program_that_hardly_runs_is_not_waited_for_for_ever() {
    let mut plan = Plan::new(1, Lines::Sampled, &all_levels());
    plan.observe(&[(LineId(1), 1)], Nanos(1_000_000));
    plan.observe(&[(LineId(1), 1)], Nanos(1_002_000_000));
    assert_eq!(plan.choose().map(|choice| choice.line), Some(LineId(1)));
}

#[test]
fn a_line_that_has_stopped_running_does_not_use_up_its_round() {
    let mut plan = Plan::new(1, Lines::Sampled, &all_levels());
    plan.observe(&[(LineId(1), 60)], Nanos(1));
    let round = plan.choose().map(|choice| choice.round);
    plan.ended(0);
    assert_eq!(plan.choose().map(|choice| choice.round), round, "once can be chance");
    plan.ended(0);
    assert!(plan.wants_samples(), "twice is not");
}

fn known(is_open: bool, is_wanted: bool) -> Standing {
    Standing { half_width: 0.1, experiments: 20, is_open, is_wanted, ..Standing::default() }
}

#[test]
fn most_rounds_go_to_the_open_line_and_a_third_to_whatever_runs() {
    let mut plan = Plan::new(3, Lines::Sampled, &all_levels());
    plan.observe(&[(A, 700), (B, 300)], seconds(1));
    choices(&mut plan, 40);
    plan.learn([(A, known(false, false)), (B, known(true, false))]);
    let of_b = choices(&mut plan, 4_000).iter().filter(|c| c.line == B).count();
    // Two thirds, and three tenths of the rest.
    assert!((2_900..3_240).contains(&of_b), "{of_b} of 4,000, where 3,067 are expected");
}

#[test]
fn a_line_that_begins_to_run_is_tried_soon() {
    let mut plan = Plan::new(3, Lines::Sampled, &all_levels());
    plan.observe(&[(A, 700)], seconds(1));
    choices(&mut plan, 40);
    plan.learn([(A, known(true, true))]);
    plan.observe(&[(B, 300)], seconds(1));
    let first = choices(&mut plan, 60).iter().position(|c| c.line == B);
    assert!(first.is_some_and(|first| first < 30), "although A is wanted: {first:?}");
}

#[test]
fn the_wanted_line_is_tried_around_a_half() {
    let mut plan = Plan::new(3, Lines::Sampled, &all_levels());
    plan.observe(&[(A, 700)], seconds(1));
    choices(&mut plan, 40);
    plan.learn([(A, known(true, true))]);
    let drawn = choices(&mut plan, 4_000);
    let sped: Vec<_> = drawn.iter().filter(|c| !c.speedup.is_baseline()).collect();
    assert_eq!(sped.len(), 2_000, "its baselines stay");
    let near = sped.iter().filter(|c| AROUND_HALF.contains(&c.speedup.permille())).count();
    assert!(near >= 1_200, "a half, and a quarter of the others: {near} of 2,000");
    let different: BTreeSet<_> = sped.iter().map(|c| c.speedup).collect();
    assert_eq!(different.len(), 20, "and the curve is still measured throughout");
}

#[test]
fn a_cold_line_gets_two_pairs_while_a_hot_one_is_open() {
    let mut plan = Plan::new(3, Lines::Sampled, &all_levels());
    let cold: Vec<_> = (10..60).map(|n| (LineId(n), 2)).collect();
    plan.observe(&[&[(A, 600), (B, 400)][..], &cold].concat(), seconds(1));
    let count = |choices: &[Choice], line| choices.iter().filter(|c| c.line == line).count();
    let drawn = choices(&mut plan, 6_000);
    let most = cold.iter().map(|(line, _)| count(&drawn, *line)).max();
    assert_eq!(most, Some(4), "two baselines and two speedups");
    plan.learn([(A, known(false, false)), (B, known(false, false))]);
    let drawn = choices(&mut plan, 6_000);
    assert!(cold.iter().any(|(line, _)| count(&drawn, *line) > 4), "later there is time for them");
}

#[test]
fn where_all_lines_are_cold_none_is_shut_out() {
    let mut plan = Plan::new(3, Lines::Sampled, &all_levels());
    let cold: Vec<_> = (10..400).map(|n| (LineId(n), 2)).collect();
    plan.observe(&cold, seconds(1));
    assert_eq!(choices(&mut plan, 6_000).len(), 6_000);
}

#[test]
fn where_experiments_are_few_the_hottest_line_comes_first_and_then_the_next() {
    for seed in 0..20 {
        let mut plan = Plan::new(seed, Lines::Sampled, &all_levels()).by_need();
        plan.observe(&[(A, 40), (B, 60)], seconds(1));
        let first = choices(&mut plan, 2 * FIRST_PAIRS);
        assert!(first.iter().all(|choice| choice.line == B), "seed {seed}: {first:?}");
        plan.learn([(B, known(true, false))]);
        assert_eq!(plan.choose().map(|choice| choice.line), Some(A), "seed {seed}");
    }
}
