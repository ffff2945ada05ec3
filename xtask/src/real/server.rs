//! A server on the loopback interface: waited for, kept busy, ended.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use super::load;
use crate::sh;

/// When it has been enough.
#[derive(Clone, Copy, Debug)]
pub enum Bound {
    /// After this time.
    Time(Duration),
    /// After so many requests.
    Requests(u64),
}

/// Who asks the server.
#[derive(Clone, Copy, Debug)]
pub enum Client {
    /// [`load::ask`]: memcached, for many keys at once.
    Keys,
    /// `redis-benchmark` of Debian's `redis-tools`.
    RedisBenchmark,
    /// `ab` of Debian's `apache2-utils`.
    ApacheBench,
}

/// More than are answered in the time.
const MANY: u64 = 5_000_000;

/// Where a server listens, and who asks it for how long.
#[derive(Clone, Copy, Debug)]
pub struct Served {
    /// Of 127.0.0.1.
    pub port: u16,
    /// Who asks.
    pub client: Client,
    /// Until when.
    pub bound: Bound,
    /// What it answers on one CPU, roughly.
    pub requests_a_ms: u64,
}

impl Served {
    /// The same with a fixed number of requests: about as many as it answers in its time.
    pub fn fixed(self) -> Self {
        match self.bound {
            Bound::Time(time) => {
                Self { bound: Bound::Requests(time.as_millis() as u64 * self.requests_a_ms), ..self }
            }
            Bound::Requests(_) => self,
        }
    }

    /// Waits until the server listens, keeps it busy, and ends it. How long it was busy.
    ///
    /// # Errors
    /// When it does not listen within ten seconds, answers wrongly, or is gone.
    pub fn serve(self) -> Result<Duration> {
        let deadline = Instant::now() + Duration::from_secs(10);
        while let Err(error) = connect(self.port) {
            if Instant::now() > deadline {
                return Err(error.context("the server does not listen"));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let start = Instant::now();
        match self.client {
            Client::Keys => load::ask(self.port, self.bound)?,
            Client::RedisBenchmark => bounded(self.redis_benchmark(), self.bound)?,
            Client::ApacheBench => bounded(self.apache_bench(), self.bound)?,
        }
        let time = start.elapsed();
        end(self.port)?;
        Ok(time)
    }

    fn redis_benchmark(self) -> Command {
        let mut command = Command::new("redis-benchmark");
        let port = self.port.to_string();
        command.args(["-p", &port, "-t", "lrange_100", "-c", "20", "-P", "8", "-r", "10000", "-q"]);
        match self.bound {
            Bound::Requests(count) => command.args(["-n", &count.to_string()]),
            Bound::Time(_) => command.args(["-n", "20000", "-l"]),
        };
        command
    }

    /// `ab` has a place for the time of each request that there may be.
    fn apache_bench(self) -> Command {
        let mut command = Command::new("ab");
        command.args(["-k", "-q", "-c", "8", "-H", "Accept-Encoding: gzip", "-n"]);
        let count = if let Bound::Requests(count) = self.bound { count } else { MANY };
        command.arg(count.to_string()).arg(format!("http://127.0.0.1:{}/page.html", self.port));
        command
    }
}

/// Runs a client: to its end where it makes a number of requests, for a time where it makes requests until it is ended.
fn bounded(mut command: Command, bound: Bound) -> Result<()> {
    let Bound::Time(time) = bound else { return sh::output(&mut command).map(|_| ()) };
    let shown = sh::shown(&command);
    let spawned = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let mut client = spawned.with_context(|| format!("cannot start `{shown}`"))?;
    std::thread::sleep(time);
    ensure!(client.try_wait()?.is_none(), "`{shown}` ended before its time: the server has failed it");
    client.kill()?;
    client.wait()?;
    Ok(())
}

/// A connection to this port.
///
/// # Errors
/// When nobody listens.
pub fn connect(port: u16) -> Result<TcpStream> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    Ok(TcpStream::connect_timeout(&address, Duration::from_secs(1))?)
}

/// Ends the server: the process that listens on the port, found by its socket.
fn end(port: u16) -> Result<()> {
    let pid = listener(port)?.context("nobody listens any more")?;
    // SAFETY: kill has no preconditions; the process was found to hold the port that we gave it.
    let result = unsafe { libc::kill(pid, libc::SIGTERM) };
    ensure!(result == 0, "process {pid} cannot be ended: {}", std::io::Error::last_os_error());
    Ok(())
}

/// The process that listens on this port of 127.0.0.1: of several, the first one, which is the parent of the others.
fn listener(port: u16) -> Result<Option<libc::pid_t>> {
    // /proc/net/tcp: local address in hexadecimal, state 0A = listening, inode in the tenth column.
    let wanted = format!("0100007F:{port:04X}");
    let table = std::fs::read_to_string("/proc/net/tcp")?;
    let inode = table.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        (words.get(1) == Some(&wanted.as_str()) && words.get(3) == Some(&"0A"))
            .then(|| words.get(9).copied())?
    });
    let Some(inode) = inode else { return Ok(None) };
    let socket = format!("socket:[{inode}]");
    let mut found = None::<libc::pid_t>;
    for entry in std::fs::read_dir("/proc")?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let descriptors = std::fs::read_dir(entry.path().join("fd")).into_iter().flatten().flatten();
        let mut links = descriptors.filter_map(|descriptor| std::fs::read_link(descriptor.path()).ok());
        if links.any(|link| link.to_string_lossy() == socket) && found.is_none_or(|other| pid < other) {
            found = Some(pid);
        }
    }
    Ok(found)
}
