//! Types made up by hand, the running kernel's, and broken files.

use proptest::prelude::*;

use super::*;

/// Writes BTF; ids are given in order, from 1.
#[derive(Default)]
struct Builder {
    types: Vec<u8>,
    strings: Vec<u8>,
    count: u32,
}

impl Builder {
    fn string(&mut self, text: &str) -> u32 {
        if self.strings.is_empty() {
            self.strings.push(0);
        }
        if text.is_empty() {
            return 0;
        }
        let at = self.strings.len() as u32;
        self.strings.extend_from_slice(text.as_bytes());
        self.strings.push(0);
        at
    }

    fn add(&mut self, name: &str, kind: u8, info: u32, size_or_type: u32, body: &[u32]) -> u32 {
        let name = self.string(name);
        for word in [name, u32::from(kind) << 24 | info, size_or_type].iter().chain(body) {
            self.types.extend_from_slice(&word.to_le_bytes());
        }
        self.count += 1;
        self.count
    }

    /// Members: name, type, offset in bits.
    fn aggregate(&mut self, name: &str, kind: u8, size: u32, members: &[(&str, u32, u32)]) -> u32 {
        let body: Vec<u32> =
            members.iter().flat_map(|&(name, id, bits)| [self.string(name), id, bits]).collect();
        self.add(name, kind, members.len() as u32, size, &body)
    }

    fn finish(self) -> Vec<u8> {
        let lengths = [0, self.types.len() as u32, self.types.len() as u32, self.strings.len() as u32];
        let mut data = vec![0x9f, 0xeb, 1, 0, 24, 0, 0, 0];
        lengths.iter().for_each(|word| data.extend_from_slice(&word.to_le_bytes()));
        data.extend(self.types);
        data.extend(self.strings);
        data
    }
}

/// ```c
/// typedef struct { int counter; } atomic_t;
/// struct inner { int mode; atomic_t count; };
/// struct outer { long a; union { struct { int b; const struct inner in; }; char c[24]; }; struct outer *next; struct inner many[3]; };
/// ```
fn sample() -> Vec<u8> {
    let mut b = Builder::default();
    let int = b.add("int", kind::INT, 0, 4, &[0x0100_0020]);
    let long = b.add("long", kind::INT, 0, 8, &[0x0100_0040]);
    let char_ = b.add("char", kind::INT, 0, 1, &[0x0100_0008]);
    let anonymous = b.aggregate("", kind::STRUCT, 4, &[("counter", int, 0)]);
    let atomic = b.add("atomic_t", kind::TYPEDEF, 0, anonymous, &[]);
    let inner = b.aggregate("inner", kind::STRUCT, 8, &[("mode", int, 0), ("count", atomic, 32)]);
    let constant = b.add("", kind::CONST, 0, inner, &[]);
    let chars = b.add("", kind::ARRAY, 0, 0, &[char_, long, 24]);
    let nested = b.aggregate("", kind::STRUCT, 12, &[("b", int, 0), ("in", constant, 32)]);
    let union = b.aggregate("", kind::UNION, 24, &[("", nested, 0), ("c", chars, 0)]);
    let many = b.add("", kind::ARRAY, 0, 0, &[inner, long, 3]);
    let pointer = b.add("", kind::PTR, 0, b.count + 2, &[]);
    b.aggregate(
        "outer",
        kind::STRUCT,
        64,
        &[("a", long, 0), ("", union, 64), ("next", pointer, 256), ("many", many, 320)],
    );
    // A struct with bit fields: `unsigned x:4, y:4; int z;`
    let fields: Vec<u32> = [("x", 4 << 24), ("y", 4 << 24 | 4), ("z", 32)]
        .iter()
        .flat_map(|&(n, o)| [b.string(n), int, o])
        .collect();
    b.add("bits", kind::STRUCT, 1 << 31 | 3, 8, &fields);
    b.finish()
}

#[test]
fn members_are_found_through_anonymous_ones_and_by_dots() {
    let btf = Btf::parse(&sample()).unwrap();
    let at = |path: &str| btf.member("outer", path).map(|m| (m.offset, m.size));
    assert_eq!(at("a"), Ok((0, 8)));
    assert_eq!(at("b"), Ok((8, 4)));
    assert_eq!(at("c"), Ok((8, 24)));
    assert_eq!(at("in"), Ok((12, 8)));
    assert_eq!(at("in.mode"), Ok((12, 4)));
    assert_eq!(at("in.count"), Ok((16, 4)));
    assert_eq!(at("in.count.counter"), Ok((16, 4)));
    assert_eq!(at("next"), Ok((32, 8)));
    assert_eq!(at("many"), Ok((40, 24)));
    assert_eq!(at("many.count"), Ok((44, 4)));
    assert_eq!(btf.offset("atomic_t", "counter"), Ok(0));
}

#[test]
fn what_is_not_there_is_named() {
    let btf = Btf::parse(&sample()).unwrap();
    assert_eq!(btf.offset("nothing", "a"), Err(BtfError::NoType("nothing".into())));
    // A pointer is not followed; a prefix of a name is another name.
    for member in ["next.a", "missing", "in.", "", "in.mod", "in.modes"] {
        let error = BtfError::NoMember { of: "outer".into(), member: member.into() };
        assert_eq!(btf.offset("outer", member), Err(error));
    }
    assert!(btf.has_type("inner") && !btf.has_type("inne") && !btf.has_type(""));
}

#[test]
fn sizes_and_bit_fields() {
    let btf = Btf::parse(&sample()).unwrap();
    assert_eq!(btf.size("outer"), Ok(64));
    assert_eq!(btf.size("atomic_t"), Ok(4));
    assert_eq!(btf.offset("bits", "x"), Ok(0));
    assert!(btf.offset("bits", "y").is_err(), "starts within a byte");
    assert_eq!(btf.offset("bits", "z"), Ok(4));
}

#[test]
fn circles_end() {
    let mut b = Builder::default();
    b.add("loop", kind::TYPEDEF, 0, 1, &[]);
    b.aggregate("self", kind::STRUCT, 8, &[("", 2, 0)]);
    let btf = Btf::parse(&b.finish()).unwrap();
    assert!(btf.size("loop").is_err());
    assert!(btf.offset("loop", "x").is_err());
    assert!(btf.offset("self", "x").is_err());
}

#[test]
fn a_circle_that_branches_ends_soon() {
    // Every member of 16 leads back: without a bound on the work, 16 to the power of the depth.
    let mut b = Builder::default();
    b.aggregate("tree", kind::STRUCT, 8, &[("", 1, 0); 16]);
    let btf = Btf::parse(&b.finish()).unwrap();
    let start = std::time::Instant::now();
    assert!(btf.offset("tree", "x").is_err());
    assert!(start.elapsed().as_secs() < 5);
}

#[test]
fn the_running_kernels_types() {
    let btf = Btf::load().expect("the kernel's BTF");
    assert!(btf.type_count() > 10_000);
    let at = |of: &str, member: &str| btf.member(of, member).unwrap();
    let (pid, tgid) = (at("task_struct", "pid"), at("task_struct", "tgid"));
    assert_eq!((pid.size, tgid.size), (4, 4));
    assert_eq!(tgid.offset, pid.offset + 4, "neighbours in every kernel so far");
    for (member, size) in [
        ("thread_pid", 8),
        ("sighand", 8),
        ("signal", 8),
        ("real_parent", 8),
        ("blocked", 8),
        ("seccomp.mode", 4),
        ("seccomp.filter_count", 4),
        ("__state", 4),
        ("flags", 4),
    ] {
        assert_eq!(at("task_struct", member).size, size, "{member}");
    }
    let action = at("sighand_struct", "action");
    assert_eq!(action.size, 64 * btf.size("k_sigaction").unwrap());
    assert_eq!(at("k_sigaction", "sa.sa_handler"), Member { offset: 0, size: 8 });
    assert_eq!(btf.size("upid"), Ok(16));
    assert_eq!(at("upid", "nr").size, 4);
    assert_eq!(at("upid", "ns").size, 8);
    assert_eq!(at("pid", "level").size, 4);
    assert!(at("pid", "numbers").offset > 0);
    assert_eq!(at("pid_namespace", "ns.inum").size, 4);
    assert!(btf.size("signal_struct").unwrap() > 100);
    assert!(btf.has_type("btf_trace_sched_switch") && !btf.has_type("btf_trace_no_such_thing"));
}

#[test]
fn every_truncation_is_an_error() {
    let whole = sample();
    for length in 0..whole.len() {
        assert!(Btf::parse(&whole[..length]).is_err(), "{length}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn broken_bytes_never_panic(flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20)) {
        let mut data = sample();
        for (index, value) in flips {
            let at = index.index(data.len());
            data[at] = value;
        }
        if let Ok(btf) = Btf::parse(&data) {
            for name in ["outer", "inner", "atomic_t", "bits"] {
                let _ = btf.size(name);
                for path in ["a", "b", "in.count.counter", "many.mode", "z", "missing"] {
                    let _ = btf.member(name, path);
                }
            }
        }
    }

    #[test]
    fn random_bytes_never_panic(tail in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut data = vec![0x9f, 0xeb, 1, 0, 24, 0, 0, 0];
        data.extend(tail);
        if let Ok(btf) = Btf::parse(&data) {
            let _ = btf.member("x", "y");
        }
    }
}

#[test]
fn parameters_are_counted_behind_names_and_pointers() {
    let mut made = Builder::default();
    let int = made.add("int", kind::INT, 0, 4, &[32]);
    // Of type 0, void: what is returned. Each parameter is a name and a type.
    let function = made.add("", kind::FUNC_PROTO, 2, 0, &[0, int, 0, int]);
    let pointer = made.add("", kind::PTR, 0, function, &[]);
    made.add("btf_trace_two", kind::TYPEDEF, 0, pointer, &[]);
    let btf = Btf::parse(&made.finish()).unwrap();
    assert_eq!(btf.parameters("btf_trace_two"), Some(2));
    assert_eq!(btf.parameters("int"), None, "no function");
    assert_eq!(btf.parameters("btf_trace_three"), None, "no such type");
}

#[test]
fn typedefs_keep_their_numbers_in_the_short_form() {
    let whole = Btf::parse(&sample()).unwrap();
    let names = ["atomic_t", "outer", "no_such_type"].map(str::to_owned);
    let short = Btf::parse(&whole.only_typedefs(&names)).unwrap();
    let id = |btf: &Btf, name: &str| btf.ids(name).next();
    assert!(id(&whole, "atomic_t").is_some());
    assert_eq!(id(&short, "atomic_t"), id(&whole, "atomic_t"));
    assert!(!short.has_type("outer"), "a struct is no typedef");
    assert!(!short.has_type("no_such_type"));
    let none = Btf::parse(&whole.only_typedefs(&[])).unwrap();
    assert_eq!(none.type_count(), 0);
}
