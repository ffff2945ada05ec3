//! kernel

pub mod btf;
