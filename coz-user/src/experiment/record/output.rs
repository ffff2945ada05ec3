//! Where the profile goes: a new file, the old one moved aside.

use anyhow::{Context, Result, bail};
use std::{
    ffi::{CString, OsString},
    fs::{self, File, OpenOptions},
    io::ErrorKind,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// A file for a new profile, and what was done to get it.
#[derive(Debug)]
pub struct Opened {
    /// The file, empty.
    pub file: File,
    /// Whether it was made here: devices and pipes were there before.
    pub created: bool,
    /// Where the profile that stood there is now.
    pub aside: Option<PathBuf>,
}

/// Opens `path` for a new profile. A file that is there already is renamed to `path.1`, or the first higher
/// number that is free: it is never appended to, never overwritten. Devices and pipes are opened as they are.
///
/// # Errors
/// When the folder does not exist or cannot be written, or `path` is a folder; the message says what to do.
pub fn open_output(path: &Path) -> Result<Opened> {
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => {
            bail!(
                "the profile cannot be written to {}: it is a folder; name a file in it with --output",
                path.display()
            )
        }
        Ok(found) if !found.is_file() => {
            let file = OpenOptions::new().write(true).open(path).with_context(|| refused(path))?;
            return Ok(Opened { file, created: false, aside: None });
        }
        _ => {}
    }
    let aside = if fs::symlink_metadata(path).is_ok() { Some(move_aside(path)?) } else { None };
    let file = OpenOptions::new().write(true).create_new(true).open(path).with_context(|| refused(path))?;
    Ok(Opened { file, created: true, aside })
}

/// What to say when `path` could not be opened.
fn refused(path: &Path) -> String {
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.display().to_string(),
        _ => ".".into(),
    };
    format!(
        "the profile cannot be written to {}; make a writable folder (`mkdir -p {folder}`) or name another place \
         with --output",
        path.display(),
    )
}

fn move_aside(path: &Path) -> Result<PathBuf> {
    for number in 1_u32.. {
        let mut name = OsString::from(path);
        name.push(format!(".{number}"));
        let aside = PathBuf::from(name);
        match rename_unless_there(path, &aside) {
            Ok(()) => return Ok(aside),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => {
                return Err(error).with_context(|| {
                    format!(
                        "the old profile {} cannot be renamed to {}; name another place with --output",
                        path.display(),
                        aside.display()
                    )
                });
            }
        }
    }
    bail!("all names {}.N are taken; remove old profiles", path.display())
}

/// Renames without replacing, in one step where the file system can.
///
/// # Errors
/// When there is something of the new name, or the file system refuses.
pub fn rename_unless_there(from: &Path, to: &Path) -> std::io::Result<()> {
    let (old, new) = (CString::new(from.as_os_str().as_bytes())?, CString::new(to.as_os_str().as_bytes())?);
    let (here, flags) = (libc::AT_FDCWD, libc::RENAME_NOREPLACE);
    // Not every libc has a function for it. SAFETY: two strings that end with a NUL and live through the call.
    let result = unsafe { libc::syscall(libc::SYS_renameat2, here, old.as_ptr(), here, new.as_ptr(), flags) };
    if result == 0 {
        return Ok(());
    }
    let error = std::io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EINVAL | libc::ENOSYS) => match fs::symlink_metadata(to) {
            Ok(_) => Err(ErrorKind::AlreadyExists.into()),
            Err(_) => fs::rename(from, to),
        },
        _ => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn an_old_profile_is_never_lost() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("profile.jsonl");
        for round in ["one", "two", "three"] {
            open_output(&path).unwrap().file.write_all(round.as_bytes()).unwrap();
        }
        let text = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!(text("profile.jsonl"), "three");
        assert_eq!(text("profile.jsonl.1"), "one");
        assert_eq!(text("profile.jsonl.2"), "two");
    }

    #[test]
    fn a_place_that_cannot_be_written_is_named_with_the_way_out() {
        let folder = tempfile::tempdir().unwrap();
        let missing = open_output(&folder.path().join("no/such/profile.jsonl")).unwrap_err();
        assert!(format!("{missing:#}").contains("mkdir -p"), "{missing:#}");
        let a_folder = open_output(folder.path()).unwrap_err();
        assert!(format!("{a_folder:#}").contains("is a folder"), "{a_folder:#}");
    }

    #[test]
    fn a_device_is_opened_as_it_is() {
        let mut opened = open_output(Path::new("/dev/null")).unwrap();
        opened.file.write_all(b"x").unwrap();
        assert!(!opened.created, "so nobody takes it away, or gives it to somebody");
        assert!(Path::new("/dev/null").exists());
    }
}
