//! Which programs, and what each is given to do.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};

use super::server::{Bound, Client, Served};
use super::workload::{Repeats, Workload};
use super::{build, folder, source};
use crate::programs::Debug;

/// All of them.
pub const NAMES: [&str; 9] =
    ["pbzip2", "sqlite3", "memcached", "redis", "nginx", "leveldb", "ripgrep", "rusqlite", "python3"];

/// Those whose overhead is measured: small, and read by coz.
pub const MEASURED: [&str; 3] = ["pbzip2", "sqlite3", "memcached"];

/// Where memcached, redis and nginx listen.
const PORTS: [u16; 3] = [21211, 26379, 28080];

impl Workload {
    /// Builds the program and makes its input.
    ///
    /// # Errors
    /// When either fails, or there is no program of this name.
    pub fn prepare(name: &str, seconds: u32) -> Result<Self> {
        let folder = folder();
        match name {
            "pbzip2" => Self::pbzip2(&folder, seconds),
            "sqlite3" => Self::sqlite3(&folder, seconds),
            "memcached" => Self::memcached(&folder, seconds),
            "redis" => Self::redis(&folder, seconds),
            "nginx" => Self::nginx(&folder, seconds),
            "leveldb" => Self::leveldb(&folder, seconds),
            "ripgrep" => Self::ripgrep(&folder, seconds),
            "rusqlite" => Self::rusqlite(&folder, seconds),
            "python3" => Self::python3(&folder, seconds),
            _ => bail!("no program is called '{name}'"),
        }
    }

    /// Compresses a source file of 8 MB again and again; a block is done when it is added to the output.
    fn pbzip2(folder: &Path, seconds: u32) -> Result<Self> {
        let program = build::program("pbzip2", folder, Debug::Default)?;
        // Repeated beyond a block's length.
        let (input, part) = (folder.join("text"), text(folder)?);
        // One worker compresses about 9 MB a second.
        let wanted = 18_000_000 * seconds as usize;
        fs::write(&input, part.repeat(wanted.div_ceil(part.len())))?;
        let args =
            ["-c", "-k", "-p2", "-b1"].map(str::to_owned).into_iter().chain([input.display().to_string()]);
        Ok(Self {
            name: "pbzip2",
            about: "Compresses text on two threads, in blocks of 100 kB. A visit of the point is the begin of a block. \
                Debian's pbzip2 and bzip2 sources, compiled into one program.",
            point: "BZ2_bzBuffToBuffCompress",
            program,
            args: args.collect(),
            repeats: Repeats::Exactly,
            options: Vec::new(),
            input: None,
            served: None,
        })
    }

    /// The shell reads statements that each scan a table; a visit is the end of a statement.
    fn sqlite3(folder: &Path, seconds: u32) -> Result<Self> {
        let program = build::program("sqlite3", folder, Debug::Default)?;
        let script = folder.join("statements.sql");
        fs::write(&script, statements(seconds * 450))?;
        Ok(Self {
            name: "sqlite3",
            about: "The shell runs statements that each scan a table of 20,000 rows in memory. A visit of the point is \
                the end of a statement.",
            point: "sqlite3_finalize",
            program,
            args: vec![":memory:".into()],
            repeats: Repeats::Exactly,
            options: Vec::new(),
            input: Some(script),
            served: None,
        })
    }

    /// One worker thread answers requests for many keys at once, from clients on the loopback interface.
    fn memcached(folder: &Path, seconds: u32) -> Result<Self> {
        let program = build::program("memcached", folder, Debug::Default)?;
        let port = PORTS[0];
        let args = ["-u", "root", "-t", "1", "-l", "127.0.0.1", "-m", "64", "-p", &port.to_string()];
        Ok(Self {
            name: "memcached",
            about: "One worker thread answers requests for 50 keys at once over the loopback interface, four \
                connections. A visit of the point is a request.",
            point: "process_command_ascii",
            program,
            args: args.map(str::to_owned).into(),
            repeats: Repeats::Exactly,
            options: Vec::new(),
            input: None,
            served: Some(served(port, Client::Keys, seconds, 20)),
        })
    }

    /// Its own benchmark sets, gets and lists.
    fn redis(folder: &Path, seconds: u32) -> Result<Self> {
        source::needs(&["redis-tools"])?;
        let program = build::program("redis", folder, Debug::Default)?;
        let port = PORTS[1];
        let args =
            ["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--logfile", "/dev/null"];
        Ok(Self {
            name: "redis",
            about: "Answers redis-benchmark: LRANGE of 100, 20 connections, 8 requests at once. A visit of the \
                point is a batch of requests that is read.",
            point: "readQueryFromClient",
            program,
            args: args.map(str::to_owned).into(),
            repeats: Repeats::Exactly,
            options: Vec::new(),
            input: None,
            served: Some(served(port, Client::RedisBenchmark, seconds, 20)),
        })
    }

    /// Two worker processes compress a page for each request.
    fn nginx(folder: &Path, seconds: u32) -> Result<Self> {
        source::needs(&["apache2-utils"])?;
        let program = build::program("nginx", folder, Debug::Default)?;
        let place = folder.join("nginx");
        fs::create_dir_all(place.join("html"))?;
        fs::create_dir_all(place.join("logs"))?;
        let page = (0..2000).fold(String::new(), |mut page, row| {
            let _ = writeln!(page, "<tr><td>{row}</td><td>{:x}</td></tr>", row * 7919 % 10007);
            page
        });
        fs::write(place.join("html/page.html"), page)?;
        let port = PORTS[2];
        fs::write(
            place.join("nginx.conf"),
            format!(
                "daemon off;\nuser root;\nworker_processes 2;\nerror_log /dev/null;\npid nginx.pid;\nevents {{}}\n\
                 http {{ access_log off; default_type text/html; gzip on; gzip_http_version 1.0; keepalive_requests 1000000000;\n\
                 server {{ listen 127.0.0.1:{port}; root html; }} }}\n"
            ),
        )?;
        Ok(Self {
            name: "nginx",
            about: "Two worker processes compress a page of 55 kB for each request of `ab` (8 connections). A visit of the \
                point is a request.",
            point: "ngx_http_process_request",
            program,
            args: vec!["-p".into(), place.display().to_string(), "-c".into(), "nginx.conf".into()],
            repeats: Repeats::Exactly,
            options: Vec::new(),
            input: None,
            served: Some(served(port, Client::ApacheBench, seconds, 1)),
        })
    }

    /// Its own benchmark: C++, two threads that read at random.
    fn leveldb(folder: &Path, seconds: u32) -> Result<Self> {
        let program = build::program("leveldb", folder, Debug::Default)?;
        let args = [
            "--benchmarks=fillrandom,readrandom".to_owned(),
            "--threads=2".to_owned(),
            "--num=200000".to_owned(),
            format!("--reads={}", 150_000 * seconds),
            format!("--db={}", folder.join("leveldb-data").display()),
        ];
        Ok(Self {
            name: "leveldb",
            about: "LevelDB's `db_bench`: 200,000 entries are written, then two threads read at random. There are so many reads \
                that a probe at each would cost half a CPU, so the line that makes a key is a sampled point.",
            point: "sampled:db_bench.cc:198",
            program,
            args: args.into(),
            repeats: Repeats::No,
            options: Vec::new(),
            input: None,
            served: None,
        })
    }

    /// Searches text with a pattern that its fast paths cannot take.
    fn ripgrep(folder: &Path, seconds: u32) -> Result<Self> {
        let program = build::program("ripgrep", folder, Debug::Default)?;
        let texts = folder.join("texts");
        fs::create_dir_all(&texts)?;
        let part = text(folder)?;
        for file in 0..400 * seconds {
            let path = texts.join(format!("{file}.txt"));
            if !path.is_file() {
                fs::write(path, &part)?;
            }
        }
        let args = ["-j2", "-c", "--sort", "none", r"(\w+)\s+=\s+(\w+)\s*[-+]\s*(\w+);"];
        // The folder more than once: so much text need not be on the disk.
        let folders = std::iter::repeat_n(texts.display().to_string(), 10);
        let args = args.map(str::to_owned).into_iter().chain(folders);
        Ok(Self {
            name: "ripgrep",
            about: "The published crate, built with its own profile. Two threads search some thousand files. A visit of the \
                point is a file that is opened.",
            point: "syscall:openat",
            program,
            args: args.collect(),
            repeats: Repeats::InAnyOrder,
            options: ["--scope-source", "**/registry/src/**"].map(str::to_owned).into(),
            input: None,
            served: None,
        })
    }

    /// SQLite once more, as the published crate `rusqlite` builds it into a Rust program.
    fn rusqlite(folder: &Path, seconds: u32) -> Result<Self> {
        let program = build::program("rusqlite", folder, Debug::Default)?;
        Ok(Self {
            name: "rusqlite",
            about: "The published crate `rusqlite` with its own SQLite, in a program of twenty \
                lines that sorts and groups a table. A visit of the point is a query.",
            point: "rusqlite_queries::query",
            program,
            args: vec![(100 * seconds).to_string()],
            repeats: Repeats::Exactly,
            options: ["--scope-source", "**/sqlite3.c"].map(str::to_owned).into(),
            input: None,
            served: None,
        })
    }

    /// Debian's own, stripped.
    fn python3(folder: &Path, seconds: u32) -> Result<Self> {
        let script = folder.join("lines.py");
        fs::write(&script, PYTHON)?;
        Ok(Self {
            name: "python3",
            about: "Debian's binary as it is, stripped: functions by its dynamic symbols. It writes lines of JSON. A visit of \
                the point is a system call `write`.",
            point: "syscall:write",
            program: "/usr/bin/python3".into(),
            args: vec![script.display().to_string(), (120 * seconds).to_string()],
            repeats: Repeats::Exactly,
            options: Vec::new(),
            input: None,
            served: None,
        })
    }
}

/// Text of the kind that people compress and search: sources and documents of libbz2.
fn text(folder: &Path) -> Result<Vec<u8>> {
    let from = source::unpacked("bzip2", folder)?;
    let mut text = Vec::new();
    for name in ["blocksort.c", "compress.c", "decompress.c", "bzip2.c", "manual.html", "CHANGES"] {
        text.extend(fs::read(from.join(name))?);
    }
    Ok(text)
}

/// A server that is kept busy for a time.
fn served(port: u16, client: Client, seconds: u32, requests_a_ms: u64) -> Served {
    Served { port, client, bound: Bound::Time(Duration::from_secs(seconds.into())), requests_a_ms }
}

const PYTHON: &str = "\
import json, re, sys
word = re.compile(r'[a-z]+([0-9]+)')
for n in range(int(sys.argv[1])):
    rows = [{'id': i, 'name': 'row%d' % (i * n % 977), 'even': i % 2 == 0} for i in range(1000)]
    text = json.dumps(rows)
    total = sum(int(m.group(1)) for m in word.finditer(text) if m.group(1))
    sys.stdout.write('%d %d\\n' % (len(text), total))
    sys.stdout.flush()
";

/// A table and this many statements that scan it.
pub fn statements(count: u32) -> String {
    let mut sql = String::from(
        "CREATE TABLE t(a INTEGER PRIMARY KEY, b INTEGER, c TEXT);\n\
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<20000)\n\
         INSERT INTO t SELECT i, (i*7919)%10007, hex(i*2654435761) FROM n;\n",
    );
    for number in 0..count {
        let _ = writeln!(
            sql,
            "SELECT count(*), sum(b) FROM t WHERE c LIKE '%4{}%' AND b > {};",
            number % 10,
            number % 1000 * 3
        );
    }
    sql
}
