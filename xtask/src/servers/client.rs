//! Who asks a server: some connections, each of which asks again as soon as it is answered, and compares every answer with the first.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use crate::real::connect;

/// How a server is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// A page, compressed.
    Http,
    /// A list of redis's.
    Redis,
}

/// No answer takes as long.
const LONGEST: Duration = Duration::from_secs(10);
/// Entries of the list in redis.
const ENTRIES: usize = 300;

/// The connections of one server.
#[derive(Debug)]
pub struct Client {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    since: Instant,
}

#[derive(Debug)]
struct Shared {
    over: AtomicBool,
    errors: AtomicU64,
    /// Of each connection: how long each request took since somebody looked, microseconds.
    times: Vec<Mutex<Vec<u32>>>,
    asked: AtomicU64,
    answered: AtomicU64,
    /// What the first error was.
    first: Mutex<Option<String>>,
}

/// What came of a client.
#[derive(Clone, Debug, Default)]
pub struct Fate {
    /// Requests sent.
    pub asked: u64,
    /// Right answers.
    pub answered: u64,
    /// Anything else, and what the first was.
    pub errors: u64,
    /// What the first of them was.
    pub first_error: Option<String>,
}

/// The requests of some seconds.
#[derive(Clone, Debug, Default)]
pub struct Window {
    /// How many a second.
    pub rate: f64,
    /// Median, milliseconds.
    pub p50: f64,
    /// 99th percentile, milliseconds.
    pub p99: f64,
}

impl Client {
    /// Fills a server with what will be asked for, and begins to ask.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn begin(protocol: Protocol, port: u16, connections: usize) -> Result<Self> {
        let mut first = open(port)?;
        if protocol == Protocol::Redis {
            fill(&mut first)?;
        }
        let expected = Arc::new(ask(protocol, &mut first)?);
        let shared = Arc::new(Shared {
            over: AtomicBool::new(false),
            errors: AtomicU64::new(0),
            times: (0..connections).map(|_| Mutex::default()).collect(),
            asked: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            first: Mutex::default(),
        });
        let each = |number: usize| {
            let (shared, expected) = (Arc::clone(&shared), Arc::clone(&expected));
            std::thread::spawn(move || shared.ask_on(protocol, port, number, &expected))
        };
        let threads = (0..connections).map(each).collect();
        Ok(Self { shared, threads, since: Instant::now() })
    }

    /// What has happened since the last look; `None` where that is of no interest.
    pub fn look(&mut self) -> Window {
        let elapsed = self.since.elapsed();
        self.since = Instant::now();
        let lists = self.shared.times.iter();
        let mut times: Vec<u32> = lists
            .flat_map(|list| std::mem::take(&mut *list.lock().unwrap_or_else(PoisonError::into_inner)))
            .collect();
        times.sort_unstable();
        let at = |share: f64| {
            let place = ((times.len() as f64 * share) as usize).min(times.len().saturating_sub(1));
            times.get(place).map_or(f64::NAN, |&micros| f64::from(micros) / 1e3)
        };
        Window { rate: times.len() as f64 / elapsed.as_secs_f64(), p50: at(0.5), p99: at(0.99) }
    }

    /// Stops asking.
    pub fn end(&mut self) -> Fate {
        self.shared.over.store(true, Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        let Shared { asked, answered, errors, first, .. } = &*self.shared;
        Fate {
            asked: asked.load(Relaxed),
            answered: answered.load(Relaxed),
            errors: errors.load(Relaxed),
            first_error: first.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }
}

impl Shared {
    fn ask_on(&self, protocol: Protocol, port: u16, number: usize, expected: &[u8]) {
        let mut connection = None;
        while !self.over.load(Relaxed) {
            if let Err(error) = self.ask_once(protocol, port, number, expected, &mut connection) {
                connection = None;
                self.errors.fetch_add(1, Relaxed);
                let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
                first.get_or_insert_with(|| format!("{error:#}"));
                std::thread::sleep(Duration::from_millis(50));
            }
        }
    }

    fn ask_once(
        &self,
        protocol: Protocol,
        port: u16,
        number: usize,
        expected: &[u8],
        connection: &mut Option<BufReader<TcpStream>>,
    ) -> Result<()> {
        if connection.is_none() {
            *connection = Some(open(port)?);
        }
        let Some(stream) = connection else { return Ok(()) };
        let began = Instant::now();
        self.asked.fetch_add(1, Relaxed);
        let answer = ask(protocol, stream)?;
        ensure!(
            answer == expected,
            "another answer than the first: {} bytes for {}",
            answer.len(),
            expected.len()
        );
        self.answered.fetch_add(1, Relaxed);
        let micros = began.elapsed().as_micros().try_into().unwrap_or(u32::MAX);
        if let Some(list) = self.times.get(number) {
            list.lock().unwrap_or_else(PoisonError::into_inner).push(micros);
        }
        Ok(())
    }
}

fn open(port: u16) -> Result<BufReader<TcpStream>> {
    let stream = connect(port)?;
    stream.set_read_timeout(Some(LONGEST))?;
    stream.set_nodelay(true)?;
    Ok(BufReader::new(stream))
}

fn fill(stream: &mut BufReader<TcpStream>) -> Result<()> {
    let entries: Vec<String> = (0..ENTRIES).map(|entry| format!("entry{entry:04}")).collect();
    let command = format!("DEL list\r\nRPUSH list {}\r\n", entries.join(" "));
    stream.get_mut().write_all(command.as_bytes())?;
    line(stream)?;
    line(stream).map(drop)
}

/// Asks once; what the answer holds, without what changes from one to the next.
fn ask(protocol: Protocol, stream: &mut BufReader<TcpStream>) -> Result<Vec<u8>> {
    let question: &[u8] = match protocol {
        Protocol::Http => b"GET /page.html HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip\r\n\r\n",
        Protocol::Redis => b"LRANGE list 0 -1\r\n",
    };
    stream.get_mut().write_all(question).context("it cannot be asked")?;
    match protocol {
        Protocol::Http => page(stream),
        Protocol::Redis => list(stream),
    }
}

fn line(stream: &mut BufReader<TcpStream>) -> Result<String> {
    let mut line = String::new();
    let length = stream.read_line(&mut line).context("no answer")?;
    ensure!(length > 0, "it has closed the connection");
    Ok(line.trim_end().to_owned())
}

fn bytes(stream: &mut BufReader<TcpStream>, length: usize, to: &mut Vec<u8>) -> Result<()> {
    let begin = to.len();
    to.resize(begin + length, 0);
    stream.read_exact(&mut to[begin..]).context("half an answer")
}

fn page(stream: &mut BufReader<TcpStream>) -> Result<Vec<u8>> {
    let status = line(stream)?;
    ensure!(status.contains(" 200 "), "{status}");
    let (mut length, mut chunked) = (None, false);
    loop {
        let header = line(stream)?.to_ascii_lowercase();
        if header.is_empty() {
            break;
        }
        if let Some(value) = header.strip_prefix("content-length:") {
            length = Some(value.trim().parse()?);
        }
        chunked |= header.starts_with("transfer-encoding: chunked");
    }
    let mut body = Vec::new();
    match length {
        Some(length) => bytes(stream, length, &mut body)?,
        None if chunked => loop {
            let length = usize::from_str_radix(&line(stream)?, 16)?;
            bytes(stream, length, &mut body)?;
            line(stream)?;
            if length == 0 {
                break;
            }
        },
        None => bail!("an answer without a length"),
    }
    Ok(body)
}

fn list(stream: &mut BufReader<TcpStream>) -> Result<Vec<u8>> {
    let head = line(stream)?;
    let count: usize = head.strip_prefix('*').with_context(|| head.clone())?.parse()?;
    let mut all = Vec::new();
    for _ in 0..count {
        let head = line(stream)?;
        let length: usize = head.strip_prefix('$').with_context(|| head.clone())?.parse()?;
        bytes(stream, length + 2, &mut all)?;
    }
    ensure!(count == ENTRIES, "{count} entries of {ENTRIES}");
    Ok(all)
}
