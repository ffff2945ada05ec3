//! Dispositions: our handler stays in place, and the program sees the one it has set.

use core::ffi::{c_int, c_void};
use core::mem::{MaybeUninit, zeroed};
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};

use coz_common::slot::WANTS_BLOCKED;
use libc::{
    SA_NODEFER, SA_RESETHAND, SA_RESTART, SA_SIGINFO, SIG_DFL, SIG_ERR, SIG_IGN, sigaction as Action,
    siginfo_t,
};

use crate::maps::{self, Slot};
use crate::mask::{bit_of, set_bit, word_of};
use crate::next::{self, Handler};
use crate::{handler, sys};

/// Set by libc on every action, and shown to who asks.
const SA_RESTORER: c_int = 0x0400_0000;

/// What the program has asked for our signal: what it would do without us.
#[derive(Clone, Copy)]
pub struct Wish {
    pub handler: Handler,
    pub flags: c_int,
    pub mask: sys::Mask,
}

/// The wish in force and its predecessors. Writers take a new place each, readers look again if it has been
/// replaced: no lock, so that a handler or a fork in between does no harm.
struct Wishes {
    places: [Place; 16],
    taken: AtomicUsize,
    current: AtomicUsize,
}

struct Place {
    handler: AtomicUsize,
    flags: AtomicU32,
    mask: AtomicU64,
}

static WISHES: Wishes = Wishes {
    places: [const { Place { handler: AtomicUsize::new(0), flags: AtomicU32::new(0), mask: AtomicU64::new(0) } };
        16],
    taken: AtomicUsize::new(0),
    current: AtomicUsize::new(0),
};
/// libc's restorer, to be shown with a wish.
static RESTORER: AtomicUsize = AtomicUsize::new(0);
/// For which other signals the program's `sa_mask` had ours in it, one bit each.
static HIDDEN: AtomicU64 = AtomicU64::new(0);

impl Wishes {
    fn get(&self) -> Wish {
        loop {
            let current = self.current.load(Acquire);
            let place = &self.places[current % self.places.len()];
            let wish = Wish {
                handler: place.handler.load(Acquire),
                flags: place.flags.load(Acquire) as c_int,
                mask: place.mask.load(Acquire),
            };
            if self.current.load(Relaxed) == current {
                return wish;
            }
        }
    }

    fn set(&self, wish: Wish) {
        let mine = self.taken.fetch_add(1, AcqRel) + 1;
        let place = &self.places[mine % self.places.len()];
        place.handler.store(wish.handler, Relaxed);
        place.flags.store(wish.flags as u32, Relaxed);
        place.mask.store(wish.mask, Relaxed);
        self.current.store(mine, Release);
    }
}

/// What the program wants done with our signal.
pub fn wish() -> Wish {
    WISHES.get()
}

/// Puts the handler in place; what was there before is the program's first wish.
pub fn install(signal: c_int) -> bool {
    let Some(next) = next::SIGACTION.get() else { return false };
    // SAFETY: both structs live through the calls; the handler is one.
    unsafe {
        let mut ours: Action = zeroed();
        ours.sa_sigaction = handler::handle as *const () as usize;
        ours.sa_flags = SA_SIGINFO | libc::SA_ONSTACK | SA_RESTART;
        libc::sigfillset(&raw mut ours.sa_mask);
        let mut before = MaybeUninit::<Action>::zeroed();
        if next(signal, &raw const ours, before.as_mut_ptr()) != 0 {
            return false;
        }
        let before = before.assume_init();
        WISHES.set(Wish {
            handler: before.sa_sigaction,
            flags: before.sa_flags,
            mask: word_of(&raw const before.sa_mask),
        });
        let mut installed = MaybeUninit::<Action>::zeroed();
        next(signal, core::ptr::null(), installed.as_mut_ptr());
        RESTORER.store(installed.assume_init().sa_restorer.map_or(0, |f| f as *const () as usize), Relaxed);
    }
    true
}

/// Makes the real disposition "ignore" or ours again: what exec hands down.
pub fn really_ignore(signal: c_int, ignore: bool) {
    let Some(next) = next::SIGACTION.get() else { return };
    // SAFETY: the struct lives through the call.
    unsafe {
        let mut action: Action = zeroed();
        action.sa_sigaction = if ignore { SIG_IGN } else { handler::handle as *const () as usize };
        action.sa_flags = SA_SIGINFO | libc::SA_ONSTACK | SA_RESTART;
        libc::sigfillset(&raw mut action.sa_mask);
        next(signal, &raw const action, core::ptr::null_mut());
    }
}

/// Does with a signal of our number that is not from us what would have been done with it.
///
/// # Safety
/// Called by the handler with what the kernel gave it.
pub unsafe fn forward(signal: c_int, info: *mut siginfo_t, context: *mut libc::ucontext_t) {
    // SAFETY: `info` and `context` are the kernel's; the program's handler gets what it would have got.
    unsafe {
        let resumed = &raw mut (*context).uc_sigmask;
        if Slot::current().is_some_and(|slot| slot.flags() & WANTS_BLOCKED != 0) {
            // It would be pending. So it becomes: blocked for real from here on, for this thread, until the
            // program unblocks it; and queued again to whom it was sent.
            sys::change_mask(libc::SIG_BLOCK, sys::bit(signal));
            set_bit(resumed, signal, true);
            sys::requeue(signal, info.cast(), (*info).si_code != libc::SI_TKILL);
            return;
        }
        let wish = wish();
        match wish.handler {
            SIG_IGN => {}
            SIG_DFL => {
                let Some(next) = next::SIGACTION.get() else { return };
                let default: Action = zeroed();
                next(signal, &raw const default, core::ptr::null_mut());
                sys::requeue(signal, info.cast(), false);
                sys::change_mask(libc::SIG_UNBLOCK, sys::bit(signal));
            }
            handler => {
                if wish.flags & SA_RESETHAND != 0 {
                    WISHES.set(Wish { handler: SIG_DFL, ..wish });
                }
                let own = if wish.flags & SA_NODEFER == 0 { sys::bit(signal) } else { 0 };
                sys::change_mask(libc::SIG_SETMASK, word_of(resumed) | wish.mask | own);
                // A handler without SA_SIGINFO takes the first argument and ignores the others.
                let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) =
                    core::mem::transmute::<usize, _>(handler);
                handler(signal, info, context.cast());
                sys::change_mask(libc::SIG_SETMASK, !0);
            }
        }
    }
}

/// As libc's, in front of it.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigaction(number: c_int, act: *const Action, old: *mut Action) -> c_int {
    let Some(next) = next::SIGACTION.get() else { return sys::fail(libc::ENOSYS) };
    // SAFETY: the caller's promises are handed on; pointers that are not null are valid.
    unsafe {
        match maps::signal() {
            Some(signal) if number == signal => {
                let before = wish();
                if !act.is_null() {
                    WISHES.set(Wish {
                        handler: (*act).sa_sigaction,
                        flags: (*act).sa_flags | SA_RESTORER,
                        mask: word_of(&raw const (*act).sa_mask)
                            & !(sys::bit(libc::SIGKILL) | sys::bit(libc::SIGSTOP)),
                    });
                }
                if !old.is_null() {
                    show(before, old);
                }
                0
            }
            Some(signal) if (1..=64).contains(&number) => {
                let hidden = HIDDEN.load(Relaxed) & sys::bit(number) != 0;
                let mut copy = MaybeUninit::<Action>::uninit();
                let (mut given, mut hides) = (act, hidden);
                if !act.is_null() {
                    copy.write(*act);
                    hides = bit_of(&raw const (*act).sa_mask, signal);
                    set_bit(&raw mut (*copy.as_mut_ptr()).sa_mask, signal, false);
                    given = copy.as_ptr();
                }
                let result = next(number, given, old);
                if result == 0 {
                    if hides != hidden {
                        HIDDEN.fetch_xor(sys::bit(number), Relaxed);
                    }
                    if !old.is_null() && hidden {
                        set_bit(&raw mut (*old).sa_mask, signal, true);
                    }
                }
                result
            }
            _ => next(number, act, old),
        }
    }
}

/// # Safety
/// `old` is valid.
unsafe fn show(wish: Wish, old: *mut Action) {
    // SAFETY: the caller's promise.
    unsafe {
        (*old).sa_sigaction = wish.handler;
        (*old).sa_flags = wish.flags;
        (&raw mut (*old).sa_mask).cast::<u64>().write(wish.mask);
        let restorer = if wish.flags & SA_RESTORER != 0 { RESTORER.load(Relaxed) } else { 0 };
        (&raw mut (*old).sa_restorer).cast::<usize>().write(restorer);
    }
}

/// Whether `number` is our signal.
pub fn is_ours(number: c_int) -> bool {
    maps::signal() == Some(number)
}

/// Sets a wish by handler and flags, as the older functions do; what it was before.
pub fn exchange(handler: Handler, flags: c_int, mask: sys::Mask) -> Handler {
    let before = wish().handler;
    WISHES.set(Wish { handler, flags: flags | SA_RESTORER, mask });
    before
}

macro_rules! setter {
    ($name:ident, $next:ident, $flags:expr, $masked:expr) => {
        /// As libc's, in front of it.
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(number: c_int, handler: Handler) -> Handler {
            if is_ours(number) && handler != SIG_ERR {
                return exchange(handler, $flags, if $masked { sys::bit(number) } else { 0 });
            }
            match next::$next.get() {
                // SAFETY: the caller's promises are handed on.
                Some(next) => unsafe { next(number, handler) },
                None => {
                    sys::fail(libc::ENOSYS);
                    SIG_ERR
                }
            }
        }
    };
}
setter!(signal, SIGNAL, SA_RESTART, true);
setter!(bsd_signal, BSD_SIGNAL, SA_RESTART, true);
setter!(sysv_signal, SYSV_SIGNAL, SA_RESETHAND | SA_NODEFER, false);
setter!(__sysv_signal, SYSV_SIGNAL_, SA_RESETHAND | SA_NODEFER, false);

/// As libc's, in front of it.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigignore(number: c_int) -> c_int {
    if is_ours(number) {
        exchange(SIG_IGN, 0, 0);
        return 0;
    }
    // SAFETY: the caller's promises are handed on.
    next::SIGIGNORE.get().map_or_else(|| sys::fail(libc::ENOSYS), |next| unsafe { next(number) })
}

/// As libc's, in front of it.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siginterrupt(number: c_int, interrupt: c_int) -> c_int {
    if is_ours(number) {
        let wish = wish();
        let flags = if interrupt != 0 { wish.flags & !SA_RESTART } else { wish.flags | SA_RESTART };
        WISHES.set(Wish { flags, ..wish });
        return 0;
    }
    // SAFETY: the caller's promises are handed on.
    next::SIGINTERRUPT
        .get()
        .map_or_else(|| sys::fail(libc::ENOSYS), |next| unsafe { next(number, interrupt) })
}
