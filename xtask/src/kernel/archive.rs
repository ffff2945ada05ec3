//! The kind of archive that kernels take as their first root (`cpio`, format `newc`).

use std::io::{self, Write};

/// Writes entries one after the other.
#[derive(Debug)]
pub(super) struct Archive<W: Write> {
    out: W,
    entries: u32,
}

/// File types (`st_mode`).
const FOLDER: u32 = 0o040_755;
const FILE: u32 = 0o100_755;

impl<W: Write> Archive<W> {
    pub(super) const fn new(out: W) -> Self {
        Self { out, entries: 0 }
    }

    /// A folder; those above it come first.
    pub(super) fn folder(&mut self, path: &str) -> io::Result<()> {
        self.entry(path, FOLDER, &[])
    }

    /// A file that may be executed.
    pub(super) fn file(&mut self, path: &str, data: &[u8]) -> io::Result<()> {
        self.entry(path, FILE, data)
    }

    /// The end.
    pub(super) fn finish(mut self) -> io::Result<W> {
        self.entry("TRAILER!!!", 0, &[])?;
        Ok(self.out)
    }

    fn entry(&mut self, path: &str, mode: u32, data: &[u8]) -> io::Result<()> {
        self.entries += 1;
        let too_long = |_| io::Error::other("a file of 4 GB or more");
        let size = u32::try_from(data.len()).map_err(too_long)?;
        let name = u32::try_from(path.len() + 1).map_err(too_long)?;
        // Number, mode, owner, group, links, time, size, device (two), device of a device file (two), length of the name, checksum.
        let words = [self.entries, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, name, 0];
        self.out.write_all(b"070701")?;
        for word in words {
            write!(self.out, "{word:08x}")?;
        }
        self.out.write_all(path.as_bytes())?;
        self.out.write_all(&[0])?;
        self.pad(6 + words.len() * 8 + path.len() + 1)?;
        self.out.write_all(data)?;
        self.pad(data.len())
    }

    fn pad(&mut self, written: usize) -> io::Result<()> {
        self.out.write_all(&[0; 3][..written.next_multiple_of(4) - written])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_begins_at_a_multiple_of_four() {
        let mut archive = Archive::new(Vec::new());
        archive.folder("bin").unwrap();
        archive.file("bin/a", b"12345").unwrap();
        let bytes = archive.finish().unwrap();
        assert_eq!(bytes.len() % 4, 0);
        let at: Vec<usize> =
            bytes.windows(6).enumerate().filter(|(_, six)| six == b"070701").map(|(at, _)| at).collect();
        assert_eq!(at.len(), 3, "two entries and the end");
        assert!(at.iter().all(|at| at % 4 == 0), "{at:?}");
        let text = String::from_utf8_lossy(&bytes);
        // 110 bytes of header and 6 of name are a multiple of four as they are.
        assert!(text.contains("bin/a\x0012345\0\0\0") && text.contains("TRAILER!!!"));
        // The size of the second: the eighth word.
        assert_eq!(&bytes[at[1] + 6 + 6 * 8..][..8], b"00000005");
    }
}
