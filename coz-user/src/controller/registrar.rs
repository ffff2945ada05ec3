//! Who is let in over the registration socket, and what they get.

use std::{os::fd::OwnedFd, sync::Arc};

use coz_common::abi::{ABI_VERSION, Hello, Welcome};
use tokio::sync::mpsc::UnboundedSender;

use crate::target::{
    process,
    registration::{Registrar, Registration},
};

/// A program of the set has started, with the shim in it.
#[derive(Clone, Copy, Debug)]
pub struct Registered {
    /// Its process id.
    pub pid: u32,
    /// Address of the shim's handler in it.
    pub handler: u64,
}

/// Answers from what is known beforehand; the session hears of it through a channel.
#[derive(Debug)]
pub struct Door {
    /// The maps, in the order of `abi::HELLO_REGISTER`.
    pub maps: [Arc<OwnedFd>; 5],
    /// The shim itself, for programs that are executed later.
    pub shim: Arc<OwnedFd>,
    /// The signal to listen to.
    pub signal: u32,
    /// Only programs of this user (or root's) belong to the target.
    pub uid: u32,
    /// The session.
    pub news: UnboundedSender<Registered>,
}

impl Door {
    fn is_ours(&self, pid: u32) -> bool {
        let status = i32::try_from(pid).ok().and_then(|pid| process::status(pid).ok().flatten());
        status.is_some_and(|status| status.uids[0] == self.uid || status.uids[0] == 0)
    }
}

impl Registrar for Door {
    fn register(&self, pid: u32, hello: Hello) -> Option<Registration> {
        if !self.is_ours(pid) || hello.abi_version != ABI_VERSION {
            return None;
        }
        let pid_namespace = process::pid_namespace(pid as i32).ok().flatten()?;
        self.news.send(Registered { pid, handler: hello.handler }).ok()?;
        Some(Registration {
            welcome: Welcome { abi_version: ABI_VERSION, signal: self.signal, pid_namespace, _pad: 0 },
            maps: self.maps.clone(),
        })
    }

    fn shim(&self, pid: u32) -> Option<(Welcome, Arc<OwnedFd>)> {
        let welcome = Welcome { abi_version: ABI_VERSION, signal: self.signal, ..Welcome::default() };
        self.is_ours(pid).then(|| (welcome, Arc::clone(&self.shim)))
    }
}
