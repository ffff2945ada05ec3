//! Who is let in over the registration socket, and what they get.

use std::{os::fd::OwnedFd, sync::Arc};

use coz_common::abi::{ABI_VERSION, Hello, Welcome};
use tokio::sync::mpsc::UnboundedSender;

use crate::{
    kernel::{
        books::{Books, Given},
        processes::Known,
    },
    target::{
        process,
        registration::{Peer, Registrar, Registration},
    },
};

/// A program of the set has started, with the shim in it.
#[derive(Clone, Copy, Debug)]
pub struct Registered {
    /// Its process id.
    pub pid: u32,
    /// Address of the shim's handler in it.
    pub handler: u64,
    /// The book that it was given.
    pub book: u32,
}

/// Answers from what is known beforehand; the session hears of it through a channel.
#[derive(Debug)]
pub struct Door {
    /// What programs get, by their users.
    pub books: Books,
    /// Who is of the set.
    pub known: Known,
    /// The shim itself, for programs that are executed later.
    pub shim: Arc<OwnedFd>,
    /// The signal to listen to.
    pub signal: u32,
    /// Programs of this user belong to the target; of others, those that are of the set: that name can be read by everybody.
    pub uid: u32,
    /// The session.
    pub news: UnboundedSender<Registered>,
}

impl Door {
    /// Whether who has connected belongs to the target, and the process of that number is still his: it may have ended since.
    fn is_ours(&self, peer: Peer) -> bool {
        let status = i32::try_from(peer.pid).ok().and_then(|pid| process::status(pid).ok().flatten());
        (peer.uid == self.uid || self.known.has(peer.pid))
            && status.is_some_and(|status| status.uids[0] == peer.uid)
    }
}

impl Registrar for Door {
    fn register(&self, peer: Peer, hello: Hello) -> Option<Registration> {
        let Peer { pid, .. } = peer;
        if !self.is_ours(peer) || hello.abi_version != ABI_VERSION {
            return None;
        }
        let pid_namespace = process::pid_namespace(pid as i32).ok().flatten()?;
        let Given { book, maps } = self.books.of(peer.uid).ok()?;
        self.news.send(Registered { pid, handler: hello.handler, book }).ok()?;
        Some(Registration {
            welcome: Welcome { abi_version: ABI_VERSION, signal: self.signal, pid_namespace, _pad: 0 },
            maps,
        })
    }

    fn shim(&self, peer: Peer) -> Option<(Welcome, Arc<OwnedFd>)> {
        let welcome = Welcome { abi_version: ABI_VERSION, signal: self.signal, ..Welcome::default() };
        self.is_ours(peer).then(|| (welcome, Arc::clone(&self.shim)))
    }
}
