//! From `.eh_frame` to the rows by which the kernel finds a frame's caller, a page at a time.
//!
//! Where a file has `.eh_frame_hdr`, as every linker writes it, nothing is read but what covers the page. Without it,
//! all frame descriptions are listed once. Damaged ones are left out: their code has no rows, and the kernel
//! falls back to the frame pointer there. Where two cover the same code, the one that begins later holds, as in the
//! runtime's own unwinder. Code that `.eh_frame` does
//! not cover (`-fno-asynchronous-unwind-tables`) may be in `.debug_frame`.

mod descriptions;
mod rules;

use super::elf::{Elf, SectionBytes};
use coz_common::lookup::PAGE_SIZE;
use coz_common::unwind::{CallerBp, Row, kind};
use descriptions::{Covering, Descriptions};
use gimli::{BaseAddresses, DebugFrame, EhFrame, EndianSlice, LittleEndian, UnwindContext, UnwindSection};
use object::{Object, ObjectSection};

/// How sections are read.
type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// What a module says of its frames.
#[derive(Debug, Default)]
pub struct UnwindTable {
    /// Later ones take precedence.
    parts: Vec<Part>,
}

/// A section of frame descriptions.
#[derive(Debug)]
struct Part {
    frames: SectionBytes,
    bases: BaseAddresses,
    is_debug: bool,
    descriptions: Descriptions,
}

/// More rows than bytes of code can only be damage: at most so many are looked at for a description.
const MAX_ROWS_OF_DESCRIPTION: usize = 1 << 16;

impl UnwindTable {
    /// Finds the sections of a module. A file that cannot be read, or has none, gives an empty table.
    #[must_use]
    pub fn of(elf: &Elf) -> Self {
        Self { parts: Self::parts(elf).unwrap_or_default() }
    }

    fn parts(elf: &Elf) -> Option<Vec<Part>> {
        let object = elf.object().ok()?;
        if object.architecture() != object::Architecture::X86_64 || !object.is_64() {
            return None;
        }
        let address = |name| object.section_by_name(name).map_or(0, |section| section.address());
        let bases = BaseAddresses::default()
            .set_eh_frame_hdr(address(".eh_frame_hdr"))
            .set_eh_frame(address(".eh_frame"))
            .set_text(address(".text"))
            .set_got(address(".got"));
        let bytes = |name| elf.section(&object, name).unwrap_or_default();
        let at = (address(".eh_frame_hdr"), address(".eh_frame"));
        Some(vec![
            Part::of_debug_frame(bytes(".debug_frame")),
            Part::of_eh_frame(bytes(".eh_frame"), bytes(".eh_frame_hdr"), at, bases),
        ])
    }

    /// Where the code of each frame description begins and ends, in order: nearly always a function, or a part of one that
    /// the compiler moved away. Reads all of them.
    #[must_use]
    pub fn functions(&self) -> Vec<(u64, u64)> {
        let mut functions: Vec<(u64, u64)> = self.parts.iter().flat_map(Part::code).collect();
        functions.retain(|(begin, end)| begin < end);
        functions.sort_unstable();
        functions.dedup_by_key(|(begin, _)| *begin);
        functions
    }

    /// The rows for the addresses from `page * 4096` on: sorted, the first starts at 0.
    #[must_use]
    pub fn page(&self, page: u32) -> Vec<Row> {
        let mut painting = Painting::new(u64::from(page) * PAGE_SIZE);
        for part in &self.parts {
            part.paint(&mut painting);
        }
        painting.rows()
    }
}

impl Part {
    /// `at`: the addresses of the header, and of the section itself.
    fn of_eh_frame(frames: SectionBytes, header: SectionBytes, at: (u64, u64), bases: BaseAddresses) -> Self {
        let descriptions = Descriptions::indexed(header, at)
            .unwrap_or_else(|| Descriptions::listed(&EhFrame::new(&frames, LittleEndian), &bases));
        Self { descriptions, frames, bases, is_debug: false }
    }

    fn of_debug_frame(frames: SectionBytes) -> Self {
        let bases = BaseAddresses::default();
        let descriptions = Descriptions::listed(&DebugFrame::new(&frames, LittleEndian), &bases);
        Self { descriptions, frames, bases, is_debug: true }
    }

    fn code(&self) -> Vec<(u64, u64)> {
        if self.is_debug {
            self.descriptions.code(&DebugFrame::new(&self.frames, LittleEndian), &self.bases)
        } else {
            self.descriptions.code(&EhFrame::new(&self.frames, LittleEndian), &self.bases)
        }
    }

    fn paint(&self, painting: &mut Painting) {
        let covering = self.descriptions.covering(painting.begin, painting.end());
        if self.is_debug {
            let mut frames = DebugFrame::new(&self.frames, LittleEndian);
            frames.set_address_size(8);
            paint(&frames, &self.bases, &covering, painting);
        } else {
            let mut frames = EhFrame::new(&self.frames, LittleEndian);
            frames.set_address_size(8);
            paint(&frames, &self.bases, &covering, painting);
        }
    }
}

/// Paints what these descriptions say; those that are damaged, as far as they go.
fn paint<'a, S: UnwindSection<Slice<'a>>>(
    frames: &S,
    bases: &BaseAddresses,
    covering: &Covering,
    painting: &mut Painting,
) where
    S::Offset: gimli::UnwindOffset<usize>,
{
    let mut context = UnwindContext::new();
    for &offset in &covering.offsets {
        let Ok(description) = frames.fde_from_offset(bases, offset.into(), S::cie_from_offset) else {
            continue;
        };
        let (from, to) = (description.initial_address(), description.end_address());
        // What lay under it is not true of this code, even where nothing better comes.
        painting.paint(from, to, painting.unknown());
        let Ok(mut table) = description.rows(frames, bases, &mut context) else { continue };
        for _ in 0..MAX_ROWS_OF_DESCRIPTION {
            let Ok(Some(row)) = table.next_row() else { break };
            if row.start_address() >= painting.end() {
                break;
            }
            let rule = match description.is_signal_trampoline() {
                true => Row::new(0, kind::SIGNAL, 0, CallerBp::Kept),
                false => rules::row(row, frames),
            };
            painting.paint(row.start_address().max(from), row.end_address().min(to), rule);
        }
    }
}

/// Which row each byte of a page belongs to.
struct Painting {
    begin: u64,
    rows: Vec<Row>,
    bytes: Vec<u16>,
}

impl Painting {
    fn new(begin: u64) -> Self {
        let unknown = Row::new(0, kind::UNKNOWN, 0, CallerBp::Kept);
        Self { begin, rows: vec![unknown], bytes: vec![0; PAGE_SIZE as usize] }
    }

    fn unknown(&self) -> Row {
        self.rows.first().copied().unwrap_or_default()
    }

    fn end(&self) -> u64 {
        self.begin.saturating_add(PAGE_SIZE)
    }

    /// Who comes last has the byte.
    fn paint(&mut self, from: u64, to: u64, row: Row) {
        let index = |address: u64| (address.saturating_sub(self.begin)).min(PAGE_SIZE) as usize;
        let (from, to) = (index(from), index(to));
        if from >= to {
            return;
        }
        // The same few rules come again and again: the last ones are looked through.
        let known = self.rows.iter().rposition(|known| *known == row);
        let number = known.or_else(|| {
            self.rows.push(row);
            Some(self.rows.len() - 1)
        });
        // At most one for each byte that is painted, twice: fits.
        let Some(number) = number.and_then(|number| u16::try_from(number).ok()) else { return };
        if let Some(bytes) = self.bytes.get_mut(from..to) {
            bytes.fill(number);
        }
    }

    fn rows(&self) -> Vec<Row> {
        let mut rows: Vec<Row> = Vec::new();
        let mut last = None;
        for (start, number) in (0..).zip(&self.bytes) {
            if last != Some(number) {
                last = Some(number);
                rows.push(self.rows.get(usize::from(*number)).copied().unwrap_or_default().at(start));
            }
        }
        rows
    }
}

#[cfg(test)]
mod tests;
