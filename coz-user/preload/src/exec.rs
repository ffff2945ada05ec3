//! Programs that the program executes: they get the shim as it did, as long as the controller is there.
//!
//! All of this runs in `vfork` children too: it allocates nothing and writes no memory but its own stack.
//! Not seen: what libc executes from inside itself (`system`, `popen`, `wordexp`); those run unprofiled.

use core::arch::naked_asm;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr::null;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;

use coz_common::abi::{HELLO_SHIM, SOCKET_ENV};
use coz_common::slot::WANTS_BLOCKED;

use crate::env::{self, PADDING_ENV, SOCKET_LENGTH, decimal};
use crate::maps::{self, Slot};
use crate::next::{self, Spawn, Strings};
use crate::{action, elf, socket, sys};

/// Most variables of an environment that we add to; a program with more is executed as it asks.
const VARIABLES: usize = 1024;
/// Longest `LD_PRELOAD` of the user's that we put ourselves in front of.
const PRELOAD_LENGTH: usize = 2048;
/// Where the shim's descriptor goes, if there is room: out of the way of programs that count on low numbers.
const HIGH: [c_int; 3] = [900, 200, 20];

/// Set once the program has made file actions that close many descriptors: then a spawned program could
/// find its `LD_PRELOAD` closed, and complain.
static SPAWNS_CLOSE: AtomicBool = AtomicBool::new(false);

/// The program that is to be executed, as it was named.
#[derive(Clone, Copy)]
enum Program<'a> {
    Path(&'a CStr),
    Search(&'a CStr),
    Descriptor(c_int),
}

/// The environment that a program is executed with, and the strings that are ours in it.
struct Outgoing {
    pointers: [MaybeUninit<*const c_char>; VARIABLES + 4],
    preload: [u8; PRELOAD_LENGTH + 64],
    socket: [u8; SOCKET_LENGTH + 32],
}

/// Appends to a buffer that is large enough, cutting what is not.
fn append(buffer: &mut [u8], length: &mut usize, text: &[u8]) {
    for (to, &from) in buffer.iter_mut().skip(*length).zip(text) {
        *to = from;
        *length += 1;
    }
}

impl Outgoing {
    /// `variables`, and ours. `None` if there are too many or too long ones.
    ///
    /// # Safety
    /// `variables` is null or an environment.
    unsafe fn fill(&mut self, variables: Strings, fd: c_int) -> Option<Strings> {
        const PRELOAD: &[u8] = b"LD_PRELOAD=";
        let mut count = 0;
        let mut had_preload = false;
        while !variables.is_null() && count < VARIABLES {
            // SAFETY: the caller's promise; before the null pointer that ends it.
            let variable = unsafe { *variables.add(count) };
            // SAFETY: as above.
            let Some(text) = (unsafe { sys::string(variable) }) else { break };
            let mut kept = variable;
            if let Some(theirs) = text.to_bytes().strip_prefix(PRELOAD) {
                if had_preload || theirs.len() > PRELOAD_LENGTH {
                    return None;
                }
                had_preload = true;
                kept = self.write_preload(fd, Some(theirs));
            }
            self.pointers.get_mut(count)?.write(kept);
            count += 1;
        }
        if count == VARIABLES {
            return None;
        }
        let second = if had_preload { PADDING_ENV.as_ptr().cast() } else { self.write_preload(fd, None) };
        for ours in [second, self.write_socket(), null()] {
            self.pointers.get_mut(count)?.write(ours);
            count += 1;
        }
        Some(self.pointers.as_ptr().cast())
    }

    fn write_preload(&mut self, fd: c_int, theirs: Option<&[u8]>) -> *const c_char {
        let mut length = 0;
        append(&mut self.preload, &mut length, b"LD_PRELOAD=/proc/self/fd/");
        let mut digits = [0; 10];
        let count = decimal(fd as u32, &mut digits);
        append(&mut self.preload, &mut length, digits.get(..count).unwrap_or_default());
        if let Some(theirs) = theirs {
            append(&mut self.preload, &mut length, b":");
            append(&mut self.preload, &mut length, theirs);
        }
        append(&mut self.preload, &mut length, b"\0");
        self.preload.as_ptr().cast()
    }

    fn write_socket(&mut self) -> *const c_char {
        let mut length = 0;
        for text in [SOCKET_ENV.as_bytes(), b"=", socket::name(), b"\0"] {
            append(&mut self.socket, &mut length, text);
        }
        self.socket.as_ptr().cast()
    }
}

/// Calls `run` with the environment that the program is to be executed with: `variables`, or those and ours.
///
/// # Safety
/// `variables` is null or an environment.
unsafe fn carry(
    program: Program<'_>,
    variables: Strings,
    spawns: bool,
    run: &mut dyn FnMut(Strings) -> c_int,
) -> c_int {
    let Some(signal) = maps::signal() else { return run(variables) };
    let result;
    {
        let _handed_down = HandedDown::new(signal);
        let carried = !(spawns && SPAWNS_CLOSE.load(Relaxed)) && loads_preload(program);
        // SAFETY: the caller's promise.
        result = match unsafe { if carried { with_shim(variables, run) } else { None } } {
            Some(result) => result,
            None => run(variables),
        };
    }
    result
}

/// `None` if the shim cannot be had, and nothing was run.
///
/// # Safety
/// As [`carry`].
#[inline(never)]
unsafe fn with_shim(variables: Strings, run: &mut dyn FnMut(Strings) -> c_int) -> Option<c_int> {
    let [shim, ..] = socket::ask(HELLO_SHIM, 0)?.fds;
    let received = shim?;
    let fd = HIGH.iter().find_map(|&least| sys::inheritable_copy(received.0, least))?;
    drop(received);
    let mut outgoing = MaybeUninit::<Outgoing>::uninit();
    // SAFETY: the strings are set to zero, which is valid for them, and the pointers need not be.
    let outgoing = unsafe {
        let place = outgoing.as_mut_ptr();
        (&raw mut (*place).preload).write_bytes(0, 1);
        (&raw mut (*place).socket).write_bytes(0, 1);
        &mut *place
    };
    // SAFETY: the caller's promise.
    let variables = unsafe { outgoing.fill(variables, fd.0) }?;
    Some(run(variables))
}

fn loads_preload(program: Program<'_>) -> bool {
    match program {
        Program::Path(path) => elf::loads_preload(path),
        Program::Descriptor(fd) => elf::descriptor_loads_preload(fd),
        Program::Search(name) if name.to_bytes().contains(&b'/') => elf::loads_preload(name),
        Program::Search(name) => search(name),
    }
}

/// Looks for a program as `execvp` does; `false` if there is none: then libc's call fails, without us.
#[inline(never)]
fn search(name: &CStr) -> bool {
    let name = name.to_bytes_with_nul();
    let path = env::value(b"PATH=").unwrap_or(b"/bin:/usr/bin");
    let mut buffer = [0u8; 1024];
    for folder in path.split(|&b| b == b':') {
        let mut length = 0;
        if folder.len() + 1 + name.len() > buffer.len() {
            continue;
        }
        append(&mut buffer, &mut length, if folder.is_empty() { b"." } else { folder });
        append(&mut buffer, &mut length, b"/");
        append(&mut buffer, &mut length, name);
        if let Ok(found) = CStr::from_bytes_until_nul(&buffer)
            && sys::is_executable(found)
        {
            return elf::loads_preload(found);
        }
    }
    false
}

/// What a program inherits of our signal: blocked and ignored as the program that executes it wants it, not as
/// it really is. Undone when dropped, if there is still a program here to drop it.
struct HandedDown {
    signal: c_int,
    unblock: bool,
    handle: bool,
}

impl HandedDown {
    fn new(signal: c_int) -> Self {
        let bit = sys::bit(signal);
        let blocked = Slot::current().is_some_and(|slot| slot.flags() & WANTS_BLOCKED != 0)
            && sys::change_mask(libc::SIG_BLOCK, bit) & bit == 0;
        let ignored = action::wish().handler == libc::SIG_IGN;
        if ignored {
            action::really_ignore(signal, true);
        }
        Self { signal, unblock: blocked, handle: ignored }
    }
}

impl Drop for HandedDown {
    fn drop(&mut self) {
        if self.handle {
            action::really_ignore(self.signal, false);
        }
        if self.unblock {
            sys::change_mask(libc::SIG_UNBLOCK, sys::bit(self.signal));
        }
    }
}

/// # Safety
/// As libc's `execve`, or `execvpe` where `searches`.
unsafe fn exec(searches: bool, path: *const c_char, arguments: Strings, variables: Strings) -> c_int {
    let next = if searches { next::EXECVPE.get() } else { next::EXECVE.get() };
    let Some(next) = next else { return sys::fail(libc::ENOSYS) };
    // SAFETY: the caller's promises are handed on.
    unsafe {
        let Some(name) = sys::string(path) else { return next(path, arguments, variables) };
        let program = if searches { Program::Search(name) } else { Program::Path(name) };
        carry(program, variables, false, &mut |variables| next(path, arguments, variables))
    }
}

/// As libc's, in front of it.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execve(path: *const c_char, arguments: Strings, variables: Strings) -> c_int {
    // SAFETY: the caller's promises are handed on.
    unsafe { exec(false, path, arguments, variables) }
}

/// As libc's, in front of it.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execv(path: *const c_char, arguments: Strings) -> c_int {
    // SAFETY: the caller's promises are handed on.
    unsafe { exec(false, path, arguments, env::all()) }
}

/// As libc's, in front of it.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execvp(name: *const c_char, arguments: Strings) -> c_int {
    // SAFETY: the caller's promises are handed on.
    unsafe { exec(true, name, arguments, env::all()) }
}

/// As libc's, in front of it.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execvpe(name: *const c_char, arguments: Strings, variables: Strings) -> c_int {
    // SAFETY: the caller's promises are handed on.
    unsafe { exec(true, name, arguments, variables) }
}

/// As libc's, in front of it.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fexecve(fd: c_int, arguments: Strings, variables: Strings) -> c_int {
    let Some(next) = next::FEXECVE.get() else { return sys::fail(libc::ENOSYS) };
    // SAFETY: the caller's promises are handed on.
    unsafe {
        carry(Program::Descriptor(fd), variables, false, &mut |variables| next(fd, arguments, variables))
    }
}

/// Stable Rust has no variadic definitions. The arguments of an `execl` are pointers all: this puts those that
/// came in registers right below those on the stack, which makes them the array that `$gathered` takes.
macro_rules! variadic {
    ($name:ident, $gathered:ident) => {
        /// As libc's, in front of it.
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() {
            naked_asm!(
                "pop r11",
                "push r9",
                "push r8",
                "push rcx",
                "push rdx",
                "push rsi",
                "mov rsi, rsp",
                "push r11",
                "call {gathered}",
                "pop r11",
                "add rsp, 40",
                "push r11",
                "ret",
                gathered = sym $gathered,
            )
        }
    };
}
variadic!(execl, execl_gathered);
variadic!(execlp, execlp_gathered);
variadic!(execle, execle_gathered);

unsafe extern "C" fn execl_gathered(path: *const c_char, arguments: Strings) -> c_int {
    // SAFETY: called by `execl` alone, with what its caller promised.
    unsafe { exec(false, path, arguments, env::all()) }
}

unsafe extern "C" fn execlp_gathered(name: *const c_char, arguments: Strings) -> c_int {
    // SAFETY: called by `execlp` alone, with what its caller promised.
    unsafe { exec(true, name, arguments, env::all()) }
}

unsafe extern "C" fn execle_gathered(path: *const c_char, arguments: Strings) -> c_int {
    // SAFETY: called by `execle` alone: behind the null pointer that ends the arguments stands the environment.
    unsafe {
        let mut end = arguments;
        while !(*end).is_null() {
            end = end.add(1);
        }
        exec(false, path, arguments, (*end.add(1)).cast())
    }
}

macro_rules! spawner {
    ($name:ident, $next:ident, $program:path) => {
        /// As libc's, in front of it.
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            pid: *mut libc::pid_t,
            path: *const c_char,
            actions: *const c_void,
            attributes: *const c_void,
            arguments: Strings,
            variables: Strings,
        ) -> c_int {
            let next: Option<Spawn> = next::$next.get();
            let Some(next) = next else { return libc::ENOSYS };
            // SAFETY: the caller's promises are handed on.
            unsafe {
                let mut run = |variables: Strings| next(pid, path, actions, attributes, arguments, variables);
                let Some(name) = sys::string(path) else { return run(variables) };
                carry($program(name), variables, !actions.is_null(), &mut run)
            }
        }
    };
}
spawner!(posix_spawn, POSIX_SPAWN, Program::Path);
spawner!(posix_spawnp, POSIX_SPAWNP, Program::Search);

macro_rules! closer {
    ($name:ident, $next:ident, $closes:expr) => {
        /// As libc's, in front of it.
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(actions: *mut c_void, fd: c_int) -> c_int {
            let closes: fn(c_int) -> bool = $closes;
            if closes(fd) {
                SPAWNS_CLOSE.store(true, Relaxed);
            }
            // SAFETY: the caller's promises are handed on.
            next::$next.get().map_or(libc::ENOSYS, |next| unsafe { next(actions, fd) })
        }
    };
}
closer!(posix_spawn_file_actions_addclosefrom_np, ADD_CLOSE_FROM, |_| true);
closer!(posix_spawn_file_actions_addclose, ADD_CLOSE, |fd| fd >= HIGH[2]);
