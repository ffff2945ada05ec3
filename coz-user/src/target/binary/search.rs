//! Finding a program by name, as `execvp` does, with the rights of the target's user.

use std::{
    ffi::{OsStr, OsString},
    fmt,
    io::ErrorKind,
    os::unix::{
        ffi::OsStrExt,
        fs::{MetadataExt, PermissionsExt},
    },
    path::{Path, PathBuf},
};

use crate::target::{
    exit::{NOT_EXECUTABLE, NOT_FOUND},
    identity::Identity,
};

/// Where `execvp` looks when there is no `PATH` (glibc).
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// Why a program cannot be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SearchError {
    /// No file has this name.
    NotFound {
        /// As the user named it.
        name: OsString,
        /// Whether `PATH` was searched: the name holds no slash.
        in_path: bool,
    },
    /// It is a folder.
    Directory(PathBuf),
    /// It is a device, a socket or a pipe.
    NotAFile(PathBuf),
    /// The user has no right to execute it.
    NotExecutable(PathBuf),
    /// The file or a folder on the way to it cannot be looked at: the reason.
    Unreachable(PathBuf, String),
}

impl SearchError {
    /// What a shell would leave with: 127 where there is no such program, else 126.
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::NotFound { .. } => NOT_FOUND,
            _ => NOT_EXECUTABLE,
        }
    }
}

impl fmt::Display for SearchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound { name, in_path: true } => {
                let name = name.display();
                write!(f, "{name}: no such program in PATH; for a file in this folder, write ./{name}")
            }
            Self::NotFound { name, in_path: false } => write!(f, "{}: no such file", name.display()),
            Self::Directory(path) => write!(f, "{}: is a folder, not a program", path.display()),
            Self::NotAFile(path) => write!(f, "{}: is not a regular file", path.display()),
            Self::NotExecutable(path) => {
                let path = path.display();
                write!(f, "{path}: may not be executed by this user; if it is a program, `chmod +x {path}`")
            }
            Self::Unreachable(path, reason) => write!(f, "{}: {reason}", path.display()),
        }
    }
}

impl std::error::Error for SearchError {}

/// Finds `name`: as it is where it holds a slash, else in the folders of `path`.
///
/// # Errors
/// [`SearchError`], the first reason that is better than "not there", as `execvp` has it.
pub fn find(name: &OsStr, path: Option<&OsStr>, identity: &Identity) -> Result<PathBuf, SearchError> {
    let not_found = |in_path| SearchError::NotFound { name: name.to_owned(), in_path };
    if name.is_empty() {
        return Err(not_found(false));
    }
    if name.as_bytes().contains(&b'/') {
        return match examine(Path::new(name), identity)? {
            Some(found) => Ok(found),
            None => Err(not_found(false)),
        };
    }
    let mut reason = None;
    let folders = path.unwrap_or(OsStr::new(DEFAULT_PATH));
    for folder in folders.as_bytes().split(|&b| b == b':') {
        // An empty element is the working folder.
        let folder = if folder.is_empty() { b"." } else { folder };
        match examine(&Path::new(OsStr::from_bytes(folder)).join(name), identity) {
            Ok(Some(found)) => return Ok(found),
            Ok(None) => {}
            Err(why) => {
                reason.get_or_insert(why);
            }
        }
    }
    Err(reason.unwrap_or_else(|| not_found(true)))
}

/// `None` where there is no such file.
fn examine(path: &Path, identity: &Identity) -> Result<Option<PathBuf>, SearchError> {
    let meta = match std::fs::metadata(path) {
        Ok(meta) => meta,
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(None),
        Err(e) => return Err(SearchError::Unreachable(path.to_owned(), e.to_string())),
    };
    if meta.is_dir() {
        Err(SearchError::Directory(path.to_owned()))
    } else if !meta.is_file() {
        Err(SearchError::NotAFile(path.to_owned()))
    } else if may_execute(meta.permissions().mode(), meta.uid(), meta.gid(), identity) {
        Ok(Some(path.to_owned()))
    } else {
        Err(SearchError::NotExecutable(path.to_owned()))
    }
}

/// The kernel's rule for the classic permission bits. Access lists may say otherwise: `execve` has the last word.
fn may_execute(mode: u32, owner: u32, group: u32, identity: &Identity) -> bool {
    let bits = if identity.uid == 0 {
        0o111
    } else if identity.uid == owner {
        0o100
    } else if identity.gid == group || identity.groups.contains(&group) {
        0o010
    } else {
        0o001
    };
    mode & bits != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::identity::Reason;

    fn user(uid: u32) -> Identity {
        Identity { uid, gid: uid, groups: vec![uid, 27], account: None, reason: Reason::Asked }
    }

    #[test]
    fn the_first_class_that_fits_decides() {
        // The owner's bits count for the owner even where everybody else may.
        assert!(!may_execute(0o077, 5, 27, &user(5)));
        assert!(may_execute(0o100, 5, 9, &user(5)));
        assert!(may_execute(0o010, 1, 27, &user(5)));
        assert!(!may_execute(0o701, 1, 27, &user(5)));
        assert!(may_execute(0o001, 1, 9, &user(5)));
        // Root needs one bit, whose is all the same; without any, root may not either.
        assert!(may_execute(0o010, 5, 9, &user(0)));
        assert!(!may_execute(0o644, 0, 0, &user(0)));
    }

    #[test]
    fn path_is_searched_in_order_and_the_reason_is_the_best_there_is() {
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (folder.path().join("a"), folder.path().join("b"));
        for dir in [&a, &b] {
            std::fs::create_dir(dir).unwrap();
            std::fs::write(dir.join("plain"), "").unwrap();
        }
        std::fs::write(b.join("tool"), "").unwrap();
        std::fs::set_permissions(b.join("tool"), PermissionsExt::from_mode(0o755)).unwrap();
        std::fs::create_dir(a.join("tool")).unwrap();
        let path = format!("{}:/nowhere:{}", a.display(), b.display());
        let find = |name: &str| find(OsStr::new(name), Some(OsStr::new(&path)), &user(1));
        // A folder of that name comes first and is passed over, as execvp does.
        assert_eq!(find("tool"), Ok(b.join("tool")));
        let refused = find("plain").unwrap_err();
        assert_eq!(refused, SearchError::NotExecutable(a.join("plain")));
        assert_eq!(refused.exit_code(), 126);
        let missing = find("absent").unwrap_err();
        assert_eq!(missing.exit_code(), 127);
        assert!(missing.to_string().contains("./absent"), "{missing}");
        // With a slash, PATH does not matter.
        assert_eq!(find("./absent").unwrap_err().exit_code(), 127);
        assert_eq!(find(a.to_str().unwrap()).unwrap_err(), SearchError::Directory(a.clone()));
        assert_eq!(find("").unwrap_err().exit_code(), 127);
    }

    #[test]
    fn without_path_the_system_folders_are_searched() {
        let found = super::find(OsStr::new("sh"), None, &user(1)).unwrap();
        assert_eq!(found, Path::new("/bin/sh"));
    }
}
