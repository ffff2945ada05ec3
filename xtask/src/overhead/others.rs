//! Threads that nobody profiles and that switch all the time: what they pay for a profile of somebody else.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

use anyhow::{Context as _, Result};

/// Does the work while two threads of ours hand a byte to and fro.
///
/// # Errors
/// When there is no pair of sockets, or the work fails.
pub fn switching<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    let (ours, theirs) = UnixStream::pair().context("cannot make a pair of sockets")?;
    let end = ours.try_clone()?;
    std::thread::scope(|scope| {
        // Each ends when the connection is shut down.
        let bounce = |mut stream: UnixStream| {
            let mut byte = [0];
            while stream.read_exact(&mut byte).is_ok() && stream.write_all(&byte).is_ok() {}
        };
        (&ours).write_all(&[0])?;
        scope.spawn(move || bounce(ours));
        scope.spawn(move || bounce(theirs));
        let done = work();
        end.shutdown(std::net::Shutdown::Both)?;
        done
    })
}
