//! A function's instructions: where they begin, and by which of them it is left.

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, OpKind};

/// A stretch of machine code.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Body<'a> {
    /// ELF virtual address of its first byte.
    pub(crate) address: u64,
    /// The code.
    pub(crate) bytes: &'a [u8],
}

/// Whether an instruction begins at some place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Boundary {
    /// It does.
    Here,
    /// No: the nearest places before and behind where one does, bytes from the start.
    Within(u64, u64),
    /// The code can not be read that far.
    Unknown,
}

/// Why the instructions by which a function is left are not known. The texts are ends of "because ...".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unclear {
    Size,
    Unreadable,
    Tail,
    Computed,
    NoWay,
}

impl Unclear {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Size => "its size is not known",
            Self::Unreadable => "not all of its code can be decoded",
            Self::Tail => "it ends with a jump to another function",
            Self::Computed => "it jumps to computed addresses",
            Self::NoWay => "no instruction in it returns",
        }
    }
}

impl Body<'_> {
    fn instructions(&self) -> impl Iterator<Item = Instruction> + '_ {
        let mut decoder = Decoder::with_ip(64, self.bytes, self.address, DecoderOptions::NONE);
        std::iter::from_fn(move || decoder.can_decode().then(|| decoder.decode()))
    }

    fn contains(&self, address: u64) -> bool {
        address.checked_sub(self.address).is_some_and(|offset| offset < self.bytes.len() as u64)
    }

    /// Whether an instruction begins `offset` bytes behind the start, which is one's begin.
    pub(crate) fn boundary(&self, offset: u64) -> Boundary {
        for instruction in self.instructions() {
            let at = instruction.ip() - self.address;
            let end = at + instruction.len() as u64;
            if at == offset {
                return if instruction.is_invalid() { Boundary::Unknown } else { Boundary::Here };
            }
            if instruction.is_invalid() {
                return Boundary::Unknown;
            }
            if end > offset {
                return Boundary::Within(at, end);
            }
        }
        Boundary::Unknown
    }

    /// Whether what stands first is an instruction at all.
    pub(crate) fn is_code(&self) -> bool {
        self.instructions().next().is_some_and(|first| !first.is_invalid())
    }
}

/// The instructions by which a function returns, if those are all the ways out of it. `parts`: its body, and where it was
/// split the pieces of it that stand elsewhere.
///
/// # Errors
/// Why that is not known.
pub(crate) fn returns(parts: &[Body<'_>]) -> Result<Vec<u64>, Unclear> {
    let Some(entry) = parts.first().filter(|body| !body.bytes.is_empty()) else { return Err(Unclear::Size) };
    // Back to the entry is a call of itself, without a return in between.
    let stays = |target: u64| target != entry.address && parts.iter().any(|part| part.contains(target));
    let mut found = Vec::new();
    for instruction in parts.iter().flat_map(Body::instructions) {
        if instruction.is_invalid() {
            return Err(Unclear::Unreadable);
        }
        match instruction.flow_control() {
            FlowControl::Return => found.push(instruction.ip()),
            FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch
                if instruction.op0_kind() != OpKind::NearBranch64
                    || !stays(instruction.near_branch_target()) =>
            {
                return Err(Unclear::Tail);
            }
            // With control-flow protection, compilers mark the jumps of their own tables.
            FlowControl::IndirectBranch if !is_notrack(entry, parts, &instruction) => {
                return Err(Unclear::Computed);
            }
            _ => {}
        }
    }
    if found.is_empty() { Err(Unclear::NoWay) } else { Ok(found) }
}

/// Whether an indirect jump has the prefix that exempts it from control-flow protection.
fn is_notrack(entry: &Body<'_>, parts: &[Body<'_>], jump: &Instruction) -> bool {
    const NOTRACK: u8 = 0x3E;
    let part = parts.iter().find(|part| part.contains(jump.ip())).unwrap_or(entry);
    part.bytes.get((jump.ip() - part.address) as usize) == Some(&NOTRACK)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(bytes: &[u8]) -> Body<'_> {
        Body { address: 0x1000, bytes }
    }

    #[test]
    fn an_offset_is_at_an_instruction_or_between_two() {
        // endbr64; push %rbp; mov %rsp, %rbp; ret
        let code = body(&[0xF3, 0x0F, 0x1E, 0xFA, 0x55, 0x48, 0x89, 0xE5, 0xC3]);
        assert_eq!(code.boundary(0), Boundary::Here);
        assert_eq!(code.boundary(4), Boundary::Here);
        assert_eq!(code.boundary(6), Boundary::Within(5, 8));
        assert_eq!(code.boundary(99), Boundary::Unknown);
        assert_eq!(body(&[0x06]).boundary(0), Boundary::Unknown, "no instruction in 64-bit mode");
        assert!(code.is_code() && !body(&[0x06]).is_code());
    }

    #[test]
    fn every_return_is_found() {
        // test %edi, %edi; je +1; ret; rep ret
        let code = [0x85, 0xFF, 0x74, 0x01, 0xC3, 0xF3, 0xC3];
        assert_eq!(returns(&[body(&code)]), Ok(vec![0x1004, 0x1005]));
    }

    #[test]
    fn jumps_to_elsewhere_are_ways_out_too() {
        // jmp +0x100
        assert_eq!(returns(&[body(&[0xE9, 0, 1, 0, 0])]), Err(Unclear::Tail));
        // jmp to itself, that is, to the entry
        assert_eq!(returns(&[body(&[0xEB, 0xFE, 0xC3])]), Err(Unclear::Tail));
        // jmp *%rax; and with notrack, as a table's
        assert_eq!(returns(&[body(&[0xFF, 0xE0, 0xC3])]), Err(Unclear::Computed));
        assert_eq!(returns(&[body(&[0x3E, 0xFF, 0xE0, 0xC3])]), Ok(vec![0x1003]));
        // ud2; nothing at all
        assert_eq!(returns(&[body(&[0x0F, 0x0B])]), Err(Unclear::NoWay));
        assert_eq!(returns(&[body(&[])]), Err(Unclear::Size));
    }

    #[test]
    fn a_part_that_was_split_off_is_no_elsewhere() {
        // je to the cold part; ret
        let hot = [0x0F, 0x84, 0xFA, 0x0F, 0, 0, 0xC3];
        // ret
        let cold = Body { address: 0x2000, bytes: &[0xC3] };
        assert_eq!(returns(&[body(&hot), cold]), Ok(vec![0x1006, 0x2000]));
        assert_eq!(returns(&[body(&hot)]), Err(Unclear::Tail));
    }
}
