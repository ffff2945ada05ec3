//! The kernel side's object, and what is changed in it for a kernel that is less able.

use std::borrow::Cow;

use anyhow::{Context, Result};
use aya::include_bytes_aligned;
use coz_common::abi::MAX_SLOTS;
use object::{Object, ObjectSection, ObjectSymbol};

static OBJECT: &[u8] = include_bytes_aligned!("../../../coz-ebpf/prebuilt/coz-ebpf.o");

/// Maps whose entries are allocated as they are made: most profiles need few of them.
const LATE: [&str; 5] = ["PROCESSES", "PAGES", "ROW_PAGES", "SPACES", "OPEN"];
/// Where all entries are allocated beforehand these maps have fewer of them, or they would take 130 and 40 MB: of address spaces
/// twice as many as are kept before unused ones are looked for.
pub(super) const FEWER: [(&str, u32); 2] = [("SPACES", 2048), ("OPEN", MAX_SLOTS)];

/// Where a map's flags are in its definition: type, size of keys and of values, number of entries, flags.
const FLAGS: usize = 16;
/// `BPF_F_NO_PREALLOC`
const NO_PREALLOC: u32 = 1;

/// The object. `late_allocation`: what samples look up may be allocated as it is made.
///
/// # Errors
/// Where the object is not as it is known to be.
pub(super) fn bytes(late_allocation: bool) -> Result<Cow<'static, [u8]>> {
    if late_allocation {
        return Ok(Cow::Borrowed(OBJECT));
    }
    let mut bytes = OBJECT.to_vec();
    for map in LATE {
        let at = flags_of(map).with_context(|| format!("the eBPF object has no map {map}"))?;
        let word = bytes.get_mut(at..).and_then(|rest| rest.first_chunk_mut());
        let word = word.with_context(|| format!("the eBPF object ends before its map {map}"))?;
        *word = (u32::from_le_bytes(*word) & !NO_PREALLOC).to_le_bytes();
    }
    Ok(Cow::Owned(bytes))
}

/// Where in the object the flags of a map stand.
fn flags_of(map: &str) -> Option<usize> {
    let file = object::File::parse(OBJECT).ok()?;
    let symbol = file.symbols().find(|symbol| symbol.name() == Ok(map))?;
    let section = file.section_by_index(symbol.section_index()?).ok()?;
    let (begin, _) = section.file_range()?;
    usize::try_from(begin.checked_add(symbol.address())?).ok()?.checked_add(FLAGS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(bytes: &[u8], map: &str) -> u32 {
        let at = flags_of(map).unwrap();
        u32::from_le_bytes(*bytes[at..].first_chunk().unwrap())
    }

    #[test]
    fn every_late_map_is_allocated_beforehand_where_it_must_be() {
        let (late, early) = (bytes(true).unwrap(), bytes(false).unwrap());
        for map in LATE {
            assert_eq!((flags(&late, map), flags(&early, map)), (NO_PREALLOC, 0), "{map}");
        }
        let changed = late.iter().zip(early.iter()).filter(|(one, other)| one != other).count();
        assert_eq!(changed, LATE.len(), "and nothing else is changed");
    }

    #[test]
    fn no_other_map_is_late() {
        let file = object::File::parse(OBJECT).unwrap();
        let maps = file.section_by_name("maps").unwrap();
        let names = file.symbols().filter(|symbol| symbol.section_index() == Some(maps.index()));
        let late = |name: &&str| flags(OBJECT, name) & NO_PREALLOC != 0;
        let mut found: Vec<&str> = names.filter_map(|symbol| symbol.name().ok()).filter(late).collect();
        let mut known = LATE.to_vec();
        found.sort_unstable();
        known.sort_unstable();
        assert_eq!(found, known);
    }
}
