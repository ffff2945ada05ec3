//! The registration socket: asking the controller for the maps, or for the shim once more.

use core::cell::UnsafeCell;
use core::ffi::c_int;
use core::mem::{offset_of, size_of};
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::{Acquire, Release};

use coz_common::abi::{ABI_VERSION, Hello, Welcome};

use crate::env::{Invitation, SOCKET_LENGTH};
use crate::maps::MAPS;
use crate::sys::{self, Fd};

/// Where the controller listens; written once by the constructor, before its length is.
struct Name(UnsafeCell<[u8; SOCKET_LENGTH]>);
// SAFETY: written before `LENGTH` is set, read only after.
unsafe impl Sync for Name {}
static NAME: Name = Name(UnsafeCell::new([0; SOCKET_LENGTH]));
static LENGTH: AtomicUsize = AtomicUsize::new(0);

/// Longest wait for the controller, for each step: one that hangs delays a program's start by no more.
static PATIENCE: libc::timeval = libc::timeval { tv_sec: 1, tv_usec: 0 };

/// Keeps the socket's name for later: the environment no longer has it.
///
/// # Safety
/// Called once, before any other thread is there.
pub unsafe fn remember(invitation: &Invitation) {
    // SAFETY: nobody reads it while the length is 0.
    unsafe { *NAME.0.get() = invitation.socket };
    LENGTH.store(invitation.length, Release);
}

/// The name, without the leading NUL; empty without a profiler.
pub fn name() -> &'static [u8] {
    let length = LENGTH.load(Acquire);
    // SAFETY: a length that is not 0 was set after the name was, and neither changes again.
    unsafe { &*NAME.0.get() }.get(..length).unwrap_or_default()
}

/// The controller's answer, and the descriptors that came with it.
pub struct Reply {
    pub welcome: Welcome,
    pub fds: [Option<Fd>; MAPS],
}

/// Asks the controller; `None` if it is not there, not of our version, refuses, or takes too long.
pub fn ask(request: u32, handler: u64) -> Option<Reply> {
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: a new socket.
    let fd = unsafe { sys::call(libc::SYS_socket, [libc::AF_UNIX as usize, kind as usize, 0, 0, 0, 0]) };
    let socket = (fd >= 0).then_some(Fd(fd as c_int))?;
    for option in [libc::SO_SNDTIMEO, libc::SO_RCVTIMEO] {
        let length = size_of::<libc::timeval>();
        let value = &raw const PATIENCE as usize;
        let arguments = [socket.0 as usize, libc::SOL_SOCKET as usize, option as usize, value, length, 0];
        // SAFETY: the kernel reads one timeval.
        unsafe { sys::call(libc::SYS_setsockopt, arguments) };
    }
    connect(&socket)?;
    let hello = Hello { abi_version: ABI_VERSION, request, handler };
    let flags = libc::MSG_NOSIGNAL as usize;
    let arguments = [socket.0 as usize, &raw const hello as usize, size_of::<Hello>(), flags, 0, 0];
    // SAFETY: the kernel reads one Hello.
    let sent = unsafe { sys::call(libc::SYS_sendto, arguments) };
    if sent != size_of::<Hello>() as isize {
        return None;
    }
    let reply = receive(&socket)?;
    (reply.welcome.abi_version == ABI_VERSION && reply.welcome.signal != 0).then_some(reply)
}

fn connect(socket: &Fd) -> Option<()> {
    let mut address = libc::sockaddr_un { sun_family: libc::AF_UNIX as u16, sun_path: [0; 108] };
    let name = name();
    if name.is_empty() {
        return None;
    }
    // The first byte stays NUL: an abstract name.
    for (to, &from) in address.sun_path[1..].iter_mut().zip(name) {
        *to = from as _;
    }
    let length = offset_of!(libc::sockaddr_un, sun_path) + 1 + name.len();
    let arguments = [socket.0 as usize, &raw const address as usize, length, 0, 0, 0];
    // SAFETY: the kernel reads `length` bytes of the address.
    (unsafe { sys::call(libc::SYS_connect, arguments) } == 0).then_some(())
}

/// Room for the control message that carries the descriptors, aligned as its header must be.
#[repr(C)]
struct Rights {
    header: libc::cmsghdr,
    fds: [c_int; MAPS + 1],
}

fn receive(socket: &Fd) -> Option<Reply> {
    let mut welcome = Welcome::default();
    let mut rights =
        Rights { header: libc::cmsghdr { cmsg_len: 0, cmsg_level: 0, cmsg_type: 0 }, fds: [-1; MAPS + 1] };
    let mut part = libc::iovec { iov_base: (&raw mut welcome).cast(), iov_len: size_of::<Welcome>() };
    // SAFETY: all zero is a valid msghdr.
    let mut message: libc::msghdr = unsafe { core::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut rights).cast();
    message.msg_controllen = size_of::<Rights>();
    let flags = libc::MSG_CMSG_CLOEXEC as usize;
    let arguments = [socket.0 as usize, &raw mut message as usize, flags, 0, 0, 0];
    // SAFETY: the kernel writes into `welcome` and `rights`, as far as they are long.
    let received = unsafe { sys::call(libc::SYS_recvmsg, arguments) };
    let mut fds = [const { None }; MAPS];
    let mut unexpected = false;
    if received >= 0
        && message.msg_controllen >= size_of::<libc::cmsghdr>()
        && (rights.header.cmsg_level, rights.header.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS)
    {
        let bytes = rights.header.cmsg_len.saturating_sub(size_of::<libc::cmsghdr>());
        // Every descriptor that came is taken over at once, so that none stays open whatever follows.
        for (i, &fd) in rights.fds.iter().take(bytes / size_of::<c_int>()).enumerate() {
            match fds.get_mut(i) {
                Some(place) => *place = Some(Fd(fd)),
                None => {
                    sys::close(fd);
                    unexpected = true;
                }
            }
        }
    }
    let whole = received == size_of::<Welcome>() as isize
        && message.msg_flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) == 0;
    (whole && !unexpected).then_some(Reply { welcome, fds })
}
