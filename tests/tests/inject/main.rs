//! Processes that run already are entered and left: they pay in between, and neither what they compute nor what their system
//! calls say shows that anybody was there.

#[path = "../bad_input/elf32.rs"]
mod elf32;
mod filtered;
mod frozen;
mod killed;
mod paying;
mod refusals;
mod target;
mod under_run;
mod unharmed;
