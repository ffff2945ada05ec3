//! experiment

pub mod record;
