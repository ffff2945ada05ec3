//! Starts a program as `coz-bpf run` does and measures nothing: what the launch tests compare with a plain run.
//!
//! `coz-test-launch [--user NAME | --ids UID:GID:GROUP,...] [--inherit FILE] [--hold] [--drop] PROGRAM [ARGS...]`

use std::{
    ffi::OsString,
    fs::File,
    io::Read,
    os::fd::AsFd,
    process::{ExitCode, exit},
};

use anyhow::{Context, Result};
use coz_user::target::{
    binary::Program,
    exit::OUR_FAILURE,
    identity::{self, Identity, Reason},
    launch::{Change, Inherit, LaunchSpec, Suspended, free_descriptor},
};
use tokio::signal::unix::{SignalKind, signal};

fn main() -> ExitCode {
    match run() {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("launch: {error:#}");
            ExitCode::from(OUR_FAILURE)
        }
    }
}

fn run() -> Result<u8> {
    let mut words = std::env::args_os().skip(1).peekable();
    let (mut user, mut ids, mut inherit, mut hold, mut drop_it) = (None, None, None, false, false);
    while let Some(option) = words.next_if(|word| word.as_encoded_bytes().starts_with(b"--")) {
        let mut value = || words.next().and_then(|v| v.into_string().ok()).context("an option's value");
        match option.to_str() {
            Some("--user") => user = Some(value()?),
            Some("--ids") => ids = Some(value()?),
            Some("--inherit") => inherit = Some(File::open(value()?)?),
            Some("--hold") => hold = true,
            Some("--drop") => drop_it = true,
            _ => anyhow::bail!("unknown option {}", option.display()),
        }
    }
    let typed = words.next().context("no program")?;
    let arguments: Vec<OsString> = words.collect();
    let identity = match ids {
        Some(ids) => parse_ids(&ids)?,
        None => Identity::resolve(user.as_deref())?,
    };
    let mut environment = identity.environment();
    let path = environment.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.clone());
    let program = match Program::find(&typed, path.as_deref(), &identity) {
        Ok(program) => program,
        Err(error) => {
            eprintln!("launch: {error}");
            return Ok(error.exit_code());
        }
    };
    let (file, argv) = program.command(&typed, &arguments);
    identity::name_started(&mut environment, &program.path);
    let inherit = match &inherit {
        Some(file) => Some(Inherit { descriptor: file.as_fd(), number: free_descriptor()? }),
        None => None,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        // As the controller does: these change our own dispositions, and must not change the target's.
        let _interrupt = signal(SignalKind::interrupt())?;
        let _hangup = signal(SignalKind::hangup())?;
        let spec = LaunchSpec { file, argv, environment, identity: &identity, inherit };
        let suspended = Suspended::spawn(&spec)?;
        if hold || drop_it {
            println!("{}", suspended.pid());
            std::io::stdin().read_to_end(&mut Vec::new())?;
        }
        if drop_it {
            drop(suspended);
            // Without destructors' help and without waiting for anyone: the child must be gone by now.
            exit(0);
        }
        let mut running = match suspended.release() {
            Ok(running) => running,
            Err(error) => {
                eprintln!("launch: {error}");
                return Ok(error.exit_code());
            }
        };
        loop {
            match running.changed().await? {
                Change::Stopped(_) => running.mirror_stop().await?,
                Change::Continued => {}
                Change::Ended(status) => return Ok(status.exit_code()),
            }
        }
    })
}

fn parse_ids(text: &str) -> Result<Identity> {
    let mut parts = text.split(':');
    let mut part = || parts.next().context("--ids UID:GID:GROUP,...");
    let (uid, gid) = (part()?.parse()?, part()?.parse()?);
    let groups = part()?.split(',').map(str::parse).collect::<Result<_, _>>()?;
    Ok(Identity { uid, gid, groups, account: None, reason: Reason::Asked })
}
