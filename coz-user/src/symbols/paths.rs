//! The names of source files, as line tables and units spell them.

use super::dwarf::{RawUnit, Slice};
use gimli::{FileEntry, LineProgramHeader, UnitRef};
use std::sync::Arc;

/// The file that a unit was compiled from.
pub(crate) fn unit_source(unit: &RawUnit<'_>) -> Arc<str> {
    let text = |slice: Option<Slice<'_>>| slice.map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
    join(&text(unit.comp_dir), &text(unit.name)).into()
}

/// The full name of a line table's file.
pub(crate) fn file_name<'d>(
    unit: UnitRef<'_, Slice<'d>>,
    header: &LineProgramHeader<Slice<'d>>,
    file: &FileEntry<Slice<'d>>,
) -> Arc<str> {
    let text = |value| unit.attr_string(value).map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
    let mut path = unit.comp_dir.map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
    // Up to DWARF 4, directory 0 is the unit's own; from 5 on, entry 0 says so itself.
    let has_directory = file.directory_index() != 0 || header.version() >= 5;
    if let Some(directory) = file.directory(header).filter(|_| has_directory) {
        path = join(&path, &text(directory));
    }
    join(&path, &text(file.path_name())).into()
}

/// The file with this number in a unit's line table.
pub(crate) fn numbered(unit: UnitRef<'_, Slice<'_>>, number: u32) -> Option<Arc<str>> {
    let header = unit.line_program.as_ref()?.header();
    Some(file_name(unit, header, header.file(u64::from(number))?))
}

/// All files of a unit's line table, by the numbers that rows and entries use.
pub(crate) fn all_files(unit: UnitRef<'_, Slice<'_>>) -> Vec<Arc<str>> {
    files(unit, |_| true)
}

/// The same with empty names for those that are not wanted.
pub(crate) fn files(unit: UnitRef<'_, Slice<'_>>, wanted: impl Fn(u64) -> bool) -> Vec<Arc<str>> {
    let Some(program) = &unit.line_program else { return Vec::new() };
    let header = program.header();
    let none: Arc<str> = Arc::from("");
    // Up to DWARF 4, files are counted from 1.
    let name = |i| match header.file(i) {
        Some(file) if wanted(i) => file_name(unit, header, file),
        _ => Arc::clone(&none),
    };
    let first = u64::from(header.version() < 5);
    let count = header.file_names().len() as u64 + first;
    (0..count).map(name).collect()
}

/// `path` seen from the folder `base`, with `.`, `..` and doubled slashes resolved as text.
pub(crate) fn join(base: &str, path: &str) -> String {
    let whole = match path.starts_with('/') || base.is_empty() || path.starts_with('<') {
        true => path.to_owned(),
        false => format!("{base}/{path}"),
    };
    if !whole.contains("/.") && !whole.contains("//") && !whole.starts_with('.') {
        return whole;
    }
    let rooted = whole.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in whole.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => drop(parts.pop()),
            ".." if rooted => {}
            _ => parts.push(part),
        }
    }
    format!("{}{}", if rooted { "/" } else { "" }, parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_joined_and_cleaned_as_text() {
        for (base, path, whole) in [
            ("/src", "a.c", "/src/a.c"),
            ("/src", "/x/a.c", "/x/a.c"),
            ("/src", "./a.c", "/src/a.c"),
            ("/src/b", "../a.c", "/src/a.c"),
            ("/src//b/", "a.c", "/src/b/a.c"),
            ("", "../a.c", "../a.c"),
            ("/", "../a.c", "/a.c"),
            (".", "a.c", "a.c"),
            ("/src", "<built-in>", "<built-in>"),
            ("/src", ".hidden/a.c", "/src/.hidden/a.c"),
        ] {
            assert_eq!(join(base, path), whole, "{base} + {path}");
        }
    }
}
