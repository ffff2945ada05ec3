//! What to try next: a line and a speedup, at random, repeatable by seed.
//!
//! The distribution is that of Curtsinger and Berger, "Coz: finding code that counts with causal profiling",
//! SOSP 2015, section 3.2: a line in proportion to the samples that fall on lines at the time, a speedup that is
//! 0 half of the time and else uniform. Three things are arranged so that a run of half a minute already answers:
//!
//! - **Rounds.** A drawn line is kept for a few experiments, in pairs of one baseline and one speedup, the order
//!   within each pair at random (a permuted block). So every experiment has a baseline of its own line next to it
//!   in time, which matters on a machine whose speed wanders, and exactly half of them are baselines. A line's
//!   first round is as long as the paper asks for before a line is shown, [`FIRST_PAIRS`] different speedups;
//!   later ones have [`LATER_PAIRS`]. As later rounds are all of one length, a line's share of the experiments
//!   tends to its share of the samples.
//! - **Decks.** A line's speedups are drawn without putting back, until all have been used; each [`BANDS`] in a
//!   row come from different parts of the range. Every speedup is as likely as before, but a few experiments
//!   already span the curve.
//! - **Recent samples.** Counts fade with a half-life of [`HALF_LIFE`], so a line that becomes hot late is found
//!   within seconds, and one that has stopped running is left alone.
//! - **Spending.** What is known about the lines by now ([`Plan::learn`]) decides where most experiments go: one
//!   round in [`FORCED`] is drawn as above whatever is known, so that every line stays findable; the others go to the
//!   line whose answer is the most open ([`super::spend`]).
//! - **Around a half.** Where the line that stands first is to be known at 50 % (`--until`), every other of its speedups
//!   is drawn from [`AROUND_HALF`]: a curve that may bend anywhere is known best where its speedups are.
//! - **Cold lines.** A line with less than [`COLD`] of the recent samples gets a pair at a time, and two at most as
//!   long as a hotter one has no answer.

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::spend::{self, Standing};
use coz_common::units::{LineId, Nanos, Speedup};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Pairs (baseline and speedup) in a line's first round, if there are that many speedups: the number of different
/// speedups that a line needs to be shown.
pub const FIRST_PAIRS: usize = 5;
/// Pairs in a line's later rounds.
pub const LATER_PAIRS: usize = 2;
/// Into how many parts of the range a line's speedups are divided, to be used in turn.
pub const BANDS: usize = 5;
/// After this time, a sample counts for half in the choice of a line.
pub const HALF_LIFE: Nanos = Nanos(2_000_000_000);

/// Before the first choice, so many samples are waited for, or [`FIRST_LOOK`]: what runs while a program starts is
/// seldom what matters.
pub const FIRST_SAMPLES: f64 = 50.0;
/// The longest wait before the first choice, from the first sample on.
pub const FIRST_LOOK: Nanos = Nanos(1_000_000_000);
/// A round is given up after so many experiments in a row in which its line was not sampled: it has stopped running.
pub const IDLE_EXPERIMENTS: u32 = 2;

/// One round in so many is drawn in proportion to the samples, whatever is known.
pub const FORCED: u32 = 3;
/// A line with a smaller share of the recent samples is cold.
pub const COLD: f64 = 0.005;
/// Speedups around a half, thousandths.
pub const AROUND_HALF: std::ops::RangeInclusive<u32> = 400..=600;
/// Pairs of a cold line while a hotter one has no answer.
pub const COLD_PAIRS: usize = 2;

/// One experiment to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The selected line.
    pub line: LineId,
    /// The virtual speedup.
    pub speedup: Speedup,
    /// Number of the round that it belongs to, from 1 on.
    pub round: u32,
}

/// How lines are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lines {
    /// At random, in proportion to recent samples.
    #[default]
    Sampled,
    /// Always the same one, once it is known which ([`Plan::fix`]).
    Fixed,
}

/// The planner: knows what was sampled lately, says what to try next.
#[derive(Debug)]
pub struct Plan {
    /// One generator for each kind of choice: how many speedups were drawn does not change which line comes next.
    line_rng: ChaCha8Rng,
    level_rng: ChaCha8Rng,
    lines: Lines,
    /// No line is drawn at random as long as there is one that is wanted more.
    by_need: bool,
    fixed: Option<LineId>,
    levels: Vec<Speedup>,
    recent: BTreeMap<LineId, f64>,
    observed_at: Nanos,
    decks: HashMap<LineId, Vec<Speedup>>,
    round: VecDeque<Choice>,
    rounds: u32,
    first_seen: Option<Nanos>,
    idle: u32,
    /// Pairs begun so far.
    pairs: HashMap<LineId, usize>,
    standings: BTreeMap<LineId, Standing>,
}

impl Plan {
    /// A planner that draws from `levels` (the baseline is always half of the experiments, listed or not; without
    /// any other level there are only baselines).
    #[must_use]
    pub fn new(seed: u64, lines: Lines, levels: &[Speedup]) -> Self {
        let stream = |number| {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            rng.set_stream(number);
            rng
        };
        let mut levels: Vec<_> = levels.iter().copied().filter(|s| !s.is_baseline()).collect();
        levels.sort_unstable();
        levels.dedup();
        Self {
            line_rng: stream(0),
            level_rng: stream(1),
            lines,
            by_need: false,
            fixed: None,
            levels,
            recent: BTreeMap::new(),
            observed_at: Nanos(0),
            decks: HashMap::new(),
            round: VecDeque::new(),
            rounds: 0,
            first_seen: None,
            idle: 0,
            pairs: HashMap::new(),
            standings: BTreeMap::new(),
        }
    }

    /// The same where experiments are so few that none is left to chance: the hottest line that was not tried yet comes first, then
    /// the one whose answer is the most open.
    #[must_use]
    pub fn by_need(self) -> Self {
        Self { by_need: true, ..self }
    }

    /// From now on, a planner for [`Lines::Fixed`] chooses this line.
    pub fn fix(&mut self, line: LineId) {
        self.fixed = Some(line);
    }

    /// Takes note of what is known about the lines by now; those that are not named have no answer.
    pub fn learn(&mut self, standings: impl IntoIterator<Item = (LineId, Standing)>) {
        self.standings = standings.into_iter().collect();
    }

    /// Takes note of the samples that fell on each line since the last call; `now` is when they were read.
    pub fn observe(&mut self, samples: &[(LineId, u64)], now: Nanos) {
        let half_lives = now.since(self.observed_at).0 as f64 / HALF_LIFE.0 as f64;
        self.observed_at = self.observed_at.max(now);
        let fade = 0.5f64.powf(half_lives);
        for weight in self.recent.values_mut() {
            *weight *= fade;
        }
        for &(line, count) in samples.iter().filter(|(line, count)| line.is_some() && *count > 0) {
            *self.recent.entry(line).or_insert(0.0) += count as f64;
        }
        if !self.recent.is_empty() {
            self.first_seen.get_or_insert(now);
        }
        // A line with less than a thousandth of a sample left is forgotten, so that the map does not grow for ever.
        self.recent.retain(|_, weight| *weight > 1e-3);
    }

    /// Whether the next choice depends on what is sampled: then fresh counts should be read first.
    #[must_use]
    pub fn wants_samples(&self) -> bool {
        self.lines == Lines::Sampled && self.round.is_empty()
    }

    /// Whether [`Self::choose`] would have an answer.
    #[must_use]
    pub fn can_choose(&self) -> bool {
        !self.round.is_empty()
            || match self.lines {
                Lines::Fixed => self.fixed.is_some(),
                Lines::Sampled => self.knows_enough(),
            }
    }

    fn knows_enough(&self) -> bool {
        let first_choice = self.rounds == 0;
        let looked = self.first_seen.is_some_and(|first| self.observed_at.since(first) >= FIRST_LOOK);
        let samples: f64 = self.recent.values().sum();
        !self.recent.is_empty() && (!first_choice || looked || samples >= FIRST_SAMPLES)
    }

    /// An experiment has ended, in which its line was sampled so often.
    pub fn ended(&mut self, samples: u64) {
        self.idle = if samples == 0 { self.idle + 1 } else { 0 };
        if self.lines == Lines::Sampled && self.idle >= IDLE_EXPERIMENTS {
            self.round.clear();
            self.idle = 0;
        }
    }

    /// The next experiment; `None` while no line has been sampled (or the fixed one is not known).
    pub fn choose(&mut self) -> Option<Choice> {
        if self.round.is_empty() {
            let line = match self.lines {
                Lines::Fixed => self.fixed?,
                Lines::Sampled if self.knows_enough() => self.next_line()?,
                Lines::Sampled => return None,
            };
            self.begin_round(line);
        }
        self.round.pop_front()
    }

    /// A stretch of time at random between `at_least` and twice that: pauses of one length would lock step with
    /// a periodic program.
    pub fn jitter(&mut self, at_least: Nanos) -> Nanos {
        Nanos(at_least.0.saturating_add(self.level_rng.random_range(0..=at_least.0)))
    }

    /// The line of the next round.
    fn next_line(&mut self) -> Option<LineId> {
        let forced =
            !self.by_need && (self.standings.is_empty() || self.line_rng.random_range(0..FORCED) == 0);
        let hot = self.hot();
        let open = hot.iter().any(|&(line, _)| self.standings.get(&line).is_none_or(|s| s.is_open));
        if !forced && let Some(line) = spend::widest(&hot, &self.standings) {
            return Some(line);
        }
        let had_enough = |line: &LineId| {
            open && hot.iter().all(|(hot, _)| hot != line)
                && self.pairs.get(line).is_some_and(|&pairs| pairs >= COLD_PAIRS)
        };
        let lines: Vec<(LineId, f64)> =
            self.recent.iter().filter(|(line, _)| !had_enough(line)).map(|(&l, &w)| (l, w)).collect();
        draw(&lines, &mut self.line_rng)
    }

    /// The lines that are not cold, with their shares of the recent samples.
    fn hot(&self) -> Vec<(LineId, f64)> {
        let total: f64 = self.recent.values().sum();
        self.recent.iter().map(|(&line, &n)| (line, n / total)).filter(|(_, share)| *share >= COLD).collect()
    }

    fn begin_round(&mut self, line: LineId) {
        self.rounds += 1;
        let hot = self.hot();
        let is_cold =
            self.lines == Lines::Sampled && !hot.is_empty() && hot.iter().all(|(hot, _)| *hot != line);
        let pairs = match self.decks.contains_key(&line) {
            _ if is_cold => 1,
            false => FIRST_PAIRS.min(self.levels.len()).max(LATER_PAIRS),
            true => LATER_PAIRS,
        };
        *self.pairs.entry(line).or_default() += pairs;
        let wanted = self.standings.get(&line).is_some_and(|standing| standing.is_wanted);
        for number in 0..pairs {
            let around = if wanted && number % 2 == 0 { self.draw_around_half() } else { None };
            let level = around.unwrap_or_else(|| self.draw_level(line));
            let mut pair = [Speedup::BASELINE, level];
            pair.shuffle(&mut self.level_rng);
            self.round.extend(pair.map(|speedup| Choice { line, speedup, round: self.rounds }));
        }
    }

    fn draw_around_half(&mut self) -> Option<Speedup> {
        let near: Vec<_> =
            self.levels.iter().filter(|s| AROUND_HALF.contains(&s.permille())).copied().collect();
        (!near.is_empty()).then(|| near[self.level_rng.random_range(0..near.len())])
    }

    fn draw_level(&mut self, line: LineId) -> Speedup {
        let deck = self.decks.entry(line).or_default();
        if deck.is_empty() {
            *deck = shuffled_deck(&self.levels, &mut self.level_rng);
        }
        deck.pop().unwrap_or(Speedup::BASELINE)
    }
}

/// A line at random, in proportion to its weight.
fn draw(lines: &[(LineId, f64)], rng: &mut ChaCha8Rng) -> Option<LineId> {
    let total: f64 = lines.iter().map(|(_, weight)| weight).sum();
    let mut rest = rng.random_range(0.0..1.0) * total;
    for &(line, weight) in lines {
        if rest < weight {
            return Some(line);
        }
        rest -= weight;
    }
    // Rounding can leave a rest after the last line.
    lines.last().map(|(line, _)| *line)
}

/// A seed for a run that was given none: short enough to be typed, and exact in every JSON reader.
#[must_use]
pub fn random_seed() -> u64 {
    u64::from(rand::random::<u32>())
}

/// All levels once, in an order in which each [`BANDS`] neighbours come from different parts of the range.
fn shuffled_deck(sorted: &[Speedup], rng: &mut ChaCha8Rng) -> Vec<Speedup> {
    let bands = BANDS.min(sorted.len());
    let mut bands: Vec<Vec<Speedup>> = (0..bands)
        .map(|b| sorted[b * sorted.len() / bands..(b + 1) * sorted.len() / bands].to_vec())
        .collect();
    for band in &mut bands {
        band.shuffle(rng);
    }
    let mut deck = Vec::with_capacity(sorted.len());
    while deck.len() < sorted.len() {
        let mut turn: Vec<_> = bands.iter_mut().filter_map(Vec::pop).collect();
        turn.shuffle(rng);
        deck.extend(turn);
    }
    // It is drawn from its end, and the turns that lack a band are to come last.
    deck.reverse();
    deck
}

#[cfg(test)]
mod tests;
