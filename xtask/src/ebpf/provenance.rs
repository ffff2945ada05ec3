//! What the committed object was made of: a hash of every source, the versions of dependencies and tools.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{MEND, OBJECT, PROVENANCE, Toolchain, prebuilt};
use crate::sh;

/// The file beside the object. Hashes are SHA-256, in hexadecimal; paths are relative to the repository.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    /// Hash of the object itself.
    pub object: String,
    /// What `rustc -V` said.
    pub compiler: String,
    /// What `bpf-linker --version` said.
    pub linker: String,
    /// The compiler's flags.
    pub flags: Vec<String>,
    /// Each dependency and its version, as Cargo.lock has it.
    pub dependencies: BTreeMap<String, String>,
    /// Each source file and its hash.
    pub sources: BTreeMap<String, String>,
}

impl Provenance {
    pub(super) fn of(object: &[u8], toolchain: &Toolchain) -> Result<Self> {
        Ok(Self {
            object: hash(object),
            compiler: toolchain.compiler.clone(),
            linker: toolchain.linker.clone(),
            flags: toolchain.flags(),
            dependencies: dependencies()?,
            sources: sources(&sh::root())?,
        })
    }

    /// Reads the file.
    ///
    /// # Errors
    /// When it cannot be read or is not what we write.
    pub fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path)
            .with_context(|| format!("cannot read {}; make it with `{MEND}`", path.display()))?;
        serde_json::from_str(&text)
            .with_context(|| format!("{} is damaged; make it with `{MEND}`", path.display()))
    }

    /// The file's text.
    ///
    /// # Errors
    /// When it cannot be written as JSON (it always can).
    pub fn to_json(&self) -> Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// Compiler and linker, for people.
    #[must_use]
    pub fn made_with(&self) -> String {
        format!("{} and {}", self.compiler, self.linker)
    }

    /// Why an object with this provenance is not that of the given sources, dependencies and bytes.
    #[must_use]
    pub fn differs(
        &self,
        object: &[u8],
        sources: &BTreeMap<String, String>,
        dependencies: &BTreeMap<String, String>,
    ) -> Option<String> {
        if self.object != hash(object) {
            return Some("the object is not the one that the provenance is of".into());
        }
        let changed =
            differing(&self.sources, sources).or_else(|| differing(&self.dependencies, dependencies))?;
        Some(format!("{changed} has changed since it was made"))
    }
}

/// Why the committed object is not that of the sources here; `None` when it is.
///
/// # Errors
/// When object, provenance or a source cannot be read.
pub fn stale() -> Result<Option<String>> {
    let path = prebuilt().join(OBJECT);
    let object =
        fs::read(&path).with_context(|| format!("cannot read {}; make it with `{MEND}`", path.display()))?;
    let provenance = Provenance::read(&prebuilt().join(PROVENANCE))?;
    Ok(provenance.differs(&object, &sources(&sh::root())?, &dependencies()?))
}

fn differing(old: &BTreeMap<String, String>, new: &BTreeMap<String, String>) -> Option<String> {
    old.keys().chain(new.keys()).find(|key| old.get(*key) != new.get(*key)).cloned()
}

/// Everything of ours that goes into the object, with its hash.
fn sources(root: &Path) -> Result<BTreeMap<String, String>> {
    let mut files: Vec<PathBuf> = ["coz-ebpf/Cargo.toml", "coz-common/Cargo.toml"].map(PathBuf::from).into();
    for folder in ["coz-ebpf/src", "coz-common/src"] {
        list(root, Path::new(folder), &mut files)?;
    }
    files
        .into_iter()
        .map(|file| {
            let bytes =
                fs::read(root.join(&file)).with_context(|| format!("cannot read {}", file.display()))?;
            Ok((file.to_string_lossy().into_owned(), hash(&bytes)))
        })
        .collect()
}

fn list(root: &Path, folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let entries =
        fs::read_dir(root.join(folder)).with_context(|| format!("cannot read {}", folder.display()))?;
    for entry in entries {
        let entry = entry?;
        let path = folder.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            list(root, &path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

/// The crates that are compiled into the object or write code for it, from Cargo.lock.
fn dependencies() -> Result<BTreeMap<String, String>> {
    let tree = sh::output(sh::cargo().args([
        "tree", "--locked", "-p", "coz-ebpf", "--edges", "normal", "--prefix", "none", "--format", "{p}",
    ]))?;
    Ok(parse_tree(&tree))
}

/// Lines like `aya-ebpf v0.2.1 (*)`; crates of this repository have a path and are among the sources.
fn parse_tree(tree: &str) -> BTreeMap<String, String> {
    let crates = tree.lines().filter(|line| !line.contains('/'));
    crates
        .filter_map(|line| {
            let (name, rest) = line.split_once(" v")?;
            Some((name.to_owned(), rest.split_whitespace().next()?.to_owned()))
        })
        .collect()
}

fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn any_change_of_what_goes_in_makes_it_stale() {
        let made = Provenance {
            object: hash(b"object"),
            compiler: String::new(),
            linker: String::new(),
            flags: Vec::new(),
            dependencies: map(&[("aya", "1")]),
            sources: map(&[("a.rs", "00"), ("b.rs", "11")]),
        };
        let differs = |object: &[u8], sources: &[(&str, &str)], dependencies: &[(&str, &str)]| {
            made.differs(object, &map(sources), &map(dependencies))
        };
        let (same, aya) = ([("a.rs", "00"), ("b.rs", "11")], [("aya", "1")]);
        assert_eq!(differs(b"object", &same, &aya), None);
        assert!(differs(b"objecT", &same, &aya).is_some_and(|why| why.contains("not the one")));
        assert!(
            differs(b"object", &[("a.rs", "00"), ("b.rs", "12")], &aya)
                .is_some_and(|why| why.contains("b.rs"))
        );
        assert!(differs(b"object", &same[..1], &aya).is_some_and(|why| why.contains("b.rs")));
        let more = [("a.rs", "00"), ("b.rs", "11"), ("c.rs", "22")];
        assert!(differs(b"object", &more, &aya).is_some_and(|why| why.contains("c.rs")));
        assert!(differs(b"object", &same, &[("aya", "2")]).is_some_and(|why| why.contains("aya")));
    }

    #[test]
    fn a_tree_gives_names_and_versions_of_foreign_crates() {
        let tree = "coz-ebpf v0.1.0 (/x/coz-ebpf)\naya-ebpf v0.2.1\naya-ebpf-macros v0.2.0 (proc-macro)\naya-ebpf v0.2.1 (*)\n";
        assert_eq!(parse_tree(tree), map(&[("aya-ebpf", "0.2.1"), ("aya-ebpf-macros", "0.2.0")]));
    }

    #[test]
    fn the_committed_object_is_that_of_the_sources() {
        let why = stale().expect("the committed object can be read");
        assert_eq!(why, None, "mend it with `{MEND}`");
    }
}
