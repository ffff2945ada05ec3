//! kernel

pub mod btf;
pub mod doctor;
pub mod environment;
