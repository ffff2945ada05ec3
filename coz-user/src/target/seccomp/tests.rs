use proptest::prelude::*;

use super::{Call, ENTER, Filter, Instruction, PAY, SHIM, allows, filter::Word, forbidden};

const ALLOW: u32 = 0x7fff_0000;
const LOG: u32 = 0x7ffc_0000;
const KILL: u32 = 0x8000_0000;
const NOT_PERMITTED: u32 = 0x0005_0001;

const fn i(code: u16, jt: u8, jf: u8, k: u32) -> Instruction {
    Instruction { code, jt, jf, k }
}
const fn load(k: u32) -> Instruction {
    i(0x20, 0, 0, k)
}
const fn equal(k: u32, jt: u8, jf: u8) -> Instruction {
    i(0x15, jt, jf, k)
}
const fn says(k: u32) -> Instruction {
    i(0x06, 0, 0, k)
}

fn all() -> impl Iterator<Item = &'static Call> {
    ENTER.iter().chain(PAY).chain(SHIM)
}

fn number(name: &str) -> u32 {
    let call = all().find(|call| call.name() == name).unwrap_or_else(|| panic!("{name} is needed"));
    let Word::Is(number) = call.data()[0] else { panic!("its number is known") };
    number
}

fn first_forbidden(filter: &[Instruction]) -> Option<&'static str> {
    forbidden(&[filter.to_vec()], all()).map(Call::name)
}

#[test]
fn what_lets_everything_pass_forbids_nothing_and_all_filters_must_let_it_pass() {
    assert_eq!(first_forbidden(&[says(ALLOW)]), None);
    assert_eq!(first_forbidden(&[says(LOG)]), None, "it is made, and logged");
    // To fail, to kill, to signal, to ask a tracer or a supervisor: each would be noticed.
    for action in [KILL, 0, NOT_PERMITTED, 0x0003_0000, 0x7ff0_0000, 0x7fc0_0000] {
        assert_eq!(first_forbidden(&[says(action)]), Some("mmap"), "{action:#x}");
        let both = [vec![says(ALLOW)], vec![says(action)]];
        assert!(forbidden(&both, all()).is_some() && forbidden(&both[..1], all()).is_none());
    }
    assert_eq!(first_forbidden(&[]), Some("mmap"), "no filter is empty");
    assert_eq!(forbidden(&[], all()), None);
}

#[test]
fn the_call_that_is_forbidden_is_named() {
    for name in ["clock_nanosleep", "rt_sigreturn", "socketpair", "restart_syscall", "rt_sigprocmask"] {
        let filter = [load(0), equal(number(name), 0, 1), says(KILL), says(ALLOW)];
        assert_eq!(first_forbidden(&filter), Some(name));
    }
}

#[test]
fn a_list_of_what_is_allowed_is_understood_whichever_way_it_is_asked() {
    let mut numbers: Vec<u32> = all().map(|call| number(call.name())).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let count = numbers.len();
    let begin = [load(4), equal(0xc000_003e, 1, 0), says(KILL), load(0)];
    let asks = numbers.iter().enumerate().map(|(at, number)| equal(*number, (count - at) as u8, 0));
    let list: Filter = begin.into_iter().chain(asks).chain([says(NOT_PERMITTED), says(ALLOW)]).collect();
    assert_eq!(first_forbidden(&list), None);
    let mut without = list.clone();
    without[4].k = 0xffff;
    assert_eq!(first_forbidden(&without), Some("close"), "3, the smallest");
    // Of another architecture's calls.
    let mut other = list;
    other[1].k = 0x4000_0003;
    assert_eq!(first_forbidden(&other), Some("mmap"));
}

#[test]
fn arguments_count_where_they_are_known() {
    // Memory to be written and executed at once, which nobody asks for: A = prot & (WRITE | EXEC).
    let both = [
        load(0),
        equal(number("mmap"), 0, 4),
        load(32),
        i(0x54, 0, 0, 6),
        equal(6, 0, 1),
        says(NOT_PERMITTED),
        says(ALLOW),
    ];
    assert_eq!(first_forbidden(&both), None);
    // Memory to be executed: that takes the other half of the word too.
    let any = [
        load(0),
        equal(number("mmap"), 0, 5),
        load(36),
        equal(0, 0, 3),
        load(32),
        i(0x45, 0, 1, 4),
        says(NOT_PERMITTED),
        says(ALLOW),
    ];
    assert_eq!(first_forbidden(&any), Some("mmap"));
    // Another clock, another family of sockets.
    let clock = [load(0), equal(number("clock_nanosleep"), 0, 2), load(16), equal(1, 1, 0), says(ALLOW)];
    assert_eq!(first_forbidden(&[&clock[..], &[says(ALLOW)]].concat()), None);
    let family = [
        load(0),
        equal(number("socketpair"), 0, 3),
        load(16),
        i(0x35, 1, 0, 2),
        says(ALLOW),
        says(KILL),
        says(ALLOW),
    ];
    // 1 is less than 2, but what follows the jump of all others is the end.
    assert_eq!(first_forbidden(&family), Some("mmap"));
}

#[test]
fn what_depends_on_what_is_not_known_is_not_taken_for_allowed() {
    // A descriptor, an address, the place of the call.
    for (word, first) in [(16, "recvmsg"), (8, "mmap"), (12, "mmap")] {
        let filter = [load(word), equal(5, 0, 1), says(KILL), says(ALLOW)];
        assert_eq!(first_forbidden(&filter), Some(first), "{word}");
        let either = [load(word), equal(5, 0, 1), says(LOG), says(ALLOW)];
        assert_eq!(first_forbidden(&either), None, "{word}");
    }
    assert_eq!(first_forbidden(&[load(8), i(0x16, 0, 0, 0)]), Some("mmap"), "says what is not known");
    assert_eq!(first_forbidden(&[i(0, 0, 0, ALLOW), i(0x16, 0, 0, 0)]), None);
}

#[test]
fn registers_and_memory_keep_what_is_put_there() {
    let through = [
        load(0),
        i(0x07, 0, 0, 0), // X = A
        i(0x00, 0, 0, 7), // A = 7
        i(0x02, 0, 0, 3), // M[3] = A
        i(0x61, 0, 0, 3), // X = M[3]
        i(0x87, 0, 0, 0), // A = X
        i(0x1c, 0, 0, 0), // A -= X
        i(0x03, 0, 0, 4), // M[4] = X
        i(0x60, 0, 0, 4), // A = M[4]
        i(0x1d, 0, 1, 0), // A == X
        says(ALLOW),
        says(KILL),
    ];
    assert_eq!(first_forbidden(&through), None);
    // Where two ways meet, what only one of them has put there is not known.
    let meet = [
        load(8),
        equal(5, 0, 2),
        i(0x00, 0, 0, ALLOW),
        i(0x05, 0, 0, 1),
        i(0x00, 0, 0, KILL),
        i(0x16, 0, 0, 0),
    ];
    assert_eq!(first_forbidden(&meet), Some("mmap"));
    let same = [
        load(8),
        equal(5, 0, 2),
        i(0x00, 0, 0, ALLOW),
        i(0x05, 0, 0, 1),
        i(0x00, 0, 0, ALLOW),
        i(0x16, 0, 0, 0),
    ];
    assert_eq!(first_forbidden(&same), None);
}

#[test]
fn what_a_filter_may_not_have_is_not_understood() {
    for code in [0x28, 0x30, 0x40, 0x21, 0x94, 0x0d, 0x55, 0x0e, 0x17, 0x104, 0xb1, 0xffff] {
        assert_eq!(first_forbidden(&[i(code, 0, 0, 0), says(ALLOW)]), Some("mmap"), "{code:#x}");
    }
    for nonsense in
        [load(64), load(2), i(0x60, 0, 0, 16), i(0x02, 0, 0, u32::MAX), i(0x34, 0, 0, 0), i(0x3c, 0, 0, 0)]
    {
        assert_eq!(first_forbidden(&[nonsense, says(ALLOW)]), Some("mmap"), "{nonsense:?}");
    }
    assert_eq!(first_forbidden(&[i(0x05, 0, 0, u32::MAX), says(ALLOW)]), Some("mmap"), "over the end");
    assert_eq!(first_forbidden(&[load(0)]), Some("mmap"));
    let endless: Filter = (0..4096).map(|_| load(0)).chain([says(ALLOW)]).collect();
    assert_eq!(first_forbidden(&endless), Some("mmap"), "longer than the kernel takes");
    assert_eq!(first_forbidden(&endless[1..]), None);
}

/// What filters of other projects say, made by libseccomp from their lists of calls (`fuzz/README.md`).
#[test]
fn the_filters_of_containers_and_services_allow_all_that_is_needed() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/corpus/seccomp/");
    for (name, forbids) in
        [("docker", None), ("system-service", None), ("no-sleep", Some("clock_nanosleep")), ("no-exec", None)]
    {
        let bytes = std::fs::read(format!("{folder}{name}")).expect("it is there");
        let filter: Filter = bytes.as_chunks().0.iter().map(|bytes| Instruction::of(*bytes)).collect();
        assert!(filter.len() > 10, "{name}");
        assert_eq!(first_forbidden(&filter), forbids, "{name}");
    }
}

/// The same with every word known: a plain interpreter, written apart.
fn run(filter: &[Instruction], data: [u32; 16]) -> Option<u32> {
    let (mut a, mut x, mut memory, mut at) = (0u32, 0u32, [0; 16], 0usize);
    loop {
        let Instruction { code, jt, jf, k } = *filter.get(at)?;
        at += 1;
        let b = if code & 8 != 0 { x } else { k };
        let jump = |holds: bool| usize::from(if holds { jt } else { jf });
        match code {
            0x20 => a = *data.get(k as usize / 4).filter(|_| k % 4 == 0)?,
            0x80 => a = 64,
            0x81 => x = 64,
            0x00 => a = k,
            0x01 => x = k,
            0x60 => a = *memory.get(k as usize)?,
            0x61 => x = *memory.get(k as usize)?,
            0x02 => *memory.get_mut(k as usize)? = a,
            0x03 => *memory.get_mut(k as usize)? = x,
            0x04 | 0x0c => a = a.wrapping_add(b),
            0x14 | 0x1c => a = a.wrapping_sub(b),
            0x24 | 0x2c => a = a.wrapping_mul(b),
            0x34 | 0x3c => a = a.checked_div(b)?,
            0x44 | 0x4c => a |= b,
            0x54 | 0x5c => a &= b,
            0x64 | 0x6c => a = a.wrapping_shl(b),
            0x74 | 0x7c => a = a.wrapping_shr(b),
            0x84 | 0x8c => a = a.wrapping_neg(),
            0xa4 | 0xac => a ^= b,
            0x05 => at += k as usize,
            0x15 | 0x1d => at += jump(a == b),
            0x25 | 0x2d => at += jump(a > b),
            0x35 | 0x3d => at += jump(a >= b),
            0x45 | 0x4d => at += jump(a & b != 0),
            0x06 => return Some(k),
            0x16 => return Some(a),
            0x07 => x = a,
            0x87 => a = x,
            _ => return None,
        }
    }
}

fn instruction() -> impl Strategy<Value = Instruction> {
    const CODES: &[u16] = &[
        0x20, 0x20, 0x20, 0x80, 0x81, 0x00, 0x01, 0x60, 0x61, 0x02, 0x03, 0x04, 0x0c, 0x14, 0x1c, 0x24, 0x2c,
        0x34, 0x3c, 0x44, 0x4c, 0x54, 0x5c, 0x64, 0x6c, 0x74, 0x7c, 0x84, 0x8c, 0xa4, 0xac, 0x05, 0x15, 0x15,
        0x15, 0x1d, 0x25, 0x2d, 0x35, 0x3d, 0x45, 0x4d, 0x06, 0x06, 0x16, 0x07, 0x87,
    ];
    let k = prop_oneof![
        Just(ALLOW),
        Just(LOG),
        Just(KILL),
        0u32..20,
        (0u32..16).prop_map(|word| word * 4),
        any::<u32>()
    ];
    (prop::sample::select(CODES), 0u8..6, 0u8..6, k).prop_map(|(code, jt, jf, k)| {
        // Jumps that are not too far, and places in memory that exist.
        let k = match code {
            0x05 => k % 6,
            0x02 | 0x03 | 0x60 | 0x61 => k % 4,
            _ => k,
        };
        i(code, jt, jf, k)
    })
}

fn filters() -> impl Strategy<Value = Filter> {
    let last = prop::sample::select(vec![ALLOW, ALLOW, ALLOW, KILL]);
    (prop::collection::vec(instruction(), 0..12), last).prop_map(|(mut filter, last)| {
        filter.extend([says(last); 7]);
        filter
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn what_is_taken_for_allowed_is_allowed_whatever_is_not_known(
        filter in filters(), data in prop::array::uniform16(0u32..20), known in any::<u16>()
    ) {
        let mut words = [Word::Any; 16];
        for (at, word) in words.iter_mut().enumerate() {
            if known & 1 << at != 0 {
                *word = Word::Is(data[at]);
            }
        }
        let made = run(&filter, data).is_some_and(|says| [ALLOW, LOG].contains(&(says & 0xffff_0000)));
        prop_assert!(made || !allows(&filter, &words), "{filter:?}");
        // And nothing is refused without need where all is known.
        prop_assert_eq!(made, allows(&filter, &data.map(Word::Is)), "{:?}", filter);
    }
}
