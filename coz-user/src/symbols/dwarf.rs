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
        Ok(Self { main: load(elf)?, shared: shared.map(load).transpose()?, endian: endian(&object) })
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
    gimli::DwarfSections::load(|id| match is_needed(id) {
        true => elf.section(&object, id.name()),
        false => Ok(SectionBytes::default()),
    })
}

/// Whether lines, inlining or names need a section.
fn is_needed(id: SectionId) -> bool {
    matches!(
        id,
        SectionId::DebugAbbrev
            | SectionId::DebugAddr
            | SectionId::DebugInfo
            | SectionId::DebugLine
            | SectionId::DebugLineStr
            | SectionId::DebugStr
            | SectionId::DebugStrOffsets
            | SectionId::DebugRanges
            | SectionId::DebugRngLists
    )
}

/// The sections of a `.dwo` file.
#[derive(Debug)]
pub(crate) struct DwoSections {
    sections: gimli::DwarfSections<SectionBytes>,
    endian: RunTimeEndian,
}

impl DwoSections {
    /// Finds and decompresses the sections that inlining and names need.
    ///
    /// # Errors
    /// When a section is damaged.
    pub(crate) fn load(elf: &Elf) -> Result<Self> {
        let object = elf.object()?;
        let sections = gimli::DwarfSections::load(|id| match id.dwo_name().filter(|_| is_needed(id)) {
            Some(name) => elf.section(&object, name),
            None => Ok(SectionBytes::default()),
        })?;
        Ok(Self { sections, endian: endian(&object) })
    }

    /// A view of the sections, together with those that stay in the program. Costs nothing.
    pub(crate) fn view<'a>(&'a self, program: &Dwarf<'a>) -> Dwarf<'a> {
        let mut dwarf = self.sections.borrow(|bytes| EndianSlice::new(bytes, self.endian));
        dwarf.make_dwo(program);
        dwarf
    }
}

/// The sections of a `.dwp` file.
#[derive(Debug)]
pub(crate) struct PackageSections {
    sections: gimli::DwarfPackageSections<SectionBytes>,
    endian: RunTimeEndian,
}

impl PackageSections {
    /// Finds and decompresses the sections that inlining and names need.
    ///
    /// # Errors
    /// When a section is damaged.
    pub(crate) fn load(elf: &Elf) -> Result<Self> {
        let object = elf.object()?;
        let load = |id: SectionId| match id.dwo_name() {
            // Types are not looked for; binutils' index of them is cut short where there are none.
            None => Ok(SectionBytes::default()),
            Some(_) if id == SectionId::DebugTuIndex => Ok(SectionBytes::default()),
            // All others, needed or not: the index points into them.
            Some(name) => elf.section(&object, name).map_err(Damaged::Section),
        };
        let sections = gimli::DwarfPackageSections::load(load)?;
        Ok(Self { sections, endian: endian(&object) })
    }

    /// A view of the sections. Reads the heads of the indices.
    pub(crate) fn view(&self) -> gimli::Result<gimli::DwarfPackage<Slice<'_>>> {
        let slice = |bytes| EndianSlice::new(bytes, self.endian);
        self.sections.borrow(|bytes| slice(bytes), slice(&[]))
    }

    /// Bytes of `.debug_info.dwo`.
    pub(crate) fn info_size(&self) -> usize {
        self.view().map_or(0, |view| view.debug_info.reader().len())
    }
}

/// What can be wrong with a package.
#[derive(Debug)]
enum Damaged {
    Section(anyhow::Error),
    Index(gimli::Error),
}

impl From<gimli::Error> for Damaged {
    fn from(error: gimli::Error) -> Self {
        Self::Index(error)
    }
}

impl From<Damaged> for anyhow::Error {
    fn from(damaged: Damaged) -> Self {
        match damaged {
            Damaged::Section(error) => error,
            Damaged::Index(error) => error.into(),
        }
    }
}

fn endian(object: &object::File<'_>) -> RunTimeEndian {
    if object.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big }
}
