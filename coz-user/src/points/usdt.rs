//! Probes that programs declare themselves (USDT, `<sys/sdt.h>`): the notes in `.note.stapsdt`.

use super::resolve::nearest;
use crate::symbols::Module;
use anyhow::{Result, bail};
use object::{Object as _, ObjectSection as _};

/// One place of a declared probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usdt {
    /// Who declares it.
    pub provider: String,
    /// Its name.
    pub name: String,
    /// ELF virtual address of the instruction.
    pub address: u64,
    /// Where in the file the counter stands that says whether anybody listens; `None` where there is none.
    pub semaphore: Option<u64>,
}

/// `n_type` of the notes.
const NT_STAPSDT: u32 = 3;
/// Their owner.
const OWNER: &[u8] = b"stapsdt";

/// All places of all probes of a module, in the order of the notes. Damaged ones are left out.
#[must_use]
pub fn probes(module: &Module) -> Vec<Usdt> {
    let Ok(object) = module.elf().object() else { return Vec::new() };
    let Some(section) = object.section_by_name(".note.stapsdt") else { return Vec::new() };
    // Where a section stood at link time and where it stands now differ by what prelink has moved everything.
    let base = object.section_by_name(".stapsdt.base").map(|base| base.address());
    let notes = section.data().unwrap_or_default();
    let segments = module.elf().segments();
    let in_file = |address: u64| {
        let segment = segments.iter().find(|segment| segment.contains(address))?;
        segment.file_offset.checked_add(address - segment.address)
    };
    let place = |note: Note| {
        let moved = base.map_or(0, |base| base.wrapping_sub(note.base));
        let semaphore = (note.semaphore != 0).then(|| note.semaphore.wrapping_add(moved));
        Usdt {
            provider: note.provider,
            name: note.name,
            address: note.address.wrapping_add(moved),
            semaphore: semaphore.and_then(in_file),
        }
    };
    notes_in(notes).map(place).collect()
}

/// The places of a probe.
///
/// # Errors
/// When the module declares none of that name, with the nearest.
pub(crate) fn find(module: &Module, provider: &str, name: &str) -> Result<Vec<Usdt>> {
    let all = probes(module);
    let path = module.path().display();
    if all.is_empty() {
        bail!(
            "no USDT probe '{provider}:{name}' in {path}: it declares none (no .note.stapsdt); name the library that \
             has it, as in LIBRARY@usdt:{provider}:{name}"
        );
    }
    let near = || {
        let wanted = format!("{provider}:{name}");
        nearest(&wanted, all.iter().map(|probe| format!("{}:{}", probe.provider, probe.name)))
    };
    let found: Vec<Usdt> =
        all.iter().filter(|probe| probe.provider == provider && probe.name == name).cloned().collect();
    if found.is_empty() {
        let near = near();
        let hint =
            if near.is_empty() { String::new() } else { format!("; did you mean {}?", near.join(", ")) };
        bail!("no USDT probe '{provider}:{name}' in {path}{hint}");
    }
    Ok(found)
}

/// A note, as it stands in the file.
struct Note {
    address: u64,
    base: u64,
    semaphore: u64,
    provider: String,
    name: String,
}

fn notes_in(mut data: &[u8]) -> impl Iterator<Item = Note> + '_ {
    std::iter::from_fn(move || {
        while let Some(raw) = split_note(data) {
            data = raw.rest;
            if raw.kind == NT_STAPSDT
                && raw.owner.strip_suffix(b"\0").unwrap_or(raw.owner) == OWNER
                && let Some(note) = read_note(raw.content)
            {
                return Some(note);
            }
        }
        None
    })
}

/// Any note, and what follows it.
struct RawNote<'a> {
    kind: u32,
    owner: &'a [u8],
    content: &'a [u8],
    rest: &'a [u8],
}

/// The first note (ELF specification, "Note Section").
fn split_note(data: &[u8]) -> Option<RawNote<'_>> {
    let word = |at: usize| Some(u32::from_le_bytes(data.get(at..at + 4)?.try_into().ok()?));
    let aligned = |length: u32| (length as usize).checked_add(3).map(|length| length & !3);
    let (owner_length, length, kind) = (word(0)?, word(4)?, word(8)?);
    let rest = data.get(12..)?;
    let (owner, after) = (rest.get(..owner_length as usize)?, rest.get(aligned(owner_length)?..)?);
    let content = after.get(..length as usize)?;
    // The last one need not be filled up.
    let rest = after.get(aligned(length)?..).unwrap_or_default();
    Some(RawNote { kind, owner, content, rest })
}

/// Location, base and semaphore, eight bytes each; provider, name and arguments, with a NUL behind each.
fn read_note(content: &[u8]) -> Option<Note> {
    let word = |at: usize| Some(u64::from_le_bytes(content.get(at..at + 8)?.try_into().ok()?));
    let mut strings = content.get(24..)?.split(|byte| *byte == 0);
    let mut text = || String::from_utf8(strings.next()?.to_vec()).ok().filter(|text| !text.is_empty());
    Some(Note { address: word(0)?, base: word(8)?, semaphore: word(16)?, provider: text()?, name: text()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(owner: &[u8], kind: u32, content: &[u8]) -> Vec<u8> {
        let padded = |bytes: &[u8]| [bytes, &vec![0; bytes.len().next_multiple_of(4) - bytes.len()]].concat();
        let head = [owner.len() as u32, content.len() as u32, kind].map(u32::to_le_bytes).concat();
        [head, padded(owner), padded(content)].concat()
    }

    fn content(address: u64, names: &[u8]) -> Vec<u8> {
        [[address, 0x20, 0x30].map(u64::to_le_bytes).concat(), names.to_vec()].concat()
    }

    #[test]
    fn notes_of_others_are_passed_over_and_damage_ends_nothing_else() {
        let data = [
            note(b"GNU\0", 3, b"abcd"),
            note(b"stapsdt\0", 3, &content(0x10, b"lib\0enter\0-4@%eax\0")),
            note(b"stapsdt\0", 3, b"short"),
            note(b"stapsdt\0", 3, &content(0x18, b"lib\0leave\0\0")),
            vec![1, 2, 3],
        ]
        .concat();
        let found: Vec<_> = notes_in(&data).map(|n| (n.address, n.base, n.semaphore, n.name)).collect();
        assert_eq!(found, [(0x10, 0x20, 0x30, "enter".to_owned()), (0x18, 0x20, 0x30, "leave".to_owned())]);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(data in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            proptest::prop_assert!(notes_in(&data).count() <= data.len());
        }
    }
}
