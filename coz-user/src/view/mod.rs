//! `coz-bpf view` and `run --live`: the page served on this machine, anew whenever the profile has grown.
//!
//! The server runs in a thread of its own, with an event loop of its own and at a low priority: a run that is being
//! shown goes on as one that is not. It reads the file, as anybody could, and shares nothing with the controller.

mod browser;
mod follow;
mod gate;
mod server;
mod shown;

use crate::{cli::ViewConfig, report, target::identity::Identity};
use anyhow::{Context, Result};
use follow::Source;
use gate::Gate;
use server::Server;
use std::{
    fs::File,
    path::Path,
    sync::mpsc::{Receiver, Sender, channel},
    time::Duration,
};
use tokio::sync::oneshot;

/// How long the end of a run waits until open pages have its last state.
const FAREWELL: Duration = Duration::from_secs(3);
/// Behind everything that is measured.
const NICE: i32 = 15;

/// `coz-bpf view`: serves the page until it is interrupted. What is printed goes to `say` before.
///
/// # Errors
/// The profile can not be read, or the port is not free.
pub fn run(
    config: &ViewConfig,
    options: report::Options,
    say: impl FnOnce(&str) -> Result<()>,
) -> Result<()> {
    let source = Source::open(&config.file)?;
    let runtime = event_loop()?;
    runtime.block_on(async {
        let gate = Gate::new();
        let server = Server::bind(config.port.unwrap_or(0), gate, source, options).await?;
        let address = server.address().to_owned();
        say(&words(&address, config.port.is_some()))?;
        let _page = if config.open { browser::open(&address) } else { None };
        let (_never, end) = oneshot::channel();
        tokio::select! {
            served = server.serve(end) => served,
            interrupted = tokio::signal::ctrl_c() => interrupted.context("cannot wait for Ctrl-C"),
        }
    })
}

/// What the user is told.
fn words(address: &str, chosen: bool) -> String {
    let mut text = format!("The page: {address}\n");
    if std::env::var_os("SSH_CONNECTION").is_some() {
        let port = address.rsplit(':').next().and_then(|rest| rest.split('/').next()).unwrap_or_default();
        let fixed = if chosen { "" } else { " (--port chooses another)" };
        text += &format!(
            "From the machine that you sit at: ssh -N -L {port}:127.0.0.1:{port} THIS-MACHINE{fixed}, then open the same address\n"
        );
    }
    text + "Only this machine can reach it, and only with this address. Ctrl-C ends it.\n"
}

fn event_loop() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .max_blocking_threads(1)
        .enable_all()
        .build()
        .context("cannot start the server's event loop")
}

/// A server beside a run.
#[derive(Debug)]
pub struct Beside {
    address: String,
    end: Option<oneshot::Sender<()>>,
    ended: Receiver<()>,
}

impl Beside {
    /// Serves the profile that is written to `path`, in a thread of its own which reads sources as `identity` could.
    ///
    /// # Errors
    /// The port is not free, or the file can not be opened.
    pub fn start(path: &Path, port: u16, identity: &Identity, options: report::Options) -> Result<Self> {
        let file = File::open(path)
            .with_context(|| format!("--live: cannot read the profile {}", path.display()))?;
        let source = Source::of(path, file);
        let (uid, gid) = (identity.uid, identity.gid);
        let (started, start) = channel();
        let (end, ending) = oneshot::channel();
        let (over, ended) = channel();
        std::thread::Builder::new()
            .name("coz-bpf-page".into())
            .spawn(move || {
                modest(uid, gid);
                serve(source, port, options, &started, ending);
                // Nobody may wait any more.
                let _ = over.send(());
            })
            .context("cannot start the page's thread")?;
        let address = start.recv().context("the page's thread ended at once")??;
        Ok(Self { address, end: Some(end), ended })
    }

    /// Where the page is.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The file is complete: gives open pages a moment to fetch it.
    pub fn finish(mut self) {
        if self.end.take().is_some_and(|end| end.send(()).is_ok()) {
            let _ = self.ended.recv_timeout(FAREWELL);
        }
    }
}

fn serve(
    source: Source,
    port: u16,
    options: report::Options,
    started: &Sender<Result<String>>,
    end: oneshot::Receiver<()>,
) {
    let outcome = event_loop().and_then(|runtime| {
        runtime.block_on(async {
            let server = Server::bind(port, Gate::new(), source, options).await?;
            let _ = started.send(Ok(server.address().to_owned()));
            server.serve(end).await
        })
    });
    if let Err(error) = outcome {
        let _ = started.send(Err(error));
    }
}

/// This thread, and those that it starts, come last, and read files as the user would: a program's debug information may
/// name any file as its source.
fn modest(uid: u32, gid: u32) {
    // SAFETY: both act on this thread alone and touch no memory.
    unsafe {
        let _ = libc::setpriority(libc::PRIO_PROCESS, 0, NICE);
    }
    nix::unistd::setfsgid(gid.into());
    nix::unistd::setfsuid(uid.into());
}
