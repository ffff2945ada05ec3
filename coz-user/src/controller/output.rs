//! The profile's file: what stood in its place is kept aside, and put back if no profile comes of the run.

use std::{
    fs::File,
    path::{Path, PathBuf},
};

use anyhow::Result;

use crate::{
    cli::Exit,
    experiment::record::{open_output, rename_unless_there},
    target::identity::Identity,
};

/// The file. Dropped before it was taken, everything is as it was before.
#[derive(Debug)]
pub struct Output {
    path: PathBuf,
    file: Option<File>,
    created: bool,
    aside: Option<PathBuf>,
}

impl Output {
    /// Opens the place that the user has named; a new file belongs to the person who profiles.
    ///
    /// # Errors
    /// Where it can not be written: the exit code is that of a failure of ours.
    pub fn open(path: &Path, identity: &Identity) -> Result<Self> {
        let opened = open_output(path).map_err(|error| Exit::failure(format!("{error:#}")))?;
        if opened.created {
            // File systems without owners refuse; then whoever can read the folder can read the file.
            let _ = identity.chown_to(&opened.file);
        }
        Ok(Self {
            path: path.to_owned(),
            file: Some(opened.file),
            created: opened.created,
            aside: opened.aside,
        })
    }

    /// Where the profile that stood there is now.
    #[must_use]
    pub fn aside(&self) -> Option<&Path> {
        self.aside.as_deref()
    }

    /// The file, to be written; `None` the second time.
    pub fn take(&mut self) -> Option<File> {
        self.file.take()
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if self.file.is_none() || !self.created {
            return;
        }
        // Nothing was measured: no empty file, and the old one again under its name. What fails here leaves a file
        // too many, and takes none away.
        let _ = std::fs::remove_file(&self.path);
        if let Some(aside) = &self.aside {
            let _ = rename_unless_there(aside, &self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn open(path: &Path) -> Output {
        Output::open(path, &Identity::ourselves().unwrap()).unwrap()
    }

    #[test]
    fn a_run_that_comes_to_nothing_leaves_everything_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("profile.jsonl");
        drop(open(&path));
        assert!(!path.exists());
        fs::write(&path, "precious").unwrap();
        drop(open(&path));
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_that_was_taken_stays_and_so_does_the_old_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("profile.jsonl");
        fs::write(&path, "precious").unwrap();
        let mut output = open(&path);
        assert_eq!(output.aside(), Some(folder.path().join("profile.jsonl.1").as_path()));
        assert!(output.take().is_some() && output.take().is_none());
        drop(output);
        assert!(path.exists());
        assert_eq!(fs::read_to_string(folder.path().join("profile.jsonl.1")).unwrap(), "precious");
    }

    #[test]
    fn a_device_is_left_where_it_is() {
        drop(open(Path::new("/dev/null")));
        assert!(Path::new("/dev/null").exists());
    }
}
