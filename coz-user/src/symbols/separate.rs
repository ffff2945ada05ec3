//! Debug information that lives in a file of its own: where it can be, and whether it fits the program.

use super::debuginfod::Network;
use super::elf::Elf;
use object::Object;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Where distributions install debug information.
const SYSTEM: &str = "/usr/lib/debug";

/// What was found in place of debug information that a program does not carry itself.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// The file that belongs to the program.
    pub(crate) elf: Option<Elf>,
    /// Why a file that was there does not serve.
    pub(crate) rejected: Option<String>,
}

/// Looks for the separate debug file of a program: by build id below each of `dirs` and the system's folder,
/// then by its `.gnu_debuglink` beside the program and below the same folders, then, if the user has asked for it, on the network.
pub(crate) fn locate(program: &Elf, dirs: &[PathBuf], network: &Network) -> Found {
    let mut found = Found::default();
    let Ok(object) = program.object() else { return found };
    let id = object.build_id().ok().flatten();
    let link = object.gnu_debuglink().ok().flatten();
    let by_id = id.into_iter().flat_map(|id| by_build_id(id, dirs));
    let by_link = link.into_iter().flat_map(|(name, _)| by_link(program.path(), name, dirs));
    for path in by_id.chain(by_link) {
        if same_file(&path, program.path()) || !path.is_file() {
            continue;
        }
        match Elf::open(&path).map_err(|e| e.to_string()).and_then(|elf| check(elf, id, link.map(|l| l.1))) {
            Ok(elf) => {
                found.elf = Some(elf);
                return found;
            }
            Err(why) => found.rejected = Some(why),
        }
    }
    match id.and_then(|id| network.fetch(id)) {
        Some(Ok(path)) => {
            match Elf::open(&path).map_err(|e| e.to_string()).and_then(|elf| check(elf, id, None)) {
                Ok(elf) => found.elf = Some(elf),
                Err(why) => found.rejected = Some(why),
            }
        }
        Some(Err(why)) => drop(found.rejected.get_or_insert(why)),
        None => {}
    }
    found
}

/// Looks for the file that `dwz` moved shared debug information into (`.gnu_debugaltlink`).
pub(crate) fn locate_shared(debug: &Elf, dirs: &[PathBuf], network: &Network) -> Option<Elf> {
    let object = debug.object().ok()?;
    let (name, id) = object.gnu_debugaltlink().ok()??;
    let name = Path::new(OsStr::from_bytes(name));
    let beside = std::fs::canonicalize(debug.path()).ok()?.parent()?.join(name);
    let fits = |path: PathBuf| {
        Elf::open(&path)
            .ok()
            .filter(|elf| elf.object().is_ok_and(|o| o.build_id().ok().flatten() == Some(id)))
    };
    let near = std::iter::once(beside).chain(by_build_id(id, dirs)).find_map(fits);
    near.or_else(|| network.fetch(id).and_then(Result::ok).and_then(fits))
}

fn folders(dirs: &[PathBuf]) -> impl Iterator<Item = &Path> {
    dirs.iter().map(PathBuf::as_path).chain([Path::new(SYSTEM)])
}

fn by_build_id(id: &[u8], dirs: &[PathBuf]) -> Vec<PathBuf> {
    let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    let Some((first, rest)) = hex.split_at_checked(2).filter(|(_, rest)| !rest.is_empty()) else {
        return Vec::new();
    };
    folders(dirs).map(|dir| dir.join(format!(".build-id/{first}/{rest}.debug"))).collect()
}

fn by_link(program: &Path, name: &[u8], dirs: &[PathBuf]) -> Vec<PathBuf> {
    let name = Path::new(OsStr::from_bytes(name));
    let Some(name) = name.file_name() else { return Vec::new() };
    let program = std::fs::canonicalize(program).unwrap_or_else(|_| program.to_owned());
    let Some(home) = program.parent() else { return Vec::new() };
    let inner = home.strip_prefix("/").unwrap_or(home);
    let mut paths = vec![home.join(name), home.join(".debug").join(name)];
    for dir in folders(dirs) {
        paths.push(dir.join(inner).join(name));
        paths.push(dir.join(name));
    }
    paths
}

fn check(elf: Elf, id: Option<&[u8]>, crc: Option<u32>) -> Result<Elf, String> {
    let other_build = || {
        format!(
            "{} belongs to another build of the program (rebuild both, or remove it)",
            elf.path().display()
        )
    };
    let own = elf.object().map_err(|e| e.to_string())?.build_id().ok().flatten().map(<[u8]>::to_vec);
    match (id, own, crc) {
        (Some(id), Some(own), _) if id != own => Err(other_build()),
        (Some(_), Some(_), _) => Ok(elf),
        (_, _, Some(crc)) if crc32fast::hash(elf.bytes()) != crc => Err(other_build()),
        _ => Ok(elf),
    }
}

fn same_file(a: &Path, b: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    match (std::fs::metadata(a), std::fs::metadata(b)) {
        (Ok(a), Ok(b)) => (a.dev(), a.ino()) == (b.dev(), b.ino()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn build_ids_are_cut_after_the_first_byte() {
        let paths = by_build_id(&[0xab, 0x0c, 0xde], &[PathBuf::from("/d")]);
        assert_eq!(paths[0], Path::new("/d/.build-id/ab/0cde.debug"));
        assert_eq!(paths[1], Path::new("/usr/lib/debug/.build-id/ab/0cde.debug"));
        assert!(by_build_id(&[], &[]).is_empty());
        assert!(by_build_id(&[1], &[]).is_empty());
    }

    #[test]
    fn a_link_is_a_name_and_no_path() {
        let paths = by_link(Path::new("/opt/x/app"), b"../../etc/passwd", &[]);
        assert_eq!(paths[0], Path::new("/opt/x/passwd"));
        assert_eq!(paths[1], Path::new("/opt/x/.debug/passwd"));
        assert_eq!(paths[2], Path::new("/usr/lib/debug/opt/x/passwd"));
    }
}
