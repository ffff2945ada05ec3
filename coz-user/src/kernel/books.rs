//! The books: the tables in which threads say what they have paid, one for each user. Whoever has a descriptor of one can write all of
//! it, so the processes of a user get that user's, and nobody else's.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, OwnedFd, RawFd},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use anyhow::{Context, Result, bail};
use aya::maps::{Map, MapData};
use coz_common::abi::{KernelSlot, MAX_BOOKS, MAX_SLOTS, NO_BOOK, TargetSlot};

use super::{
    mapped::MappedArray,
    raw_map::{ARRAY, MMAPABLE, RawMap},
};

/// The place of `SLOTS` among the other maps.
const SLOTS: usize = 2;

/// What a process gets: the maps in the order of `abi::HELLO_REGISTER`, and the number of the book among them (`Process::book`).
#[derive(Clone, Debug)]
pub struct Given {
    /// The number.
    pub book: u32,
    /// The maps.
    pub maps: [Arc<OwnedFd>; 5],
}

/// All books. Copies are of the same ones.
#[derive(Clone, Debug)]
pub struct Books(Arc<Mutex<Shelf>>);

#[derive(Debug)]
struct Shelf {
    /// `PAYMENTS`: where the kernel's programs find them.
    outer: MapData,
    slots: MappedArray<KernelSlot>,
    /// `CONTROL`, `GLOBAL`, `SLOTS`, `COUNTERS`.
    others: [Arc<OwnedFd>; 4],
    books: Vec<Arc<Book>>,
}

#[derive(Debug)]
struct Book {
    /// `None`: nobody's.
    uid: Option<u32>,
    fd: Arc<OwnedFd>,
    written: MappedArray<TargetSlot>,
}

impl Books {
    /// There is one at first: nobody's, [`NO_BOOK`]. `outer`: the map `PAYMENTS`; `others`: the other maps that the target gets.
    ///
    /// # Errors
    /// Where the kernel refuses it.
    pub(super) fn new(outer: Map, others: [OwnedFd; 4]) -> Result<Self> {
        let Map::ArrayOfMaps(outer) = outer else {
            bail!("the eBPF object's map PAYMENTS is of another kind")
        };
        let slots = MappedArray::read_only(&others[SLOTS], MAX_SLOTS, "SLOTS")?;
        let mut shelf = Shelf { outer, slots, others: others.map(Arc::new), books: Vec::new() };
        shelf.add(None)?;
        Ok(Self(Arc::new(Mutex::new(shelf))))
    }

    /// What a process of this user gets. The first one of a user has its book made: 1 MiB of the kernel's memory, as long as we live or one
    /// of the user's processes has it mapped.
    ///
    /// # Errors
    /// There are too many users, or the kernel has no memory for it.
    pub fn of(&self, uid: u32) -> Result<Given> {
        let mut shelf = self.shelf();
        let known = shelf.books.iter().position(|book| book.uid == Some(uid));
        let number = known.map_or_else(|| shelf.add(Some(uid)), Ok)?;
        let [control, global, slots, counters] = shelf.others.clone();
        let payments = shelf.books.get(number).map(|book| Arc::clone(&book.fd)).context("it is gone")?;
        Ok(Given { book: number as u32, maps: [control, global, slots, payments, counters] })
    }

    /// Whether a thread of this process says in this book that it is paying just now.
    #[must_use]
    pub fn is_paying(&self, tgid: u32, book: u32) -> bool {
        let shelf = self.shelf();
        let Some(written) = shelf.books.get(book as usize).map(|book| &book.written) else { return false };
        (0..shelf.slots.len()).any(|index| {
            let Some(slot) = shelf.slots.get(index) else { return false };
            // SAFETY: within the mapping and aligned; numbers only.
            let (key, of) = unsafe {
                ((&raw const (*slot).key).read_volatile(), (&raw const (*slot).tgid).read_volatile())
            };
            key != 0 && of == tgid && written.read(index).is_some_and(|target| target.paying != 0)
        })
    }

    /// Whose a book is; `None` of nobody's, and of one that there is not.
    #[must_use]
    pub fn user(&self, book: usize) -> Option<u32> {
        self.shelf().books.get(book)?.uid
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.shelf().books.len()
    }

    /// Those that there are now, to be read.
    #[must_use]
    pub fn open(&self) -> Open {
        Open(self.shelf().books.clone())
    }

    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Books, open to be read.
#[derive(Debug)]
pub struct Open(Vec<Arc<Book>>);

impl Open {
    /// What the thread of this slot, which is at `index`, says of itself.
    #[must_use]
    pub fn read(&self, slot: &KernelSlot, index: usize) -> Option<TargetSlot> {
        self.0.get(usize::from(slot.book))?.written.read(index)
    }
}

impl Shelf {
    /// Makes one; its number.
    fn add(&mut self, uid: Option<u32>) -> Result<usize> {
        let number = self.books.len();
        debug_assert!(uid.is_some() || number == usize::from(NO_BOOK));
        if number >= MAX_BOOKS as usize {
            bail!("processes of more than {} users cannot be delayed at once", MAX_BOOKS - 1);
        }
        let fd = make().context("the kernel has no room for a table of payments")?;
        let written = MappedArray::read_only(&fd, MAX_SLOTS, "a table of payments")?;
        put(self.outer.fd().as_fd().as_raw_fd(), number as u32, fd.as_raw_fd())
            .context("cannot tell the kernel side of a table of payments")?;
        self.books.push(Arc::new(Book { uid, fd: Arc::new(fd), written }));
        Ok(number)
    }
}

/// The members of `union bpf_attr` that `BPF_MAP_UPDATE_ELEM` looks at (include/uapi/linux/bpf.h).
#[repr(C)]
struct Update {
    map_fd: u32,
    _pad: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// An array that can be mapped, of the shape that the kernel side's object says.
fn make() -> io::Result<OwnedFd> {
    let mut name = [0; 16];
    name[..8].copy_from_slice(b"PAYMENTS");
    let map = RawMap {
        kind: ARRAY,
        key_size: 4,
        value_size: size_of::<TargetSlot>() as u32,
        max_entries: MAX_SLOTS,
        flags: MMAPABLE,
        name,
        ..RawMap::default()
    };
    map.create()
}

/// Puts a map into an array of maps.
fn put(outer: RawFd, number: u32, inner: RawFd) -> io::Result<()> {
    const BPF_MAP_UPDATE_ELEM: libc::c_long = 2;
    let attr = Update {
        map_fd: outer as u32,
        _pad: 0,
        key: (&raw const number) as u64,
        value: (&raw const inner) as u64,
        flags: 0,
    };
    // SAFETY: the attribute, and the key and the value that it points to, outlive the call.
    match unsafe { libc::syscall(libc::SYS_bpf, BPF_MAP_UPDATE_ELEM, &raw const attr, size_of::<Update>()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
