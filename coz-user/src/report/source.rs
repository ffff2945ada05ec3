//! The text of a source line: what the profile holds of it, or where its file is at hand.

use crate::experiment::record::{Excerpt, Profile, Samples};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, HashMap},
    fs::{self, File},
    io::{BufRead, BufReader, Read},
    path::Path,
};

/// Longer files are not source that someone reads.
const LONGEST: u64 = 16 << 20;

/// Lines that belong to a line's surroundings, before and after it.
pub const AROUND: u32 = 8;
/// What profiles hold of their lines' surroundings, bytes: all of it for some five hundred lines, those with most samples first.
const MOST: usize = 256 << 10;

/// Source lines: as a profile holds them, else from their files, each of which is read once.
#[derive(Debug, Default)]
pub struct Sources {
    recorded: HashMap<String, BTreeMap<u32, String>>,
    files: HashMap<String, Vec<String>>,
}

impl Sources {
    /// Those that the profile holds, and files that have not been edited since.
    #[must_use]
    pub fn of(profile: &Profile) -> Self {
        let mut recorded: HashMap<String, BTreeMap<u32, String>> = HashMap::new();
        for samples in &profile.samples {
            let Some(file) = samples.file.as_ref().filter(|_| !samples.around.is_empty()) else { continue };
            let lines = recorded.entry(file.clone()).or_default();
            for excerpt in &samples.around {
                for (number, text) in (excerpt.first..=u32::MAX).zip(&excerpt.lines) {
                    lines.entry(number).or_insert_with(|| text.clone());
                }
            }
        }
        Self { recorded, files: HashMap::new() }
    }

    /// The text of a line, counted from 1; `None` where there is no such file or line, or it is not text.
    pub fn line(&mut self, file: &str, number: u32) -> Option<&str> {
        let text = self.raw(file, number)?.trim();
        (!text.is_empty()).then_some(text)
    }

    /// The same as it stands there: indented, or empty.
    pub fn raw(&mut self, file: &str, number: u32) -> Option<&str> {
        let recorded = self.recorded.get(file);
        if let Some(text) = recorded.and_then(|lines| lines.get(&number)) {
            return Some(text);
        }
        if !self.files.contains_key(file) {
            let lines = read(Path::new(file)).unwrap_or_default();
            let at = |number: u32| lines.get((number as usize).checked_sub(1)?);
            let same = |(&number, text): (&u32, &String)| at(number).is_some_and(|line| cut(line) == *text);
            let is_same = recorded.is_none_or(|recorded| recorded.iter().all(same));
            self.files.insert(file.to_owned(), if is_same { lines } else { Vec::new() });
        }
        self.files.get(file)?.get((number as usize).checked_sub(1)?).map(String::as_str)
    }

    /// Of these lines of a file, what is there, each made what it is to be.
    pub fn excerpts(
        &mut self,
        file: &str,
        lines: &BTreeSet<u32>,
        make: impl Fn(&str) -> String,
    ) -> Vec<Excerpt> {
        let mut parts: Vec<Excerpt> = Vec::new();
        for &number in lines {
            let Some(text) = self.raw(file, number).map(&make) else { continue };
            match parts.last_mut() {
                Some(part) if part.first as usize + part.lines.len() == number as usize => {
                    part.lines.push(text);
                }
                _ => parts.push(Excerpt { first: number, lines: vec![text] }),
            }
        }
        parts
    }
}

/// The numbers of the lines around this one, itself included.
pub fn around(number: u32) -> impl Iterator<Item = u32> {
    number.saturating_sub(AROUND).max(1)..=number.saturating_add(AROUND)
}

/// Longer lines are not kept: what tells lines apart stands before that.
const KEPT: usize = 160;

fn cut(line: &str) -> String {
    line.trim_end().chars().take(KEPT).collect()
}

/// The samples with the text of their lines and of those around them, read as this user could: a program's debug information may name any file as
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
                    sampled.text = text.map(cut);
                }
            }
            add_surroundings(&mut samples, &mut sources);
        });
        // Where there is no thread to be had there are no texts.
        if let Ok(reading) = reading {
            let _ = reading.join();
        }
    });
    samples
}

fn add_surroundings(samples: &mut [Samples], sources: &mut Sources) {
    let mut order: Vec<&mut Samples> = samples.iter_mut().collect();
    order.sort_by_key(|sampled| Reverse(sampled.count));
    let (mut told, mut left) = (HashMap::<String, BTreeSet<u32>>::new(), MOST);
    for sampled in order {
        let Some((file, line)) = sampled.file.as_deref().zip(sampled.line) else { continue };
        let told = told.entry(file.to_owned()).or_default();
        let fresh: BTreeSet<u32> = around(line).filter(|&number| told.insert(number)).collect();
        let excerpts = sources.excerpts(file, &fresh, cut);
        let bytes: usize =
            excerpts.iter().flat_map(|excerpt| &excerpt.lines).map(|text| text.len() + 3).sum();
        let Some(rest) = left.checked_sub(bytes) else { return };
        left = rest;
        sampled.around = excerpts;
    }
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

    fn sampled(file: &str, line: u32, count: u64) -> Samples {
        Samples { file: Some(file.into()), line: Some(line), count, ..Samples::default() }
    }

    fn numbered(from: u32, to: u32) -> String {
        (from..=to).map(|number| format!("  line {number}\n")).collect()
    }

    #[test]
    fn a_profile_holds_each_line_around_its_own_once_and_shows_them_without_the_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), numbered(1, 100)).unwrap();
        let path = file.path().to_str().unwrap().to_owned();
        // SAFETY: asks only.
        let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
        let samples = with_texts(vec![sampled(&path, 20, 5), sampled(&path, 30, 9)], uid, gid);
        let ranges = |i: usize| {
            samples[i].around.iter().map(|part| (part.first, part.lines.len())).collect::<Vec<_>>()
        };
        assert_eq!(
            (ranges(0), ranges(1)),
            (vec![(12, 10)], vec![(22, 17)]),
            "the one with most samples has all of its own"
        );
        assert_eq!(samples[0].text.as_deref(), Some("line 20"));

        let profile = Profile { samples, ..Profile::default() };
        assert_eq!(Sources::of(&profile).raw(&path, 50), Some("  line 50"), "the same file still");
        fs::write(file.path(), numbered(2, 101)).unwrap();
        let mut sources = Sources::of(&profile);
        assert_eq!(sources.raw(&path, 13), Some("  line 13"), "as it was when it was profiled");
        assert_eq!(sources.raw(&path, 50), None, "what was not kept cannot be told from the edited file");
        drop(file);
        assert_eq!(Sources::of(&profile).line(&path, 38), Some("line 38"));
    }

    #[test]
    fn what_a_profile_holds_is_bounded() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), format!("{}\n", "é".repeat(2 * KEPT)).repeat(4_000)).unwrap();
        let path = file.path().to_str().unwrap();
        let mut samples: Vec<_> = (1..200).map(|n| sampled(path, n * 20, u64::from(n))).collect();
        add_surroundings(&mut samples, &mut Sources::default());
        let text = |samples: &Samples| {
            samples.around.iter().flat_map(|part| &part.lines).map(String::len).sum::<usize>()
        };
        let kept: usize = samples.iter().map(text).sum();
        assert!((MOST / 2..MOST).contains(&kept), "{kept} bytes");
        assert!(text(&samples[0]) == 0 && text(&samples[198]) > 0, "of the hottest lines");
    }

    #[test]
    fn numbers_that_no_file_has_do_no_harm() {
        let lines = vec!["x".to_owned(); 3];
        let around = vec![Excerpt { first: u32::MAX, lines: lines.clone() }, Excerpt { first: 0, lines }];
        let profile = Profile {
            samples: vec![Samples { around, ..sampled("/no/such/file", 1, 1) }],
            ..Profile::default()
        };
        assert_eq!(Sources::of(&profile).raw("/no/such/file", u32::MAX), Some("x"));
    }

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
