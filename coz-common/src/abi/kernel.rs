//! What the kernel side knows of processes and of the kernel's own structs, and what it tells the controller.

/// What the kernel must know of a process; inherited at fork, emptied at exec.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// Address of the shim's handler; 0 = none: send no signal.
    pub handler: u64,
    /// Number of seccomp filters when the shim registered; more now = send no signal.
    pub seccomp_filters: u32,
    /// Number of its address space (`crate::unwind::AddressSpace`); 0 = not known.
    pub space: u32,
    /// Number of the book that it was given: the table in which its threads say what they have paid. [`super::NO_BOOK`]: none.
    pub book: u32,
    /// The user whose book that is. A thread that is another one's by now is not asked to pay.
    pub uid: u32,
}

/// `Event::kind`: a thread or process of the profiled set was born; `tid` is the child, `other` its parent.
pub const EVENT_FORK: u32 = 1;

/// `Event::kind`: a process of the set has executed another program: its mappings are to be read again.
pub const EVENT_EXEC: u32 = 2;

/// `Event::kind`: a process of the set is gone.
pub const EVENT_EXIT: u32 = 3;

/// `Event::kind`: a process has left the set alive: it has executed a program with other rights than its own (set-user-ID).
pub const EVENT_LEFT: u32 = 5;

/// Byte offsets of the kernel's own structs, from its BTF: handed to the programs as a read-only global.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offsets {
    /// `task_struct.pid`.
    pub task_pid: u32,
    /// `task_struct.tgid`.
    pub task_tgid: u32,
    /// `task_struct.thread_pid`.
    pub task_thread_pid: u32,
    /// `task_struct.sighand`.
    pub task_sighand: u32,
    /// `task_struct.blocked`.
    pub task_blocked: u32,
    /// `task_struct.seccomp.mode`.
    pub task_seccomp_mode: u32,
    /// `task_struct.seccomp.filter_count`.
    pub task_seccomp_filters: u32,
    /// `sighand_struct.action`.
    pub sighand_action: u32,
    /// Size of `k_sigaction`.
    pub k_sigaction_size: u32,
    /// `k_sigaction.sa.sa_handler`.
    pub k_sigaction_handler: u32,
    /// `pid.level`.
    pub pid_level: u32,
    /// `pid.numbers`.
    pub pid_numbers: u32,
    /// Size of `upid`.
    pub upid_size: u32,
    /// `upid.nr`.
    pub upid_nr: u32,
    /// `upid.ns`.
    pub upid_ns: u32,
    /// `pid_namespace.ns.inum`.
    pub pid_namespace_inum: u32,
    /// `task_struct.__state` (`state` before 5.14).
    pub task_state: u32,
    /// `task_struct.flags`.
    pub task_flags: u32,
    /// `task_struct.cred`.
    pub task_cred: u32,
    /// `cred.uid`.
    pub cred_uid: u32,
    /// `cred.euid`.
    pub cred_euid: u32,
    /// `cred.gid`.
    pub cred_gid: u32,
    /// `cred.egid`.
    pub cred_egid: u32,
    /// `task_struct.sas_ss_size`: the size of a thread's alternate signal stack.
    pub task_alternate: u32,
    /// Not an offset: the least size of an alternate stack that has room for a signal's frame and the handler, bytes.
    pub alternate_least: u32,
}

/// Rare things that the kernel tells the controller, through the ring buffer `EVENTS`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Event {
    /// `EVENT_*`.
    pub kind: u32,
    /// Process id.
    pub tgid: u32,
    /// Thread id.
    pub tid: u32,
    /// See `kind`.
    pub other: u32,
    /// When, `CLOCK_MONOTONIC` nanoseconds.
    pub time: u64,
}
