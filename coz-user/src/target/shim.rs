//! stub
/// x
pub fn memfd() -> std::io::Result<std::os::fd::OwnedFd> { Ok(std::fs::File::open("/dev/null")?.into()) }
