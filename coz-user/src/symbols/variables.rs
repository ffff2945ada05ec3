//! Where variables of a name are declared.

use super::dwarf::{Dwarf, RawUnit, Slice};
use super::inlined::Declaration;
use super::module::Module;
use super::parallel::shares;
use super::unit::file_number;
use super::{paths, split};
use gimli::UnitRef;

impl Module {
    /// Where variables of this name are declared, of any function, each place once, sorted. Reads the whole debug information, on all
    /// CPUs; none where there is none.
    pub fn variables(&self, name: &str) -> Vec<Declaration> {
        let Ok(debug) = self.any_debug() else { return Vec::new() };
        let numbers: Vec<usize> = (0..debug.index.units.len()).collect();
        let each = shares(&numbers, |share| {
            let dwarf = debug.view();
            let of = |number: &usize| {
                let Some(slot) = debug.index.units.get(*number) else { return Vec::new() };
                let Ok(raw) = split::skeleton(&dwarf, slot.offset) else { return Vec::new() };
                let mut found = Vec::new();
                // What is damaged is used as far as it can be read.
                let _ = match debug.split_unit(slot, &dwarf, &raw) {
                    Ok(Some(split)) => search(split.raw.unit_ref(&split.dwarf), name, &mut found),
                    _ => search(raw.unit_ref(&dwarf), name, &mut found),
                };
                named(&dwarf, &raw, &found)
            };
            share.iter().map(of).collect()
        });
        self.forget();
        let mut all = each.concat();
        all.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
        all.dedup();
        all
    }
}

/// Numbers of files, and lines.
fn search(unit: UnitRef<'_, Slice<'_>>, name: &str, found: &mut Vec<(u32, u32)>) -> gimli::Result<()> {
    let mut entries = unit.entries_raw(None)?;
    while !entries.is_empty() {
        let Some(abbreviation) = entries.read_abbreviation()? else { continue };
        if abbreviation.tag() != gimli::DW_TAG_variable {
            entries.skip_attributes(abbreviation.attributes())?;
            continue;
        }
        let (mut is_it, mut file, mut line) = (false, 0, 0);
        for spec in abbreviation.attributes() {
            let attr = entries.read_attribute(*spec)?;
            match attr.name() {
                gimli::DW_AT_name => {
                    is_it = unit.attr_string(attr.value()).is_ok_and(|text| text.slice() == name.as_bytes());
                }
                gimli::DW_AT_decl_file => file = file_number(&attr.value(), unit),
                gimli::DW_AT_decl_line => line = attr.udata_value().unwrap_or(0),
                _ => {}
            }
        }
        if let (true, Ok(line @ 1..)) = (is_it, u32::try_from(line)) {
            found.push((file, line));
        }
    }
    Ok(())
}

/// The files of a split unit are those of its skeleton.
fn named(dwarf: &Dwarf<'_>, skeleton: &RawUnit<'_>, found: &[(u32, u32)]) -> Vec<Declaration> {
    let unit = skeleton.unit_ref(dwarf);
    let place = |&(file, line): &(u32, u32)| {
        Some(Declaration { file: paths::numbered(unit, file)?.to_string(), line })
    };
    found.iter().filter_map(place).collect()
}
