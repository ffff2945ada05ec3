//! Which frame descriptions cover a stretch of code.

use super::super::elf::SectionBytes;
use super::Slice;
use gimli::{BaseAddresses, CieOrFde, UnwindSection};

/// All frame descriptions of a module, by where their code begins.
#[derive(Debug)]
pub(super) enum Descriptions {
    /// `.eh_frame_hdr`: sorted pairs of address and description, as the linker wrote them.
    Indexed {
        header: SectionBytes,
        /// Addresses of the header, and of `.eh_frame`.
        at: (u64, u64),
    },
    /// Listed by us: begin, end, offset of the description.
    Listed(Vec<(u64, u64, usize)>),
}

impl Default for Descriptions {
    fn default() -> Self {
        Self::Listed(Vec::new())
    }
}

/// Descriptions that may cover a stretch of code, in the order of their code.
#[derive(Debug, Default)]
pub(super) struct Covering {
    /// Where they stand in their section.
    pub(super) offsets: Vec<usize>,
}

/// Bytes before the table of `.eh_frame_hdr`, in the only form that linkers write.
const HEADER: usize = 12;
/// A list beyond this is damage: a program of a gigabyte has a few million.
const MAX_LISTED: usize = 16 << 20;

impl Descriptions {
    /// From `.eh_frame_hdr`: version 1, offsets of four bytes from the header itself. `None`: not of this form, or not sorted
    /// as far as was looked at.
    pub(super) fn indexed(header: SectionBytes, at: (u64, u64)) -> Option<Self> {
        /// `DW_EH_PE_udata4`.
        const COUNT: u8 = 0x03;
        /// `DW_EH_PE_datarel | DW_EH_PE_sdata4`.
        const TABLE: u8 = 0x3b;
        match header.get(..4)? {
            &[1, _, COUNT, TABLE] => {}
            _ => return None,
        }
        let all = Self::Indexed { header, at };
        (all.len() > 0).then_some(all)
    }

    /// From the section itself, whatever its order. What comes after damage is not found.
    pub(super) fn listed<'a, S: UnwindSection<Slice<'a>>>(frames: &S, bases: &BaseAddresses) -> Self
    where
        S::Offset: gimli::UnwindOffset<usize>,
    {
        let mut listed = Vec::new();
        let mut entries = frames.entries(bases);
        while let Ok(Some(entry)) = entries.next() {
            let CieOrFde::Fde(partial) = entry else { continue };
            // A description whose common part is damaged says nothing; the next ones may have another.
            if let Ok(description) = partial.parse(S::cie_from_offset)
                && listed.len() < MAX_LISTED
            {
                let (begin, end) = (description.initial_address(), description.end_address());
                listed.push((begin, end, description.offset()));
            }
        }
        listed.sort_unstable();
        Self::Listed(listed)
    }

    /// Begin and end of the code of all of them.
    pub(super) fn code<'a, S: UnwindSection<Slice<'a>>>(
        &self,
        frames: &S,
        bases: &BaseAddresses,
    ) -> Vec<(u64, u64)>
    where
        S::Offset: gimli::UnwindOffset<usize>,
    {
        match self {
            Self::Indexed { .. } => Self::listed(frames, bases).code(frames, bases),
            Self::Listed(listed) => listed.iter().map(|&(begin, end, _)| (begin, end)).collect(),
        }
    }

    /// How many there are, as far as they are really there.
    fn len(&self) -> usize {
        match self {
            Self::Indexed { header, .. } => {
                let claimed = word(header, 8).map_or(0, |count| count as u32 as usize);
                claimed.min(header.len().saturating_sub(HEADER) / 8)
            }
            Self::Listed(listed) => listed.len(),
        }
    }

    /// Where the code of one of them begins.
    fn begin(&self, index: usize) -> u64 {
        match self {
            Self::Indexed { header, at } => {
                at.0.wrapping_add_signed(i64::from(word(header, HEADER + 8 * index).unwrap_or(0)))
            }
            Self::Listed(listed) => listed.get(index).map_or(u64::MAX, |entry| entry.0),
        }
    }

    /// Where one of them stands in its section.
    fn offset(&self, index: usize) -> Option<usize> {
        match self {
            Self::Indexed { header, at } => {
                let address = at.0.wrapping_add_signed(i64::from(word(header, HEADER + 8 * index + 4)?));
                usize::try_from(address.checked_sub(at.1)?).ok()
            }
            Self::Listed(listed) => listed.get(index).map(|entry| entry.2),
        }
    }

    /// Those whose code begins in the stretch, and the last one before it: at most one for each byte.
    pub(super) fn covering(&self, begin: u64, end: u64) -> Covering {
        let count = self.len();
        let (mut low, mut high) = (0, count);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.begin(middle) <= begin { low = middle + 1 } else { high = middle }
        }
        let first = low.saturating_sub(1);
        let inside = (first..count).take_while(|&index| self.begin(index) < end);
        let mut offsets: Vec<usize> = inside.take(MAX_COVERING).filter_map(|i| self.offset(i)).collect();
        if let Self::Listed(listed) = self {
            // Here the ends are known: one further back may reach in.
            let before = listed.get(..first).unwrap_or_default().iter().rev().take(MAX_REACHING);
            let reaching: Vec<usize> = before.filter(|entry| entry.1 > begin).map(|entry| entry.2).collect();
            offsets.splice(0..0, reaching.into_iter().rev());
        }
        Covering { offsets }
    }
}

/// One for each byte of a page.
const MAX_COVERING: usize = 4096;
/// How many before a stretch are looked at for one that reaches into it.
const MAX_REACHING: usize = 16;

fn word(bytes: &[u8], at: usize) -> Option<i32> {
    let four = bytes.get(at..at.checked_add(4)?)?;
    Some(i32::from_le_bytes(four.try_into().ok()?))
}
