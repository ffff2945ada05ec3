//! Programs that run already: they join, are delayed, and are let go as they were.

mod effects;
mod endings;
mod go;
mod instrumented;
mod refusals;
mod sets;
mod target;
