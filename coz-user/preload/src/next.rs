//! libc's own functions behind those that this library puts in front of them.

use core::ffi::{CStr, c_void};
use core::marker::PhantomData;
use core::mem::transmute_copy;
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::{Acquire, Release};

/// The next definition of a function after ours. `F` is its type, a function pointer.
pub struct Next<F> {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
    kind: PhantomData<F>,
}

impl<F: Copy> Next<F> {
    /// # Safety
    /// `F` must be the type of libc's function of that name.
    pub const unsafe fn new(name: &'static CStr) -> Self {
        Self { name, found: AtomicPtr::new(core::ptr::null_mut()), kind: PhantomData }
    }

    /// The function; `None` if this libc has none. Looked up by the constructor, or, where a constructor that
    /// runs before ours calls it, then.
    #[inline(always)]
    pub fn get(&self) -> Option<F> {
        let mut found = self.found.load(Acquire);
        if found.is_null() {
            found = self.look_up();
        }
        // SAFETY: a function of type `F`, as `new` was promised; pointers to functions are one word.
        (!found.is_null()).then(|| unsafe { transmute_copy::<*mut c_void, F>(&found) })
    }

    #[cold]
    fn look_up(&self) -> *mut c_void {
        // SAFETY: `name` is a string.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.found.store(found, Release);
        found
    }
}

/// Declares `static NAME: Next<type>` for each function, and `resolve()`, which looks all of them up.
macro_rules! functions {
    ($($name:ident = $symbol:literal: $kind:ty;)*) => {
        $(
            // SAFETY: the prototype is libc's.
            pub static $name: Next<$kind> = unsafe { Next::new($symbol) };
        )*
        /// Looks everything up, while it is safe: later, in a signal handler, it may not be.
        pub fn resolve() {
            $($name.get();)*
        }
    };
}

mod list {
    use core::ffi::{c_char, c_int, c_void};

    use libc::{epoll_event, fd_set, nfds_t, pid_t, pollfd};
    use libc::{sigaction, siginfo_t, sigset_t, stack_t, timespec};

    use super::Next;

    pub type Strings = *const *const c_char;
    pub type Handler = usize;
    pub type Start = extern "C" fn(*mut c_void) -> *mut c_void;
    type SetMask = unsafe extern "C" fn(c_int, *const sigset_t, *mut sigset_t) -> c_int;
    type SetHandler = unsafe extern "C" fn(c_int, Handler) -> Handler;
    type OneSignal = unsafe extern "C" fn(c_int) -> c_int;
    type Wait = unsafe extern "C" fn(*const sigset_t, *mut siginfo_t) -> c_int;
    type TimedWait = unsafe extern "C" fn(*const sigset_t, *mut siginfo_t, *const timespec) -> c_int;
    type Exec = unsafe extern "C" fn(*const c_char, Strings, Strings) -> c_int;
    pub type Spawn = unsafe extern "C" fn(
        *mut pid_t,
        *const c_char,
        *const c_void,
        *const c_void,
        Strings,
        Strings,
    ) -> c_int;

    functions! {
        SIGACTION = c"sigaction": unsafe extern "C" fn(c_int, *const sigaction, *mut sigaction) -> c_int;
        SIGNAL = c"signal": SetHandler;
        BSD_SIGNAL = c"bsd_signal": SetHandler;
        SYSV_SIGNAL = c"sysv_signal": SetHandler;
        SYSV_SIGNAL_ = c"__sysv_signal": SetHandler;
        SIGSET = c"sigset": SetHandler;
        SIGIGNORE = c"sigignore": OneSignal;
        SIGHOLD = c"sighold": OneSignal;
        SIGRELSE = c"sigrelse": OneSignal;
        SIGINTERRUPT = c"siginterrupt": unsafe extern "C" fn(c_int, c_int) -> c_int;
        SIGPROCMASK = c"sigprocmask": SetMask;
        PTHREAD_SIGMASK = c"pthread_sigmask": SetMask;
        SIGPENDING = c"sigpending": unsafe extern "C" fn(*mut sigset_t) -> c_int;
        SIGWAIT = c"sigwait": unsafe extern "C" fn(*const sigset_t, *mut c_int) -> c_int;
        SIGWAITINFO = c"sigwaitinfo": Wait;
        SIGTIMEDWAIT = c"sigtimedwait": TimedWait;
        SIGSUSPEND = c"sigsuspend": unsafe extern "C" fn(*const sigset_t) -> c_int;
        PPOLL = c"ppoll":
            unsafe extern "C" fn(*mut pollfd, nfds_t, *const timespec, *const sigset_t) -> c_int;
        PSELECT = c"pselect": unsafe extern "C" fn(
            c_int, *mut fd_set, *mut fd_set, *mut fd_set, *const timespec, *const sigset_t,
        ) -> c_int;
        EPOLL_PWAIT = c"epoll_pwait":
            unsafe extern "C" fn(c_int, *mut epoll_event, c_int, c_int, *const sigset_t) -> c_int;
        EPOLL_PWAIT2 = c"epoll_pwait2": unsafe extern "C" fn(
            c_int, *mut epoll_event, c_int, *const timespec, *const sigset_t,
        ) -> c_int;
        SIGALTSTACK = c"sigaltstack": unsafe extern "C" fn(*const stack_t, *mut stack_t) -> c_int;
        PTHREAD_CREATE = c"pthread_create":
            unsafe extern "C" fn(*mut libc::pthread_t, *const c_void, Start, *mut c_void) -> c_int;
        FORK = c"fork": unsafe extern "C" fn() -> pid_t;
        FORK_ = c"_Fork": unsafe extern "C" fn() -> pid_t;
        EXECVE = c"execve": Exec;
        EXECVPE = c"execvpe": Exec;
        FEXECVE = c"fexecve": unsafe extern "C" fn(c_int, Strings, Strings) -> c_int;
        POSIX_SPAWN = c"posix_spawn": Spawn;
        POSIX_SPAWNP = c"posix_spawnp": Spawn;
        ADD_CLOSE = c"posix_spawn_file_actions_addclose": unsafe extern "C" fn(*mut c_void, c_int) -> c_int;
        ADD_CLOSE_FROM = c"posix_spawn_file_actions_addclosefrom_np":
            unsafe extern "C" fn(*mut c_void, c_int) -> c_int;
    }
}

pub use list::*;
