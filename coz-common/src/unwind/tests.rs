use super::*;
use proptest::prelude::*;
use std::collections::HashMap;

/// A stack of which only these words can be read.
#[derive(Default)]
struct Words(HashMap<u64, u64>);

impl Words {
    fn of(words: &[(u64, u64)]) -> Self {
        Self(words.iter().copied().collect())
    }
}

impl Stack for Words {
    fn word(&self, address: u64) -> Option<u64> {
        self.0.get(&address).copied()
    }
    fn pair(&self, address: u64) -> Option<[u64; 2]> {
        Some([self.word(address)?, self.word(address.wrapping_add(8))?])
    }
}

const FRAME: Registers = Registers { ip: 0x40_1000, sp: 0x7000, bp: 0x7100, exact: 1 };

fn caller(ip: u64, sp: u64, bp: u64) -> Result<Registers, Stop> {
    Ok(Registers { ip, sp, bp, exact: 0 })
}

fn sp(cfa: i64, bp: CallerBp) -> Row {
    Row::new(0, kind::SP, cfa, bp)
}

#[test]
fn at_a_functions_first_instruction_the_return_address_is_on_top() {
    let stack = Words::of(&[(0x7000, 0x1234)]);
    assert_eq!(step(sp(8, CallerBp::Kept), &FRAME, &stack), caller(0x1234, 0x7008, 0x7100));
}

#[test]
fn the_frame_pointer_is_found_where_it_was_saved() {
    // push rbp; mov rbp, rsp: the two words side by side.
    let stack = Words::of(&[(0x7100, 0x7200), (0x7108, 0x1234)]);
    let row = Row::new(0, kind::BP, 16, CallerBp::AtCfa(-16));
    assert_eq!(step(row, &FRAME, &stack), caller(0x1234, 0x7110, 0x7200));
    // push r15 ... push rbp: elsewhere.
    let stack = Words::of(&[(0x7020, 0x7300), (0x7048, 0x1234)]);
    assert_eq!(step(sp(0x50, CallerBp::AtCfa(-0x30)), &FRAME, &stack), caller(0x1234, 0x7050, 0x7300));
    let stack = Words::of(&[(0x7008, 0x1234)]);
    assert_eq!(step(sp(16, CallerBp::Lost), &FRAME, &stack), caller(0x1234, 0x7010, 0));
}

#[test]
fn a_function_that_aligns_its_stack_keeps_the_old_one_beside_rbp() {
    let stack = Words::of(&[(0x70f8, 0x7180), (0x7178, 0x1234), (0x7100, 0x7400)]);
    let row = Row::new(0, kind::AT_BP, -8, CallerBp::AtBp(0));
    assert_eq!(step(row, &FRAME, &stack), caller(0x1234, 0x7180, 0x7400));
}

#[test]
fn an_entry_of_the_linkage_table_has_pushed_a_word_in_its_second_half() {
    let row = Row::new(0, kind::PLT, 11, CallerBp::Kept);
    let stack = Words::of(&[(0x7000, 0x1111), (0x7008, 0x2222)]);
    assert_eq!(step(row, &Registers { ip: 0x102a, ..FRAME }, &stack), caller(0x1111, 0x7008, 0x7100));
    assert_eq!(step(row, &Registers { ip: 0x102b, ..FRAME }, &stack), caller(0x2222, 0x7010, 0x7100));
}

#[test]
fn behind_a_signal_handler_stand_all_registers_of_what_it_interrupted() {
    let stack = Words::of(&[(0x7000 + 120, 0x7500), (0x7000 + 160, 0x7600), (0x7000 + 168, 0x40_2000)]);
    let interrupted = Registers { ip: 0x40_2000, sp: 0x7600, bp: 0x7500, exact: 1 };
    assert_eq!(step(Row::new(0, kind::SIGNAL, 0, CallerBp::Kept), &FRAME, &stack), Ok(interrupted));
    assert_eq!(interrupted.place(), 0x40_2000, "an interrupted instruction is not behind a call");
}

#[test]
fn a_chain_ends_where_it_says_so_and_where_it_cannot_be_read() {
    let nothing = Words::default();
    let end = Row::new(0, kind::END, 0, CallerBp::Kept);
    assert_eq!(step(end, &FRAME, &nothing), Err(Stop::End));
    assert_eq!(step(Row::default(), &FRAME, &nothing), Err(Stop::Unknown));
    assert_eq!(step(sp(8, CallerBp::Kept), &FRAME, &nothing), Err(Stop::Unreadable));
    let top = Words::of(&[(0x7000, 0x1234)]);
    let popped = sp(8, CallerBp::AtCfa(-16));
    assert_eq!(
        step(popped, &FRAME, &top),
        caller(0x1234, 0x7008, 0),
        "it matters only to who counts from it"
    );
    let bottom = Words::of(&[(0x7000, 0)]);
    assert_eq!(step(sp(8, CallerBp::Kept), &FRAME, &bottom), Err(Stop::End), "a thread begins with a zero");
}

#[test]
fn a_frame_pointer_is_believed_only_if_it_points_into_the_stack() {
    let stack = Words::of(&[(0x7100, 0x7200), (0x7108, 0x1234)]);
    assert_eq!(by_frame_pointer(&FRAME, &stack), caller(0x1234, 0x7110, 0x7200));
    for bp in [0, 1, 0x6ff8, 0x7101, 0x7000 + (2 << 20), !7] {
        assert_eq!(by_frame_pointer(&Registers { bp, ..FRAME }, &stack), Err(Stop::Unknown), "{bp:#x}");
    }
}

#[test]
fn what_does_not_fit_into_a_row_is_unknown() {
    for row in [
        sp(1 << 31, CallerBp::Kept),
        sp(16, CallerBp::AtCfa(-(1 << 16))),
        sp(16, CallerBp::AtCfa(-12)),
        sp(i64::MIN, CallerBp::AtBp(i64::MIN)),
    ] {
        assert_eq!(row.kind(), kind::UNKNOWN, "{row:?}");
    }
    assert_eq!(sp(0x7fff_fff8, CallerBp::AtCfa(-32768)).kind(), kind::SP);
}

fn space(starts: &[u64]) -> AddressSpace {
    let range = |&start: &u64| Range { start, end: start + 0x800, bias: 0, module: 1, scope: 0 };
    AddressSpace::of(&starts.iter().map(range).collect::<Vec<_>>())
}

#[test]
fn a_full_address_space_is_searched_to_both_ends() {
    let starts: Vec<u64> = (1..=MAX_RANGES as u64).map(|n| n * 0x1000).collect();
    let space = space(&starts);
    for start in starts {
        assert_eq!(space.before(start).relative(start), Some(start));
        assert_eq!(space.before(start + 0x7ff).relative(start + 0x7ff), Some(start + 0x7ff));
        assert_eq!(space.before(start + 0x800).relative(start + 0x800), None);
    }
}

#[test]
fn in_an_empty_address_space_there_is_nothing() {
    let space = space(&[]);
    for ip in [0, 1, 0x40_1000, i64::MAX as u64, 1 << 63, u64::MAX] {
        assert_eq!(space.before(ip).relative(ip), None, "{ip:#x}");
    }
}

#[test]
fn a_module_linked_above_where_it_is_mapped_has_a_negative_bias() {
    let bias = 0x1000u64.wrapping_sub(0x40_0000);
    let range = Range { start: 0x1000, end: 0x2000, bias, module: 1, scope: 1 };
    assert_eq!(range.relative(0x1234), Some(0x40_0234));
}

proptest! {
    #[test]
    fn finds_the_range_that_a_linear_search_finds(
        starts in prop::collection::btree_set(1u64..1000, 0..MAX_RANGES),
        ip in 0u64..0x80_0000,
    ) {
        let starts: Vec<u64> = starts.into_iter().map(|n| n * 0x1000).collect();
        let found = space(&starts).before(ip).relative(ip).is_some();
        prop_assert_eq!(found, starts.iter().any(|start| (*start..start + 0x800).contains(&ip)));
    }

    #[test]
    fn finds_the_row_that_a_linear_search_finds(
        starts in prop::collection::btree_set(0u32..4096, 1..300),
        offset in 0u32..4096,
    ) {
        let rows: Vec<Row> =
            starts.iter().map(|start| Row::new(*start, kind::SP, i64::from(*start), CallerBp::Kept)).collect();
        let expected = rows.iter().rev().find(|row| row.start() <= offset).copied().unwrap_or_default();
        prop_assert_eq!(row_at(&rows, offset), expected);
    }

    #[test]
    fn a_row_keeps_its_place_and_its_rules(start in 0u32..4096, cfa in -1000i64..1000, bp in -4096i64..4096) {
        let stack = Words::of(&[(0x7000u64.wrapping_add_signed(cfa) - 8, 7), (0x7100u64.wrapping_add_signed(bp * 8), 9)]);
        let row = Row::new(0, kind::SP, cfa, CallerBp::AtBp(bp * 8)).at(start);
        prop_assert_eq!((row.start(), row.kind()), (start, kind::SP));
        // Where the two meet, the one word is both.
        if let Ok(found) = step(row, &FRAME, &stack) {
            prop_assert_eq!(found.sp, 0x7000u64.wrapping_add_signed(cfa));
            prop_assert!(found.ip == 7 || found.ip == 9);
        }
    }

    #[test]
    fn no_row_and_no_stack_makes_it_panic(
        place in any::<u16>(), bp in any::<i16>(), cfa in any::<i32>(),
        frame in any::<[u64; 4]>(), word in any::<u64>(),
    ) {
        struct Anything(u64);
        impl Stack for Anything {
            fn word(&self, address: u64) -> Option<u64> {
                (address & 1 == 0).then_some(self.0)
            }
            fn pair(&self, address: u64) -> Option<[u64; 2]> {
                Some([self.word(address)?; 2])
            }
        }
        let frame = Registers { ip: frame[0], sp: frame[1], bp: frame[2], exact: frame[3] };
        let _ = step(Row { place, bp, cfa }, &frame, &Anything(word));
        let _ = by_frame_pointer(&frame, &Anything(word));
        let _ = frame.place();
    }
}
