//! The server: the page, its data, and events, over HTTP/1.1 on the loopback device.

use super::{
    follow::Source,
    gate::{Gate, Wanted},
    shown::{Maker, Shown},
};
use crate::report;
use anyhow::{Context, Result};
use http_body_util::{Either, Full, channel::Channel};
use hyper::{
    Request, Response, StatusCode,
    body::{Bytes, Incoming},
    header::{self, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::{
    convert::Infallible,
    net::Ipv4Addr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, oneshot, watch},
    time::{Instant, sleep, timeout},
};

type Body = Either<Full<Bytes>, Channel<Bytes, Infallible>>;

/// How often the file is looked at.
const LOOK: Duration = Duration::from_millis(500);
/// What makes the page anew rests so many times as long as it worked: it takes a tenth of a CPU at most.
const REST: u32 = 9;
/// A browser opens half a dozen connections.
const MOST_CONNECTIONS: usize = 64;
/// Who says nothing for so long is not waited for.
const PATIENCE: Duration = Duration::from_secs(10);
/// So that a tunnel does not take a quiet connection for a dead one.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// How long it may take to write an answer.
const SENDING: Duration = Duration::from_millis(200);
/// After the last state of a run, pages get so long to fetch it.
const LAST: Duration = Duration::from_secs(2);

/// A server that listens already.
#[derive(Debug)]
pub(super) struct Server {
    listener: TcpListener,
    address: String,
    maker: Maker,
    shown: watch::Sender<Shown>,
    shared: Arc<Shared>,
    took: Duration,
}

/// What connections need.
#[derive(Debug)]
struct Shared {
    gate: Gate,
    shown: watch::Receiver<Shown>,
    /// Pages that wait for events, and how many have fetched the latest data.
    pages: AtomicUsize,
    fetched: AtomicUsize,
}

impl Server {
    /// Reads the profile and listens; `port` 0 is one that is free.
    ///
    /// # Errors
    /// The profile can not be read, or the port is not free.
    pub(super) async fn bind(
        port: u16,
        gate: Gate,
        source: Source,
        options: report::Options,
    ) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.with_context(|| {
            format!("cannot listen on 127.0.0.1:{port}; name another port, or none for one that is free")
        })?;
        let port = listener.local_addr().context("the server has no address")?.port();
        let address = format!("http://127.0.0.1:{port}{}", gate.path());
        let maker = Maker::new(source, options);
        let (first, took) = maker.look(0)?.unwrap_or_default();
        let (shown, receiver) = watch::channel(first);
        let shared =
            Shared { gate, shown: receiver, pages: AtomicUsize::new(0), fetched: AtomicUsize::new(0) };
        Ok(Self { listener, address, maker, shown, shared: Arc::new(shared), took })
    }

    /// Where the page is, token and all.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Serves until `end` says that the file is complete and pages have its last state.
    ///
    /// # Errors
    /// The file can not be read any more, or nothing can be accepted.
    pub(super) async fn serve(self, mut end: oneshot::Receiver<()>) -> Result<()> {
        let Self { listener, maker, shown, shared, took, .. } = self;
        let room = Arc::new(Semaphore::new(MOST_CONNECTIONS));
        let accept = accept(&listener, &shared, &room);
        let followed = shared.clone();
        let follow = async move {
            let mut rest = LOOK.max(took * REST);
            let mut number = 1;
            let mut over = false;
            loop {
                tokio::select! {
                    () = sleep(rest), if !over => {}
                    told = &mut end, if !over => match told {
                        Ok(()) => over = true,
                        // Nobody will: the file is followed for ever.
                        Err(_) => std::future::pending().await,
                    },
                }
                let again = maker.clone();
                let made = tokio::task::spawn_blocking(move || again.look(number)).await;
                rest = LOOK;
                if let Some((next, took)) = made.context("the page could not be made")?? {
                    rest = LOOK.max(took * REST);
                    number += 1;
                    followed.fetched.store(0, Ordering::Relaxed);
                    shown.send_replace(next);
                }
                if over {
                    return farewell(&followed, shown).await;
                }
            }
        };
        tokio::select! {
            ended = accept => ended,
            ended = follow => ended,
        }
    }
}

/// Waits until open pages have fetched the last state, and lets them go: without `shown` there are no more events.
async fn farewell(shared: &Shared, shown: watch::Sender<Shown>) -> Result<()> {
    let patience = Instant::now() + LAST;
    let waits = || shared.fetched.load(Ordering::Relaxed) < shared.pages.load(Ordering::Relaxed);
    while waits() && Instant::now() < patience {
        sleep(Duration::from_millis(20)).await;
    }
    drop(shown);
    if shared.pages.load(Ordering::Relaxed) > 0 {
        // What was asked for last is on its way.
        sleep(SENDING).await;
    }
    Ok(())
}

async fn accept(listener: &TcpListener, shared: &Arc<Shared>, room: &Arc<Semaphore>) -> Result<()> {
    loop {
        let place = room.clone().acquire_owned().await.context("the server is closed")?;
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            // Whoever it was has gone again, or descriptors are short for a moment.
            Err(_) => {
                sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let shared = shared.clone();
        tokio::spawn(async move {
            converse(stream, shared).await;
            drop(place);
        });
    }
}

async fn converse(stream: TcpStream, shared: Arc<Shared>) {
    let service = service_fn(move |request| {
        let answer = answer(&shared, &request);
        async move { Ok::<_, Infallible>(answer) }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(PATIENCE).max_buf_size(64 << 10);
    // What goes wrong with a connection is between it and the browser.
    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
}

fn answer(shared: &Arc<Shared>, request: &Request<Incoming>) -> Response<Body> {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    let (body, kind) = match shared.gate.ask(request.method(), host, request.uri().path()) {
        Ok(Wanted::Page) => (full(shared.shown.borrow().page()), "text/html; charset=utf-8"),
        Ok(Wanted::Data) => {
            shared.fetched.fetch_add(1, Ordering::Relaxed);
            (full(shared.shown.borrow().data.clone()), "application/json")
        }
        Ok(Wanted::Events) => (events(shared), "text/event-stream"),
        Err(status) => {
            let reason = status.canonical_reason().unwrap_or("no");
            let mut refusal = response(full(format!("{reason}\n").into()), "text/plain; charset=utf-8");
            *refusal.status_mut() = status;
            if status == StatusCode::METHOD_NOT_ALLOWED {
                refusal.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET"));
            }
            return refusal;
        }
    };
    response(body, kind)
}

fn full(bytes: Bytes) -> Body {
    Either::Left(Full::new(bytes))
}

/// With what keeps other sites from looking at it, and it from being kept.
fn response(body: Body, kind: &'static str) -> Response<Body> {
    let mut response = Response::new(body);
    let fixed = [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (header::HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ];
    for (name, value) in fixed {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// A page that waits.
struct Waiting(Arc<Shared>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.pages.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The number of each state, as it comes to be: the page asks for the state itself.
fn events(shared: &Arc<Shared>) -> Body {
    let (mut sender, body) = Channel::new(1);
    shared.pages.fetch_add(1, Ordering::Relaxed);
    let waiting = Waiting(shared.clone());
    let mut shown = shared.shown.clone();
    tokio::spawn(async move {
        let _waiting = waiting;
        let mut text = format!("retry: 1000\n{}", event(shown.borrow_and_update().number));
        while sender.send_data(text.into()).await.is_ok() {
            text = match timeout(KEEP_ALIVE, shown.changed()).await {
                Ok(Ok(())) => event(shown.borrow_and_update().number),
                Ok(Err(_)) => return,
                Err(_) => ":\n\n".into(),
            };
        }
    });
    Either::Right(body)
}

fn event(number: u64) -> String {
    format!("event: grown\ndata: {number}\n\n")
}

#[cfg(test)]
mod tests;
