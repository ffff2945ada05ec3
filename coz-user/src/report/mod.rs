//! report
/// x
pub fn of_run(kept: &[u8], _config: &crate::cli::RunConfig, _terminal: bool) -> anyhow::Result<String> { Ok(String::from_utf8_lossy(kept).into_owned()) }
