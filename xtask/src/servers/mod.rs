//! Two servers at once, under load, which are attached to and let go again: how many requests they answer and how fast, before, meanwhile
//! and afterwards, whether any is lost, and what the profile says.

mod client;
mod table;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use crate::group::Group;
use crate::real::{Workload, folder};
use crate::sh;
use client::{Client, Fate, Protocol, Window};

/// How the servers are named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Way {
    /// `-a`
    All,
    /// `--cgroup`, one for both
    Cgroup,
    /// `--comm`, of both
    Comm,
    /// `-p`, both
    Pid,
}

/// What to do.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// How they are named
    #[arg(value_enum)]
    way: Way,
    /// How long they are attached to, seconds, each time
    #[arg(long, default_value_t = 60)]
    seconds: u32,
    /// How long requests are counted without a profiler: twice before it, once after it, seconds
    #[arg(long, default_value_t = 3)]
    window: u32,
    /// How often
    #[arg(long, default_value_t = 1)]
    turns: u32,
    /// Only build the servers and the profiler
    #[arg(long)]
    prepare: bool,
}

/// A server, how it is asked, and its points.
struct Server {
    name: &'static str,
    protocol: Protocol,
    point: &'static str,
    /// Where a request begins and ends.
    latency: [&'static str; 2],
    workload: Workload,
}

impl Server {
    fn options(&self) -> [String; 4] {
        let place = |symbol| format!("{}@{symbol}", self.workload.program.display());
        let latency = self.latency.map(place).join(",");
        let (progress, latency) =
            (format!("{}={}", self.name, place(self.point)), format!("{}-latency={latency}", self.name));
        ["-P".into(), progress, "-L".into(), latency]
    }
}

/// Requests a second and times, of one server: twice without a profiler, with it, and after it.
#[derive(Clone, Debug)]
pub struct Turn {
    /// The windows, in this order.
    pub windows: [Window; 4],
    /// From when it was attached to until the profiler had ended, seconds.
    pub attached_for: f64,
}

/// Runs it.
///
/// # Errors
/// When the servers cannot be built or started, or the profiler fails.
pub fn run(options: &Options) -> Result<()> {
    ensure!(sh::is_root(), "attaching to servers takes root");
    let profiler = crate::profiler(true)?;
    let servers = [
        Server {
            name: "nginx",
            protocol: Protocol::Http,
            point: "ngx_http_process_request",
            latency: ["ngx_http_process_request", "ngx_http_free_request"],
            workload: Workload::prepare("nginx", 1)?,
        },
        Server {
            name: "redis",
            protocol: Protocol::Redis,
            point: "processCommand",
            latency: ["processCommand", "resetClient"],
            workload: Workload::prepare("redis", 1)?,
        },
    ];
    if options.prepare {
        return Ok(());
    }
    let mut running = Vec::new();
    for server in &servers {
        running.push(Running::start(server)?);
    }
    let group = if options.way == Way::Cgroup { Some(Group::new()?) } else { None };
    if let Some(group) = &group {
        for server in &running {
            server.processes().into_iter().try_for_each(|pid| group.add(pid.cast_signed()))?;
        }
    }
    let whom: Vec<String> = match (options.way, &group) {
        (Way::All, _) => vec!["-a".into()],
        (Way::Comm, _) => vec!["--comm".into(), "nginx,redis-server".into()],
        (Way::Cgroup, Some(group)) => vec!["--cgroup".into(), group.path().display().to_string()],
        _ => {
            let pids: Vec<String> = running.iter().map(|server| server.child.id().to_string()).collect();
            vec!["-p".into(), pids.join(",")]
        }
    };
    let points: Vec<String> = servers.iter().flat_map(Server::options).collect();
    let profile = folder().join("servers.jsonl");
    let mut turns: Vec<Vec<Turn>> = vec![Vec::new(); servers.len()];
    for _ in 0..options.turns {
        let mut attach = Command::new(&profiler);
        attach
            .arg("attach")
            .args(&whom)
            .args(&points)
            .args(["-d", &options.seconds.to_string(), "-o"])
            .arg(&profile);
        let _ = fs::remove_file(&profile);
        for (turns, turn) in turns.iter_mut().zip(turn(options, attach, &mut running)?) {
            turns.push(turn);
        }
    }
    let fates: Vec<Fate> = running.into_iter().map(Running::end).collect::<Result<_>>()?;
    drop(group);
    for ((server, turns), fate) in servers.iter().zip(&turns).zip(&fates) {
        println!("{}", table::rows(server.name, turns, fate));
    }
    println!("{}", sh::output(Command::new(&profiler).args(["report", "--top", "4"]).arg(&profile))?);
    Ok(())
}

/// Two windows without, one with the profiler, one without.
fn turn(options: &Options, mut attach: Command, running: &mut [Running]) -> Result<Vec<Turn>> {
    let window = Duration::from_secs(options.window.into());
    let looks = |running: &mut [Running]| -> Vec<Window> {
        running.iter_mut().map(|server| server.client.look()).collect()
    };
    let mut all = Vec::new();
    looks(running);
    for _ in 0..2 {
        std::thread::sleep(window);
        all.push(looks(running));
    }
    let mut profiler =
        attach.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().context("cannot start the profiler")?;
    let mut words = BufReader::new(profiler.stderr.take().context("its words are of interest")?);
    let mut said = String::new();
    while !said.contains("attached to") {
        ensure!(words.read_line(&mut said)? > 0, "the profiler does not attach:\n{said}");
    }
    looks(running);
    let began = Instant::now();
    // Its report would take CPU time from the servers: it is made from the file later.
    std::thread::sleep(Duration::from_secs(options.seconds.into()).saturating_sub(began.elapsed()));
    all.push(looks(running));
    std::io::Read::read_to_string(&mut words, &mut said)?;
    let status = profiler.wait()?;
    let attached_for = began.elapsed().as_secs_f64();
    ensure!(status.success(), "the profiler failed: {status}\n{said}");
    looks(running);
    std::thread::sleep(window);
    all.push(looks(running));
    let of = |server: usize| Turn {
        windows: std::array::from_fn(|at| all[at].get(server).cloned().unwrap_or_default()),
        attached_for,
    };
    Ok((0..running.len()).map(of).collect())
}

/// A server that runs, and its client.
struct Running {
    child: Child,
    client: Client,
}

impl Drop for Running {
    fn drop(&mut self) {
        // Ends a server that runs still.
        if self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            // SAFETY: a signal to a child of ours; one that was waited for is known to `try_wait`.
            unsafe { libc::kill(self.child.id().cast_signed(), libc::SIGTERM) };
            let _ = self.child.wait();
        }
    }
}

impl Running {
    fn start(server: &Server) -> Result<Self> {
        let port = server.workload.port().context("it is no server")?;
        let mut command = server.workload.plain();
        let mut child = command.stdout(Stdio::null()).spawn().context("cannot start the server")?;
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            match Client::begin(server.protocol, port, 4) {
                Ok(client) => return Ok(Self { child, client }),
                Err(error) if Instant::now() > deadline => {
                    let _ = child.kill();
                    return Err(error.context(format!("{} does not answer", server.name)));
                }
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    /// It and its children.
    fn processes(&self) -> Vec<u32> {
        let pid = self.child.id();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        std::iter::once(pid)
            .chain(children.split_whitespace().filter_map(|child| child.parse().ok()))
            .collect()
    }

    /// Stops asking, and ends it as one ends a server.
    fn end(mut self) -> Result<Fate> {
        let fate = self.client.end();
        let alive = self.child.try_wait()?.is_none();
        ensure!(alive, "the server has ended by itself");
        // SAFETY: a signal to a child of ours that was not waited for.
        unsafe { libc::kill(self.child.id().cast_signed(), libc::SIGTERM) };
        let status = self.child.wait()?;
        ensure!(status.success(), "the server did not end as it should: {status}");
        Ok(fate)
    }
}
