//! What an ELF file's headers say about how it is started.

use std::{fs::File, io::BufReader, path::Path};

use object::{
    Endianness, ReadCache,
    elf::{self, FileHeader32, FileHeader64},
    read::elf::{FileHeader, ProgramHeader, SectionHeader},
};

/// What matters of an ELF program before it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elf {
    /// 32 or 64.
    pub bits: u8,
    /// `None` for x86-64; else the machine's number (`e_machine`).
    pub machine: Option<u16>,
    /// Whether a loader takes part in its start.
    pub linkage: Linkage,
    /// Whether it is loaded at an address that differs from run to run.
    pub position_independent: bool,
    /// Whether it has a symbol table beyond that of dynamic linking: `strip` removes it.
    pub has_symbols: bool,
    /// Whether it has a section with DWARF line tables, or names a file that does (`.gnu_debuglink`).
    pub debug: Debug,
}

/// How a program is linked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Linkage {
    /// This loader starts it (`PT_INTERP`).
    Dynamic(String),
    /// It starts by itself.
    Static,
}

/// Where a program's debug information is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Debug {
    /// `.debug_info`, or `.zdebug_info`.
    pub info: bool,
    /// `.debug_line`, or `.zdebug_line`.
    pub line: bool,
    /// Name of the file that has them, if this one says so.
    pub link: Option<String>,
}

impl Elf {
    /// Reads the headers; nothing else of the file is touched.
    ///
    /// # Errors
    /// The file cannot be read, or its headers make no sense: the reason in words.
    pub fn read(path: &Path) -> Result<Self, String> {
        let file = File::open(path).map_err(|e| e.to_string())?;
        let data = ReadCache::new(BufReader::new(file));
        let kind = object::FileKind::parse(&data).map_err(|e| e.to_string())?;
        match kind {
            object::FileKind::Elf64 => inspect::<FileHeader64<Endianness>>(&data, 64),
            object::FileKind::Elf32 => inspect::<FileHeader32<Endianness>>(&data, 32),
            other => Err(format!("not an ELF file but {other:?}")),
        }
    }

    /// Whether it is 32-bit x86 code, or x86-64 with 32-bit pointers (x32).
    #[must_use]
    pub fn is_x86(&self) -> bool {
        self.machine == Some(elf::EM_386.0)
    }

    /// The machine, in words that people use.
    #[must_use]
    pub fn machine_name(&self) -> String {
        match self.machine.map(elf::Machine) {
            None => "x86-64".to_owned(),
            Some(elf::EM_386) => "x86, 32-bit".to_owned(),
            Some(elf::EM_AARCH64) => "arm64".to_owned(),
            Some(elf::EM_ARM) => "arm, 32-bit".to_owned(),
            Some(elf::EM_RISCV) => "riscv".to_owned(),
            Some(elf::EM_PPC64) => "ppc64".to_owned(),
            Some(elf::EM_S390) => "s390".to_owned(),
            Some(other) => format!("ELF machine {}", other.0),
        }
    }
}

type Data = ReadCache<BufReader<File>>;

fn inspect<H: FileHeader<Endian = Endianness>>(data: &Data, bits: u8) -> Result<Elf, String> {
    let words = |e: object::read::Error| e.to_string();
    let header = H::parse(data).map_err(words)?;
    let endian = header.endian().map_err(words)?;
    let mut linkage = Linkage::Static;
    for segment in header.program_headers(endian, data).map_err(words)? {
        if let Ok(Some(loader)) = segment.interpreter(endian, data) {
            linkage = Linkage::Dynamic(String::from_utf8_lossy(loader).into_owned());
        }
    }
    let machine = header.e_machine(endian);
    // A file whose section headers are cut off or stripped still runs: it has no symbols, that is all.
    let (has_symbols, debug) = sections(header, endian, data).unwrap_or_default();
    Ok(Elf {
        bits,
        machine: (machine != elf::EM_X86_64).then_some(machine.0),
        linkage,
        position_independent: header.e_type(endian) == elf::ET_DYN,
        has_symbols,
        debug,
    })
}

fn sections<H: FileHeader<Endian = Endianness>>(
    header: &H,
    endian: Endianness,
    data: &Data,
) -> object::read::Result<(bool, Debug)> {
    let sections = header.sections(endian, data)?;
    let mut debug = Debug::default();
    let mut has_symbols = false;
    for section in sections.iter() {
        has_symbols |= section.sh_type(endian) == elf::SHT_SYMTAB;
        match sections.section_name(endian, section).unwrap_or_default() {
            b".debug_info" | b".zdebug_info" => debug.info = true,
            b".debug_line" | b".zdebug_line" => debug.line = true,
            b".gnu_debuglink" => {
                let name = section.data(endian, data).ok().and_then(|d| d.split(|&b| b == 0).next());
                debug.link = name.map(|name| String::from_utf8_lossy(name).into_owned());
            }
            _ => {}
        }
    }
    Ok((has_symbols, debug))
}
