//! How often is sampled while a run goes on: at the rate that was chosen at its start, until the load has grown too much for it. It never
//! rises again, so there are few changes, and none goes back and forth.

use std::fmt;

use coz_common::units::Nanos;

use super::load::Parts;
use crate::kernel::calibrate::{LOWER, RATES, rate_for};

/// Of what everything of ours may take, this part is for what it takes by itself. The rest is for delays: without them there is no
/// experiment.
const OURS: f64 = 0.5;
/// A load that has stayed too large for so long is no peak.
const PATIENCE: Nanos = Nanos(3_000_000_000);
/// A lower rate is not worth it if it saves less than this part of what is allowed.
const WORTH: f64 = 0.05;
/// A sample must have become dearer by so much: what it takes is measured to within some 15 %.
const DEARER: f64 = 4.0 / 3.0;
/// So many looks, of which the middle one counts.
const LOOKS: usize = 3;

/// Why it is sampled less often.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Why {
    /// A sample takes longer than it did.
    Dearer {
        /// At the start.
        from: Nanos,
        /// Now.
        to: Nanos,
    },
    /// We take these parts of the machine's time.
    Load(Parts),
}

/// A change of the rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// Samples per second of CPU time before.
    pub from: u32,
    /// And after.
    pub to: u32,
    /// Why.
    pub why: Why,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to, why } = self;
        write!(f, "the sampling rate was lowered from {from} to {to} Hz to stay within --max-overhead: ")?;
        match why {
            Why::Dearer { from, to } => {
                let us = |price: &Nanos| price.0 as f64 / 1e3;
                write!(f, "a sample took {:.1} us, and {:.1} at the start", us(to), us(from))
            }
            Why::Load(parts) => {
                let percent = |part: f64| 100.0 * part;
                write!(
                    f,
                    "coz-bpf took {:.1} % of the machine's time (samples {:.1}, points {:.1}, switches of threads {:.1}, its own process \
                     {:.1})",
                    percent(parts.all()),
                    percent(parts.samples),
                    percent(parts.points),
                    percent(parts.switches),
                    percent(parts.ourselves),
                )
            }
        }
    }
}

/// The present rate, what a sample takes, and what is known of both.
#[derive(Debug)]
pub struct Pace {
    first: u32,
    rate: u32,
    /// Part of the time that everything of ours may take; `None`: as much as it likes, and the rate stays.
    limit: Option<f64>,
    /// The user has asked for this rate.
    asked: bool,
    first_price: Nanos,
    /// At the present rate, as it was known when that was chosen.
    price: Nanos,
    /// What was first seen at the present rate: later looks are compared with it.
    base: Option<Nanos>,
    looks: Vec<Nanos>,
    above_since: Option<Nanos>,
    /// To be made as soon as no experiment runs.
    pending: Option<Change>,
    /// Samples up to the last change, as they are and as if taken at the first rate.
    up_to: (u64, u64),
    /// CPU time for samples up to the last change of rate or price, and how many there were then.
    taken: (Nanos, u64),
}

impl Pace {
    /// `rate`: samples per second of CPU time; `asked`: the user wants it so; `price`: of a sample; `limit`: the part of the time that
    /// everything of ours may take.
    #[must_use]
    pub fn new(rate: u32, asked: bool, price: Nanos, limit: Option<f64>) -> Self {
        Self {
            first: rate,
            rate,
            limit,
            asked,
            first_price: price,
            price,
            base: None,
            looks: Vec::new(),
            above_since: None,
            pending: None,
            up_to: (0, 0),
            taken: (Nanos(0), 0),
        }
    }

    /// Samples per second of CPU time.
    #[must_use]
    pub fn rate(&self) -> u32 {
        self.rate
    }

    /// How far they are apart.
    #[must_use]
    pub fn period(&self) -> Nanos {
        Nanos(1_000_000_000 / u64::from(self.rate.max(1)))
    }

    /// What a sample takes now.
    #[must_use]
    pub fn price(&self) -> Nanos {
        let Some((base, seen)) = self.base.zip(middle(&self.looks)) else { return self.price };
        let dearer = (seen.0 as f64 / base.0.max(1) as f64).max(1.0);
        Nanos((self.price.0 as f64 * dearer) as u64)
    }

    /// Whether it has to be looked what a sample takes, and how many looks are known by now: the first ones say what the later ones
    /// are compared with.
    #[must_use]
    pub fn wants_looks(&self) -> Option<bool> {
        (self.limit.is_some() && !self.asked).then_some(self.base.is_none())
    }

    /// A look at what a sample takes; there were so many samples by then.
    pub fn looked(&mut self, price: Nanos, samples: u64) {
        self.taken = (self.taken(samples), samples);
        self.looks.push(price);
        if self.looks.len() > LOOKS {
            self.looks.remove(0);
        }
        if self.base.is_none() && self.looks.len() == LOOKS {
            self.base = middle(&self.looks);
        }
    }

    /// CPU time that so many samples have taken.
    #[must_use]
    pub fn taken(&self, samples: u64) -> Nanos {
        let (before, counted) = self.taken;
        let since = samples.saturating_sub(counted).saturating_mul(self.price().0);
        Nanos(before.0.saturating_add(since))
    }

    /// So many samples, as if all had been taken at the first rate.
    #[must_use]
    pub fn nominal(&self, samples: u64) -> u64 {
        let (counted, nominal) = self.up_to;
        nominal.saturating_add(self.scaled(samples.saturating_sub(counted)))
    }

    /// So many of these so much CPU time should have.
    #[must_use]
    pub fn expected(&self, cpu: Nanos) -> u64 {
        (cpu.0 as f64 * f64::from(self.first) / 1e9).round() as u64
    }

    /// The same of samples that were taken at the present rate.
    #[must_use]
    pub fn scaled(&self, samples: u64) -> u64 {
        if self.rate == self.first {
            return samples;
        }
        (samples as f64 * f64::from(self.first) / f64::from(self.rate.max(1))).round() as u64
    }

    /// We take these parts of the machine's time, `now`. What follows waits until no experiment runs.
    pub fn judge(&mut self, parts: &Parts, now: Nanos) {
        let Some(limit) = self.limit.filter(|_| !self.asked && self.pending.is_none()) else { return };
        self.pending = self.too_dear(limit).or_else(|| self.too_much(parts, limit, now));
    }

    fn too_dear(&self, limit: f64) -> Option<Change> {
        let price = self.price();
        let to = rate_for(Nanos((price.0 as f64 / DEARER) as u64), Some(limit));
        let why = Why::Dearer { from: self.first_price, to: price };
        (to < self.rate).then_some(Change { from: self.rate, to, why })
    }

    fn too_much(&mut self, parts: &Parts, limit: f64, now: Nanos) -> Option<Change> {
        let to = lower(self.rate, parts, limit);
        if to.is_none() {
            self.above_since = None;
        }
        let to = to?;
        let since = *self.above_since.get_or_insert(now);
        (now.since(since) >= PATIENCE).then_some(Change { from: self.rate, to, why: Why::Load(*parts) })
    }

    /// What is to be changed now that no experiment runs.
    #[must_use]
    pub fn pending(&self) -> Option<Change> {
        self.pending
    }

    /// It was: there were so many samples by then. By which factor samples take less than before.
    pub fn change(&mut self, samples: u64) -> f64 {
        let Some(change) = self.pending.take() else { return 1.0 };
        self.taken = (self.taken(samples), samples);
        self.up_to = (samples, self.nominal(samples));
        self.price = self.price();
        (self.base, self.above_since) = (None, None);
        self.looks.clear();
        self.rate = change.to;
        f64::from(change.to) / f64::from(change.from.max(1))
    }
}

/// The rate to go down to from this one, where these parts of the machine's time are too much and a lower one helps: the highest that
/// is low enough, or else the lowest if it keeps everything within the limit.
#[must_use]
fn lower(rate: u32, parts: &Parts, limit: f64) -> Option<u32> {
    let with = |to: u32| parts.all() - parts.samples * (1.0 - f64::from(to) / f64::from(rate.max(1)));
    if parts.all() <= OURS * limit {
        return None;
    }
    let below = || LOWER.into_iter().chain(RATES).filter(|&to| to < rate);
    let enough = below().rfind(|&to| with(to) <= OURS * limit);
    let to = enough.or_else(|| below().next().filter(|&to| with(to) <= limit))?;
    (parts.all() - with(to) >= WORTH * limit).then_some(to)
}

fn middle(looks: &[Nanos]) -> Option<Nanos> {
    let mut sorted = looks.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied()
}

#[cfg(test)]
mod tests;
