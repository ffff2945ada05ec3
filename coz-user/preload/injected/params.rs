//! What the code must know of the process that it is put into. Compiled into the injector too, which fills it in.

/// Behind the code, in the same page, which the process cannot write.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Params {
    /// Addresses of `CONTROL`, `GLOBAL`, `SLOTS`, `PAYMENTS`.
    pub maps: [u64; 4],
    /// Address of the number of threads that are in the handler: a word that the process can write, zero in forked children.
    pub inside: u64,
    /// What was done with the signal before: `SIG_DFL`, `SIG_IGN` or an address.
    pub old_handler: u64,
    /// Number of the process's pid namespace.
    pub pid_namespace: u32,
    /// Explicit padding.
    pub _pad: u32,
}
