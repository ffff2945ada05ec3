//! What is put into a process: its mappings and its handler, call by call.

use std::{
    io::{self, IoSlice},
    os::{
        fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
        unix::fs::MetadataExt,
    },
};

use coz_common::abi::{Control, Global, KernelSlot, MAX_SLOTS, TargetSlot};
use nix::sys::socket::{ControlMessage, MsgFlags, UnixAddr, sendmsg};

use super::{
    Maps,
    code::{self, PAGE, Params},
    rescue::Undo,
    stop::Held,
};

/// Length in bytes of each map that the target gets, and whether it writes it.
const SHAPES: [(u64, bool); 4] = [
    (size_of::<Control>() as u64, false),
    (size_of::<Global>() as u64, false),
    (size_of::<KernelSlot>() as u64 * MAX_SLOTS as u64, false),
    (size_of::<TargetSlot>() as u64 * MAX_SLOTS as u64, true),
];
/// The place of `PAYMENTS` among them.
const PAYMENTS: usize = 3;
/// Its length, bytes.
pub const TABLE: u64 = SHAPES[PAYMENTS].0;
const READ: u64 = libc::PROT_READ as u64;
const WRITE: u64 = libc::PROT_WRITE as u64;
const EXECUTE: u64 = libc::PROT_EXEC as u64;
/// Whoever forks gets zeros: nobody is in the child's handler.
const WIPE_ON_FORK: u64 = 18;
const SA_RESTORER: u64 = 0x0400_0000;
/// `arch_prctl`: which dynamically enabled parts of the processor's state the process may use (`ARCH_GET_XCOMP_PERM`).
const GET_PERMISSIONS: u64 = 0x1022;
/// AMX's tiles among them.
const XTILEDATA: u64 = 1 << 18;
/// Size of the kernel's `sigset_t`.
const SET: u64 = 8;

/// What fails where a process's memory cannot be written.
const INSURE: fn(io::Error) -> (&'static str, io::Error) = |error| ("write what undoes it", error);

/// The kernel's `struct sigaction`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Action {
    /// `SIG_DFL`, `SIG_IGN`, or an address.
    pub handler: u64,
    /// `SA_*`.
    pub flags: u64,
    /// Where the handler returns to.
    pub restorer: u64,
    /// What is blocked meanwhile.
    pub mask: u64,
}

impl Action {
    /// To drop what is pending.
    const IGNORE: Self = Self { handler: libc::SIG_IGN as u64, flags: 0, restorer: 0, mask: 0 };
    const SIZE: usize = 32;

    fn bytes(self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        for (place, word) in
            bytes.chunks_exact_mut(8).zip([self.handler, self.flags, self.restorer, self.mask])
        {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    fn of(bytes: [u8; Self::SIZE]) -> Self {
        let word = |at: usize| {
            bytes.get(at..at + 8).and_then(|word| word.try_into().ok()).map_or(0, u64::from_ne_bytes)
        };
        Self { handler: word(0), flags: word(8), restorer: word(16), mask: word(24) }
    }
}

/// Where everything is in the process, and what was there before.
#[derive(Clone, Debug, Default)]
pub struct Seat {
    /// The page of code.
    pub code: u64,
    /// A page that the process can write: how many threads are in the handler.
    pub data: u64,
    maps: [u64; 4],
    /// What was done with the signal before.
    pub before: Action,
    /// Descriptors that are open for a moment.
    open: Vec<u64>,
}

impl Seat {
    /// Takes it: the maps are mapped, the code is there, the handler is in place. What cannot be finished is undone.
    ///
    /// # Errors
    /// Which step failed, and why.
    pub fn take(
        held: &mut Held,
        maps: &Maps,
        pidfd: &OwnedFd,
        pid_namespace: u32,
        signal: u32,
    ) -> Result<Self, (&'static str, io::Error)> {
        let mut seat = Self::default();
        let taken = seat.fill(held, maps, pidfd, pid_namespace, signal);
        match taken {
            Ok(()) => Ok(seat),
            Err(error) => {
                seat.clear(held);
                Err(error)
            }
        }
    }

    fn fill(
        &mut self,
        held: &mut Held,
        maps: &Maps,
        pidfd: &OwnedFd,
        pid_namespace: u32,
        signal: u32,
    ) -> Result<(), (&'static str, io::Error)> {
        self.data = map(held, PAGE, READ | WRITE, None).map_err(|e| ("map a page", e))?;
        self.insure(held)?;
        self.code = map(held, PAGE, READ | EXECUTE, None).map_err(|e| ("map a page for code", e))?;
        self.insure(held)?;
        let fds: Vec<RawFd> = maps.iter().take(SHAPES.len()).map(|fd| fd.as_raw_fd()).collect();
        self.hand_over(held, &fds, pidfd).map_err(|e| ("hand over the maps", e))?;
        for (place, (fd, (length, writable))) in self.open.clone().into_iter().zip(SHAPES).enumerate() {
            let access = if writable { READ | WRITE } else { READ };
            self.maps[place] = map(held, length, access, Some(fd)).map_err(|e| ("map the maps", e))?;
            self.insure(held)?;
        }
        self.close(held).map_err(|e| ("close the maps", e))?;
        held.write(self.data, &[0; PAGE as usize]).map_err(|e| ("clear a page", e))?;
        held.call(libc::SYS_madvise, [self.data, PAGE, WIPE_ON_FORK, 0, 0, 0])
            .map_err(|e| ("keep a page from being copied by fork (madvise)", e))?;

        self.before = self.action(held, signal).map_err(|e| ("look at the signal's handler", e))?;
        self.write_code(held, pid_namespace).map_err(|e| ("write the code", e))?;
        // A signal's frame with AMX's tiles is too large for many an alternate stack.
        let stack = if self.has_tiles(held) { 0 } else { libc::SA_ONSTACK };
        let ours = Action {
            handler: self.handler(),
            flags: (libc::SA_SIGINFO | stack | libc::SA_RESTART) as u64 | SA_RESTORER,
            restorer: self.code + code::RESTORER,
            mask: !0,
        };
        // From here on everything stays where it is, whatever happens.
        held.if_we_die(&[]).map_err(INSURE)?;
        let replaced = self
            .set_action(held, signal, Some(ours))
            .map_err(|e| ("put the handler in place (sigaction)", e))?;
        if replaced != self.before {
            // Another thread has been faster.
            self.before = replaced;
            self.write_code(held, pid_namespace).map_err(|e| ("write the code", e))?;
        }
        Ok(())
    }

    /// Puts another table of payments in the place of the one that is mapped at this address: by one call, so that there is always one. Only
    /// the new one is there then.
    ///
    /// # Errors
    /// Which step failed, and why; the old one is there still.
    pub fn replace_payments(
        held: &mut Held,
        table: &OwnedFd,
        address: u64,
        pidfd: &OwnedFd,
    ) -> Result<(), (&'static str, io::Error)> {
        let mut seat = Self::default();
        let replaced = seat.put(held, table, address, pidfd);
        seat.clear(held);
        replaced
    }

    fn put(
        &mut self,
        held: &mut Held,
        table: &OwnedFd,
        address: u64,
        pidfd: &OwnedFd,
    ) -> Result<(), (&'static str, io::Error)> {
        self.data = map(held, PAGE, READ | WRITE, None).map_err(|e| ("map a page", e))?;
        self.insure(held)?;
        self.hand_over(held, &[table.as_raw_fd()], pidfd).map_err(|e| ("hand over a table", e))?;
        let (length, _) = SHAPES[PAYMENTS];
        let flags = (libc::MAP_SHARED | libc::MAP_FIXED) as u64;
        let fd = self.open.first().copied().unwrap_or(u64::MAX);
        held.call(libc::SYS_mmap, [address, length, READ | WRITE, flags, fd, 0])
            .map_err(|e| ("put a table in the other one's place", e))?;
        Ok(())
    }

    /// What has been done up to now is undone if we are killed. What is about to be undone must not be among it: a descriptor's number
    /// may be another one's by then.
    fn insure(&self, held: &mut Held) -> Result<(), (&'static str, io::Error)> {
        let one = |number, first, second| Undo { number, arguments: [first, second, 0, 0] };
        let open = self.open.iter().map(|&fd| one(libc::SYS_close, fd, 0));
        let shared = self.maps.iter().zip(SHAPES).map(|(&address, (length, _))| (address, length));
        let mapped =
            shared.chain([(self.code, PAGE), (self.data, PAGE)]).filter(|&(address, _)| address != 0);
        let mapped = mapped.map(|(address, length)| one(libc::SYS_munmap, address, length));
        held.if_we_die(&open.chain(mapped).collect::<Vec<_>>()).map_err(INSURE)
    }

    /// Whether the process has asked for AMX.
    fn has_tiles(&self, held: &mut Held) -> bool {
        let to = self.data + 64;
        let mut granted = [0; 8];
        let asked = held.call(libc::SYS_arch_prctl, [GET_PERMISSIONS, to, 0, 0, 0, 0]);
        asked.and_then(|_| held.read(to, &mut granted)).is_ok()
            && u64::from_ne_bytes(granted) & XTILEDATA != 0
    }

    fn write_code(&self, held: &Held, pid_namespace: u32) -> io::Result<()> {
        let params = Params {
            maps: self.maps,
            inside: self.data,
            old_handler: self.before.handler,
            pid_namespace,
            _pad: 0,
        };
        held.write(self.code, &code::page(&params))
    }

    /// Opens the maps in the process: a socket pair of its own, one end of which we take.
    fn hand_over(&mut self, held: &mut Held, fds: &[RawFd], pidfd: &OwnedFd) -> io::Result<()> {
        let kind = (libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC) as u64;
        held.call(libc::SYS_socketpair, [libc::AF_UNIX as u64, kind, 0, self.data, 0, 0])?;
        let mut pair = [0; 8];
        held.read(self.data, &mut pair)?;
        let [a, b, c, d, e, f, g, h] = pair;
        let (ours, theirs) = (u32::from_ne_bytes([a, b, c, d]), u32::from_ne_bytes([e, f, g, h]));
        self.open = vec![ours.into(), theirs.into()];
        self.insure(held).map_err(|(_, error)| error)?;
        let socket = take_descriptor(pidfd, ours)?;
        if !is_same(held, ours, &socket) {
            // The thread has descriptors of its own.
            return Err(io::ErrorKind::Unsupported.into());
        }
        self.open.remove(0);
        self.insure(held).map_err(|(_, error)| error)?;
        held.call(libc::SYS_close, [ours.into(), 0, 0, 0, 0, 0])?;

        let rights = [ControlMessage::ScmRights(fds)];
        let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
        sendmsg::<UnixAddr>(socket.as_raw_fd(), &[IoSlice::new(b"m")], &rights, flags, None)?;
        let received = self.receive(held, theirs.into(), fds.len())?;
        // The maps first: they are closed in this order.
        self.open.splice(0..0, received);
        self.insure(held).map_err(|(_, error)| error)
    }

    /// Has the process receive them.
    fn receive(&self, held: &mut Held, socket: u64, wanted: usize) -> io::Result<Vec<u64>> {
        const HEADER: usize = 16;
        let (message, part, byte, control) = (self.data, self.data + 64, self.data + 96, self.data + 128);
        let length = HEADER + wanted.next_multiple_of(2) * size_of::<u32>();
        // `struct msghdr` and `struct iovec`.
        let words = [0, 0, part, 1, control, length as u64, 0, 0, byte, 1];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        held.write(message, &bytes)?;
        let flags = (libc::MSG_CMSG_CLOEXEC | libc::MSG_DONTWAIT) as u64;
        held.call(libc::SYS_recvmsg, [socket, message, flags, 0, 0, 0])?;
        let mut got = vec![0; length];
        held.read(control, &mut got)?;
        let number = |at: usize| {
            got.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_ne_bytes)
        };
        let sent = (number(0) as usize).saturating_sub(HEADER) / size_of::<u32>();
        let fds: Vec<u64> = (0..sent.min(wanted)).map(|i| number(HEADER + 4 * i).into()).collect();
        if fds.len() == wanted {
            return Ok(fds);
        }
        // A security module has kept some back, or there were none left.
        for fd in fds {
            let _ = held.call(libc::SYS_close, [fd, 0, 0, 0, 0, 0]);
        }
        Err(io::Error::from_raw_os_error(libc::EACCES))
    }

    fn close(&mut self, held: &mut Held) -> io::Result<()> {
        while let Some(fd) = self.open.pop() {
            self.insure(held).map_err(|(_, error)| error)?;
            held.call(libc::SYS_close, [fd, 0, 0, 0, 0, 0])?;
        }
        Ok(())
    }

    /// Address of the handler.
    #[must_use]
    pub const fn handler(&self) -> u64 {
        self.code + code::HANDLER
    }

    /// Whether an address is in the page of code.
    #[must_use]
    pub const fn has(&self, address: u64) -> bool {
        address.wrapping_sub(self.code) < PAGE
    }

    /// What is done with the signal now.
    ///
    /// # Errors
    /// The process is gone.
    pub fn action(&self, held: &mut Held, signal: u32) -> io::Result<Action> {
        self.set_action(held, signal, None)
    }

    /// Changes what is done with the signal; what was done before.
    ///
    /// # Errors
    /// The process is gone.
    pub fn set_action(&self, held: &mut Held, signal: u32, new: Option<Action>) -> io::Result<Action> {
        // The first word counts the threads in the handler.
        let (from, to) = (self.data + 64, self.data + 128);
        if let Some(new) = new {
            held.write(from, &new.bytes())?;
        }
        let from = if new.is_some() { from } else { 0 };
        held.call(libc::SYS_rt_sigaction, [signal.into(), from, to, SET, 0, 0])?;
        let mut bytes = [0; Action::SIZE];
        held.read(to, &mut bytes)?;
        Ok(Action::of(bytes))
    }

    /// Puts back what was done with the signal before. In between it is ignored: what is pending would do what the signal does
    /// without a handler, and end the process.
    ///
    /// # Errors
    /// The process is gone.
    pub fn restore_action(&self, held: &mut Held, signal: u32) -> io::Result<()> {
        let from = self.data + 192;
        held.write(from, &self.before.bytes())?;
        held.if_we_die(&[Undo { number: libc::SYS_rt_sigaction, arguments: [signal.into(), from, 0, SET] }])?;
        self.set_action(held, signal, Some(Action::IGNORE))?;
        self.set_action(held, signal, Some(self.before))?;
        held.if_we_die(&[])
    }

    /// Unmaps everything and closes what is open. What is not there any more does no harm.
    pub fn clear(&mut self, held: &mut Held) {
        let _ = self.close(held);
        for (place, (length, _)) in SHAPES.into_iter().enumerate() {
            let address = std::mem::take(&mut self.maps[place]);
            self.unmap(held, address, length);
        }
        let code = std::mem::take(&mut self.code);
        self.unmap(held, code, PAGE);
        let data = std::mem::take(&mut self.data);
        self.unmap(held, data, PAGE);
    }

    fn unmap(&self, held: &mut Held, address: u64, length: u64) {
        if address != 0 {
            let _ = self.insure(held);
            let _ = held.call(libc::SYS_munmap, [address, length, 0, 0, 0, 0]);
        }
    }

    /// First address and length of everything that is mapped.
    pub fn mappings(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let shared = self.maps.iter().zip(SHAPES).map(|(&address, (length, _))| (address, length));
        shared.chain([(self.code, PAGE)])
    }
}

fn map(held: &mut Held, length: u64, access: u64, fd: Option<u64>) -> io::Result<u64> {
    let (flags, fd) = match fd {
        Some(fd) => (libc::MAP_SHARED as u64, fd),
        None => ((libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64, u64::MAX),
    };
    held.call(libc::SYS_mmap, [0, length, access, flags, fd, 0])
}

/// A copy of another process's descriptor (Linux 5.6).
fn take_descriptor(pidfd: &OwnedFd, number: u32) -> io::Result<OwnedFd> {
    // SAFETY: numbers only; what the call returns is a new descriptor, or an error.
    unsafe {
        let fd = libc::syscall(libc::SYS_pidfd_getfd, pidfd.as_raw_fd(), number, 0);
        if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(fd as RawFd)) }
    }
}

/// Whether the thread's descriptor of this number is this socket.
fn is_same(held: &Held, number: u32, socket: &OwnedFd) -> bool {
    let theirs = std::fs::metadata(format!("/proc/{}/fd/{number}", held.tid()));
    let ours = std::fs::metadata(format!("/proc/self/fd/{}", socket.as_raw_fd()));
    theirs.ok().zip(ours.ok()).is_some_and(|(a, b)| (a.dev(), a.ino()) == (b.dev(), b.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_action_goes_there_and_back() {
        let action = Action { handler: 1, flags: 2, restorer: 3, mask: 4 };
        assert_eq!(Action::of(action.bytes()), action);
        assert_eq!(size_of::<Action>(), Action::SIZE);
    }

    #[test]
    fn the_page_is_known_by_its_addresses() {
        let seat = Seat { code: 0x5000, ..Seat::default() };
        assert!(seat.has(0x5000) && seat.has(0x5fff) && !seat.has(0x4fff) && !seat.has(0x6000));
        assert_eq!(seat.handler(), 0x5000 + code::HANDLER);
    }
}
