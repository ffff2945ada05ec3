//! The line table that the kernel searches, and the addresses that it could not find there.

use anyhow::{Context, Result, bail};
use aya::maps::{Array, HashMap};
use coz_common::abi::{LineCount, LineEntry, MAX_ENTRIES, Nest, PageKey, PageSlice, PendingKey};

use super::load::Kernel;

macro_rules! pod {
    ($($name:ident($inner:ty)),* $(,)?) => {$(
        #[derive(Clone, Copy, PartialEq, Eq)]
        #[repr(transparent)]
        struct $name($inner);
        // SAFETY: repr(C), integers only, explicit padding: every bit pattern is a value and no byte is uninitialised.
        unsafe impl aya::Pod for $name {}
    )*};
}
pod!(Key(PageKey), Slice(PageSlice), Entry(LineEntry), Address(PendingKey), Count(LineCount), Within(Nest));

/// How much of the table is in use.
#[derive(Debug, Default)]
pub struct TableSpace {
    used: u32,
    nests: u32,
}

impl Kernel {
    /// Adds a page's entries to the table: the entries first, then what points to them. A page is added once.
    ///
    /// # Errors
    /// Where the table is full.
    pub fn add_page(&mut self, space: &mut TableSpace, key: PageKey, entries: &[LineEntry]) -> Result<()> {
        let len = entries.len() as u32;
        if len == 0 {
            bail!("a page of code without an entry");
        }
        if space.used + len > MAX_ENTRIES {
            bail!("the line table is full: narrow the scope with --scope-source");
        }
        let mut lines: Array<_, Entry> =
            Array::try_from(self.ebpf.map_mut("LINES").context("no map LINES")?)?;
        for (index, entry) in (space.used..).zip(entries) {
            lines.set(index, Entry(*entry), 0).context("cannot fill the line table")?;
        }
        let mut pages: HashMap<_, Key, Slice> =
            HashMap::try_from(self.ebpf.map_mut("PAGES").context("no map PAGES")?)?;
        pages
            .insert(Key(key), Slice(PageSlice { first: space.used, len }), 0)
            .context("cannot add a page to the line table")?;
        space.used += len;
        Ok(())
    }

    /// Adds the lines within others that have come: before the pages that name them.
    ///
    /// # Errors
    /// Where the table is full.
    pub fn add_nests(&mut self, space: &mut TableSpace, nests: &[Nest]) -> Result<()> {
        if nests.is_empty() {
            return Ok(());
        }
        let mut map: Array<_, Within> = Array::try_from(self.ebpf.map_mut("NESTS").context("no map NESTS")?)?;
        for nest in nests {
            map.set(space.nests, Within(*nest), 0).context("cannot fill the table of lines within others")?;
            space.nests += 1;
        }
        Ok(())
    }

    /// Takes out the addresses that were sampled and not found.
    ///
    /// # Errors
    /// Where the map can not be read.
    pub fn take_pending(&mut self) -> Result<Vec<(PendingKey, LineCount)>> {
        let mut map: HashMap<_, Address, Count> =
            HashMap::try_from(self.ebpf.map_mut("PENDING").context("no map PENDING")?)?;
        let keys: Vec<Address> = map.keys().filter_map(Result::ok).collect();
        let mut taken = Vec::with_capacity(keys.len());
        for key in keys {
            if let Ok(count) = map.get(&key, 0) {
                // Gone already, or counted once more in between: at most a sample is lost, early in the run.
                let _ = map.remove(&key);
                taken.push((key.0, count.0));
            }
        }
        Ok(taken)
    }
}
