//! A small load for memcached, on the loopback interface only, bounded in time.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

/// Where the server listens.
pub const PORT: &str = "21211";

const CONNECTIONS: usize = 4;
const KEYS: usize = 50;

/// When it has been enough.
#[derive(Clone, Copy, Debug)]
pub enum Bound {
    /// After this time.
    Time(Duration),
    /// After so many requests.
    Requests(u64),
}

fn connect() -> Result<TcpStream> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, PORT.parse()?));
    let stream = TcpStream::connect_timeout(&address, Duration::from_secs(1))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Waits for the server, then asks it for many keys at once, again and again, until this is enough. How long
/// that took, without the waiting.
///
/// # Errors
/// When it does not listen within ten seconds, answers wrongly, or closes a connection.
pub fn serve(bound: Bound) -> Result<Duration> {
    let deadline = Instant::now() + Duration::from_secs(10);
    let mut first = loop {
        match connect() {
            Ok(stream) => break stream,
            Err(error) if Instant::now() > deadline => {
                return Err(error.context("the server does not listen"));
            }
            Err(_) => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    store(&mut first)?;
    let mut connections = vec![BufReader::new(first)];
    while connections.len() < CONNECTIONS {
        connections.push(BufReader::new(connect()?));
    }
    let request = request();
    let (start, mut asked) = (Instant::now(), 0);
    let enough = |asked| match bound {
        Bound::Time(time) => start.elapsed() >= time,
        Bound::Requests(count) => asked >= count,
    };
    while !enough(asked) {
        // All connections have a request under way before the first answer is read: while we read it, the server
        // works on the others.
        for _ in 0..50 {
            for connection in &mut connections {
                connection
                    .get_mut()
                    .write_all(request.as_bytes())
                    .context("the server has closed the connection")?;
            }
            for connection in &mut connections {
                answer(connection)?;
            }
            asked += CONNECTIONS as u64;
        }
    }
    Ok(start.elapsed())
}

fn store(stream: &mut TcpStream) -> Result<()> {
    let mut answers = BufReader::new(stream.try_clone()?);
    for key in 0..KEYS {
        write!(stream, "set key{key} 0 0 10\r\n0123456789\r\n")?;
        let mut line = String::new();
        answers.read_line(&mut line)?;
        ensure!(line == "STORED\r\n", "`set` was answered by {line:?}");
    }
    Ok(())
}

fn request() -> String {
    let keys: Vec<_> = (0..KEYS).map(|key| format!("key{key}")).collect();
    format!("get {}\r\n", keys.join(" "))
}

/// Reads an answer to its end: two lines a key, and `END`.
fn answer(connection: &mut BufReader<TcpStream>) -> Result<()> {
    let mut line = Vec::new();
    for _ in 0..=2 * KEYS {
        line.clear();
        connection.read_until(b'\n', &mut line)?;
        match line.as_slice() {
            b"END\r\n" => return Ok(()),
            b"" => bail!("the server has closed the connection"),
            _ => {}
        }
    }
    bail!("an answer without an end")
}

/// Ends the server: the process that listens on our port, found by its socket.
///
/// # Errors
/// When there is none.
pub fn end_server() -> Result<()> {
    let pid = listener(PORT.parse()?)?.context("nobody listens any more")?;
    // SAFETY: kill has no preconditions; the process was found to hold our own port.
    let result = unsafe { libc::kill(pid, libc::SIGTERM) };
    ensure!(result == 0, "process {pid} cannot be ended: {}", std::io::Error::last_os_error());
    Ok(())
}

/// The process that listens on this port of 127.0.0.1.
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
    for entry in std::fs::read_dir("/proc")?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let descriptors = std::fs::read_dir(entry.path().join("fd")).into_iter().flatten().flatten();
        let mut links = descriptors.filter_map(|descriptor| std::fs::read_link(descriptor.path()).ok());
        if links.any(|link| link.to_string_lossy() == socket) {
            return Ok(Some(pid));
        }
    }
    Ok(None)
}
