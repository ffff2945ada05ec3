//! A small load for memcached, on the loopback interface only.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use super::server::{self, Bound};

const CONNECTIONS: usize = 4;
const KEYS: usize = 50;

fn connect(port: u16) -> Result<TcpStream> {
    let stream = server::connect(port)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Asks the server on this port for many keys at once, again and again, until this is enough.
///
/// # Errors
/// When it answers wrongly, or closes a connection.
pub fn ask(port: u16, bound: Bound) -> Result<()> {
    let mut first = connect(port)?;
    store(&mut first)?;
    let mut connections = vec![BufReader::new(first)];
    while connections.len() < CONNECTIONS {
        connections.push(BufReader::new(connect(port)?));
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
    Ok(())
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
