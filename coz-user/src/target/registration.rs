//! The registration socket: programs that start with the shim ask here for the maps, and programs that are
//! about to exec ask for the shim.
//!
//! Anybody can connect to an abstract socket whose name he learns. So a client is known by what the kernel
//! says of it, not by what it says; it gets one question, of one size, and little time.

use std::io;
use std::mem::{offset_of, size_of};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use coz_common::abi::{ABI_VERSION, HELLO_REGISTER, HELLO_SHIM, Hello, Welcome};
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

/// Who decides what a client gets.
pub trait Registrar: Send + Sync + 'static {
    /// A program has started. `pid` is as this process sees it. `None` refuses: it then runs unprofiled.
    fn register(&self, pid: u32, hello: Hello) -> Option<Registration>;
    /// A process is about to exec: the shim's memfd, and what [`Registrar::register`] would answer
    /// (only its version and its signal, not 0, are looked at). `None` refuses.
    fn shim(&self, pid: u32) -> Option<(Welcome, Arc<OwnedFd>)>;
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
        // SAFETY: a descriptor that is not negative is new and ours; the address lives through the call.
        let socket = unsafe {
            let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
            let socket = OwnedFd::from_raw_fd(checked(libc::socket(libc::AF_UNIX, kind, 0))?);
            let mut address: libc::sockaddr_un = std::mem::zeroed();
            address.sun_family = libc::AF_UNIX as libc::sa_family_t;
            for (to, from) in address.sun_path[1..].iter_mut().zip(name.bytes()) {
                *to = from as libc::c_char;
            }
            let length = (offset_of!(libc::sockaddr_un, sun_path) + 1 + name.len()) as libc::socklen_t;
            checked(libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length))?;
            checked(libc::listen(socket.as_raw_fd(), CLIENTS as libc::c_int))?;
            socket
        };
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

fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn readable(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an owned descriptor stays open and the same for as long as it is owned.
    Ok(unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) }?)
}

async fn accept(listener: &AsyncFd<OwnedFd>) -> io::Result<OwnedFd> {
    let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    listener
        .async_io(Interest::READABLE, |fd| {
            // SAFETY: no address is asked for; a descriptor that is not negative is new and ours.
            unsafe {
                let null = std::ptr::null_mut();
                let fd = checked(libc::accept4(fd.as_raw_fd(), null, std::ptr::null_mut(), flags))?;
                Ok(OwnedFd::from_raw_fd(fd))
            }
        })
        .await
}

async fn answer(client: OwnedFd, registrar: &impl Registrar) -> io::Result<()> {
    let pid = peer(&client)?;
    let client = readable(client)?;
    let hello = client.async_io(Interest::READABLE, receive).await?;
    let nonsense = || io::Error::from(io::ErrorKind::InvalidData);
    if hello.abi_version != ABI_VERSION {
        return Err(nonsense());
    }
    let refused = || (Welcome { abi_version: ABI_VERSION, ..Welcome::default() }, Vec::new());
    let (welcome, fds) = match hello.request {
        HELLO_REGISTER => registrar.register(pid, hello).map(|r| (r.welcome, r.maps.to_vec())),
        HELLO_SHIM => registrar.shim(pid).map(|(welcome, shim)| (welcome, vec![shim])),
        _ => return Err(nonsense()),
    }
    .unwrap_or_else(refused);
    let fds: Vec<RawFd> = fds.iter().map(AsRawFd::as_raw_fd).collect();
    // One small datagram into an empty buffer: it never has to wait.
    send(client.get_ref(), welcome, &fds)
}

/// Process id of who connected, as this process's pid namespace sees it.
fn peer(client: &OwnedFd) -> io::Result<u32> {
    let mut credentials = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel writes one ucred.
    checked(unsafe {
        let value = (&raw mut credentials).cast();
        libc::getsockopt(client.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, value, &raw mut length)
    })?;
    // 0: a process that our namespace does not see.
    u32::try_from(credentials.pid).ok().filter(|&pid| pid != 0).ok_or(io::ErrorKind::NotFound.into())
}

fn receive(client: &OwnedFd) -> io::Result<Hello> {
    let mut hello = Hello::default();
    // SAFETY: the kernel writes at most one Hello, in which every bit pattern is valid. Descriptors that the
    // client sends along find no room and are closed by the kernel.
    let received = unsafe {
        let flags = libc::MSG_TRUNC | libc::MSG_DONTWAIT;
        libc::recv(client.as_raw_fd(), (&raw mut hello).cast(), size_of::<Hello>(), flags)
    };
    match usize::try_from(received) {
        Err(_) => Err(io::Error::last_os_error()),
        // With MSG_TRUNC: the length that was sent, not what there was room for.
        Ok(length) if length == size_of::<Hello>() => Ok(hello),
        Ok(_) => Err(io::ErrorKind::InvalidData.into()),
    }
}

fn send(client: &OwnedFd, welcome: Welcome, fds: &[RawFd]) -> io::Result<()> {
    let mut part =
        libc::iovec { iov_base: (&raw const welcome).cast_mut().cast(), iov_len: size_of::<Welcome>() };
    let bytes = size_of_val(fds) as libc::c_uint;
    // SAFETY: asks for sizes only.
    let (space, length) = unsafe { (libc::CMSG_SPACE(bytes), libc::CMSG_LEN(bytes)) };
    let mut control = vec![0u64; (space as usize).div_ceil(size_of::<u64>())];
    // SAFETY: `control` has the room that CMSG_SPACE asks for, aligned as the header must be; everything that
    // the message points to lives through the call.
    let sent = unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        if !fds.is_empty() {
            message.msg_control = control.as_mut_ptr().cast();
            message.msg_controllen = space as usize;
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = length as usize;
            std::ptr::copy_nonoverlapping(fds.as_ptr(), libc::CMSG_DATA(header).cast(), fds.len());
        }
        libc::sendmsg(client.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT)
    };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
