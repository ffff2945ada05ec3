//! Starting the program that is profiled: once, or again and again.

use std::{
    ffi::OsString,
    fs::File,
    io::{Seek, SeekFrom},
    os::fd::{AsFd, OwnedFd, RawFd},
    path::PathBuf,
    sync::Arc,
};

use anyhow::{Context, Result};
use tokio::sync::mpsc::UnboundedSender;

use super::registrar::{Door, Registered};
use crate::{
    cli::Exit,
    kernel::load::Kernel,
    target::{
        binary::Program,
        identity::{self, Identity, Variables},
        launch::{Inherit, LaunchError, LaunchSpec, Suspended, free_descriptor},
        registration::Listener,
        shim,
    },
};

/// All that it takes to start the program.
#[derive(Debug)]
pub struct Launcher {
    file: PathBuf,
    argv: Vec<OsString>,
    environment: Variables,
    identity: Identity,
    /// The shim's file and its number in the program, where it can have it.
    shim: Option<(Arc<OwnedFd>, RawFd)>,
    /// Our standard input, which the program shares, and where it stood; `None` where it cannot be read twice.
    input: Option<(File, u64)>,
}

impl Launcher {
    /// Of the program that was `typed`. Where it can have the shim, it is told where to register, and `door` is that place.
    ///
    /// # Errors
    /// The shim's file or the socket cannot be made.
    pub fn new(
        (typed, arguments, program): (&OsString, &[OsString], &Program),
        mut environment: Variables,
        identity: Identity,
        kernel: &Kernel,
        signal: u32,
        news: UnboundedSender<Registered>,
    ) -> Result<(Self, Option<(Listener, Door)>)> {
        let (mut shim, mut door) = (None, None);
        if program.can_preload.is_ok() {
            let memfd = Arc::new(shim::memfd().context("cannot make the shim's file (memfd_create)")?);
            let number = free_descriptor().context("no free file descriptor for the shim")?;
            let (listener, name) = Listener::bind().context("cannot open the registration socket")?;
            let theirs =
                environment.iter().find(|(name, _)| name == "LD_PRELOAD").map(|(_, value)| value.clone());
            for (name, value) in
                shim::variables(number, &name, theirs.as_deref().filter(|value| !value.is_empty()))
            {
                let name = name.to_string_lossy();
                identity::set(&mut environment, &name, &value);
            }
            let (books, uid) = (kernel.books.clone(), identity.uid);
            // There is room for this one.
            books.of(uid)?;
            let known = kernel.known()?;
            door = Some((listener, Door { books, known, shim: Arc::clone(&memfd), signal, uid, news }));
            shim = Some((memfd, number));
        }
        let (file, argv) = program.command(typed, arguments);
        identity::name_started(&mut environment, &program.path);
        Ok((Self { file, argv, environment, identity, shim, input: input() }, door))
    }

    /// Starts it suspended, its standard input where it stood at first.
    ///
    /// # Errors
    /// See [`LaunchError`]; the exit code says so.
    pub fn suspended(&self) -> Result<Suspended> {
        if let Some((input, at)) = &self.input {
            let mut input: &File = input;
            input.seek(SeekFrom::Start(*at)).context("cannot go back to the beginning of the input")?;
        }
        let inherit =
            self.shim.as_ref().map(|(memfd, number)| Inherit { descriptor: memfd.as_fd(), number: *number });
        let spec = LaunchSpec {
            file: self.file.clone(),
            argv: self.argv.clone(),
            environment: self.environment.clone(),
            identity: &self.identity,
            inherit,
        };
        Suspended::spawn(&spec).map_err(failure)
    }

    /// Whether what the program reads from its standard input is there for a second run too.
    #[must_use]
    pub fn can_read_again(&self) -> bool {
        self.input.is_some()
    }
}

/// Our standard input, if it is a file.
fn input() -> Option<(File, u64)> {
    let mut input = File::from(std::io::stdin().as_fd().try_clone_to_owned().ok()?);
    let is_file = input.metadata().is_ok_and(|metadata| metadata.is_file());
    let at = input.stream_position().ok().filter(|_| is_file)?;
    Some((input, at))
}

/// A launch error with the exit code that says so.
pub fn failure(error: LaunchError) -> anyhow::Error {
    let text = error.to_string();
    match error.exit_code() {
        127 => Exit::not_found(text),
        126 => Exit::not_executable(text),
        _ => Exit::failure(text),
    }
    .into()
}
