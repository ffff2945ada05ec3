//! The server as a browser meets it: over its socket.

use super::*;
use std::{io::Write, path::Path};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const STARTUP: &str =
    "{\"type\":\"startup\",\"time\":1,\"points\":[{\"name\":\"p\",\"kind\":\"throughput\"}]}\n";
const EXPERIMENT: &str = concat!(
    "{\"type\":\"experiment\",\"selected\":\"a.c:1\",\"speedup\":0.5,\"duration\":1000}\n",
    "{\"type\":\"throughput-point\",\"name\":\"p\",\"delta\":7}\n",
);

fn file() -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(STARTUP.as_bytes()).unwrap();
    file
}

async fn server(path: &Path) -> Server {
    let options = report::Options { replicates: 9, ..report::Options::default() };
    Server::bind(0, Gate::new(), Source::open(path).unwrap(), options).await.unwrap()
}

/// Host and path of an address.
fn parts(address: &str) -> (String, String) {
    let rest = address.strip_prefix("http://").unwrap();
    let (host, path) = rest.split_once('/').unwrap();
    (host.to_owned(), format!("/{path}"))
}

async fn ask(host: &str, request: String) -> String {
    let mut stream = TcpStream::connect(host).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

async fn get(host: &str, path: &str) -> String {
    ask(host, format!("GET {path} HTTP/1.1\r\nHost: localhost:8000\r\nConnection: close\r\n\r\n")).await
}

fn run(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        timeout(Duration::from_secs(60), test).await.expect("in time");
    });
}

#[test]
fn the_page_is_served_to_who_knows_where_it_is() {
    run(async {
        let file = file();
        let server = server(file.path()).await;
        assert!(server.listener.local_addr().unwrap().ip().is_loopback());
        let (host, path) = parts(server.address());
        let (_end, ending) = oneshot::channel();
        let client = async {
            let page = get(&host, &path).await;
            assert!(page.starts_with("HTTP/1.1 200 OK\r\n") && page.contains("<!doctype html>"), "{page}");
            for header in ["cache-control: no-store", "referrer-policy: no-referrer", "x-frame-options: DENY"]
            {
                assert!(page.contains(header), "{header}");
            }
            let data = get(&host, &format!("{path}data.json")).await;
            assert!(data.contains("application/json") && data.contains("\"live\":true"), "{data}");
            for wrong in ["/", "/data.json", "/etc/passwd", &format!("{path}../../etc/passwd")] {
                let answer = get(&host, wrong).await;
                assert!(answer.starts_with("HTTP/1.1 404 "), "{wrong}: {answer}");
            }
            let rebound = format!("GET {path} HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n");
            assert!(ask(&host, rebound).await.starts_with("HTTP/1.1 421 "));
            let post = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
            assert!(ask(&host, post).await.starts_with("HTTP/1.1 405 "));
        };
        tokio::select! {
            ended = server.serve(ending) => panic!("the server ended: {ended:?}"),
            () = client => {}
        }
    });
}

#[test]
fn who_waits_is_told_when_the_file_grows_and_gets_the_last_state() {
    run(async {
        let mut file = file();
        let server = server(file.path()).await;
        let (host, path) = parts(server.address());
        let (end, ending) = oneshot::channel();
        let client = async {
            let mut stream = TcpStream::connect(&host).await.unwrap();
            let request = format!("GET {path}events HTTP/1.1\r\nHost: localhost\r\n\r\n");
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut told = String::new();
            let mut until = async |what: &str| {
                while !told.contains(what) {
                    let mut bytes = [0; 4096];
                    let n = stream.read(&mut bytes).await.unwrap();
                    assert!(n > 0, "ended before {what}: {told}");
                    told += std::str::from_utf8(&bytes[..n]).unwrap();
                }
            };
            until("data: 0\n").await;
            file.write_all(EXPERIMENT.as_bytes()).unwrap();
            until("data: 1\n").await;
            assert!(get(&host, &format!("{path}data.json")).await.contains("a.c:1"));
            // The end, at once: the page fetches it before the server goes.
            file.write_all(b"{\"type\":\"runtime\",\"time\":5000}\n").unwrap();
            end.send(()).unwrap();
            until("data: 2\n").await;
            assert!(get(&host, &format!("{path}data.json")).await.contains("\"open\":false"));
        };
        let (ended, ()) = tokio::join!(server.serve(ending), client);
        ended.unwrap();
    });
}
