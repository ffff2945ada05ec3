//! Which part of a thread's CPU time falls on the selected line: a running share, by stretch.
//!
//! Between two samples nothing is seen of where a thread is, so what it is charged for its time there is an estimate: a
//! share of that time, learnt from the samples before. *When* it is charged matters as much as how much: a delay that
//! belongs to the time in which a lock is held is absorbed by those who wait for the lock, the same delay charged
//! a little later must be paid by them. So a thread's time is told apart in **stretches**, from one place where it
//! blocked or woke somebody to the next, and each kind of stretch (each place that it begins at) has its own share.
//! Holding the lock and not holding it are two kinds: a lock that somebody waits for is taken after having been blocked
//! and given back by a wake-up.
//!
//! Within a stretch the line may come early or late, and short ones may have it and long ones not (a request of the common sort and
//! a rare one begin at the same place). So each kind has a share for each **age** of its stretches too: how much
//! CPU time the thread has had since the stretch began.

use crate::abi::{AGE_FIRST, KernelSlot, Kind, PLACE_START, STRETCH_AGES, STRETCH_KINDS, Share};
use crate::clock::Experiment;

/// The share of a thread that does nothing but run the selected line.
pub const SHARE_ONE: u32 = 1 << 16;
/// How many nominal periods of CPU time a running share looks back on.
pub const SHARE_WINDOW: u64 = 8;

impl Share {
    /// A sample that stands for `weight_ns` of CPU time has fallen on what is counted (`hit`) or not.
    ///
    /// The share is the weighted mean of all samples of this experiment until they stand for [`SHARE_WINDOW`]
    /// periods, from then on an exponential mean of that length. So it is unbiased from the first sample on, and
    /// nothing is carried from one selected line to the next.
    #[inline(always)]
    pub fn observe(&mut self, hit: bool, weight_ns: u64, period_ns: u64) {
        let cap = ((SHARE_WINDOW * period_ns) >> 10) + 1;
        let weight = ((weight_ns >> 10) + 1).min(cap);
        let total = (u64::from(self.weight) + weight).min(cap);
        let share = u64::from(self.value);
        self.value = if hit {
            share + (u64::from(SHARE_ONE) - share) * weight / total
        } else {
            share - share * weight / total
        } as u32;
        self.weight = total as u32;
    }
}

/// A sample of the present stretch.
#[inline(always)]
pub fn observe(slot: &mut KernelSlot, hit: bool, weight_ns: u64, experiment: &Experiment) {
    slot.share.observe(hit, weight_ns, experiment.period_ns);
    if let Some(kind) = slot.kinds.get_mut(slot.stretch as usize) {
        kind.share.observe(hit, weight_ns, experiment.period_ns);
        for (index, age) in kind.ages.iter_mut().enumerate() {
            if slot.age < age_ends(index) {
                age.observe(hit, weight_ns, experiment.period_ns);
                break;
            }
        }
    }
}

/// The CPU time in a stretch at which this age of it ends, nanoseconds.
#[inline(always)]
const fn age_ends(index: usize) -> u64 {
    if index + 1 < STRETCH_AGES { AGE_FIRST << index } else { u64::MAX }
}

/// How much of the last `cpu` nanoseconds of the thread's CPU time the line has had, nanoseconds.
///
/// An age of which little is known is charged at a mean of its own share and that of its kind, as if a period's worth of samples had said
/// the latter; a kind without a sample, or without room, at the thread's average. So is what is left of earlier stretches, from
/// before the thread's first sample.
#[must_use]
#[inline(always)]
pub fn line_time(slot: &KernelSlot, cpu: u64, experiment: &Experiment) -> u64 {
    // It has not once been met there: the share never comes down to 0 again.
    if slot.share.value == 0 {
        return 0;
    }
    let all = share(slot);
    let Some(kind) = slot.kinds.get(slot.stretch as usize) else { return part(cpu, all) };
    let to = slot.age;
    let from = to.saturating_sub(cpu);
    let mut line = part(cpu - (to - from), all);
    let period = (experiment.period_ns >> 10) + 1;
    let mut begins = 0;
    for (index, age) in kind.ages.iter().enumerate() {
        let ends = age_ends(index);
        let within = to.min(ends).saturating_sub(from.max(begins));
        if within != 0 {
            let known = u64::from(age.weight);
            line += part(within, (u64::from(age.value) * known + all * period) / (known + period));
        }
        begins = ends;
    }
    line
}

/// The part of a time that is this share (in 1/65536) of it.
#[inline(always)]
const fn part(time: u64, share: u64) -> u64 {
    (time * share) >> 16
}

/// The share of the present kind of stretches, whatever their age, in 1/65536. A kind that has no sample yet is taken for the thread's average.
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

    /// The line time charged in a stretch of so many microseconds, in pieces of 10.
    fn charged(slot: &mut KernelSlot, us: u64) -> Vec<u64> {
        slot.age = 0;
        let piece = |_| {
            slot.age += 10_000;
            line_time(slot, 10_000, &experiment())
        };
        (0..us / 10).map(piece).collect()
    }

    #[test]
    fn a_line_at_the_beginning_of_a_stretch_is_charged_there() {
        let mut slot = thread();
        // 262 us of the line, then as many of something else; sampled everywhere alike.
        for round in 0..400 {
            begin(&mut slot, place(1, 1, true));
            slot.age = 13_107 * (round * 7 % 40);
            let hit = slot.age < AGE_FIRST << 2;
            observe(&mut slot, hit, 500_000, &experiment());
        }
        let each = charged(&mut slot, 520);
        let (early, late): (u64, u64) = (each[..26].iter().sum(), each[26..].iter().sum());
        assert!((235_000..=262_000).contains(&early), "{early} of 262,000 ns");
        assert!(late < 30_000, "{late} of 0");
        let sum = early + late;
        assert!((240_000..=285_000).contains(&sum), "all in all it is charged what it is: {sum}");
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
