//! The kernel's side seen from user space: loading the programs, the shared maps, the facts of this machine.

mod admission;
pub mod books;
pub mod btf;
pub mod calibrate;
pub mod control;
mod control_file;
pub mod counting;
pub mod doctor;
pub mod environment;
pub mod features;
pub mod lines;
pub mod load;
mod log;
pub mod mapped;
mod object;
pub mod offsets;
pub mod points;
mod price;
pub mod probe;
pub mod processes;
pub mod programs;
mod raw_map;
mod sampling;
mod signal_stack;
pub mod standing;
pub mod unwind;

pub use log::KernelLog;
