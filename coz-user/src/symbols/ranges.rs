//! The address ranges of an entry, from whichever attributes it has.

use super::dwarf::Slice;
use gimli::{Attribute, AttributeValue, Range, RangeListsOffset, UnitRef};

/// Collects `DW_AT_low_pc`, `DW_AT_high_pc` and `DW_AT_ranges` as an entry's attributes are read.
#[derive(Default)]
pub(crate) struct RangeAttributes {
    low: Option<u64>,
    high: Option<u64>,
    size: Option<u64>,
    list: Option<RangeListsOffset>,
    entry: Option<u64>,
}

impl RangeAttributes {
    /// Takes note of the attribute if it is one of those that count.
    pub(crate) fn note<'d>(
        &mut self,
        unit: UnitRef<'_, Slice<'d>>,
        attr: &Attribute<Slice<'d>>,
    ) -> gimli::Result<()> {
        match attr.name() {
            gimli::DW_AT_low_pc => self.low = unit.attr_address(attr.value())?,
            gimli::DW_AT_high_pc => match attr.value() {
                AttributeValue::Udata(size) => self.size = Some(size),
                value => self.high = unit.attr_address(value)?,
            },
            gimli::DW_AT_ranges => self.list = unit.attr_ranges_offset(attr.value())?,
            // An address, or (DWARF 5) an offset from the base address.
            gimli::DW_AT_entry_pc => self.entry = unit.attr_address(attr.value())?,
            _ => {}
        }
        Ok(())
    }

    /// The address where the entry is said to be entered.
    pub(crate) fn entry(&self) -> Option<u64> {
        self.entry
    }

    /// Calls `each` with every range that is not empty.
    pub(crate) fn each(
        &self,
        unit: UnitRef<'_, Slice<'_>>,
        mut each: impl FnMut(Range),
    ) -> gimli::Result<()> {
        let mut add = |range: Range| {
            if range.begin < range.end {
                each(range);
            }
        };
        if let Some(list) = self.list {
            let mut ranges = unit.ranges(list)?;
            while let Some(range) = ranges.next()? {
                add(range);
            }
        } else if let Some(begin) = self.low {
            // A tombstone as `low` wraps and gives an empty range.
            let end = self.high.or_else(|| self.size.map(|size| begin.wrapping_add(size)));
            add(Range { begin, end: end.unwrap_or(begin) });
        }
        Ok(())
    }
}
