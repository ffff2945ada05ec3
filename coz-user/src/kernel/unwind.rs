//! Where the code of processes is, and the rows by which the kernel finds a frame's caller.

use anyhow::{Context, Result, bail};
use aya::maps::{Array, HashMap, MapError};
use coz_common::{
    abi::{PageKey, PageSlice},
    unwind::{AddressSpace, MAX_ROWS, Range, Row, Wanted},
};

use super::load::Kernel;

macro_rules! pod {
    ($($name:ident($inner:ty)),* $(,)?) => {$(
        #[derive(Clone, Copy)]
        #[repr(transparent)]
        struct $name($inner);
        // SAFETY: repr(C), integers only, explicit padding: every bit pattern is a value and no byte is uninitialised.
        unsafe impl aya::Pod for $name {}
    )*};
}
pod!(Key(PageKey), Slice(PageSlice), PodRow(Row), Space(AddressSpace), Request(Wanted));

/// How much of the table of rows is in use.
#[derive(Debug, Default)]
pub struct RowSpace {
    used: u32,
}

impl Kernel {
    /// Adds a page's rows to the table: the rows first, then what points to them. A page is added once.
    ///
    /// # Errors
    /// Where the table is full.
    pub fn add_rows(&mut self, space: &mut RowSpace, key: PageKey, rows: &[Row]) -> Result<()> {
        let len = rows.len() as u32;
        if len == 0 {
            bail!("a page of code without a row");
        }
        if space.used + len > MAX_ROWS {
            bail!(
                "the table for unwinding is full: samples in library code not met so far count for no line"
            );
        }
        let mut table: Array<_, PodRow> = Array::try_from(self.ebpf.map_mut("ROWS").context("no map ROWS")?)?;
        for (index, row) in (space.used..).zip(rows) {
            table.set(index, PodRow(*row), 0).context("cannot fill the table for unwinding")?;
        }
        let mut pages: HashMap<_, Key, Slice> =
            HashMap::try_from(self.ebpf.map_mut("ROW_PAGES").context("no map ROW_PAGES")?)?;
        pages
            .insert(Key(key), Slice(PageSlice { first: space.used, len }), 0)
            .context("cannot add a page to the table for unwinding")?;
        space.used += len;
        Ok(())
    }

    /// Lets the kernel ask for this once more.
    pub fn may_ask_again(&mut self, wanted: Wanted) {
        let Some(map) = self.ebpf.map_mut("WANTED") else { return };
        if let Ok(mut map) = HashMap::<_, Request, u64>::try_from(map) {
            // It is gone already, or it is not: either way it can ask.
            let _ = map.remove(&Request(wanted));
        }
    }

    /// Makes an address space of these mappings, sorted by address.
    ///
    /// # Errors
    /// Where there are too many.
    pub fn add_space(&mut self, number: u32, sorted: &[Range]) -> Result<()> {
        let mut map: HashMap<_, u32, Space> =
            HashMap::try_from(self.ebpf.map_mut("SPACES").context("no map SPACES")?)?;
        let space = Space(AddressSpace::of(sorted));
        map.insert(number, space, 0).context("cannot tell the kernel where a process's code is")
    }

    /// Removes the address spaces that no process has any more, except the `newest`; which they were.
    ///
    /// # Errors
    /// Where the maps can not be read.
    pub fn sweep_spaces(&mut self, newest: u32) -> Result<Vec<u32>> {
        let used = self.spaces_in_use()?;
        let mut map: HashMap<_, u32, Space> =
            HashMap::try_from(self.ebpf.map_mut("SPACES").context("no map SPACES")?)?;
        let all: Vec<u32> = map.keys().collect::<Result<_, MapError>>()?;
        let gone: Vec<u32> =
            all.into_iter().filter(|number| *number != newest && !used.contains(number)).collect();
        for number in &gone {
            map.remove(number).context("cannot remove an address space")?;
        }
        Ok(gone)
    }
}
