//! Code that processes make while they run: the perf map of each, read on as it grows.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    fs::File,
    io::{Read, Seek, SeekFrom},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use coz_common::{
    abi::{LineEntry, PageKey},
    unwind::FIRST_JIT as FIRST,
};

use crate::{
    symbols::{ANONYMOUS, JitMap, Lines},
    target::process::{self, CodeMapping},
};

use super::runtimes::{self, Maker};

/// Half of the addresses that a page's number can reach: code may be so far below the first mapping that was seen.
const BELOW: u64 = 1 << 43;
/// So much of a map is read at once.
const PIECE: u64 = 4 << 20;

/// A process that makes code.
#[derive(Debug)]
pub struct Jit {
    map: Mutex<JitMap>,
    /// What to subtract (wrapping) from an address to get the module-relative one.
    bias: u64,
}

impl Jit {
    /// The entries of a page; its number counts from `bias`.
    pub fn page(&self, page: u32, lines: &mut Lines) -> Vec<LineEntry> {
        let begin = (u64::from(page) << 12).wrapping_add(self.bias);
        self.map.lock().unwrap_or_else(PoisonError::into_inner).page(begin, lines)
    }
}

/// What is known of one.
#[derive(Debug)]
struct Known {
    jit: Arc<Jit>,
    pid: u32,
    path: PathBuf,
    read: u64,
    file: Option<(u64, u64)>,
    /// Pages that have been asked for, and what was last said of them.
    asked: BTreeMap<u32, Vec<LineEntry>>,
}

/// Less than this much code outside of files is no compiler's: trampolines of libraries are a page or two.
const LEAST: u64 = 64 << 10;

/// All of them.
#[derive(Debug, Default)]
pub struct Jits {
    known: Vec<Known>,
    by_pid: HashMap<u32, u32>,
    /// Processes with code that is in no file, whoever asks for that, and where they write their maps. The last program of each process
    /// is the last one of its id here.
    makers: Vec<(Maker, PathBuf)>,
    /// Processes whose program is another one since.
    over: HashSet<u32>,
}

impl Jits {
    /// The number and the bias of a process's code; `start`: where some of it is.
    pub fn of(&mut self, pid: u32, start: u64) -> Option<(u32, u64)> {
        let number = match self.by_pid.get(&pid) {
            Some(number) => *number,
            None => {
                let number = FIRST.checked_add(u32::try_from(self.known.len()).ok()?)?;
                let bias = (start & !0xFFF).wrapping_sub(BELOW);
                let jit = Arc::new(Jit { map: Mutex::default(), bias });
                let path = map_of(pid);
                self.known.push(Known { jit, pid, path, read: 0, file: None, asked: BTreeMap::new() });
                self.by_pid.insert(pid, number);
                number
            }
        };
        let bias = self.get(number)?.bias;
        (start.wrapping_sub(bias) < 2 * BELOW).then_some((number, bias))
    }

    /// A process has these mappings of code: whether it is one that makes code.
    pub fn seen(&mut self, pid: u32, mappings: &[CodeMapping]) {
        let is_made = |mapping: &&CodeMapping| mapping.path == Path::new(ANONYMOUS);
        let made = mappings.iter().filter(is_made).map(|mapping| mapping.end.saturating_sub(mapping.start));
        let is_known = self.makers.iter().any(|(maker, _)| maker.pid == pid) && !self.over.contains(&pid);
        if is_known || made.sum::<u64>() < LEAST {
            return;
        }
        self.over.remove(&pid);
        let program = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
        let program = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let runtime = runtimes::recognise(&program, mappings.iter().map(|mapping| mapping.path.as_path()));
        self.makers.push((Maker { program, pid, runtime, has_map: false }, map_of(pid)));
    }

    /// The processes that made code.
    pub fn makers(&self) -> Vec<Maker> {
        self.makers.iter().map(|(maker, _)| maker.clone()).collect()
    }

    /// The one with this number.
    pub fn get(&self, number: u32) -> Option<&Arc<Jit>> {
        self.known.get(number.checked_sub(FIRST)? as usize).map(|known| &known.jit)
    }

    /// A page of one has been asked for.
    pub fn asked(&mut self, key: PageKey) {
        if let Some(known) = key.module.checked_sub(FIRST).and_then(|at| self.known.get_mut(at as usize)) {
            known.asked.entry(key.page).or_default();
        }
    }

    /// Whether a page says something else than before (always, if it is of no such process).
    pub fn is_news(&mut self, key: PageKey, entries: &[LineEntry]) -> bool {
        let known = key.module.checked_sub(FIRST).and_then(|at| self.known.get_mut(at as usize));
        let Some(known) = known else { return true };
        let said = known.asked.entry(key.page).or_default();
        let news = said.as_slice() != entries;
        entries.clone_into(said);
        news
    }

    /// Reads on in all maps; the pages that have been asked for and about which there is something new.
    pub fn read_on(&mut self) -> Vec<PageKey> {
        for (maker, path) in self.makers.iter_mut().filter(|(maker, _)| !maker.has_map) {
            maker.has_map = path.exists();
        }
        let mut pages = Vec::new();
        for (number, known) in (FIRST..).zip(&mut self.known) {
            let Some(piece) = known.next_piece() else { continue };
            let added = known.jit.map.lock().unwrap_or_else(PoisonError::into_inner).add(&piece);
            let page = |address: u64| u32::try_from(address.wrapping_sub(known.jit.bias) >> 12).ok();
            let mut changed = BTreeSet::new();
            for (start, end) in added {
                if let (Some(first), Some(last)) = (page(start), page(end - 1))
                    && first <= last
                {
                    changed.extend(known.asked.range(first..=last).map(|(page, _)| *page));
                }
            }
            pages.extend(changed.into_iter().map(|page| PageKey { module: number, page }));
        }
        pages
    }

    /// A process has ended, or has another program now: its map is not read any more. What is known of its code stays, for
    /// children that it forked.
    pub fn ended(&mut self, pid: u32) {
        self.by_pid.remove(&pid);
        self.over.insert(pid);
        for known in self.known.iter_mut().filter(|known| known.pid == pid) {
            known.path = PathBuf::new();
        }
    }
}

impl Known {
    fn next_piece(&mut self) -> Option<Vec<u8>> {
        if self.path.as_os_str().is_empty() {
            return None;
        }
        // Whoever can write into that folder could put something else there.
        let mut file = File::options()
            .read(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open(&self.path)
            .ok()?;
        let meta = file.metadata().ok()?;
        let owner = process::status(self.pid as i32).ok().flatten()?.uids[1];
        if !meta.is_file() || (meta.uid() != owner && meta.uid() != 0) {
            return None;
        }
        let this = (meta.dev(), meta.ino());
        if self.file != Some(this) || meta.len() < self.read {
            (self.file, self.read) = (Some(this), 0);
        }
        if meta.len() == self.read {
            return None;
        }
        file.seek(SeekFrom::Start(self.read)).ok()?;
        let mut piece = Vec::new();
        file.take(PIECE).read_to_end(&mut piece).ok()?;
        self.read += piece.len() as u64;
        Some(piece)
    }
}

/// Where a process writes its map: by its id as it knows it itself, in the folder that it sees.
fn map_of(pid: u32) -> PathBuf {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let own = process::status_field(&text, "NSpid").and_then(|ids| ids.split_ascii_whitespace().next_back());
    let own = own.and_then(|id| id.parse().ok()).unwrap_or(pid);
    PathBuf::from(format!("/proc/{pid}/root/tmp/perf-{own}.map"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_makes_code_and_writes_no_map_is_known() {
        let (mut jits, me) = (Jits::default(), std::process::id());
        let mapped = |bytes: u64| {
            let text = format!(
                "1000-2000 r-xp 00000000 08:01 7 /usr/lib/libluajit-5.1.so.2\n100000-{:x} rwxp 00000000 00:00 0\n",
                0x10_0000 + bytes
            );
            process::parse_mappings(text.as_bytes())
        };
        jits.seen(me, &mapped(0x2000));
        assert!(jits.makers().is_empty(), "some trampolines");
        jits.seen(me, &mapped(1 << 20));
        jits.seen(me, &mapped(2 << 20));
        jits.read_on();
        let found = jits.makers();
        assert_eq!((found.len(), found[0].pid, found[0].has_map), (1, me, false), "{found:?}");
        assert!(found[0].program.starts_with("coz_user"), "{found:?}");
        assert_eq!(found[0].runtime.map(|runtime| runtime.name), Some("LuaJIT"));
        jits.makers[0].1 = std::env::current_exe().unwrap();
        jits.read_on();
        assert!(jits.makers()[0].has_map, "it has one now");
    }

    #[test]
    fn a_map_is_read_as_it_grows() {
        let me = std::process::id();
        let path = std::path::Path::new("/tmp").join(format!("perf-{me}.map"));
        assert_eq!(map_of(me), PathBuf::from(format!("/proc/{me}/root/tmp/perf-{me}.map")));
        let mut jits = Jits::default();
        let (number, bias) = jits.of(me, 0x7000_1234_5000).unwrap();
        assert_eq!(jits.of(me, 0x7000_0000_0000), Some((number, bias)), "below the first");
        assert_eq!(jits.of(me, 0x10_0000), None, "too far away");
        let page = ((0x7000_1234_5000 - bias) >> 12) as u32;
        let key = PageKey { module: number, page };
        jits.asked(key);
        assert!(jits.read_on().is_empty(), "there is no map yet");
        std::fs::write(&path, "700012345010 20 f\n").unwrap();
        assert_eq!(jits.read_on(), [key]);
        let mut lines = Lines::new();
        let entries = jits.get(number).unwrap().page(page, &mut lines);
        assert_eq!(entries.iter().map(|e| e.start).collect::<Vec<_>>(), [0, 0x10, 0x30]);
        assert!(jits.is_news(key, &entries) && !jits.is_news(key, &entries));
        assert!(jits.read_on().is_empty(), "nothing new");
        std::fs::remove_file(&path).unwrap();
        assert!(jits.is_news(PageKey { module: 1, page: 0 }, &[]), "of a file: always");
        jits.ended(me);
        assert_ne!(jits.of(me, 0x7000_1234_5000).unwrap().0, number, "another program");
    }
}
