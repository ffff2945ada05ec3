//! The profile's file as it grows.

use crate::experiment::record::{Follower, Profile};
use anyhow::{Context, Result, anyhow};
use std::{
    fs::{self, File},
    io::{ErrorKind, Read, Seek, SeekFrom},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// Read at a time.
const CHUNK: u64 = 8 << 20;

/// A file that is read as far as it goes.
#[derive(Debug)]
pub(super) struct Source {
    path: PathBuf,
    file: File,
    position: u64,
    follower: Follower,
}

impl Source {
    /// # Errors
    /// There is no such file, or it can not be opened.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(|error| {
            let hint = match error.kind() {
                ErrorKind::NotFound => "; `sudo coz-bpf run PROGRAM` writes one",
                _ => "",
            };
            anyhow!("cannot open the profile {}: {error}{hint}", path.display())
        })?;
        let is_folder = file.metadata().is_ok_and(|found| found.is_dir());
        if is_folder {
            return Err(anyhow!("{} is a folder; name a profile in it", path.display()));
        }
        Ok(Self::of(path, file))
    }

    /// The file that was opened at this path.
    pub(super) fn of(path: &Path, file: File) -> Self {
        Self { path: path.to_owned(), file, position: 0, follower: Follower::default() }
    }

    /// The file's name.
    pub(super) fn name(&self) -> String {
        self.path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    }

    /// Reads what is new; whether there was a record. A file that has got shorter, or another one at its place (a new
    /// run keeps the old profile aside), is read from its beginning.
    ///
    /// # Errors
    /// It can not be read, or is no profile.
    pub(super) fn update(&mut self) -> Result<bool> {
        let own = self.file.metadata().with_context(|| format!("cannot read {}", self.path.display()))?;
        let at_path = fs::metadata(&self.path).ok();
        let mut anew = own.len() < self.position;
        if let Some(other) = at_path.filter(|other| (other.dev(), other.ino()) != (own.dev(), own.ino()))
            && other.is_file()
            && let Ok(file) = File::open(&self.path)
        {
            self.file = file;
            anew = true;
        }
        if anew {
            self.file.seek(SeekFrom::Start(0)).context("cannot go back in the profile")?;
            self.position = 0;
            self.follower = Follower::default();
        }
        let mut any = anew;
        let mut bytes = Vec::new();
        loop {
            bytes.clear();
            let read = (&self.file).take(CHUNK).read_to_end(&mut bytes);
            let n = read.with_context(|| format!("cannot read {}", self.path.display()))?;
            if n == 0 {
                return Ok(any);
            }
            self.position += n as u64;
            any |= self
                .follower
                .feed(&bytes)
                .map_err(|error| anyhow!("cannot read the profile {}: {error}", self.path.display()))?;
        }
    }

    /// What stands there by now.
    pub(super) fn profile(&self) -> Profile {
        self.follower.profile()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    const STARTUP: &str = "{\"type\":\"startup\",\"time\":1}\n";
    const EXPERIMENT: &str =
        "{\"type\":\"experiment\",\"selected\":\"a.c:1\",\"speedup\":0.5,\"duration\":1000}\n";

    const POINT: &str = "{\"type\":\"throughput-point\",\"name\":\"p\",\"delta\":7}\n";

    #[test]
    fn a_file_is_followed_as_it_grows_and_when_it_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("profile.jsonl");
        let mut file = File::create(&path).unwrap();
        let mut source = Source::open(&path).unwrap();
        assert!(!source.update().unwrap(), "nothing stands there");
        file.write_all(STARTUP.as_bytes()).unwrap();
        assert!(source.update().unwrap());
        assert!(!source.update().unwrap());
        let (head, tail) = EXPERIMENT.split_at(20);
        file.write_all(head.as_bytes()).unwrap();
        assert!(!source.update().unwrap(), "half a record");
        file.write_all(tail.as_bytes()).unwrap();
        assert!(source.update().unwrap());
        assert_eq!(source.profile().experiments.len(), 0, "its points are on their way");
        file.write_all(POINT.as_bytes()).unwrap();
        assert!(source.update().unwrap());
        assert_eq!(source.profile().experiments.len(), 1);

        fs::rename(&path, folder.path().join("profile.jsonl.1")).unwrap();
        assert!(!source.update().unwrap(), "what is open stays open");
        fs::write(&path, STARTUP).unwrap();
        assert!(source.update().unwrap(), "a new run in its place");
        assert_eq!(source.profile().experiments.len(), 0);
        fs::write(&path, "").unwrap();
        assert!(source.update().unwrap(), "made empty");
        assert!(source.profile().open_end);
    }

    #[test]
    fn what_cannot_be_shown_is_said() {
        let missing = Source::open(Path::new("/no/such/profile.jsonl")).unwrap_err();
        assert!(missing.to_string().contains("coz-bpf run"), "{missing}");
        let folder = Source::open(Path::new("/")).unwrap_err();
        assert!(folder.to_string().contains("is a folder"), "{folder}");
        let other = tempfile::NamedTempFile::new().unwrap();
        fs::write(other.path(), "not a profile\n").unwrap();
        let error = Source::open(other.path()).unwrap().update().unwrap_err();
        assert!(error.to_string().contains("line 1"), "{error}");
    }
}
