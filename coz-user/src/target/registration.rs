//! The registration socket: programs that start with the shim ask here for the maps, and programs that are
//! about to exec ask for the shim.
//!
//! Anybody can connect to an abstract socket whose name he learns. So a client is known by what the kernel
//! says of it, not by what it says; it gets one question, of one size, and little time.

use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use coz_common::abi::{ABI_VERSION, HELLO_REGISTER, HELLO_SHIM, Hello, Welcome};
use nix::sys::socket::{
    AddressFamily, Backlog, ControlMessage, MsgFlags, SockFlag, SockType, UnixAddr, accept4, bind,
    getsockopt, listen, recv, sendmsg, socket, sockopt::PeerCredentials,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// How long a client may take to ask.
const PATIENCE: Duration = Duration::from_secs(1);
/// How many clients may be about to ask at once; more wait in the kernel's queue, which is as long.
const CLIENTS: usize = 128;

/// What a program gets that registers.
#[derive(Clone, Debug)]
pub struct Registration {
    /// The answer itself.
    pub welcome: Welcome,
    /// `CONTROL`, `GLOBAL`, `SLOTS` (these read-only), `PAYMENTS`, `COUNTERS`.
    pub maps: [Arc<OwnedFd>; 5],
}

/// Who has connected, as the kernel says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The process, as this one sees it.
    pub pid: u32,
    /// Its effective user id then.
    pub uid: u32,
}

/// Who decides what a client gets.
pub trait Registrar: Send + Sync + 'static {
    /// A program has started. `None` refuses: it then runs unprofiled.
    fn register(&self, peer: Peer, hello: Hello) -> Option<Registration>;
    /// A process is about to exec: the shim's memfd, and what [`Registrar::register`] would answer
    /// (only its version and its signal, not 0, are looked at). `None` refuses.
    fn shim(&self, peer: Peer) -> Option<(Welcome, Arc<OwnedFd>)>;
}

impl<R: Registrar> Registrar for Arc<R> {
    fn register(&self, peer: Peer, hello: Hello) -> Option<Registration> {
        (**self).register(peer, hello)
    }

    fn shim(&self, peer: Peer) -> Option<(Welcome, Arc<OwnedFd>)> {
        (**self).shim(peer)
    }
}

/// The controller's end of the socket. Gone when dropped: programs that start afterwards run unprofiled.
#[derive(Debug)]
pub struct Listener {
    socket: AsyncFd<OwnedFd>,
}

impl Listener {
    /// A new socket and its name (the value of `abi::SOCKET_ENV`), which nobody can guess. Call within a Tokio
    /// runtime.
    ///
    /// # Errors
    /// No descriptors left, or no Unix sockets.
    pub fn bind() -> io::Result<(Self, String)> {
        let name = format!("coz-bpf-{:032x}", rand::random::<u128>());
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let socket = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None)?;
        bind(socket.as_raw_fd(), &UnixAddr::new_abstract(name.as_bytes())?)?;
        listen(&socket, Backlog::new(CLIENTS as i32)?)?;
        Ok((Self { socket: readable(socket)? }, name))
    }

    /// Answers clients until it is dropped. What a client does wrong ends that client's connection only.
    pub async fn serve(self, registrar: impl Registrar) {
        let registrar = Arc::new(registrar);
        let mut clients = JoinSet::new();
        loop {
            while clients.len() >= CLIENTS {
                clients.join_next().await;
            }
            while clients.try_join_next().is_some() {}
            match accept(&self.socket).await {
                Ok(client) => {
                    let registrar = Arc::clone(&registrar);
                    clients.spawn(async move {
                        // A client that is too slow or talks nonsense is dropped, which closes it.
                        let _ = timeout(PATIENCE, answer(client, &*registrar)).await;
                    });
                }
                // Out of descriptors, most likely: that passes.
                Err(_) => sleep(Duration::from_millis(10)).await,
            }
        }
    }
}

fn readable(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an owned descriptor stays open and the same for as long as it is owned.
    Ok(unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) }?)
}

async fn accept(listener: &AsyncFd<OwnedFd>) -> io::Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    listener.async_io(Interest::READABLE, |fd| Ok(accept4(fd, flags)?)).await
}

async fn answer(client: OwnedFd, registrar: &impl Registrar) -> io::Result<()> {
    let peer = peer(&client)?;
    let client = readable(client)?;
    let hello = client.async_io(Interest::READABLE, receive).await?;
    let nonsense = || io::Error::from(io::ErrorKind::InvalidData);
    if hello.abi_version != ABI_VERSION {
        return Err(nonsense());
    }
    let refused = || (Welcome { abi_version: ABI_VERSION, ..Welcome::default() }, Vec::new());
    let (welcome, fds) = match hello.request {
        HELLO_REGISTER => registrar.register(peer, hello).map(|r| (r.welcome, r.maps.to_vec())),
        HELLO_SHIM => registrar.shim(peer).map(|(welcome, shim)| (welcome, vec![shim])),
        _ => return Err(nonsense()),
    }
    .unwrap_or_else(refused);
    let fds: Vec<RawFd> = fds.iter().map(AsRawFd::as_raw_fd).collect();
    // One small datagram into an empty buffer: it never has to wait.
    send(client.get_ref(), welcome, &fds)
}

fn peer(client: &OwnedFd) -> io::Result<Peer> {
    let credentials = getsockopt(client, PeerCredentials)?;
    // 0: a process that our namespace does not see.
    let pid = u32::try_from(credentials.pid()).ok().filter(|&pid| pid != 0);
    Ok(Peer { pid: pid.ok_or(io::ErrorKind::NotFound)?, uid: credentials.uid() })
}

fn receive(client: &OwnedFd) -> io::Result<Hello> {
    let mut bytes = [0; size_of::<Hello>()];
    // With MSG_TRUNC it is the length that was sent, not what there was room for. Descriptors that a client
    // sends along find no room and are closed by the kernel.
    let length = recv(client.as_raw_fd(), &mut bytes, MsgFlags::MSG_TRUNC | MsgFlags::MSG_DONTWAIT)?;
    if length != bytes.len() {
        return Err(io::ErrorKind::InvalidData.into());
    }
    // SAFETY: as long as a Hello, in which every bit pattern is valid.
    Ok(unsafe { bytes.as_ptr().cast::<Hello>().read_unaligned() })
}

fn send(client: &OwnedFd, welcome: Welcome, fds: &[RawFd]) -> io::Result<()> {
    // SAFETY: a struct without padding, read as bytes for as long as it lives.
    let bytes =
        unsafe { std::slice::from_raw_parts((&raw const welcome).cast::<u8>(), size_of::<Welcome>()) };
    let rights = [ControlMessage::ScmRights(fds)];
    let rights = if fds.is_empty() { &[][..] } else { &rights[..] };
    let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
    sendmsg::<UnixAddr>(client.as_raw_fd(), &[IoSlice::new(bytes)], rights, flags, None)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::sync::Mutex;
    use std::time::Instant;

    use nix::sys::socket::{ControlMessageOwned, connect, recvmsg, send as send_bytes};

    use super::*;

    const SIGNAL: u32 = 50;

    /// Gives everybody what he asks for, if `willing`.
    struct Giver {
        willing: bool,
        seen: Arc<Mutex<Vec<u32>>>,
    }

    fn file() -> Arc<OwnedFd> {
        Arc::new(File::open("/dev/null").expect("/dev/null").into())
    }

    impl Registrar for Giver {
        fn register(&self, peer: Peer, _: Hello) -> Option<Registration> {
            assert_eq!(peer.uid, nix::unistd::geteuid().as_raw());
            self.seen.lock().unwrap().push(peer.pid);
            let maps = [file(), file(), file(), file(), file()];
            self.willing.then_some(Registration { welcome: welcome(), maps })
        }
        fn shim(&self, _: Peer) -> Option<(Welcome, Arc<OwnedFd>)> {
            self.willing.then(|| (welcome(), file()))
        }
    }

    fn welcome() -> Welcome {
        Welcome { abi_version: ABI_VERSION, signal: SIGNAL, pid_namespace: 1, _pad: 0 }
    }

    fn hello(request: u32) -> [u32; 4] {
        [ABI_VERSION, request, 0, 0]
    }

    fn client(name: &str) -> OwnedFd {
        let fd = socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None).unwrap();
        connect(fd.as_raw_fd(), &UnixAddr::new_abstract(name.as_bytes()).unwrap()).unwrap();
        fd
    }

    /// Signal and number of descriptors of the answer; `None` if the connection was closed instead.
    fn ask(name: &str, words: &[u32]) -> Option<(u32, usize)> {
        let client = client(name);
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        send_bytes(client.as_raw_fd(), &bytes, MsgFlags::empty()).unwrap();
        answer_to(&client)
    }

    fn answer_to(client: &OwnedFd) -> Option<(u32, usize)> {
        let mut bytes = [0; 64];
        let mut parts = [std::io::IoSliceMut::new(&mut bytes)];
        let mut space = nix::cmsg_space!([RawFd; 8]);
        let message =
            recvmsg::<UnixAddr>(client.as_raw_fd(), &mut parts, Some(&mut space), MsgFlags::empty()).ok()?;
        if message.bytes == 0 {
            return None;
        }
        assert_eq!(message.bytes, size_of::<Welcome>());
        let fds = message.cmsgs().unwrap().map(|rights| match rights {
            ControlMessageOwned::ScmRights(fds) => fds.len(),
            _ => 0,
        });
        let fds = fds.sum();
        Some((u32::from_ne_bytes(bytes[4..8].try_into().unwrap()), fds))
    }

    /// Runs `clients` beside a listener; whom the registrar has seen.
    fn with_listener(willing: bool, clients: impl FnOnce(&str) + Send + 'static) -> Vec<u32> {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let giver = Giver { willing, seen: Arc::clone(&seen) };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (listener, name) = Listener::bind().unwrap();
            tokio::select! {
                () = listener.serve(giver) => {}
                done = tokio::task::spawn_blocking(move || clients(&name)) => done.unwrap(),
            }
        });
        std::mem::take(&mut seen.lock().unwrap())
    }

    #[test]
    fn a_program_gets_the_maps_and_is_known_by_its_pid() {
        let seen = with_listener(true, |name| {
            assert_eq!(ask(name, &hello(HELLO_REGISTER)), Some((SIGNAL, 5)));
            assert_eq!(ask(name, &hello(HELLO_SHIM)), Some((SIGNAL, 1)));
        });
        assert_eq!(seen, [std::process::id()]);
    }

    #[test]
    fn who_is_refused_hears_so() {
        with_listener(false, |name| {
            assert_eq!(ask(name, &hello(HELLO_REGISTER)), Some((0, 0)));
            assert_eq!(ask(name, &hello(HELLO_SHIM)), Some((0, 0)));
        });
    }

    #[test]
    fn nonsense_ends_the_connection_and_no_other() {
        let seen = with_listener(true, |name| {
            let [version, request, ..] = hello(HELLO_REGISTER);
            for words in [
                &[version + 1, request, 0, 0][..],
                &[version, 99, 0, 0],
                &[version, request],
                &[version, request, 0, 0, 0],
                &[0; 5000],
            ] {
                assert_eq!(ask(name, words), None, "{} words", words.len());
            }
            assert_eq!(ask(name, &hello(HELLO_REGISTER)), Some((SIGNAL, 5)));
        });
        assert_eq!(seen.len(), 1);
    }

    #[test]
    fn the_silent_are_dropped_and_hold_up_nobody() {
        with_listener(true, |name| {
            let silent: Vec<OwnedFd> = (0..CLIENTS / 2).map(|_| client(name)).collect();
            let begun = Instant::now();
            assert_eq!(ask(name, &hello(HELLO_REGISTER)), Some((SIGNAL, 5)));
            assert!(begun.elapsed() < PATIENCE, "served beside the silent ones");
            drop(client(name));
            silent.iter().for_each(|client| assert_eq!(answer_to(client), None, "dropped in the end"));
        });
    }

    #[test]
    fn names_differ_and_fit_the_shim() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (a, b) = (Listener::bind().unwrap().1, Listener::bind().unwrap().1);
            assert_ne!(a, b);
            assert!(a.len() <= 107);
        });
    }
}
