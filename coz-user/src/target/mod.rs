//! target

pub mod registration;
pub mod shim;
