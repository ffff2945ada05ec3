//! An ELF file on disk: mapped, its headers checked, everything else read on demand.

use anyhow::{Context, Result, anyhow, bail};
use memmap2::{Mmap, UncheckedAdvice};
use object::{Object, ObjectSection, ObjectSegment};
use std::borrow::Cow;
use std::fs::File;
use std::ops::{Deref, Range};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A loadable segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// ELF virtual address of its first byte.
    pub address: u64,
    /// Where it begins in the file, bytes.
    pub file_offset: u64,
    /// How many of its bytes are in the file.
    pub file_size: u64,
    /// Whether code can run in it.
    pub executable: bool,
}

impl Segment {
    /// Whether the address stands in the part of the segment that comes from the file.
    #[must_use]
    pub fn contains(&self, address: u64) -> bool {
        address.checked_sub(self.address).is_some_and(|offset| offset < self.file_size)
    }
}

/// An ELF file, mapped into memory.
#[derive(Debug)]
pub struct Elf {
    path: PathBuf,
    map: Arc<Mmap>,
    segments: Vec<Segment>,
}

impl Elf {
    /// Maps a file and reads its ELF headers.
    ///
    /// # Errors
    /// When it cannot be opened or is no ELF file; says what it is instead where that is plain.
    pub fn open(path: &Path) -> Result<Self> {
        let failed = || format!("cannot open {}", path.display());
        // Opening a pipe would wait for somebody to write, opening a device may do anything.
        if !std::fs::metadata(path).with_context(failed)?.is_file() {
            bail!("{} is not a file", path.display());
        }
        let file = File::open(path).with_context(failed)?;
        // SAFETY: the mapping is private and only read. A file that is cut while it is mapped would raise
        // SIGBUS; programs are replaced by renaming, and the kernel refuses to write to a running one.
        let map = unsafe { Mmap::map(&file) }
            .with_context(|| format!("cannot map {} into memory", path.display()))?;
        if !map.starts_with(b"\x7fELF") {
            bail!("{} is not an ELF file: {}", path.display(), what_else(&map));
        }
        let segments = {
            let object = parse(&map, path)?;
            let segment = |s: object::Segment| {
                let (file_offset, file_size) = s.file_range();
                Segment {
                    address: s.address(),
                    file_offset,
                    file_size,
                    executable: s.permissions().executable(),
                }
            };
            object.segments().map(segment).collect()
        };
        Ok(Self { path: path.to_owned(), map: Arc::new(map), segments })
    }

    /// The path that it was opened by.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it is of Go: its runtime walks and moves stacks, and knows only its own return addresses.
    #[must_use]
    pub fn is_go(&self) -> bool {
        let named = |object: &object::File<'_>| {
            [".note.go.buildid", ".go.buildinfo"].iter().any(|name| object.section_by_name(name).is_some())
        };
        parse(&self.map, &self.path).is_ok_and(|object| named(&object))
    }

    /// The whole file.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.map
    }

    /// Lets go of the memory that what has been read of the file takes up here: it stays in the kernel's cache, and comes
    /// back when it is read again.
    pub(crate) fn forget(&self) {
        // SAFETY: the mapping is of a file and never written to: what comes back is what was there. What fails leaves
        // everything as it was.
        let _ = unsafe { self.map.unchecked_advise(UncheckedAdvice::DontNeed) };
    }

    /// The loadable segments, in the order of the program headers.
    #[must_use]
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Whether an address is in an executable segment.
    #[must_use]
    pub fn is_code(&self, address: u64) -> bool {
        self.segments.iter().any(|s| s.executable && s.contains(address))
    }

    /// Where the byte at an ELF virtual address stands in the file; `None` outside executable segments.
    #[must_use]
    pub fn file_offset(&self, address: u64) -> Option<u64> {
        let segment = self.segments.iter().find(|s| s.executable && s.contains(address))?;
        segment.file_offset.checked_add(address - segment.address)
    }

    /// The code from an ELF virtual address on, at most one instruction's length; empty outside executable segments.
    #[must_use]
    pub fn code(&self, address: u64) -> &[u8] {
        /// The longest that x86-64 has.
        const INSTRUCTION: usize = 15;
        let from = self.file_offset(address).and_then(|offset| usize::try_from(offset).ok());
        let rest = from.and_then(|from| self.map.get(from..)).unwrap_or_default();
        &rest[..rest.len().min(INSTRUCTION)]
    }

    /// The parsed headers, for as long as the borrow lasts. Cheap: tables are read where they lie.
    ///
    /// # Errors
    /// When the headers are broken.
    pub(crate) fn object(&self) -> Result<object::File<'_>> {
        parse(&self.map, &self.path)
    }

    /// A section's bytes, decompressed if need be; empty where there is none.
    ///
    /// # Errors
    /// When it points outside the file or cannot be decompressed.
    pub(crate) fn section(&self, object: &object::File<'_>, name: &str) -> Result<SectionBytes> {
        let Some(section) = object.section_by_name(name) else { return Ok(SectionBytes::default()) };
        let failed = || anyhow!("section {name} of {} is damaged", self.path.display());
        let range = section.compressed_file_range().map_err(|e| failed().context(e))?;
        // zlib and zstd both give less than this; a larger claim is damage, and not worth an allocation.
        if range.uncompressed_size / 2000 > range.compressed_size.max(1) {
            return Err(failed());
        }
        match section.uncompressed_data().map_err(|e| failed().context(e))? {
            Cow::Owned(data) => Ok(SectionBytes::Owned(data)),
            Cow::Borrowed(data) => {
                let begin = (data.as_ptr() as usize).wrapping_sub(self.map.as_ptr() as usize);
                let range = begin..begin.wrapping_add(data.len());
                if self.map.get(range.clone()).is_none() {
                    return Ok(SectionBytes::default());
                }
                Ok(SectionBytes::Mapped(Arc::clone(&self.map), range))
            }
        }
    }
}

/// The bytes of a section: in the mapped file, or decompressed.
#[derive(Debug)]
pub(crate) enum SectionBytes {
    /// As they stand in the file.
    Mapped(Arc<Mmap>, Range<usize>),
    /// Decompressed, or empty.
    Owned(Vec<u8>),
}

impl Default for SectionBytes {
    fn default() -> Self {
        Self::Owned(Vec::new())
    }
}

impl Deref for SectionBytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Self::Mapped(map, range) => map.get(range.clone()).unwrap_or_default(),
            Self::Owned(data) => data,
        }
    }
}

fn parse<'a>(map: &'a Mmap, path: &Path) -> Result<object::File<'a>> {
    object::File::parse(&**map).with_context(|| format!("the ELF headers of {} are damaged", path.display()))
}

fn what_else(bytes: &[u8]) -> &'static str {
    match bytes {
        [] => "it is empty",
        [b'#', b'!', ..] => "it is a script; profile its interpreter instead",
        [b'M', b'Z', ..] => "it is a Windows program",
        _ => "its first bytes are not those of a program",
    }
}
