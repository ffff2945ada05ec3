//! The binaries that points can be in: the program, its libraries, and any file that a spec names.

use crate::symbols::{Module, Scope};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where a spec's BINARY is looked for.
#[derive(Debug)]
pub struct Binaries {
    main: Option<Arc<Module>>,
    loaded: Vec<Arc<Module>>,
    files: Vec<(PathBuf, PathBuf)>,
    scope: Scope,
    debug_dirs: Vec<PathBuf>,
}

/// Where a dynamic loader looks on the systems that we know.
const LIBRARY_FOLDERS: [&str; 7] = [
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/usr/local/lib",
    "/lib",
    "/usr/lib",
];

impl Binaries {
    /// The program itself, where there is one; scope and folders are for files that are opened later.
    #[must_use]
    pub fn new(main: impl Into<Option<Arc<Module>>>, scope: Scope, debug_dirs: Vec<PathBuf>) -> Self {
        Self { main: main.into(), loaded: Vec::new(), files: Vec::new(), scope, debug_dirs }
    }

    /// Adds a library that the program has loaded.
    pub fn add(&mut self, module: Arc<Module>) {
        self.loaded.push(module);
    }

    /// Adds files that the program has loaded: the name of each as the program sees it, and where it can be reached from here.
    pub fn add_files(&mut self, files: impl IntoIterator<Item = (PathBuf, PathBuf)>) {
        self.files.extend(files);
    }

    /// The program itself.
    ///
    /// # Errors
    /// There is no single one: many are profiled.
    pub fn main(&self) -> Result<&Arc<Module>> {
        self.main.as_ref().context(
            "no single program is profiled whose symbols could be meant; name the binary: \
             -P BINARY@WHERE, with its path",
        )
    }

    /// The binary that a spec names: the program if it names none; else what is loaded under this path or name
    /// (`libz.so.1`, `libz`, `z`), else the file.
    ///
    /// # Errors
    /// When there is none, or it is no ELF file.
    pub fn find(&self, name: Option<&str>) -> Result<Arc<Module>> {
        let Some(name) = name else { return self.main().cloned() };
        let mut known = self.main.iter().chain(&self.loaded);
        if let Some(module) = known.find(|module| is_called(module.path(), name)) {
            return Ok(Arc::clone(module));
        }
        let loaded = self.files.iter().find(|(seen, _)| is_called(seen, name)).map(|(_, file)| file.clone());
        let file =
            loaded.or_else(|| if name.contains('/') { Some(PathBuf::from(name)) } else { search(name) });
        let Some(file) = file else {
            bail!("no binary '{name}': the program has loaded none of that name; give its path")
        };
        let module = Module::open(&file, &self.scope, &self.debug_dirs)
            .with_context(|| format!("the binary '{name}' of a progress point cannot be used"))?;
        Ok(Arc::new(module))
    }
}

fn is_called(path: &Path, name: &str) -> bool {
    if name.contains('/') {
        let real = |p: &Path| std::fs::canonicalize(p).unwrap_or_else(|_| p.to_owned());
        return real(path) == real(Path::new(name));
    }
    let Some(file) = path.file_name().and_then(|file| file.to_str()) else { return false };
    let stem = file.find(".so").map_or(file, |at| &file[..at]);
    file == name || stem == name || (file != stem && stem.strip_prefix("lib") == Some(name))
}

fn search(name: &str) -> Option<PathBuf> {
    let folders = || LIBRARY_FOLDERS.iter().map(Path::new);
    let exact = folders().map(|folder| folder.join(name)).find(|path| path.is_file());
    exact.or_else(|| {
        let mut found: Vec<PathBuf> = folders()
            .filter_map(|folder| std::fs::read_dir(folder).ok())
            .flat_map(|entries| entries.flatten().map(|entry| entry.path()))
            .filter(|path| path.to_string_lossy().contains(".so.") && is_called(path, name))
            .collect();
        found.sort();
        found.pop()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_go_by_several_names() {
        let path = Path::new("/usr/lib/libz.so.1.2.13");
        for name in ["libz.so.1.2.13", "libz", "z", "/usr/lib/libz.so.1.2.13"] {
            assert!(is_called(path, name), "{name}");
        }
        for name in ["libz.so", "lib", "", "libzz", "/lib/libz.so.1"] {
            assert!(!is_called(path, name), "{name}");
        }
        assert!(is_called(Path::new("/x/app"), "app") && !is_called(Path::new("/x/libapp"), "app"));
    }
}
