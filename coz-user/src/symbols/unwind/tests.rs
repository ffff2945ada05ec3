use super::*;
use coz_common::unwind::row_at;
use gimli::{CfaRule, X86_64};
use proptest::prelude::*;
use std::path::Path;

const FRAMES_AT: u64 = 0x2000;

/// Description entries, written by hand.
#[derive(Default)]
struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    fn entry(&mut self, body: &[u8]) -> usize {
        let offset = self.bytes.len();
        let padding = (8 - (body.len() + 4) % 8) % 8;
        self.bytes.extend(((body.len() + padding) as u32).to_le_bytes());
        self.bytes.extend(body);
        self.bytes.extend(std::iter::repeat_n(0, padding));
        offset
    }

    /// The common part as gcc writes it: CFA is rsp+8, return address at CFA-8, addresses absolute.
    fn common(&mut self, augmentation: &[u8]) -> usize {
        let mut body = vec![0, 0, 0, 0, 1];
        body.extend(augmentation);
        body.extend([0, 1, 0x78, 16, 1, 0x04]); // code 1, data -8, RA 16, udata8
        body.extend([0x0c, 7, 8, 0x90, 1]);
        self.entry(&body)
    }

    fn description(&mut self, common: usize, begin: u64, length: u64, instructions: &[u8]) -> usize {
        let mut body = ((self.bytes.len() + 4 - common) as u32).to_le_bytes().to_vec();
        body.extend(begin.to_le_bytes());
        body.extend(length.to_le_bytes());
        body.push(0);
        body.extend(instructions);
        self.entry(&body)
    }

    fn table(mut self) -> UnwindTable {
        self.bytes.extend([0; 4]);
        let bases = BaseAddresses::default().set_eh_frame(FRAMES_AT);
        let frames = SectionBytes::Owned(self.bytes);
        let part = Part::of_eh_frame(frames, SectionBytes::default(), (0, FRAMES_AT), bases);
        UnwindTable { parts: vec![part] }
    }
}

/// push rbp (1 byte); mov rbp, rsp (3 bytes).
const FRAMED: [u8; 10] = [0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6, 0, 0];

fn kinds(table: &UnwindTable, page: u32) -> Vec<(u32, u16)> {
    table.page(page).iter().map(|row| (row.start(), row.kind())).collect()
}

fn our_own() -> Elf {
    Elf::open(&std::env::current_exe().expect("there is one")).expect("it is an ELF file")
}

fn libc() -> Elf {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("it is there");
    let path = maps.split_whitespace().find(|word| word.contains("/libc.so.6")).expect("libc is mapped");
    Elf::open(Path::new(path)).expect("it is an ELF file")
}

#[test]
fn a_function_has_a_row_for_each_step_of_its_prologue_and_what_is_around_it_none() {
    let mut writer = Writer::default();
    let common = writer.common(b"zR");
    writer.description(common, 0x1010, 0x20, &FRAMED);
    let table = writer.table();
    let expected =
        [(0, kind::UNKNOWN), (0x10, kind::SP), (0x11, kind::SP), (0x14, kind::BP), (0x30, kind::UNKNOWN)];
    assert_eq!(kinds(&table, 1), expected);
    assert_eq!(row_at(&table.page(1), 0x20), Row::new(0x14, kind::BP, 16, CallerBp::AtCfa(-16)));
    assert_eq!(kinds(&table, 2), [(0, kind::UNKNOWN)]);
}

#[test]
fn a_function_over_several_pages_is_found_in_each() {
    let mut writer = Writer::default();
    let common = writer.common(b"zR");
    writer.description(common, 0x1ffe, 0x2100, &FRAMED);
    let table = writer.table();
    assert_eq!(kinds(&table, 1), [(0, kind::UNKNOWN), (0xffe, kind::SP), (0xfff, kind::SP)]);
    assert_eq!(kinds(&table, 2), [(0, kind::SP), (2, kind::BP)]);
    assert_eq!(kinds(&table, 3), [(0, kind::BP)]);
    assert_eq!(kinds(&table, 4), [(0, kind::BP), (0xfe, kind::UNKNOWN)]);
}

#[test]
fn of_two_that_overlap_the_one_that_begins_later_holds() {
    let mut writer = Writer::default();
    let common = writer.common(b"zR");
    writer.description(common, 0x1020, 0x10, &[]);
    writer.description(common, 0x1000, 0x100, &FRAMED);
    let expected = [
        (0, kind::SP),
        (1, kind::SP),
        (4, kind::BP),
        (0x20, kind::SP),
        (0x30, kind::BP),
        (0x100, kind::UNKNOWN),
    ];
    assert_eq!(kinds(&writer.table(), 1), expected);
}

#[test]
fn where_a_signal_handler_returns_to_and_where_threads_begin_is_told_apart() {
    let mut writer = Writer::default();
    let signal = writer.common(b"zRS");
    let common = writer.common(b"zR");
    writer.description(signal, 0x1000, 0x10, &[]);
    writer.description(common, 0x1010, 0x10, &[0x07, 16]); // the return address is undefined
    assert_eq!(kinds(&writer.table(), 1), [(0, kind::SIGNAL), (0x10, kind::END), (0x20, kind::UNKNOWN)]);
}

#[test]
fn the_expressions_of_linkers_and_of_aligned_stacks_are_known_and_no_others() {
    let plt = [0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22];
    let aligned = [0x0f, 3, 0x76, 0x78, 0x06, 0x10, 6, 2, 0x76, 0];
    let other = [0x0f, 3, 0x76, 0x78, 0x1f];
    let mut writer = Writer::default();
    let common = writer.common(b"zR");
    writer.description(common, 0x1000, 0x10, &plt);
    writer.description(common, 0x1010, 0x10, &aligned);
    writer.description(common, 0x1020, 0x10, &other);
    let rows = writer.table().page(1);
    assert_eq!(row_at(&rows, 0), Row::new(0, kind::PLT, 11, CallerBp::Kept));
    assert_eq!(row_at(&rows, 0x10), Row::new(0x10, kind::AT_BP, -8, CallerBp::AtBp(0)));
    assert_eq!(row_at(&rows, 0x20).kind(), kind::UNKNOWN);
}

#[test]
fn damage_costs_the_rows_that_it_hits() {
    let mut writer = Writer::default();
    let common = writer.common(b"zR");
    // advance, then an instruction that there is not
    writer.description(common, 0x1000, 0x20, &[0x50, 0x3f]);
    writer.description(common, 0x1020, 0x10, &[]);
    assert_eq!(
        kinds(&writer.table(), 1),
        [(0, kind::SP), (0x10, kind::UNKNOWN), (0x20, kind::SP), (0x30, kind::UNKNOWN)]
    );
}

/// What gimli, asked for each address by itself, says of the CFA.
fn reference(table: &Part, listed: &Descriptions, address: u64) -> Option<CfaRule<usize>> {
    let frames = EhFrame::new(&table.frames, LittleEndian);
    let mut context = UnwindContext::new();
    let covering = listed.covering(address, address + 1);
    let description = covering.offsets.iter().rev().find_map(|&offset| {
        let description =
            frames.fde_from_offset(&table.bases, offset.into(), EhFrame::cie_from_offset).ok()?;
        description.contains(address).then_some(description)
    })?;
    let row = description.unwind_info_for_address(&frames, &table.bases, &mut context, address).ok()?;
    Some(row.cfa().clone())
}

#[test]
fn real_programs_get_the_rules_that_gimli_finds_with_and_without_an_index() {
    for elf in [our_own(), libc()] {
        let table = UnwindTable::of(&elf);
        let part = table.parts.last().expect("it has .eh_frame");
        assert!(matches!(part.descriptions, Descriptions::Indexed { .. }), "linkers write .eh_frame_hdr");
        let frames = EhFrame::new(&part.frames, LittleEndian);
        let listed = Descriptions::listed(&frames, &part.bases);
        assert!(!listed.covering(0, u64::MAX).offsets.is_empty());
        let code = elf.segments().iter().find(|segment| segment.executable).expect("it has code");
        let (mut known, mut asked) = (0, 0);
        // Every 40th page, every 7th byte: a few thousand addresses.
        for page in (code.address / PAGE_SIZE..(code.address + code.file_size) / PAGE_SIZE).step_by(40) {
            let rows = table.page(page as u32);
            assert_eq!(rows.first().map(|row| row.start()), Some(0));
            assert!(rows.windows(2).all(|pair| pair[0].start() < pair[1].start()));
            for offset in (0..PAGE_SIZE).step_by(7) {
                let row = row_at(&rows, offset as u32);
                let expected = match reference(part, &listed, page * PAGE_SIZE + offset) {
                    Some(CfaRule::RegisterAndOffset { register: X86_64::RSP, offset }) => {
                        Some((kind::SP, offset))
                    }
                    Some(CfaRule::RegisterAndOffset { register: X86_64::RBP, offset }) => {
                        Some((kind::BP, offset))
                    }
                    _ => None,
                };
                asked += 1;
                if let Some((kind, cfa)) = expected
                    && ![kind::END, kind::SIGNAL].contains(&row.kind())
                {
                    known += 1;
                    let at = format!("{} {:#x}", elf.path().display(), page * PAGE_SIZE + offset);
                    assert_eq!((row.kind(), i64::from(row.cfa())), (kind, cfa), "{at}");
                }
            }
        }
        assert!(known * 10 > asked * 9, "{known} of {asked} in {}", elf.path().display());
    }
}

#[test]
fn libcs_own_ends_and_signal_frame_are_there() {
    let libc = libc();
    let table = UnwindTable::of(&libc);
    let code = libc.segments().iter().find(|segment| segment.executable).expect("it has code");
    let pages = code.address / PAGE_SIZE..=(code.address + code.file_size) / PAGE_SIZE;
    let all: Vec<Row> = pages.flat_map(|page| table.page(page as u32)).collect();
    for wanted in [kind::SP, kind::BP, kind::PLT, kind::SIGNAL, kind::END] {
        assert!(all.iter().any(|row| row.kind() == wanted), "no row of kind {wanted}");
    }
}

#[test]
fn a_file_without_frames_has_no_rows() {
    assert_eq!(kinds(&UnwindTable::default(), 5), [(0, kind::UNKNOWN)]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn no_damage_makes_it_panic(
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
        cut in any::<prop::sample::Index>(),
        header in prop::collection::vec(any::<u8>(), 0..64),
        good_header in any::<bool>(),
    ) {
        let mut writer = Writer::default();
        let common = writer.common(b"zR");
        let signal = writer.common(b"zRS");
        writer.description(common, 0x1000, 0x20, &FRAMED);
        writer.description(signal, 0x1020, 0x20, &[0x0f, 3, 0x76, 0x78, 0x06]);
        writer.description(common, 0x1040, 0x3000, &[0x0a, 0x41, 0x0e, 16, 0x0b]);
        let mut bytes = writer.bytes;
        for (index, value) in flips {
            let at = index.index(bytes.len());
            bytes[at] = value;
        }
        bytes.truncate(cut.index(bytes.len() + 1));
        let mut header = header;
        if good_header && header.len() >= 12 {
            header[..4].copy_from_slice(&[1, 0x1b, 0x03, 0x3b]);
        }
        for (is_debug, header) in [(false, header), (false, Vec::new()), (true, Vec::new())] {
            let frames = SectionBytes::Owned(bytes.clone());
            let bases = BaseAddresses::default().set_eh_frame(FRAMES_AT).set_eh_frame_hdr(0x1800);
            let part = match is_debug {
                false => Part::of_eh_frame(frames, SectionBytes::Owned(header), (0x1800, FRAMES_AT), bases),
                true => Part::of_debug_frame(frames),
            };
            let table = UnwindTable { parts: vec![part] };
            for page in [0, 1, 2, 4, u32::MAX] {
                let rows = table.page(page);
                prop_assert!(!rows.is_empty() && rows.len() <= 4096 && rows[0].start() == 0);
            }
        }
    }
}
