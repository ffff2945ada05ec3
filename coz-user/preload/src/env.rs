//! The environment as the program was meant to find it: what brought us in is taken out, in place.
//!
//! The launcher adds up to three variables, best at the end: `LD_PRELOAD` (or our part at the front of the
//! user's own), [`SOCKET_ENV`], and [`PADDING_ENV`] so that their number is always two. Two pointers are as
//! wide as one entry of the auxiliary vector, which begins behind the environment's end: programs that walk
//! from `environ` to it (Go's runtime does) find an entry that says "ignore me" where the two have been.

use core::ffi::{CStr, c_char, c_int};

use coz_common::abi::SOCKET_ENV;

use crate::sys;

/// Added by the launcher where the user had an `LD_PRELOAD`: only so that two variables go.
pub const PADDING_ENV: &CStr = c"COZ_BPF_PADDING=";
/// How the launcher's part of `LD_PRELOAD` begins; the number of the shim's descriptor follows.
const PRELOAD: &[u8] = b"LD_PRELOAD=";
const DESCRIPTOR: &[u8] = b"/proc/self/fd/";
/// What a descriptor of the shim links to.
const MEMFD: &[u8] = b"/memfd:coz-bpf";

unsafe extern "C" {
    static mut environ: *mut *mut c_char;
}

/// Longest name of an abstract socket.
pub const SOCKET_LENGTH: usize = 107;

/// What was found: the name of the registration socket.
pub struct Invitation {
    /// The name's bytes, without the leading NUL.
    pub socket: [u8; SOCKET_LENGTH],
    /// How many of them count.
    pub length: usize,
}

/// Takes our variables out of the environment and closes the shim's descriptor. `None` if the program was not
/// started by us: then nothing is touched.
///
/// # Safety
/// Nobody else reads or writes the environment: before `main`, one thread.
pub unsafe fn take_invitation() -> Option<Invitation> {
    // SAFETY: libc sets it before it runs constructors; strings and array are writable memory of ours.
    unsafe {
        let variables = environ;
        if variables.is_null() {
            return None;
        }
        let socket = find(variables, |v| after(v, SOCKET_ENV.as_bytes()).is_some_and(|v| v[0] == b'='))?;
        let preload = find(variables, |v| preload_part(v).is_some())?;
        let invitation = read_socket(bytes(*variables.add(socket)).get(SOCKET_ENV.len() + 1..)?)?;
        let (fd, length) = preload_part(bytes(*variables.add(preload)))?;
        if !is_ours(fd) {
            return None;
        }
        sys::close(fd);
        let kept = restore_preload(variables.add(preload), length);
        remove(variables, |v| {
            after(v, SOCKET_ENV.as_bytes()).is_some_and(|v| v[0] == b'=')
                || after(v, PADDING_ENV.to_bytes()).is_some()
                || (!kept && preload_part(v).is_some())
        });
        Some(invitation)
    }
}

/// The environment as it is now.
pub fn all() -> *const *const c_char {
    // SAFETY: one word; that others may change it meanwhile is the program's affair, as with libc's `execv`.
    unsafe { environ.cast() }
}

/// What follows `prefix` in the first variable that begins with it.
pub fn value(prefix: &[u8]) -> Option<&'static [u8]> {
    // SAFETY: as in `all`.
    unsafe {
        if environ.is_null() {
            return None;
        }
        let found = find(environ, |v| v.starts_with(prefix))?;
        CStr::from_ptr(*environ.add(found)).to_bytes().get(prefix.len()..)
    }
}

/// The bytes of a string, with its NUL.
unsafe fn bytes<'a>(string: *const c_char) -> &'a [u8] {
    // SAFETY: a string of the environment.
    unsafe { CStr::from_ptr(string) }.to_bytes_with_nul()
}

unsafe fn find(variables: *mut *mut c_char, wanted: impl Fn(&[u8]) -> bool) -> Option<usize> {
    // SAFETY: the array ends with a null pointer.
    unsafe {
        (0..).take_while(|&i| !(*variables.add(i)).is_null()).find(|&i| wanted(bytes(*variables.add(i))))
    }
}

/// What follows `prefix`; never empty, since the NUL is part of `text`.
fn after<'a>(text: &'a [u8], prefix: &[u8]) -> Option<&'a [u8]> {
    text.strip_prefix(prefix).filter(|rest| !rest.is_empty())
}

/// The descriptor that an `LD_PRELOAD` begins with, and the length of that beginning, a colon included.
fn preload_part(variable: &[u8]) -> Option<(c_int, usize)> {
    let digits = after(after(variable, PRELOAD)?, DESCRIPTOR)?;
    let count = digits.iter().take_while(|b| b.is_ascii_digit()).count();
    if !(1..=7).contains(&count) {
        return None;
    }
    let fd = digits.iter().take(count).fold(0, |n, b| n * 10 + c_int::from(b - b'0'));
    match digits.get(count)? {
        0 => Some((fd, DESCRIPTOR.len() + count)),
        b':' => Some((fd, DESCRIPTOR.len() + count + 1)),
        _ => None,
    }
}

fn read_socket(value: &[u8]) -> Option<Invitation> {
    let length = value.len().checked_sub(1).filter(|n| (1..=SOCKET_LENGTH).contains(n))?;
    let mut socket = [0; SOCKET_LENGTH];
    for (to, &from) in socket.iter_mut().zip(value).take(length) {
        *to = from;
    }
    Some(Invitation { socket, length })
}

/// Whether the descriptor is the shim that the launcher passed on.
fn is_ours(fd: c_int) -> bool {
    let mut path = [0u8; 32];
    let (folder, number) = path.split_at_mut(DESCRIPTOR.len());
    folder.copy_from_slice(DESCRIPTOR);
    decimal(fd as u32, number);
    let Ok(path) = CStr::from_bytes_until_nul(&path) else { return false };
    let mut link = [0u8; 64];
    let length = sys::read_link(path, &mut link);
    length >= MEMFD.len() && link.starts_with(MEMFD)
}

/// Writes a number; how many digits it has (0 if there is no room).
pub fn decimal(number: u32, to: &mut [u8]) -> usize {
    let count = number.checked_ilog10().unwrap_or(0) as usize + 1;
    let Some(digits) = to.get_mut(..count) else { return 0 };
    let mut left = number;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (left % 10) as u8;
        left /= 10;
    }
    count
}

/// Takes the first `length` bytes off the value of an `LD_PRELOAD`; whether anything of the user's is left
/// (an empty value with a colon before it is: the user had set it to nothing).
unsafe fn restore_preload(variable: *mut *mut c_char, length: usize) -> bool {
    // SAFETY: the string holds at least `PRELOAD` and `length` more bytes: `preload_part` has read them.
    unsafe {
        let old = *variable;
        if *old.add(PRELOAD.len() + length - 1).cast::<u8>() != b':' {
            return false;
        }
        let new = old.add(length);
        core::ptr::copy(old, new, PRELOAD.len());
        core::ptr::write_bytes(old, 0, length);
        *variable = new;
        true
    }
}

/// Takes variables out: wipes their strings, closes the gap in the array, and makes what is behind the new end
/// of the array an auxiliary entry to be ignored.
unsafe fn remove(variables: *mut *mut c_char, unwanted: impl Fn(&[u8]) -> bool) {
    const AT_IGNORE: usize = 1;
    // SAFETY: the array ends with a null pointer; all that is written lies before its old end or on it.
    unsafe {
        let (mut read, mut write) = (variables, variables);
        while !(*read).is_null() {
            let variable = *read;
            let text = bytes(variable);
            if unwanted(text) {
                core::ptr::write_bytes(variable, 0, text.len());
            } else {
                *write = variable;
                write = write.add(1);
            }
            read = read.add(1);
        }
        let gap = read.offset_from(write);
        for i in 0..=gap {
            *write.offset(i) = core::ptr::null_mut();
        }
        if gap == 2 {
            *write.add(1) = core::ptr::without_provenance_mut(AT_IGNORE);
        }
    }
}
