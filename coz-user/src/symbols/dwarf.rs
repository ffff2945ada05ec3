//! The DWARF sections of a module, and short-lived views of them.

use super::elf::{Elf, SectionBytes};
use anyhow::{Result, bail};
use gimli::{EndianSlice, RunTimeEndian, Section as _, SectionId};
use object::Object;

/// How DWARF is read: slices of mapped or decompressed sections.
pub(crate) type Slice<'a> = EndianSlice<'a, RunTimeEndian>;
/// A view of all sections.
pub(crate) type Dwarf<'a> = gimli::Dwarf<Slice<'a>>;
/// A unit's header and abbreviations.
pub(crate) type RawUnit<'a> = gimli::Unit<Slice<'a>>;

/// The DWARF sections of a module and of the file that it shares information with (`dwz`).
#[derive(Debug)]
pub(crate) struct Sections {
    main: gimli::DwarfSections<SectionBytes>,
    shared: Option<gimli::DwarfSections<SectionBytes>>,
    endian: RunTimeEndian,
}

/// Whether a file carries line tables at all.
pub(crate) fn has_dwarf(elf: &Elf) -> bool {
    let present = |object: &object::File<'_>, name| object.section_by_name(name).is_some();
    elf.object().is_ok_and(|o| present(&o, ".debug_info") && present(&o, ".debug_line"))
}

impl Sections {
    /// Finds and decompresses the sections that lines, inlining and names need.
    ///
    /// # Errors
    /// When a section is damaged.
    pub(crate) fn load(elf: &Elf, shared: Option<&Elf>) -> Result<Self> {
        let object = elf.object()?;
        if !object.is_64() && object.architecture() != object::Architecture::X86_64_X32 {
            bail!("{} is a 32-bit program; only 64-bit ones can be read", elf.path().display());
        }
        let endian = if object.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
        Ok(Self { main: load(elf)?, shared: shared.map(load).transpose()?, endian })
    }

    /// Bytes of `.debug_info`.
    pub(crate) fn info_size(&self) -> usize {
        self.view().debug_info.reader().len()
    }

    /// A view of the sections. Costs nothing.
    pub(crate) fn view(&self) -> Dwarf<'_> {
        self.main.borrow_with_sup(self.shared.as_ref(), |bytes| EndianSlice::new(bytes, self.endian))
    }
}

fn load(elf: &Elf) -> Result<gimli::DwarfSections<SectionBytes>> {
    let object = elf.object()?;
    gimli::DwarfSections::load(|id| match id {
        SectionId::DebugAbbrev
        | SectionId::DebugAddr
        | SectionId::DebugInfo
        | SectionId::DebugLine
        | SectionId::DebugLineStr
        | SectionId::DebugStr
        | SectionId::DebugStrOffsets
        | SectionId::DebugRanges
        | SectionId::DebugRngLists => elf.section(&object, id.name()),
        _ => Ok(SectionBytes::default()),
    })
}
