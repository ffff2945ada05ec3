//! The text of a source line, where its file is at hand.

use crate::experiment::record::Samples;
use std::{
    collections::HashMap,
    fs::{self, File},
    io::{BufRead, BufReader, Read},
    path::Path,
};

/// Longer files are not source that someone reads.
const LONGEST: u64 = 16 << 20;

/// Reads source lines, each file once.
#[derive(Debug, Default)]
pub struct Sources {
    files: HashMap<String, Vec<String>>,
}

impl Sources {
    /// The text of a line, counted from 1; `None` where there is no such file or line, or it is not text.
    pub fn line(&mut self, file: &str, number: u32) -> Option<&str> {
        let text = self.raw(file, number)?.trim();
        (!text.is_empty()).then_some(text)
    }

    /// The same as it stands there: indented, or empty.
    pub fn raw(&mut self, file: &str, number: u32) -> Option<&str> {
        if !self.files.contains_key(file) {
            self.files.insert(file.to_owned(), read(Path::new(file)).unwrap_or_default());
        }
        self.files.get(file)?.get((number as usize).checked_sub(1)?).map(String::as_str)
    }
}

/// Longer lines are not kept: what tells lines apart stands before that.
const KEPT: usize = 160;

/// The samples with the text of their lines, read as this user could: a program's debug information may name any file as
/// its source. What can not be read stays without.
#[must_use]
pub fn with_texts(mut samples: Vec<Samples>, uid: u32, gid: u32) -> Vec<Samples> {
    std::thread::scope(|scope| {
        // Whose files may be read is a matter of each thread.
        let reading = std::thread::Builder::new().name("coz-sources".into()).spawn_scoped(scope, || {
            nix::unistd::setfsgid(gid.into());
            nix::unistd::setfsuid(uid.into());
            let mut sources = Sources::default();
            for sampled in &mut samples {
                if let Some((file, line)) = sampled.file.as_deref().zip(sampled.line) {
                    let text = sources.line(file, line);
                    sampled.text = text.map(|text| text.chars().take(KEPT).collect());
                }
            }
        });
        // Where there is no thread to be had there are no texts.
        if let Ok(reading) = reading {
            let _ = reading.join();
        }
    });
    samples
}

fn read(path: &Path) -> Option<Vec<String>> {
    // Only plain files: opening a pipe would wait for ever.
    let found = fs::metadata(path).ok()?;
    if !found.is_file() || found.len() > LONGEST {
        return None;
    }
    BufReader::new(File::open(path).ok()?.take(LONGEST)).lines().collect::<Result<_, _>>().ok()
}

/// File and number from `FILE:LINE`.
#[must_use]
pub fn split(location: &str) -> Option<(&str, u32)> {
    let (file, line) = location.rsplit_once(':')?;
    Some((file, line.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_line_is_found_or_not() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"first\n\n  third(1);\n").unwrap();
        let path = file.path().to_str().unwrap();
        let mut sources = Sources::default();
        assert_eq!(sources.line(path, 3), Some("third(1);"));
        for none in [0, 2, 4] {
            assert_eq!(sources.line(path, none), None, "line {none}");
        }
        assert_eq!(sources.line("/no/such/file.c", 1), None);
        assert_eq!(sources.line("/dev/zero", 1), None);
        assert_eq!(split("/a:b.c:12"), Some(("/a:b.c", 12)));
        assert_eq!(split("main"), None);
    }
}
