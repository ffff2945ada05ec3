//! The profiled program: whom it runs as, what it is, starting it, watching it, how it ended.

pub mod binary;
pub mod cgroup;
pub mod exit;
pub mod frozen;
pub mod identity;
pub mod inject;
pub mod launch;
pub mod process;
pub mod registration;
pub mod seccomp;
pub mod shim;
pub mod vdso;
