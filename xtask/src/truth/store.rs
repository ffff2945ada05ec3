//! What was measured of each program, kept in a folder so that a long measurement can be made in pieces.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The folder.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
    /// Whether what is there already is used.
    resume: bool,
}

impl Store {
    /// Opens it, makes it if need be.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn open(folder: PathBuf, resume: bool) -> Result<Self> {
        fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        Ok(Self { folder, resume })
    }

    /// Path of a file in it.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// What stands in this file; if nothing does, and `missing` makes something, that is put there.
    ///
    /// # Errors
    /// When the file cannot be understood or written, or `missing` fails.
    pub fn get<T: Serialize + DeserializeOwned>(
        &self,
        name: &str,
        missing: impl FnOnce() -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        let path = self.path(name);
        if self.resume && path.exists() {
            let text = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            return serde_json::from_slice(&text).with_context(|| format!("cannot use {}", path.display()));
        }
        let made = missing()?;
        if made.is_some() {
            let text = serde_json::to_string_pretty(&made)? + "\n";
            fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(made)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_not_measured_again_unless_it_is_not_to_be_used() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let open = |resume| Store::open(folder.path().to_owned(), resume).expect("it can be opened");
        assert_eq!(open(true).get::<u32>("a", || Ok(None)).expect("no failure"), None);
        assert_eq!(open(true).get("a", || Ok(Some(1))).expect("no failure"), Some(1));
        assert_eq!(open(true).get("a", || Ok(Some(2))).expect("no failure"), Some(1));
        assert_eq!(open(false).get("a", || Ok(Some(3))).expect("no failure"), Some(3));
    }
}
