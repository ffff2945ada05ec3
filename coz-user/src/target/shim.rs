//! The shim as this program carries it, and the variables that bring it into a target.

use std::ffi::{CStr, OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use coz_common::abi::SOCKET_ENV;

use super::process;

/// Name of the memfd; the shim knows its own descriptor by it.
const NAME: &CStr = c"coz-bpf";
/// A variable without meaning; see [`variables`].
const PADDING_ENV: &str = "COZ_BPF_PADDING";

/// The shim: an ELF shared library.
#[must_use]
pub fn image() -> &'static [u8] {
    include_bytes!(env!("COZ_SHIM"))
}

/// The shim in a file without a name, sealed against changes and closed on exec: whoever passes it on clears
/// that flag on the child's copy.
///
/// # Errors
/// No memory, or a kernel without memfds.
pub fn memfd() -> io::Result<OwnedFd> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // Kernels from 6.3 on want to be told that it is for execution; older ones do not know the flag, and some
    // systems forbid it but still map what was made without it.
    let file = create(flags | libc::MFD_EXEC).or_else(|_| create(flags))?;
    let mut file = File::from(file);
    file.write_all(image())?;
    let seals = libc::F_SEAL_SEAL | libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_WRITE;
    // SAFETY: a descriptor of ours, and no memory.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(file.into())
}

fn create(flags: libc::c_uint) -> io::Result<OwnedFd> {
    // SAFETY: the name is a string; a descriptor that is not negative is new and ours.
    unsafe {
        let fd = libc::memfd_create(NAME.as_ptr(), flags);
        if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(fd)) }
    }
}

/// What to add to a target's environment so that it loads the shim, inherited as descriptor `fd`, and finds
/// the registration socket `socket`. `preload` is the `LD_PRELOAD` that it would have otherwise.
///
/// The shim takes them out again. Put those that are new at the **end** of the environment (`LD_PRELOAD` stays
/// where the user had it): then the strings before them keep their places. Always two pointers go, whence the
/// padding: what stands behind the environment's end, the auxiliary vector, is found by counting.
#[must_use]
pub fn variables(fd: RawFd, socket: &str, preload: Option<&OsStr>) -> Vec<(OsString, OsString)> {
    let mut value = OsString::from(format!("/proc/self/fd/{fd}"));
    let mut variables = Vec::with_capacity(3);
    if let Some(theirs) = preload {
        value.push(":");
        value.push(theirs);
        variables.push((PADDING_ENV.into(), OsString::new()));
    }
    variables.push(("LD_PRELOAD".into(), value));
    variables.push((SOCKET_ENV.into(), socket.into()));
    variables
}

/// Whether the shim is on its way into a process: the loader has been told of it, and it has not removed that yet.
#[must_use]
pub fn is_expected(pid: u32) -> bool {
    let name = format!("{SOCKET_ENV}=");
    std::fs::read(format!("/proc/{pid}/environ")).is_ok_and(|environment| {
        environment.split(|&byte| byte == 0).any(|variable| variable.starts_with(name.as_bytes()))
    })
}

/// Whether the shim is in a process.
#[must_use]
pub fn is_in(pid: u32) -> bool {
    let mappings = process::code_mappings(pid.cast_signed()).ok().flatten().unwrap_or_default();
    let path = [b"/memfd:", NAME.to_bytes()].concat();
    mappings.iter().any(|mapping| mapping.path.as_os_str().as_encoded_bytes() == path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use object::{Object, ObjectSymbol};

    use super::*;

    #[test]
    fn the_memfd_holds_the_image_and_cannot_be_changed() {
        let file = File::from(memfd().expect("memfds work on every kernel that this runs on"));
        let mut read = vec![0; image().len()];
        file.read_exact_at(&mut read, 0).expect("all of it is there");
        assert!(read == image());
        assert!(file.write_at(b"x", 0).is_err());
        assert!(file.set_len(1).is_err());
    }

    #[test]
    fn the_image_has_what_coz_h_looks_for() {
        let elf = object::File::parse(image()).expect("an ELF file");
        for name in ["_coz_get_counter", "_coz_add_delays", "_coz_pre_block", "_coz_post_block"] {
            assert!(elf.dynamic_symbols().any(|s| s.is_definition() && s.name() == Ok(name)), "{name}");
        }
    }

    #[test]
    fn a_users_preload_stays_behind_ours() {
        let with = variables(9, "coz", Some(OsStr::new("libfoo.so:libbar.so")));
        assert!(with.contains(&("LD_PRELOAD".into(), "/proc/self/fd/9:libfoo.so:libbar.so".into())));
        let empty = variables(9, "coz", Some(OsStr::new("")));
        assert!(empty.contains(&("LD_PRELOAD".into(), "/proc/self/fd/9:".into())));
        let without = variables(9, "coz", None);
        assert!(without.contains(&("LD_PRELOAD".into(), "/proc/self/fd/9".into())));
    }

    #[test]
    fn a_process_whose_loader_was_told_of_it_is_known() {
        let sleeps = |variable: &str| {
            let mut child =
                std::process::Command::new("sleep").arg("9").env(variable, "x").spawn().expect("it starts");
            // It is there a moment after `spawn` has returned.
            while std::fs::read(format!("/proc/{}/environ", child.id())).is_ok_and(|text| text.is_empty()) {}
            let expected = is_expected(child.id());
            child.kill().expect("it is ours");
            child.wait().expect("it is ours");
            expected
        };
        assert!(sleeps(SOCKET_ENV));
        assert!(!sleeps("ANOTHER"));
    }

    #[test]
    fn two_variables_are_new_whatever_the_user_had() {
        for (preload, had) in [(None, 0), (Some(OsStr::new("x.so")), 1)] {
            assert_eq!(variables(9, "coz", preload).len() - had, 2);
        }
    }
}
