//! A filter, in classic BPF: can it do anything but allow a call of which we know some words?
//!
//! Every way through it is followed that what is not known may lead to. Jumps go forward only, so one pass does: what is known
//! where two ways meet is what both know.

/// Longest filter that the kernel takes (`BPF_MAXINSNS`).
const MOST: usize = 4096;
/// Bytes of `struct seccomp_data`.
const LENGTH: u32 = 64;
/// `SECCOMP_RET_ACTION_FULL`, and the two actions that let a call be made: `SECCOMP_RET_ALLOW`, `SECCOMP_RET_LOG`.
const ACTION: u32 = 0xffff_0000;
const ALLOWS: [u32; 2] = [0x7fff_0000, 0x7ffc_0000];
/// Bits of an operation that say what kind it is, which operation, and that the other operand is X.
const CLASS: u16 = 0x07;
const OPERATION: u16 = 0xf0;
const FROM_X: u16 = 0x08;

/// `struct sock_filter`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Instruction {
    /// What to do.
    pub code: u16,
    /// How many to skip if it holds.
    pub jt: u8,
    /// How many to skip if not.
    pub jf: u8,
    /// A number.
    pub k: u32,
}

impl Instruction {
    /// Its size in bytes, as the kernel has it.
    pub const SIZE: usize = 8;

    /// Reads one from the kernel's form.
    #[must_use]
    pub const fn of(bytes: [u8; Self::SIZE]) -> Self {
        let [a, b, jt, jf, c, d, e, f] = bytes;
        Self { code: u16::from_ne_bytes([a, b]), jt, jf, k: u32::from_ne_bytes([c, d, e, f]) }
    }
}

/// What is known of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// All.
    Is(u32),
    /// Nothing.
    Any,
}

impl Word {
    /// What two ways both know.
    fn meet(self, other: Self) -> Self {
        if self == other { self } else { Self::Any }
    }

    fn with(self, other: Self, operation: impl FnOnce(u32, u32) -> u32) -> Self {
        match (self, other) {
            (Self::Is(a), Self::Is(b)) => Self::Is(operation(a, b)),
            _ => Self::Any,
        }
    }
}

/// What is known at a place.
#[derive(Clone, Copy, Debug)]
struct Known {
    a: Word,
    x: Word,
    memory: [Word; 16],
}

impl Known {
    /// The kernel takes no filter that reads memory before it has written it.
    const BEGIN: Self = Self { a: Word::Is(0), x: Word::Is(0), memory: [Word::Is(0); 16] };

    fn meet(self, other: Self) -> Self {
        let mut memory = self.memory;
        for (one, other) in memory.iter_mut().zip(other.memory) {
            *one = one.meet(other);
        }
        Self { a: self.a.meet(other.a), x: self.x.meet(other.x), memory }
    }
}

/// Where it goes on.
enum Step {
    /// So many instructions after the next.
    Skip(u32),
    /// By one of two ways.
    Either(u8, u8),
    /// It ends with this.
    Says(Word),
}

/// Whether a filter allows a call, by the words of its `struct seccomp_data`, whatever those are that are not known. `false`
/// also for a filter with an operation that we do not know.
#[must_use]
pub fn allows(filter: &[Instruction], data: &[Word; 16]) -> bool {
    if filter.len() > MOST {
        return false;
    }
    let mut places: Vec<Option<Known>> = vec![None; filter.len()];
    let Some(first) = places.first_mut() else { return false };
    *first = Some(Known::BEGIN);
    for (at, instruction) in filter.iter().enumerate() {
        let Some(mut known) = places[at].take() else { continue };
        let Some(step) = step(*instruction, data, &mut known) else { return false };
        let mut go = |skip: usize| {
            // The kernel takes no filter that can run over its end.
            let Some(place) = places.get_mut(at + 1 + skip) else { return false };
            *place = Some(place.map_or(known, |other| other.meet(known)));
            true
        };
        let goes_on = match step {
            Step::Says(Word::Is(action)) => ALLOWS.contains(&(action & ACTION)),
            Step::Says(Word::Any) => false,
            Step::Skip(count) => go(count as usize),
            Step::Either(one, other) => go(one.into()) && go(other.into()),
        };
        if !goes_on {
            return false;
        }
    }
    true
}

/// Does one instruction; `None`: it is not one that a filter may have.
fn step(instruction: Instruction, data: &[Word; 16], known: &mut Known) -> Option<Step> {
    const NEXT: Step = Step::Skip(0);
    let Instruction { code, jt, jf, k } = instruction;
    let place = || usize::try_from(k).ok().filter(|&place| place < 16);
    match code & CLASS {
        // LD and LDX: a word of the call (LD only), their number, a number, memory.
        class @ (0 | 1) => {
            let value = match code & !CLASS {
                0x20 if class == 0 && k < LENGTH && k % 4 == 0 => data[k as usize / 4],
                0x80 => Word::Is(LENGTH),
                0x00 => Word::Is(k),
                0x60 => known.memory[place()?],
                _ => return None,
            };
            if class == 0 { known.a = value } else { known.x = value }
        }
        // ST and STX.
        2 if code == 0x02 => known.memory[place()?] = known.a,
        3 if code == 0x03 => known.memory[place()?] = known.x,
        4 if code & 0xff00 == 0 => {
            let other = if code & FROM_X == 0 { Word::Is(k) } else { known.x };
            known.a = compute(code & OPERATION, known.a, other)?;
        }
        5 if code & 0xff00 == 0 => {
            let other = if code & FROM_X == 0 { Word::Is(k) } else { known.x };
            if code & OPERATION == 0 {
                return (code == 0x05).then_some(Step::Skip(k));
            }
            let holds: fn(u32, u32) -> bool = match code & OPERATION {
                0x10 => |a, b| a == b,
                0x20 => |a, b| a > b,
                0x30 => |a, b| a >= b,
                0x40 => |a, b| a & b != 0,
                _ => return None,
            };
            return Some(match (known.a, other) {
                (Word::Is(a), Word::Is(b)) => Step::Skip(u32::from(if holds(a, b) { jt } else { jf })),
                _ => Step::Either(jt, jf),
            });
        }
        6 => {
            return match code {
                0x06 => Some(Step::Says(Word::Is(k))),
                0x16 => Some(Step::Says(known.a)),
                _ => None,
            };
        }
        // TAX and TXA.
        7 if code == 0x07 => known.x = known.a,
        7 if code == 0x87 => known.a = known.x,
        _ => return None,
    }
    Some(NEXT)
}

/// Arithmetic on A. A shift counts by its last five bits; a division by zero ends the call.
fn compute(operation: u16, a: Word, other: Word) -> Option<Word> {
    Some(match operation {
        0x00 => a.with(other, |a, b| a.wrapping_add(b)),
        0x10 => a.with(other, |a, b| a.wrapping_sub(b)),
        0x20 => a.with(other, |a, b| a.wrapping_mul(b)),
        0x30 => match other {
            Word::Is(divisor) if divisor != 0 => a.with(other, |a, b| a / b),
            _ => return None,
        },
        0x40 => a.with(other, |a, b| a | b),
        0x50 => a.with(other, |a, b| a & b),
        0x60 => a.with(other, |a, b| a.wrapping_shl(b)),
        0x70 => a.with(other, |a, b| a.wrapping_shr(b)),
        0x80 => a.with(Word::Is(0), |a, _| a.wrapping_neg()),
        0xa0 => a.with(other, |a, b| a ^ b),
        _ => return None,
    })
}
