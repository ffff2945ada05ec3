//! Where the running kernel keeps what: offsets and sizes from its own type information (BTF).
//!
//! A parser of what is needed and no more, over `/sys/kernel/btf/vmlinux`. Every access is bounds-checked: a broken
//! file gives an error, never a panic. Format: the kernel's `Documentation/bpf/btf.rst`.

use std::{fmt, fs::File, ops::Deref};

use memmap2::{Mmap, MmapOptions};

/// Where the kernel shows its type information.
pub const KERNEL_BTF: &str = "/sys/kernel/btf/vmlinux";

const MAGIC: u16 = 0xeb9f;
const HEADER_LEN: usize = 24;
/// How deep types may be nested in each other: the kernel stays far below, a broken file may be circular.
const MAX_DEPTH: u32 = 32;
/// How many members one search looks at: far more than the largest struct has.
const MAX_FIELDS: u32 = 1 << 16;
/// Size of a pointer on the machines that we support.
const POINTER: u32 = 8;

/// Kinds of types, as numbered in `enum BTF_KIND_*`.
mod kind {
    pub const INT: u8 = 1;
    pub const PTR: u8 = 2;
    pub const ARRAY: u8 = 3;
    pub const STRUCT: u8 = 4;
    pub const UNION: u8 = 5;
    pub const ENUM: u8 = 6;
    pub const TYPEDEF: u8 = 8;
    pub const VOLATILE: u8 = 9;
    pub const CONST: u8 = 10;
    pub const RESTRICT: u8 = 11;
    pub const FUNC_PROTO: u8 = 13;
    pub const VAR: u8 = 14;
    pub const DATASEC: u8 = 15;
    pub const FLOAT: u8 = 16;
    pub const DECL_TAG: u8 = 17;
    pub const TYPE_TAG: u8 = 18;
    pub const ENUM64: u8 = 19;
}

/// Why something cannot be said from the type information.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BtfError {
    /// The kernel has none, or does not let us read it: the reason.
    Unreadable(String),
    /// It does not follow the format: where.
    Malformed(&'static str),
    /// There is no such type.
    NoType(String),
    /// The type has no such member.
    NoMember {
        /// The type.
        of: String,
        /// The member, dotted.
        member: String,
    },
}

impl fmt::Display for BtfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(reason) => write!(
                f,
                "{KERNEL_BTF}: {reason}; a kernel built with CONFIG_DEBUG_INFO_BTF=y has it (every large distribution's is), \
                 and /sys must be mounted: `mount -t sysfs sysfs /sys`"
            ),
            Self::Malformed(place) => write!(f, "the kernel's type information is malformed: {place}"),
            Self::NoType(name) => write!(f, "this kernel has no type `{name}`"),
            Self::NoMember { of, member } => write!(f, "this kernel's `{of}` has no member `{member}`"),
        }
    }
}

impl std::error::Error for BtfError {}

/// A member of a struct or union, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// From the start of the outermost struct.
    pub offset: u32,
    /// Its size.
    pub size: u32,
}

/// The bytes of a file of type information.
#[derive(Debug)]
enum Bytes {
    /// As the kernel has them.
    Mapped(Mmap),
    /// A copy.
    Copied(Vec<u8>),
}

impl Bytes {
    /// The running kernel's. Kernels before 6.16 do not let it be mapped (privately, that is), only be read, a page at a time.
    fn of_kernel() -> std::io::Result<Self> {
        let file = File::open(KERNEL_BTF)?;
        // SAFETY: the kernel's own type information does not change or shrink as long as it runs.
        match unsafe { MmapOptions::new().map_copy_read_only(&file) } {
            Ok(map) if !map.is_empty() => Ok(Self::Mapped(map)),
            _ => std::fs::read(KERNEL_BTF).map(Self::Copied),
        }
    }
}

impl Deref for Bytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Copied(data) => data,
        }
    }
}

/// Type information, parsed.
#[derive(Debug)]
pub struct Btf {
    data: Bytes,
    /// Where each type's record starts in `data`; type id 1 is the first.
    records: Vec<u32>,
    /// Where the strings start and end in `data`.
    strings: (usize, usize),
}

/// A type's fixed part.
#[derive(Clone, Copy)]
struct Record {
    name: u32,
    kind: u8,
    /// Meaning depends on the kind: members, values, parameters.
    count: u32,
    /// For structs: members carry bit-field sizes.
    flag: bool,
    /// Size in bytes, or another type's id.
    size_or_type: u32,
    /// Where the kind's own part starts in `data`.
    body: usize,
}

/// A member as it stands in a struct.
struct Field {
    name: u32,
    type_id: u32,
    bit_offset: u32,
    bit_field: bool,
}

impl Btf {
    /// The running kernel's.
    ///
    /// # Errors
    /// The kernel has none, or it is malformed.
    pub fn load() -> Result<Self, BtfError> {
        Self::parse_bytes(Bytes::of_kernel().map_err(|e| BtfError::Unreadable(e.to_string()))?)
    }

    /// From the bytes of such a file.
    ///
    /// # Errors
    /// It is malformed.
    pub fn parse(data: &[u8]) -> Result<Self, BtfError> {
        Self::parse_bytes(Bytes::Copied(data.to_vec()))
    }

    fn parse_bytes(data: Bytes) -> Result<Self, BtfError> {
        let malformed = BtfError::Malformed;
        let word = |at: usize| read_u32(&data, at).ok_or(malformed("header")).map(to_usize);
        let magic = data.first_chunk().map(|&bytes| u16::from_le_bytes(bytes));
        if magic != Some(MAGIC) {
            return Err(malformed("magic number"));
        }
        let header = word(4)?;
        if header < HEADER_LEN {
            return Err(malformed("header length"));
        }
        let section = |offset: usize, length: usize| -> Result<(usize, usize), BtfError> {
            let start = header.checked_add(word(offset)?).ok_or(malformed("section"))?;
            let end = start.checked_add(word(length)?).ok_or(malformed("section"))?;
            if end > data.len() { Err(malformed("section beyond the end")) } else { Ok((start, end)) }
        };
        let (start, end) = section(8, 12)?;
        let strings = section(16, 20)?;
        let mut btf = Self { data, records: Vec::new(), strings };
        let mut at = start;
        while at < end {
            let record = btf.record_at(at).ok_or(malformed("type cut off"))?;
            let next = record.body.checked_add(body_len(&record).ok_or(malformed("unknown kind"))?);
            btf.records.push(u32::try_from(at).map_err(|_| malformed("too large"))?);
            at = next.filter(|&next| next <= end).ok_or(malformed("type beyond the end"))?;
        }
        Ok(btf)
    }

    /// Byte offset of a member within a struct or union (or a typedef of one).
    ///
    /// `path` is dotted, and goes through anonymous structs and unions as C does; a step into an array
    /// means its first element. Pointers are not followed.
    ///
    /// # Errors
    /// No such type or member; the member is a bit field that starts within a byte.
    pub fn offset(&self, of: &str, path: &str) -> Result<u32, BtfError> {
        Ok(self.member(of, path)?.offset)
    }

    /// Byte offset and size of a member: see [`Btf::offset`]. A bit field has the size of its declared type.
    ///
    /// # Errors
    /// As [`Btf::offset`].
    pub fn member(&self, of: &str, path: &str) -> Result<Member, BtfError> {
        let mut known = false;
        // A name can stand for several types (a file's own struct beside a global one): take the first that fits.
        for id in self.ids(of).filter(|&id| self.aggregate(id).is_some()) {
            known = true;
            if let Some(member) = self.walk(id, path) {
                return Ok(member);
            }
        }
        Err(if known {
            BtfError::NoMember { of: of.to_owned(), member: path.to_owned() }
        } else {
            BtfError::NoType(of.to_owned())
        })
    }

    /// Size of a type in bytes.
    ///
    /// # Errors
    /// No such type, or one without a size (a function, a forward declaration).
    pub fn size(&self, of: &str) -> Result<u32, BtfError> {
        self.ids(of).find_map(|id| self.size_of(id, 0)).ok_or_else(|| BtfError::NoType(of.to_owned()))
    }

    /// Whether the kernel knows a type (struct, typedef, function, ...) of this name. BTF tracepoint `x` is there
    /// where `btf_trace_x` is.
    #[must_use]
    pub fn has_type(&self, name: &str) -> bool {
        self.ids(name).next().is_some()
    }

    /// How many parameters the functions have that a type of this name points to.
    #[must_use]
    pub fn parameters(&self, name: &str) -> Option<u32> {
        let mut record = self.record(self.ids(name).next()?)?;
        for _ in 0..MAX_DEPTH {
            match record.kind {
                kind::FUNC_PROTO => return Some(record.count),
                kind::PTR => {}
                kind if is_transparent(kind) => {}
                _ => return None,
            }
            record = self.record(record.size_or_type)?;
        }
        None
    }

    /// Number of types.
    #[must_use]
    pub fn type_count(&self) -> usize {
        self.records.len()
    }

    /// Type information in which the typedefs of these names, as far as there are any, have the numbers that they have here,
    /// and every other type is a nameless one of a few bytes: for a reader that wants nothing else, and takes long over all.
    #[must_use]
    pub fn only_typedefs(&self, names: &[String]) -> Vec<u8> {
        let typedef = |id: u32| self.record(id).is_some_and(|record| record.kind == kind::TYPEDEF);
        let mut wanted: Vec<(u32, &String)> =
            names.iter().filter_map(|name| Some((self.ids(name).find(|&id| typedef(id))?, name))).collect();
        wanted.sort_unstable();
        let last = wanted.last().map_or(0, |(id, _)| *id);
        let (mut types, mut strings) = (Vec::new(), vec![0u8]);
        let mut wanted = wanted.into_iter().peekable();
        for id in 1..=last {
            let (at, kind) = match wanted.next_if(|(wanted, _)| *wanted == id) {
                Some((_, name)) => {
                    let at = strings.len() as u32;
                    strings.extend(name.bytes().chain([0]));
                    (at, kind::TYPEDEF)
                }
                None => (0, kind::CONST),
            };
            // Of type 0: void.
            for word in [at, u32::from(kind) << 24, 0] {
                types.extend(word.to_le_bytes());
            }
        }
        let (types_len, strings_len) = (types.len() as u32, strings.len() as u32);
        let mut data = Vec::with_capacity(HEADER_LEN + types.len() + strings.len());
        data.extend(MAGIC.to_le_bytes());
        data.extend([1, 0]);
        for word in [HEADER_LEN as u32, 0, types_len, types_len, strings_len] {
            data.extend(word.to_le_bytes());
        }
        data.extend(types);
        data.extend(strings);
        data
    }

    fn ids<'a>(&'a self, name: &'a str) -> impl Iterator<Item = u32> + 'a {
        (1u32..).zip(&self.records).filter_map(move |(id, &at)| {
            let record = self.record_at(to_usize(at))?;
            (record.name != 0 && self.is_named(record.name, name)).then_some(id)
        })
    }

    fn is_named(&self, offset: u32, name: &str) -> bool {
        let (start, end) = self.strings;
        let text = start.checked_add(to_usize(offset)).and_then(|from| self.data.get(from..end));
        text.and_then(|text| text.strip_prefix(name.as_bytes())).is_some_and(|rest| rest.first() == Some(&0))
    }

    fn record(&self, id: u32) -> Option<Record> {
        let index = to_usize(id).checked_sub(1)?;
        self.record_at(to_usize(*self.records.get(index)?))
    }

    fn record_at(&self, at: usize) -> Option<Record> {
        let info = read_u32(&self.data, at.checked_add(4)?)?;
        Some(Record {
            name: read_u32(&self.data, at)?,
            kind: (info >> 24 & 0x1f) as u8,
            count: info & 0xffff,
            flag: info >> 31 == 1,
            size_or_type: read_u32(&self.data, at.checked_add(8)?)?,
            body: at.checked_add(12)?,
        })
    }

    /// The struct or union that a type is, behind names, qualifiers and arrays.
    fn aggregate(&self, id: u32) -> Option<Record> {
        let mut id = id;
        for _ in 0..MAX_DEPTH {
            let record = self.record(id)?;
            match record.kind {
                kind::STRUCT | kind::UNION => return Some(record),
                kind::ARRAY => id = read_u32(&self.data, record.body)?,
                _ if is_transparent(record.kind) => id = record.size_or_type,
                _ => return None,
            }
        }
        None
    }

    fn walk(&self, id: u32, path: &str) -> Option<Member> {
        let mut bits = 0u32;
        let mut type_id = id;
        let mut left = MAX_FIELDS;
        for step in path.split('.') {
            let (offset, field) = self.find(&self.aggregate(type_id)?, step, 0, &mut left)?;
            bits = bits.checked_add(offset)?;
            type_id = field;
        }
        let size = self.size_of(type_id, 0)?;
        bits.is_multiple_of(8).then_some(Member { offset: bits / 8, size })
    }

    /// Bit offset and type of a member, also of one in an anonymous member.
    fn find(&self, of: &Record, name: &str, depth: u32, left: &mut u32) -> Option<(u32, u32)> {
        if depth > MAX_DEPTH {
            return None;
        }
        (0..of.count).find_map(|index| {
            *left = left.checked_sub(1)?;
            let field = self.field(of, index)?;
            if field.name != 0 {
                return self.is_named(field.name, name).then_some((field.bit_offset, field.type_id));
            }
            if field.bit_field {
                return None;
            }
            let (inner, type_id) = self.find(&self.aggregate(field.type_id)?, name, depth + 1, left)?;
            Some((field.bit_offset.checked_add(inner)?, type_id))
        })
    }

    fn field(&self, of: &Record, index: u32) -> Option<Field> {
        let at = of.body.checked_add(to_usize(index).checked_mul(12)?)?;
        let offset = read_u32(&self.data, at.checked_add(8)?)?;
        let (bit_offset, bit_field) =
            if of.flag { (offset & 0x00ff_ffff, offset >> 24 != 0) } else { (offset, false) };
        let type_id = read_u32(&self.data, at.checked_add(4)?)?;
        Some(Field { name: read_u32(&self.data, at)?, type_id, bit_offset, bit_field })
    }

    fn size_of(&self, id: u32, depth: u32) -> Option<u32> {
        let record = self.record(id).filter(|_| depth < MAX_DEPTH)?;
        match record.kind {
            kind::INT
            | kind::STRUCT
            | kind::UNION
            | kind::ENUM
            | kind::ENUM64
            | kind::FLOAT
            | kind::DATASEC => Some(record.size_or_type),
            kind::PTR => Some(POINTER),
            kind::ARRAY => {
                let element = read_u32(&self.data, record.body)?;
                let count = read_u32(&self.data, record.body.checked_add(8)?)?;
                self.size_of(element, depth + 1)?.checked_mul(count)
            }
            kind if is_transparent(kind) || kind == kind::VAR => self.size_of(record.size_or_type, depth + 1),
            _ => None,
        }
    }
}

/// Types that only name or qualify another one.
const fn is_transparent(kind: u8) -> bool {
    matches!(kind, kind::TYPEDEF | kind::VOLATILE | kind::CONST | kind::RESTRICT | kind::TYPE_TAG)
}

/// Length of the part that depends on the kind; `None` for a kind that is not known, whose length nobody can tell.
fn body_len(record: &Record) -> Option<usize> {
    let each = match record.kind {
        kind::INT | kind::VAR | kind::DECL_TAG => return Some(4),
        kind::ARRAY => return Some(12),
        kind::STRUCT | kind::UNION | kind::DATASEC | kind::ENUM64 => 12,
        kind::ENUM | kind::FUNC_PROTO => 8,
        // Pointer, forward declaration, typedef, qualifiers, function, float, type tag.
        2 | 7..=12 | 16 | 18 => return Some(0),
        _ => return None,
    };
    to_usize(record.count).checked_mul(each)
}

fn read_u32(data: &[u8], at: usize) -> Option<u32> {
    data.get(at..)?.first_chunk().map(|&bytes| u32::from_le_bytes(bytes))
}

/// Lossless on every machine that the profiler runs on.
const fn to_usize(value: u32) -> usize {
    value as usize
}

#[cfg(test)]
mod tests;
