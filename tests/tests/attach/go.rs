//! A server in Go, as its compiler makes it: static, with a runtime that moves stacks and handles every signal.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use coz_tests::run::Place;
use coz_tests::turn;

use crate::target::{attach, runtime};

struct Server {
    child: Child,
    port: u16,
}

impl Server {
    /// Compiles `enter/server.go`. What it needs of Go's own library takes half a minute, and is kept.
    fn compiled() -> &'static Path {
        static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
        PROGRAM.get_or_init(|| {
            let folder = xtask::sh::target_dir().join("programs/go");
            let program = folder.join("server");
            let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("enter/server.go");
            let mut go = Command::new("go");
            go.args(["build", "-o"]).args([&program, &source]);
            go.env("CGO_ENABLED", "0").env("GOCACHE", folder.join("cache")).env("GOFLAGS", "-p=2");
            let status = go.status().unwrap_or_else(|error| panic!("go: {error}: apt-get install golang-go"));
            assert!(status.success(), "server.go compiles");
            program
        })
    }

    /// Starts it.
    fn start() -> Self {
        let program = Self::compiled();
        let mut child = Command::new(program).stdout(Stdio::piped()).spawn().expect("it starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("it is piped"))
            .read_line(&mut line)
            .expect("it writes text");
        Self { port: line.trim().parse().expect("the port"), child }
    }

    fn ask(&self) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("it listens");
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n").expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        answer.rsplit("\r\n\r\n").next().unwrap_or_default().to_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Attached to while it is asked: every answer is the first one; what the profiler says.
fn asked_meanwhile(options: &[&str], code: i32, says: &[&str]) -> Place {
    let place = Place::new();
    let server = Server::start();
    let pid = server.child.id();
    let signals = || fs::read_to_string(format!("/proc/{pid}/status")).expect("it lives");
    let caught = |status: String| status.lines().find(|line| line.starts_with("SigCgt")).map(str::to_owned);
    let (first, before, over) = (server.ask(), caught(signals()), AtomicBool::new(false));
    assert_eq!(first.trim().len(), 64, "{first}");
    std::thread::scope(|scope| {
        let client = || {
            let mut asked = 0;
            while !over.load(Relaxed) {
                assert_eq!(server.ask(), first);
                asked += 1;
            }
            asked
        };
        let clients: Vec<_> = (0..3).map(|_| scope.spawn(client)).collect();
        let named = pid.to_string();
        let all = [&["-p", &named, "-d", "4"], options].concat();
        let ended = place.run(attach(&place, &all));
        over.store(true, Relaxed);
        let asked: Vec<u32> =
            clients.into_iter().map(|client| client.join().expect("no answer is wrong")).collect();
        ended.assert_says(code, says);
        assert!(asked.iter().all(|asked| *asked > 10), "{asked:?}");
    });
    assert_eq!(caught(signals()), before, "its handlers are its own");
    place
}

#[test]
fn calls_of_a_go_function_are_counted_and_timed_and_its_threads_pay() {
    Server::compiled();
    let _turn = turn::alone();
    let options = ["-P", "main.answer", "-L", "main.answer", "--max-overhead", "100"];
    let place = asked_meanwhile(&options, 0, &["visits of main.answer", "Latency of main.answer"]);
    let runtime = runtime(&place);
    let paid = ["signals_sent", "paid_ns"].map(|what| runtime[what].as_u64().unwrap_or(0));
    assert!(paid.iter().all(|paid| *paid > 0), "{runtime}");
}

#[test]
fn returns_of_a_go_function_are_counted_at_its_returning_instructions() {
    let _turn = turn::beside_others();
    asked_meanwhile(&["-P", "main.answer%return"], 0, &["visits of main.answer%return"]);
}
