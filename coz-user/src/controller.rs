//! controller

use crate::cli::RunConfig;

/// Runs a program and profiles it: its exit code.
///
/// # Errors
///
/// Always, for now.
pub fn run(_config: RunConfig) -> anyhow::Result<i32> {
    anyhow::bail!("`run` is not connected yet")
}
