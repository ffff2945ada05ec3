//! From a row of the call frame information to ours.

use super::Slice;
use coz_common::unwind::{CallerBp, Row, kind};
use gimli::{
    CfaRule, Operation, Register, RegisterRule, UnwindExpression, UnwindSection, UnwindTableRow, X86_64,
};

/// One of ours, that begins at 0.
pub(super) fn row<'a, S: UnwindSection<Slice<'a>>>(row: &UnwindTableRow<usize>, frames: &S) -> Row {
    express(row, frames).unwrap_or_else(|| Row::new(0, kind::UNKNOWN, 0, CallerBp::Kept))
}

fn express<'a, S: UnwindSection<Slice<'a>>>(row: &UnwindTableRow<usize>, frames: &S) -> Option<Row> {
    match row.register(X86_64::RA) {
        Some(RegisterRule::Offset(-8)) => {}
        Some(RegisterRule::Undefined) => return Some(Row::new(0, kind::END, 0, CallerBp::Kept)),
        // On x86-64 the return address is just below the CFA; who says otherwise is not understood.
        _ => return None,
    }
    let bp = match row.register(X86_64::RBP) {
        None | Some(RegisterRule::SameValue) => CallerBp::Kept,
        Some(RegisterRule::Offset(offset)) => CallerBp::AtCfa(offset),
        Some(RegisterRule::Undefined) => CallerBp::Lost,
        Some(RegisterRule::Expression(expression)) => match operations(&expression, frames)?[..] {
            [Operation::RegisterOffset { register: X86_64::RBP, offset, .. }] => CallerBp::AtBp(offset),
            _ => return None,
        },
        Some(_) => return None,
    };
    let (kind, cfa) = match row.cfa() {
        CfaRule::RegisterAndOffset { register: X86_64::RSP, offset } => (kind::SP, *offset),
        CfaRule::RegisterAndOffset { register: X86_64::RBP, offset } => (kind::BP, *offset),
        CfaRule::RegisterAndOffset { .. } => return None,
        CfaRule::Expression(expression) => cfa(&operations(expression, frames)?)?,
    };
    Some(Row::new(0, kind, cfa, bp))
}

/// The two expressions that compilers and linkers write: what stands at `rbp` and an offset (a function that aligns its
/// stack), and `rsp + 8 + ((rip & 15) >= n) * 8` (an entry of the procedure linkage table).
fn cfa(operations: &[Operation<Slice<'_>>]) -> Option<(u16, i64)> {
    use Operation as Op;
    const RSP: Register = X86_64::RSP;
    const RIP: Register = X86_64::RA;
    match *operations {
        [
            Op::RegisterOffset { register: X86_64::RBP, offset, .. },
            Op::Deref { size: 8, space: false, .. },
        ] => Some((kind::AT_BP, offset)),
        [
            Op::RegisterOffset { register: RSP, offset: 8, .. },
            Op::RegisterOffset { register: RIP, offset: 0, .. },
            Op::UnsignedConstant { value: 15 },
            Op::And,
            Op::UnsignedConstant { value: pushed @ 0..16 },
            Op::Ge,
            Op::UnsignedConstant { value: 3 },
            Op::Shl,
            Op::Plus,
        ] => Some((kind::PLT, pushed as i64)),
        _ => None,
    }
}

/// Longer expressions are none of these.
const MAX_OPERATIONS: usize = 16;

fn operations<'a, S: UnwindSection<Slice<'a>>>(
    expression: &UnwindExpression<usize>,
    frames: &S,
) -> Option<Vec<Operation<Slice<'a>>>> {
    let encoding = gimli::Encoding { address_size: 8, format: gimli::Format::Dwarf32, version: 4 };
    let mut left = expression.get(frames).ok()?.operations(encoding);
    let mut found = Vec::new();
    while let Some(operation) = left.next().ok()? {
        found.push(operation);
        if found.len() > MAX_OPERATIONS {
            return None;
        }
    }
    Some(found)
}
