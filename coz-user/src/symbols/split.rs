//! Split DWARF: the files that the compiler has put functions and inlining into (`.dwo`, or all of a program's in one
//! `.dwp`), and the units in them.
//!
//! The program itself keeps a skeleton of each unit: its addresses and its line table. Everything else is looked up by
//! the number that skeleton and unit have in common.

use super::dwarf::{Dwarf, DwoSections, PackageSections, RawUnit, Slice};
use super::elf::Elf;
use super::paths;
use gimli::{DebugInfoOffset, DwoId};
use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Where the split part of a unit is, or why it is not known, as the end of a sentence about the program.
pub(crate) type Place = Result<Carrier, String>;

/// A file with split units in it.
#[derive(Clone, Debug)]
pub(crate) enum Carrier {
    /// A `.dwo`.
    File(Arc<DwoSections>),
    /// A `.dwp`.
    Package(Arc<PackageSections>),
}

/// The split part of a unit.
pub(crate) struct SplitUnit<'a> {
    /// The sections that it is in.
    pub(crate) dwarf: Dwarf<'a>,
    /// Itself.
    pub(crate) raw: RawUnit<'a>,
}

impl Carrier {
    /// A view of the unit with this number; `skeleton` is what the program has of it.
    pub(crate) fn unit<'a>(
        &'a self,
        id: DwoId,
        main: &Dwarf<'a>,
        skeleton: &RawUnit<'a>,
    ) -> gimli::Result<Option<SplitUnit<'a>>> {
        let dwarf = match self {
            Self::File(sections) => Some(sections.view(main)),
            Self::Package(sections) => sections.view()?.find_cu(id, main)?,
        };
        let Some(dwarf) = dwarf else { return Ok(None) };
        let Some(mut raw) = find(&dwarf, id)? else { return Ok(None) };
        raw.copy_relocated_attributes(skeleton);
        Ok(Some(SplitUnit { dwarf, raw }))
    }
}

fn find<'a>(dwarf: &Dwarf<'a>, id: DwoId) -> gimli::Result<Option<RawUnit<'a>>> {
    let mut headers = dwarf.units();
    while let Some(header) = headers.next()? {
        if header.debug_info_offset().is_some() {
            let unit = dwarf.unit(header)?;
            if unit.dwo_id == Some(id) {
                return Ok(Some(unit));
            }
        }
    }
    Ok(None)
}

/// The split files of one program. Each is opened when a unit in it is first asked for.
#[derive(Debug)]
pub(crate) struct SplitFiles {
    /// The program, and the file that carries its debug information.
    carriers: Vec<PathBuf>,
    dirs: Vec<PathBuf>,
    packages: OnceLock<Vec<Arc<PackageSections>>>,
    files: Mutex<HashMap<PathBuf, Option<Arc<DwoSections>>>>,
}

impl SplitFiles {
    /// Of a program whose debug information is in `carrier`; `dirs` are the folders that the user has named.
    pub(crate) fn new(program: &Elf, carrier: &Elf, dirs: &[PathBuf]) -> Self {
        let mut carriers = vec![real(program.path())];
        if carrier.path() != program.path() {
            carriers.push(real(carrier.path()));
        }
        Self { carriers, dirs: dirs.to_vec(), packages: OnceLock::new(), files: Mutex::default() }
    }

    /// Looks for the split part of a unit.
    pub(crate) fn locate(&self, id: DwoId, main: &Dwarf<'_>, skeleton: &RawUnit<'_>) -> Place {
        for package in self.packages.get_or_init(|| self.open_packages()) {
            if package.view().is_ok_and(|view| view.find_cu(id, main).is_ok_and(|found| found.is_some())) {
                return Ok(Carrier::Package(Arc::clone(package)));
            }
        }
        let name = skeleton.dwo_name().ok().flatten();
        let name: Option<Slice<'_>> = name.and_then(|name| main.attr_string(skeleton, name).ok());
        let Some(name) = name.map(|name| name.to_string_lossy().into_owned()) else {
            return Err("has units whose split debug file is not named".to_owned());
        };
        let home = skeleton.comp_dir.map(|dir| dir.to_string_lossy().into_owned()).unwrap_or_default();
        let mut why = format!("misses its split debug file {name}");
        for path in self.places(&home, &name) {
            let Some(file) = self.open(&path) else { continue };
            if find(&file.view(main), id).is_ok_and(|unit| unit.is_some()) {
                return Ok(Carrier::File(file));
            }
            why = format!("was not built together with {}", path.display());
        }
        Err(why)
    }

    /// Bytes of the entries in packages.
    pub(crate) fn packages_size(&self) -> usize {
        self.packages.get_or_init(|| self.open_packages()).iter().map(|package| package.info_size()).sum()
    }

    /// Where a `.dwo` can be: where it was built, beside the program, in the folders that were named.
    fn places(&self, home: &str, name: &str) -> Vec<PathBuf> {
        let built = PathBuf::from(paths::join(home, name));
        let file = built.file_name().map(PathBuf::from).unwrap_or_default();
        let relative = Path::new(name).is_relative().then(|| PathBuf::from(name));
        let whole = built.strip_prefix("/").map(Path::to_path_buf).ok();
        let names: Vec<PathBuf> = whole.into_iter().chain(relative.clone()).chain([file.clone()]).collect();
        let beside = self.carriers.iter().filter_map(|path| path.parent());
        let beside = beside.flat_map(|folder| {
            relative.iter().chain([&file]).map(|name| folder.join(name)).collect::<Vec<_>>()
        });
        let named =
            self.dirs.iter().flat_map(|dir| names.iter().map(|name| dir.join(name)).collect::<Vec<_>>());
        let mut places: Vec<PathBuf> = std::iter::once(built).chain(beside).chain(named).collect();
        let mut seen = std::collections::HashSet::new();
        places.retain(|path| path.is_absolute() && seen.insert(path.clone()));
        places
    }

    fn open(&self, path: &Path) -> Option<Arc<DwoSections>> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let known = files.entry(path.to_owned()).or_insert_with(|| {
            let elf = Elf::open(path).ok()?;
            DwoSections::load(&elf).ok().map(Arc::new)
        });
        known.clone()
    }

    fn open_packages(&self) -> Vec<Arc<PackageSections>> {
        let named = |path: &Path| {
            let mut name = OsString::from(path);
            name.push(".dwp");
            PathBuf::from(name)
        };
        // `app.debug` may have `app.dwp` beside it.
        let bare = self.carriers.iter().map(|path| path.with_extension("dwp"));
        let beside: Vec<PathBuf> = self.carriers.iter().map(|path| named(path)).chain(bare).collect();
        let files = beside.iter().filter_map(|path| path.file_name());
        let in_dirs =
            self.dirs.iter().flat_map(|dir| files.clone().map(|file| dir.join(file)).collect::<Vec<_>>());
        let mut places: Vec<PathBuf> = beside.iter().cloned().chain(in_dirs).collect();
        places.dedup();
        let open = |path: PathBuf| {
            let elf = Elf::open(&path).ok()?;
            PackageSections::load(&elf).ok().map(Arc::new)
        };
        places.into_iter().filter_map(open).collect()
    }
}

fn real(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// The skeleton of a unit, by its place in the program.
pub(crate) fn skeleton<'a>(dwarf: &Dwarf<'a>, offset: DebugInfoOffset) -> gimli::Result<RawUnit<'a>> {
    dwarf.unit_header(offset).and_then(|header| dwarf.unit(header))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(carriers: &[&str], dirs: &[&str]) -> SplitFiles {
        let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect();
        SplitFiles {
            carriers: paths(carriers),
            dirs: paths(dirs),
            packages: OnceLock::new(),
            files: Mutex::default(),
        }
    }

    #[test]
    fn a_split_file_is_where_it_was_built_beside_the_program_or_in_a_named_folder() {
        let places = files(&["/opt/app"], &["/d"]).places("/build", "sub/a.dwo");
        let expected = [
            "/build/sub/a.dwo",
            "/opt/sub/a.dwo",
            "/opt/a.dwo",
            "/d/build/sub/a.dwo",
            "/d/sub/a.dwo",
            "/d/a.dwo",
        ];
        assert_eq!(places, expected.map(PathBuf::from));
        let places = files(&["/opt/app"], &[]).places("", "a.dwo");
        assert_eq!(places, [PathBuf::from("/opt/a.dwo")], "relative to nothing it is no place");
        let places = files(&["/opt/app"], &[]).places("/build", "/x/a.dwo");
        assert_eq!(places, ["/x/a.dwo", "/opt/a.dwo"].map(PathBuf::from));
    }
}
