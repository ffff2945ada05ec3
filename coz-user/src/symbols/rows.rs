//! The rows of a unit's line table: from which address on the code is whose line.

use super::dwarf::RawUnit;

/// The `file` of a row that says "no code from here on".
pub(crate) const NO_FILE: u32 = u32::MAX;

/// From `address` on, code belongs to `line` of `file`, up to the next row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) address: u64,
    /// Number of the file in the unit, or [`NO_FILE`].
    pub(crate) file: u32,
    /// 0: the compiler made the code up, and no row before it says for which line.
    pub(crate) line: u32,
}

/// A unit's line table.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    /// Sorted by address, one row an address; after each sequence one with [`NO_FILE`].
    pub(crate) rows: Vec<Row>,
    /// First address of each sequence, and one past its last.
    pub(crate) sequences: Vec<(u64, u64)>,
    /// Why reading ended early.
    pub(crate) damage: Option<String>,
}

/// Reads a line table as far as it goes. `is_code` says whether an address is in the program: other sequences
/// describe code that the linker threw away.
///
/// Rows of line 0 take the line of the row before them, if there is one in the sequence.
pub(crate) fn read(unit: &RawUnit<'_>, is_code: impl Fn(u64) -> bool) -> Rows {
    let mut sequences: Vec<Vec<Row>> = Vec::new();
    let mut damage = None;
    let mut current: Vec<Row> = Vec::new();
    if let Some(program) = unit.line_program.clone() {
        let mut rows = program.rows();
        loop {
            let row = match rows.next_row() {
                Ok(Some((_, row))) => row,
                Ok(None) => break,
                Err(e) => {
                    damage = Some(format!("the line table ends early: {e}"));
                    break;
                }
            };
            let end = row.end_sequence();
            let line = row.line().map_or(0, |line| u32::try_from(line.get()).unwrap_or(0));
            let file = u32::try_from(row.file_index()).unwrap_or(NO_FILE);
            push(&mut current, Row { address: row.address(), file: if end { NO_FILE } else { file }, line });
            if end {
                sequences.push(std::mem::take(&mut current));
            }
        }
    }
    sequences.retain(|rows| match (rows.first(), rows.last()) {
        (Some(first), Some(last)) => first.address < last.address && is_code(first.address),
        _ => false,
    });
    sequences.sort_by_key(|rows| rows.first().map(|row| row.address));
    flatten(sequences, damage)
}

fn push(rows: &mut Vec<Row>, mut row: Row) {
    if row.file != NO_FILE
        && row.line == 0
        && let Some(before) = rows.last()
    {
        (row.file, row.line) = (before.file, before.line);
    }
    match rows.last_mut() {
        // Of several rows at one address only the last has any code.
        Some(last) if last.address == row.address => *last = row,
        // Addresses only grow within a sequence; what contradicts that is damage.
        Some(last) if last.address > row.address => {}
        Some(last) if last.file == row.file && last.line == row.line => {}
        _ => rows.push(row),
    }
}

fn flatten(sequences: Vec<Vec<Row>>, damage: Option<String>) -> Rows {
    let mut all = Rows { damage, ..Rows::default() };
    for rows in sequences {
        let (Some(first), Some(last)) = (rows.first(), rows.last()) else { continue };
        match all.rows.last() {
            // Two sequences for one address: identical functions that the linker folded. The first serves.
            Some(end) if end.address > first.address => continue,
            Some(end) if end.address == first.address => drop(all.rows.pop()),
            _ => {}
        }
        all.sequences.push((first.address, last.address));
        all.rows.extend(rows);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(address: u64, file: u32, line: u32) -> Row {
        Row { address, file, line }
    }

    #[test]
    fn the_last_of_several_rows_at_one_address_counts() {
        let mut rows = Vec::new();
        for r in [row(1, 1, 10), row(1, 1, 11), row(5, 1, 11), row(9, 1, 12)] {
            push(&mut rows, r);
        }
        assert_eq!(rows, [row(1, 1, 11), row(9, 1, 12)]);
    }

    #[test]
    fn code_of_no_line_belongs_to_the_line_before() {
        let mut rows = Vec::new();
        for r in [row(1, 1, 0), row(3, 2, 7), row(5, 1, 0), row(8, 1, 9)] {
            push(&mut rows, r);
        }
        assert_eq!(rows, [row(1, 1, 0), row(3, 2, 7), row(8, 1, 9)]);
    }

    #[test]
    fn sequences_join_without_a_gap_and_never_overlap() {
        let one = vec![row(0, 1, 1), row(4, NO_FILE, 0)];
        let two = vec![row(4, 1, 2), row(8, NO_FILE, 0)];
        let inside = vec![row(6, 1, 3), row(9, NO_FILE, 0)];
        let all = flatten(vec![one, two, inside], None);
        assert_eq!(all.rows, [row(0, 1, 1), row(4, 1, 2), row(8, NO_FILE, 0)]);
        assert_eq!(all.sequences, [(0, 4), (4, 8)]);
    }
}
