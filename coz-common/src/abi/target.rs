//! What passes between the target and the controller: registration, and the counters of coz.h.

use super::COUNTER_NAME;

/// A coz.h counter: written by the shim (name) and by the program's own macros (count).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CounterSlot {
    /// 0 free, 1 being claimed, 2 in use: claimed with compare-and-exchange.
    pub state: u32,
    /// 1 throughput, 2 begin, 3 end (coz.h).
    pub kind: u32,
    /// What the program increments: coz.h's `struct { size_t count; size_t backoff; }` begins here.
    pub count: u64,
    /// Unused since long, part of the ABI.
    pub backoff: u64,
    /// The name, without a NUL where it is that long.
    pub name: [u8; COUNTER_NAME],
}

/// What the shim sends over the registration socket when a program starts: one datagram, no reply but [`Welcome`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Hello {
    /// [`super::ABI_VERSION`].
    pub abi_version: u32,
    /// [`HELLO_REGISTER`] or [`HELLO_SHIM`].
    pub request: u32,
    /// Address of the shim's signal handler in this process.
    pub handler: u64,
}

/// `Hello::request`: a program has started, wants the maps. Reply: [`Welcome`] and the descriptors of
/// `CONTROL`, `GLOBAL`, `SLOTS` (read-only), `PAYMENTS`, `COUNTERS`, in this order.
pub const HELLO_REGISTER: u32 = 1;

/// `Hello::request`: this process is about to exec. Reply: [`Welcome`] and the descriptor of the shim itself.
pub const HELLO_SHIM: u32 = 2;

/// The controller's answer; the descriptors come along as `SCM_RIGHTS`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Welcome {
    /// [`super::ABI_VERSION`].
    pub abi_version: u32,
    /// The signal to listen to; 0 = refused, stay idle.
    pub signal: u32,
    /// Number of the pid namespace: the upper half of this process's slot keys.
    pub pid_namespace: u32,
    /// Explicit padding.
    pub _pad: u32,
}

/// Environment variable that names the registration socket (abstract, without the leading NUL). The shim
/// removes it, and what we put into `LD_PRELOAD`, before the program can see either.
pub const SOCKET_ENV: &str = "COZ_BPF_SOCKET";
