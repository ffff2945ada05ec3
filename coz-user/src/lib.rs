//! coz-bpf as a library: every room of the profiler, so that tests and `xtask` can use the pure halves.

pub mod cli;
pub mod commands;
pub mod controller;
pub mod diff;
pub mod estimate;
pub mod experiment;
pub mod kernel;
pub mod points;
pub mod report;
pub mod status;
pub mod symbols;
pub mod target;
pub mod view;
