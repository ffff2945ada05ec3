//! The repository's own commands, as a library, so that the integration tests can use the same pieces:
//! how the kernel side's object is made and checked, how the programs with a known answer are built and run.

pub mod ebpf;
pub mod sh;
