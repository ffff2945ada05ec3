//! Experiments: which one comes next ([`plan`]), when it begins and ends ([`machine`], or [`series`] where whole runs are the
//! experiments; both speak [`protocol`]),
//! what it says ([`data`]), how much of it is not counted ([`settling`]), which lines need more of them and when there are enough ([`spend`]).
//!
//! Everything here is pure: no clock, no map, no file. The controller turns [`machine::Action`]s into effects
//! and effects into [`machine::Event`]s; a test does the same with a simulated program.

pub mod budget;
pub mod data;
pub mod guard;
pub mod latency;
pub mod machine;
pub mod plan;
pub mod protocol;
pub mod record;
pub mod series;
pub mod settling;
pub mod spend;
