//! Which part of a thread's CPU time falls on the selected line: a running share, by stretch.
//!
//! Between two samples nothing is seen of where a thread is, so what it is charged for its time there is an estimate: a
//! share of that time, learnt from the samples before. *When* it is charged matters as much as how much: a delay that
//! belongs to the time in which a lock is held is absorbed by those who wait for the lock, the same delay charged
//! a little later must be paid by them. So a thread's time is told apart in **stretches**, from one place where it blocked, woke
//! somebody or passed a latency point to the next, and each kind of stretch (each place that it begins at) has its own share. Holding the
//! lock and not holding it are two kinds: a lock that somebody waits for is taken after having been blocked and given back by a wake-up.
//!
//! Short stretches may have the line and long ones not (a request of the common sort and a rare one begin at the same place). So each
//! kind has a share for each **length** of its stretches too. How long a stretch is shows only at its end, and nobody can have noticed
//! it before: it is charged then, and its samples count for that length. What goes on for longer than [`LONG`] is charged from there on at each sample, by
//! its **age**, which is how much CPU time the thread has had in it.

use crate::abi::{KernelSlot, Kind, LENGTH_FIRST, PLACE_START, STRETCH_CLASSES, STRETCH_KINDS, Share};
use crate::clock::Experiment;

/// The share of a thread that does nothing but run the selected line.
pub const SHARE_ONE: u32 = 1 << 16;
/// How many nominal periods of CPU time a running share looks back on.
pub const SHARE_WINDOW: u64 = 8;

/// How many lengths of stretches are told apart, below [`LONG`].
const LENGTHS: usize = STRETCH_CLASSES - 3;
// So an index into the classes can be masked, which the kernel's verifier follows.
const _: () = assert!(STRETCH_CLASSES.is_power_of_two());
/// The CPU time from which a stretch is long, nanoseconds. It need not have ended to be charged then: others
/// may wait for what it owes them by spinning, or run ahead of it.
pub const LONG: u64 = LENGTH_FIRST << (LENGTHS - 1);
/// Long stretches before they were, after that, and from twice [`LONG`] on.
const YOUNG: usize = LENGTHS;
const GROWN: usize = LENGTHS + 1;
const OLD: usize = LENGTHS + 2;

impl Share {
    /// A sample that stands for `weight_ns` of CPU time has fallen on what is counted (`hit`) or not.
    #[inline(always)]
    pub fn observe(&mut self, hit: bool, weight_ns: u64, period_ns: u64) {
        let weight = units(weight_ns);
        self.add(if hit { weight } else { 0 }, weight, period_ns);
    }

    /// Samples that stand for `all` units of CPU time (1024 ns), `hits` of them on what is counted.
    ///
    /// The share is the weighted mean of all samples of this experiment until they stand for [`SHARE_WINDOW`]
    /// periods, from then on an exponential mean of that length. So it is unbiased from the first sample on, and
    /// nothing is carried from one selected line to the next. Once there was a hit it never comes down to 0 again.
    #[inline(always)]
    fn add(&mut self, hits: u64, all: u64, period_ns: u64) {
        if all == 0 {
            return;
        }
        let cap = units(SHARE_WINDOW * period_ns);
        let weight = all.min(cap);
        let total = (u64::from(self.weight) + weight).min(cap);
        let seen = u64::from(SHARE_ONE) * hits / all;
        let share = (u64::from(self.value) * (total - weight) + seen * weight) / total;
        self.value = if share == 0 && (self.value != 0 || hits != 0) { 1 } else { share as u32 };
        self.weight = total as u32;
    }
}

/// A time in the units of `Share::weight`, never none.
#[inline(always)]
const fn units(ns: u64) -> u64 {
    (ns >> 10) + 1
}

/// A sample of the present stretch.
#[inline(always)]
pub fn observe(slot: &mut KernelSlot, hit: bool, weight_ns: u64, experiment: &Experiment) {
    let period = experiment.period_ns;
    slot.share.observe(hit, weight_ns, period);
    let Some(kind) = slot.kinds.get_mut(slot.stretch as usize) else { return };
    kind.share.observe(hit, weight_ns, period);
    if slot.age >= LONG {
        let class = if slot.age < 2 * LONG { GROWN } else { OLD };
        kind.classes[class].observe(hit, weight_ns, period);
    } else {
        let weight = units(weight_ns) as u32;
        slot.met = slot.met.saturating_add(weight);
        slot.met_line = slot.met_line.saturating_add(if hit { weight } else { 0 });
    }
}

/// The present stretch has ended, or become long: now its samples count for its class.
#[inline(always)]
pub fn classify(slot: &mut KernelSlot, experiment: &Experiment) {
    if slot.met != 0 {
        let class = class_of(slot.age);
        if let Some(kind) = slot.kinds.get_mut(slot.stretch as usize) {
            kind.classes[class & (STRETCH_CLASSES - 1)].add(
                slot.met_line.into(),
                slot.met.into(),
                experiment.period_ns,
            );
        }
        slot.met = 0;
        slot.met_line = 0;
    }
}

/// The class of the samples that a stretch of this age has had before it was long.
#[inline(always)]
const fn class_of(age: u64) -> usize {
    let mut class = 0;
    while class < YOUNG && age >= LENGTH_FIRST << class {
        class += 1;
    }
    class
}

/// How much of the last `cpu` nanoseconds of the thread's CPU time the line has had, nanoseconds.
///
/// What is left of earlier stretches, from before the thread's first sample, counts at the thread's average.
#[must_use]
#[inline(always)]
pub fn line_time(slot: &KernelSlot, cpu: u64, experiment: &Experiment) -> u64 {
    // It has not once been met there.
    if slot.share.value == 0 {
        return 0;
    }
    let average = slot.share.value.into();
    let Some(kind) = slot.kinds.get(slot.stretch as usize) else { return part(cpu, average) };
    let within = cpu.min(slot.age);
    let before = part(cpu - within, average);
    let all = share(slot);
    let known = |class: usize| {
        share_of(&kind.classes[class & (STRETCH_CLASSES - 1)], all, units(experiment.period_ns))
    };
    if slot.age < LONG {
        return before + part(within, known(class_of(slot.age)));
    }
    let from = slot.age - within;
    let old = slot.age.saturating_sub(from.max(2 * LONG));
    let young = LONG.saturating_sub(from);
    let grown = within - old - young;
    let mut line = before + part(old, known(OLD));
    if grown != 0 {
        line += part(grown, known(GROWN));
    }
    if young != 0 {
        line += part(young, known(YOUNG));
    }
    line
}

/// The same for a stretch that has not ended: of its time so far, whatever its length will be.
#[must_use]
#[inline(always)]
pub fn line_time_so_far(slot: &KernelSlot, cpu: u64) -> u64 {
    let within = cpu.min(slot.age);
    part(cpu - within, slot.share.value.into()) + part(within, share(slot))
}

/// The part of a time that is this share (in 1/65536) of it.
#[inline(always)]
const fn part(time: u64, share: u64) -> u64 {
    (time * share) >> 16
}

/// The share of a class of which more or less is known, where `all` stretches of the kind have this one. `period`: a period in units.
///
/// Where little is known, a mean of both: that of all counts as much as a period's worth of samples against the first one, and against those
/// of `n` periods as a part in `n` of that.
#[inline(always)]
fn share_of(class: &Share, all: u64, period: u64) -> u64 {
    let known = u64::from(class.weight);
    let prior = period * period / known.max(period);
    // It never is 0, but the compiler does not see that, and the kernel has no room for a panic.
    (u64::from(class.value) * known + all * prior) / (known + prior).max(1)
}

/// The share of the present kind of stretches, whatever their length, in 1/65536. A kind that has no sample yet is taken for the thread's average.
#[inline(always)]
fn share(slot: &KernelSlot) -> u64 {
    match slot.kinds.get(slot.stretch as usize) {
        Some(Kind { share, .. }) if share.weight != 0 => share.value.into(),
        _ => slot.share.value.into(),
    }
}

/// A stretch begins at this place (not 0). What came before must have been charged.
#[inline(always)]
pub fn begin(slot: &mut KernelSlot, place: u32) {
    slot.age = 0;
    slot.stretch = STRETCH_KINDS;
    for index in 0..STRETCH_KINDS {
        let kind = &mut slot.kinds[index as usize];
        if kind.place == 0 {
            kind.place = place;
        }
        if kind.place == place {
            slot.stretch = index;
            break;
        }
    }
}

/// Another experiment: nothing is known of its line, and places where the thread does not come any more make room.
/// The present stretch goes on.
#[inline(always)]
pub fn forget(slot: &mut KernelSlot) {
    let place = slot.kinds.get(slot.stretch as usize).map_or(PLACE_START, |kind| kind.place);
    slot.share = Share::default();
    slot.spinning = Share::default();
    slot.kinds = [Kind::default(); STRETCH_KINDS as usize];
    slot.kinds[0].place = place;
    slot.stretch = 0;
    slot.met = 0;
    slot.met_line = 0;
    slot.ahead = 0;
}

/// What tells one place from another: where in the code, how deep on the stack, and whether the thread blocked there or
/// woke somebody. Never 0.
#[must_use]
#[inline(always)]
pub const fn place(ip: u64, sp: u64, woke: bool) -> u32 {
    let mixed = (ip ^ sp.rotate_left(32) ^ woke as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed >> 32) as u32 | 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::{NO_BOOK, TargetSlot};
    use crate::clock::{charge, charge_ahead, charge_at_sample};
    use proptest::prelude::*;

    fn experiment() -> Experiment {
        Experiment {
            epoch: 7,
            running: true,
            speedup: 500,
            started_ns: 0,
            period_ns: 1_000_000,
            wake_latency_ns: 35_000,
            sample_cost_ns: 0,
        }
    }

    fn thread() -> KernelSlot {
        let mut slot = KernelSlot::default();
        slot.reset(1, 1, NO_BOOK, &TargetSlot::default());
        slot
    }

    #[test]
    fn each_kind_of_stretch_has_its_own_share() {
        let (locked, free) = (place(1, 1, false), place(2, 1, true));
        let mut slot = thread();
        for _ in 0..20 {
            begin(&mut slot, locked);
            observe(&mut slot, true, 400_000, &experiment());
            begin(&mut slot, free);
            observe(&mut slot, false, 300_000, &experiment());
        }
        assert_eq!(share(&slot), 0);
        begin(&mut slot, locked);
        assert_eq!(share(&slot), SHARE_ONE.into());
        begin(&mut slot, place(3, 1, true));
        let average = share(&slot) as f64 / f64::from(SHARE_ONE);
        assert!((average - 4.0 / 7.0).abs() < 0.05, "a new kind is taken for the average: {average}");
    }

    /// A thread whose stretches all begin at one place, sampled every 333 us of its time, give or take half of that: a clock in step with the
    /// stretches would meet the same part of each.
    struct Course {
        slot: KernelSlot,
        to_sample: u64,
        samples: u64,
    }

    impl Course {
        fn new() -> Self {
            Self { slot: thread(), to_sample: 333_000, samples: 0 }
        }

        fn experiment() -> Experiment {
            Experiment { speedup: 1000, period_ns: 333_000, ..experiment() }
        }

        /// A stretch of these pieces, microseconds, in turn of the line and of something else; charged in advance at each sample or not. Returns the
        /// line time charged.
        fn run(&mut self, pieces: &[u64], ahead: bool) -> u64 {
            let experiment = Self::experiment();
            let mut charged = 0;
            for (index, &us) in pieces.iter().enumerate() {
                let mut left = us * 1000;
                while left > 0 {
                    let ran = left.min(self.to_sample);
                    self.slot.age += ran;
                    self.slot.cpu_uncharged += ran;
                    left -= ran;
                    self.to_sample -= ran;
                    if self.to_sample == 0 {
                        // Multiples of the golden ratio are spread evenly.
                        self.samples += 1;
                        self.to_sample = 166_500 + (self.samples * 618_034 % 1_000_000) * 333 / 1000;
                        observe(&mut self.slot, index % 2 == 0, 333_000, &experiment);
                        let threshold = if ahead { 0 } else { u64::MAX };
                        charged += charge_at_sample(&mut self.slot, &experiment, u64::MAX / 2, threshold);
                    }
                }
            }
            charged += charge(&mut self.slot, &experiment, u64::MAX / 2);
            begin(&mut self.slot, place(1, 1, true));
            charged
        }
    }

    /// The mean of what is charged to stretches, microseconds.
    fn mean(charged: &[u64]) -> u64 {
        charged.iter().sum::<u64>() / charged.len() as u64 / 1000
    }

    #[test]
    fn a_line_that_only_short_stretches_have_is_charged_to_them() {
        let mut course = Course::new();
        let (mut short, mut long) = (Vec::new(), Vec::new());
        for round in 0..3_000 {
            // 350 us of the line, 150 of something else; one in ten takes 900 and has none of the line.
            if round % 10 == 3 {
                long.push(course.run(&[0, 900], false));
            } else {
                short.push(course.run(&[350, 150], false));
            }
        }
        let (short, long) = (mean(&short[300..]), mean(&long[30..]));
        assert!((330..=360).contains(&short), "{short} of 350 us");
        assert!(long < 25, "{long} of 0 us: at the share of all of them it would be 530");
    }

    #[test]
    fn a_line_at_the_beginning_of_a_long_stretch_is_charged_there() {
        let mut course = Course::new();
        for _ in 0..200 {
            course.run(&[1_000, 3_000], false);
        }
        course.slot.age = 3 * LONG;
        let late = line_time(&course.slot, LONG, &Course::experiment());
        assert!(late < LONG / 50, "{late} of {LONG} ns in the last part");
    }

    proptest! {
        /// Whatever stretches there are, and whether or not they are charged before their ends: the sum is what the line has had, to a
        /// few percent (a share looks back on a few samples only).
        #[test]
        fn all_in_all_the_line_is_charged_what_it_had(
            kinds in prop::collection::vec((prop::collection::vec(1u64..1_500, 1..5), any::<bool>()), 1..5),
            order in prop::collection::vec(any::<prop::sample::Index>(), 3_000),
        ) {
            let mut course = Course::new();
            let (mut charged, mut line, mut all) = (0, 0, 0);
            for which in order {
                let (pieces, ahead) = which.get(&kinds);
                charged += course.run(pieces, *ahead);
                line += 1000 * pieces.iter().step_by(2).sum::<u64>();
                all += 1000 * pieces.iter().sum::<u64>();
            }
            let off = (charged as f64 - line as f64) / all as f64;
            prop_assert!(off.abs() < 0.03, "{charged} of {line} ns, of {all} in all");
        }
    }

    /// A thread in a stretch of 400 us, all of it the line's as far as is known.
    fn in_the_line() -> KernelSlot {
        let mut slot = thread();
        begin(&mut slot, place(1, 1, true));
        observe(&mut slot, true, 1_000_000, &experiment());
        (slot.age, slot.cpu_uncharged) = (400_000, 400_000);
        slot
    }

    #[test]
    fn what_is_charged_ahead_is_not_charged_again() {
        let experiment = Course::experiment();
        let mut slot = in_the_line();
        (slot.age, slot.cpu_uncharged) = (300_000, 300_000);
        let first = charge_ahead(&mut slot, &experiment, u64::MAX);
        assert!(first > 299_000);
        assert_eq!(charge_ahead(&mut slot, &experiment, u64::MAX), 0);
        (slot.age, slot.cpu_uncharged) = (400_000, 400_000);
        let rest = charge(&mut slot, &experiment, u64::MAX);
        assert!((399_000..=400_000).contains(&(first + rest)), "{first} and {rest} of 400,000 ns");
        assert_eq!((slot.cpu_uncharged, slot.ahead), (0, 0));
    }

    #[test]
    fn what_was_charged_too_much_ahead_is_taken_from_the_next_stretch() {
        let experiment = Course::experiment();
        let mut slot = in_the_line();
        slot.ahead = 500_000;
        assert_eq!(charge(&mut slot, &experiment, u64::MAX), 0);
        begin(&mut slot, place(1, 1, true));
        (slot.age, slot.cpu_uncharged) = (400_000, 400_000);
        let next = charge(&mut slot, &experiment, u64::MAX);
        assert!((298_000..=301_000).contains(&next), "{next} of 300,000 ns");
    }

    #[test]
    fn what_is_older_than_the_stretch_is_charged_at_the_average() {
        let mut slot = thread();
        begin(&mut slot, place(1, 1, true));
        for _ in 0..50 {
            slot.age = 10_000;
            observe(&mut slot, true, 1_000_000, &experiment());
        }
        assert!(line_time(&slot, 1_000_000, &experiment()) > 999_000);
        let mut other = thread();
        observe(&mut other, false, 1_000_000, &experiment());
        assert_eq!(line_time(&other, 1_000_000, &experiment()), 0);
    }

    #[test]
    fn a_thread_with_more_places_than_room_is_charged_at_its_average() {
        let mut slot = thread();
        // Its life's beginning is one.
        for number in 1..u64::from(STRETCH_KINDS) {
            begin(&mut slot, place(number, 0, false));
            observe(&mut slot, false, 1_000_000, &experiment());
        }
        begin(&mut slot, place(1000, 0, false));
        assert_eq!(slot.stretch, STRETCH_KINDS);
        observe(&mut slot, true, 1_000_000, &experiment());
        assert_eq!(share(&slot), slot.share.value.into());
        assert!(slot.share.value > 0);
    }

    #[test]
    fn another_experiment_forgets_all_but_where_the_thread_is() {
        let mut slot = thread();
        begin(&mut slot, place(1, 0, false));
        begin(&mut slot, place(2, 0, true));
        observe(&mut slot, true, 1_000_000, &experiment());
        forget(&mut slot);
        assert_eq!((slot.share.weight, slot.kinds[0].share.weight), (0, 0));
        observe(&mut slot, true, 1_000_000, &experiment());
        begin(&mut slot, place(3, 0, true));
        assert_eq!(slot.stretch, 1, "the others' entries are free again");
        begin(&mut slot, place(2, 0, true));
        assert_eq!(
            slot.stretch, 0,
            "the stretch that went on is of the same kind as the next that begins there"
        );
    }

    #[test]
    fn blocking_and_waking_at_one_place_are_two() {
        assert_ne!(place(0x401000, 0x7fff_0000, true), place(0x401000, 0x7fff_0000, false));
        assert_ne!(place(0, 0, false), 0);
    }
}
