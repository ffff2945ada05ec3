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

    /// The first instruction behind the one at `address` that is not `unfit`, where each pass of the one is a pass of the other:
    /// straight on, and no jump within the body leads in between.
    pub(crate) fn behind(&self, address: u64, unfit: impl Fn(&[u8]) -> bool) -> Option<u64> {
        let code: Vec<Instruction> = self.instructions().collect();
        let first = code.iter().position(|i| i.ip() == address)?;
        let is_target = |to: u64| code.iter().any(|i| i.near_branch_target() == to);
        let is_computed = code.iter().any(|i| i.flow_control() == FlowControl::IndirectBranch);
        for pair in code[first..].windows(2) {
            let (this, next) = (&pair[0], &pair[1]);
            let is_passed = this.flow_control() == FlowControl::Next && !this.is_invalid();
            if is_computed || !is_passed || next.is_invalid() || is_target(next.ip()) {
                return None;
            }
            let bytes = self.bytes.get((next.ip() - self.address) as usize..)?;
            if !unfit(bytes) {
                return Some(next.ip());
            }
        }
        None
    }

    /// Whether what stands first is an instruction at all.
    pub(crate) fn is_code(&self) -> bool {
        self.instructions().next().is_some_and(|first| !first.is_invalid())
    }
}

/// Behind the check of a Go function whether its stack is large enough, bytes from its entry: where that is not so the
/// function gets another stack and begins anew, without a return in between. 0: there is no such check.
pub(crate) fn behind_stack_check(body: &Body<'_>) -> u64 {
    let code: Vec<Instruction> = body.instructions().collect();
    let is_straight = |i: &&Instruction| matches!(i.flow_control(), FlowControl::Next | FlowControl::Call);
    // The piece that ends with a jump to the entry.
    let Some(end) = code.iter().rposition(|i| {
        i.flow_control() == FlowControl::UnconditionalBranch && i.near_branch_target() == body.address
    }) else {
        return 0;
    };
    let length = code[..end].iter().rev().take_while(is_straight).count();
    let grows = &code[end - length..end];
    // The checks are all that stands before the last jump to it.
    let leads = |i: &Instruction| {
        i.flow_control() == FlowControl::ConditionalBranch
            && grows.iter().any(|first| first.ip() == i.near_branch_target())
    };
    let Some(last) = code.iter().position(leads) else { return 0 };
    let more = code[last + 1..].iter().take(3).rposition(leads).map_or(0, |more| more + 1);
    let behind = code[last + more].next_ip();
    let begins_a_loop = code.iter().any(|i| i.near_branch_target() == behind);
    if begins_a_loop || behind >= code[end].ip() { 0 } else { behind - body.address }
}

/// The instructions by which a function returns, if those are all the ways out of it. `parts`: its body, and where it was
/// split the pieces of it that stand elsewhere.
///
/// # Errors
/// Why that is not known.
pub(crate) fn returns(parts: &[Body<'_>], is_go: bool) -> Result<Vec<u64>, Unclear> {
    let Some(entry) = parts.first().filter(|body| !body.bytes.is_empty()) else { return Err(Unclear::Size) };
    // Back to the entry is a call of itself, without a return in between.
    let begins_anew = is_go && behind_stack_check(entry) > 0;
    let stays = |target: u64| {
        (target != entry.address || begins_anew) && parts.iter().any(|part| part.contains(target))
    };
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
    fn behind_an_instruction_is_the_next_one_that_is_passed_as_often() {
        let is_atomic = |code: &[u8]| code.first() == Some(&0xF0);
        // lock incl (%rdi); ret
        let counts = [0xF0, 0xFF, 0x07, 0xC3];
        assert_eq!(body(&counts).behind(0x1000, is_atomic), Some(0x1003));
        // lock incl (%rdi); lock incl (%rsi); nop
        let twice = [0xF0, 0xFF, 0x07, 0xF0, 0xFF, 0x06, 0x90];
        assert_eq!(body(&twice).behind(0x1000, is_atomic), Some(0x1006));
        // lock incl (%rdi); dec %eax; jne back to dec: passed more often than the first.
        let spins = [0xF0, 0xFF, 0x07, 0xFF, 0xC8, 0x75, 0xFC, 0xC3];
        assert_eq!(body(&spins).behind(0x1000, is_atomic), None);
        // lock incl (%rdi); jmp *%rax: anywhere.
        assert_eq!(body(&[0xF0, 0xFF, 0x07, 0x90, 0xFF, 0xE0]).behind(0x1000, is_atomic), None);
        assert_eq!(
            body(&[0xC3, 0x90]).behind(0x1000, is_atomic),
            None,
            "what returns is passed, what follows is not"
        );
        assert_eq!(body(&[0xF0, 0xFF, 0x07]).behind(0x1000, is_atomic), None, "nothing behind it");
    }

    #[test]
    fn every_return_is_found() {
        // test %edi, %edi; je +1; ret; rep ret
        let code = [0x85, 0xFF, 0x74, 0x01, 0xC3, 0xF3, 0xC3];
        assert_eq!(returns(&[body(&code)], false), Ok(vec![0x1004, 0x1005]));
    }

    #[test]
    fn jumps_to_elsewhere_are_ways_out_too() {
        // jmp +0x100
        assert_eq!(returns(&[body(&[0xE9, 0, 1, 0, 0])], false), Err(Unclear::Tail));
        // jmp to itself, that is, to the entry
        assert_eq!(returns(&[body(&[0xEB, 0xFE, 0xC3])], false), Err(Unclear::Tail));
        // jmp *%rax; and with notrack, as a table's
        assert_eq!(returns(&[body(&[0xFF, 0xE0, 0xC3])], false), Err(Unclear::Computed));
        assert_eq!(returns(&[body(&[0x3E, 0xFF, 0xE0, 0xC3])], false), Ok(vec![0x1003]));
        // ud2; nothing at all
        assert_eq!(returns(&[body(&[0x0F, 0x0B])], false), Err(Unclear::NoWay));
        assert_eq!(returns(&[body(&[])], false), Err(Unclear::Size));
    }

    #[test]
    fn a_part_that_was_split_off_is_no_elsewhere() {
        // je to the cold part; ret
        let hot = [0x0F, 0x84, 0xFA, 0x0F, 0, 0, 0xC3];
        // ret
        let cold = Body { address: 0x2000, bytes: &[0xC3] };
        assert_eq!(returns(&[body(&hot), cold], false), Ok(vec![0x1006, 0x2000]));
        assert_eq!(returns(&[body(&hot)], false), Err(Unclear::Tail));
    }

    #[test]
    fn a_go_function_that_begins_anew_with_a_larger_stack_has_not_returned() {
        // cmp 0x10(%r14), %rsp; jbe +5; sub $8, %rsp; add $8, %rsp... ; ret; call; jmp to the entry
        let small = [
            0x49, 0x3B, 0x66, 0x10, 0x76, 0x09, 0x48, 0x83, 0xEC, 0x08, 0x48, 0x83, 0xC4, 0x08, 0xC3, 0xE8,
            0, 0, 0, 0, 0xEB, 0xEA,
        ];
        assert_eq!(behind_stack_check(&body(&small)), 6);
        assert_eq!(returns(&[body(&small)], true), Ok(vec![0x100E]));
        assert_eq!(returns(&[body(&small)], false), Err(Unclear::Tail), "elsewhere it is a call of itself");
        // mov %rsp, %r12; sub $0x100, %r12; jb; cmp 0x10(%r14), %r12; jbe; nop; ret; call; jmp
        let large = [
            0x49, 0x89, 0xE4, 0x49, 0x81, 0xEC, 0, 1, 0, 0, 0x72, 0x08, 0x4D, 0x3B, 0x66, 0x10, 0x76, 0x02,
            0x90, 0xC3, 0xE8, 0, 0, 0, 0, 0xEB, 0xE5,
        ];
        assert_eq!(behind_stack_check(&body(&large)), 18);
        assert_eq!(returns(&[body(&large)], true), Ok(vec![0x1013]));
        // Without a check there is nothing to be behind of; and a loop's begin is passed again and again.
        assert_eq!(behind_stack_check(&body(&[0x90, 0xC3])), 0);
        assert_eq!(behind_stack_check(&body(&[0x90, 0xEB, 0xFD, 0xC3])), 0);
        let mut loops = small;
        loops[10..14].copy_from_slice(&[0xEB, 0xFA, 0x90, 0x90]);
        assert_eq!(behind_stack_check(&body(&loops)), 0);
    }
}
