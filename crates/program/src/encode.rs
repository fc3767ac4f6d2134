//! Programs as bytes (docs/format/read-program.md).

use drystone_curve::Curve;
use drystone_expression::Type;
use drystone_format::column;
use drystone_transform::Precision;
use drystone_transform::stats::ScalarKind;

use crate::program::Answer;
use crate::program::{Arrangement, Item, MAX_ITEMS, MAX_PROGRAM_LEN, Mode, Program, ProgramError};

pub(crate) const MAGIC: [u8; 4] = *b"DRYP";
/// Number of columns, one for each number of an item.
pub(crate) const COLUMNS: usize = 14;

/// Kinds of elements, by code.
pub(crate) const KINDS: [ScalarKind; 14] = {
    use ScalarKind::*;
    [Bool, I8, I16, I32, I64, U8, U16, U32, U64, F16, BF16, F32, F64, Other]
};

/// Types of values, by code.
pub(crate) const TYPES: [Type; 11] = {
    use Type::*;
    [Bool, I1, I2, I4, I8, U1, U2, U4, U8, F4, F8]
};

/// Answers, by code.
pub(crate) const ANSWERS: [Answer; 3] = [Answer::Values, Answer::Cells, Answer::Count];

impl Program {
    /// Encodes the program. A program that exceeds the length limit is refused.
    pub fn encode(&self) -> Result<Vec<u8>, ProgramError> {
        if self.items.len() > MAX_ITEMS {
            return Err(ProgramError::TooLarge(format!("{} items", self.items.len())));
        }
        let mut out = MAGIC.to_vec();
        let version = self.version();
        out.extend(version.to_le_bytes());
        out.extend(0u16.to_le_bytes());
        for count in [self.chains.len(), self.arrangements.len(), self.rules.len(), self.conditions.len()] {
            let count =
                u16::try_from(count).map_err(|_| ProgramError::TooLarge(format!("{count} in a table")))?;
            out.extend(count.to_le_bytes());
        }
        out.extend((self.items.len() as u32).to_le_bytes());
        for chain in &self.chains {
            let len = u16::try_from(chain.len());
            let len = len.map_err(|_| ProgramError::TooLarge(format!("a chain of {} bytes", chain.len())))?;
            out.extend(len.to_le_bytes());
            out.extend(chain.as_bytes());
        }
        self.arrangements.iter().for_each(|arrangement| put_arrangement(&mut out, arrangement));
        for rule in &self.rules {
            put_bytes(&mut out, &rule.encode());
        }
        for condition in &self.conditions {
            out.push(TYPES.iter().position(|t| *t == condition.dtype).unwrap_or(0) as u8);
            if version > 1 {
                out.push(ANSWERS.iter().position(|a| *a == condition.answer).unwrap_or(0) as u8);
            }
            put_bytes(&mut out, &condition.tree.encode());
        }
        let rows: Vec<[u64; COLUMNS]> = self.items.iter().map(numbers).collect();
        for c in 0..COLUMNS {
            let values: Vec<u64> = rows.iter().filter_map(|row| row.get(c)).copied().collect();
            column::encode(&values, &mut out);
        }
        if out.len() > MAX_PROGRAM_LEN {
            return Err(ProgramError::TooLarge(format!("{} bytes", out.len())));
        }
        Ok(out)
    }
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend((bytes.len() as u32).to_le_bytes());
    out.extend(bytes);
}

fn put_arrangement(out: &mut Vec<u8>, arrangement: &Arrangement) {
    let logical = &arrangement.logical;
    out.extend(arrangement.chain.to_le_bytes());
    out.extend(arrangement.decoded.to_le_bytes());
    out.extend((logical.item as u32).to_le_bytes());
    out.extend((logical.scalar as u32).to_le_bytes());
    out.push(KINDS.iter().position(|kind| *kind == logical.kind).unwrap_or(0) as u8);
    out.push(logical.shape.len() as u8);
    logical.shape.iter().for_each(|n| out.extend((*n as u32).to_le_bytes()));
    let Some(curved) = &arrangement.curve else { return out.push(0) };
    out.push(match curved.curve {
        Curve::Morton => 1,
        Curve::Hilbert => 2,
    });
    [curved.room, curved.at, curved.item].iter().for_each(|n| out.extend(n.to_le_bytes()));
    out.push(curved.shape.len() as u8);
    curved.shape.iter().for_each(|n| out.extend(n.to_le_bytes()));
}

/// The numbers of an item, in the order of the columns.
fn numbers(item: &Item) -> [u64; COLUMNS] {
    let (kind, precision) = match item.precision {
        Precision::Exact => (0, 0),
        Precision::Absolute(most) => (1, most.to_bits()),
        Precision::Relative(most) => (2, most.to_bits()),
        Precision::Level(level) => (3, level.into()),
    };
    let mode = match item.mode {
        Mode::Whole => 0,
        Mode::Part => 1,
        Mode::Prefix => 2,
    };
    let (piece, prefix) = (&item.piece, item.prefix.unwrap_or_default());
    [
        item.arrangement.into(),
        item.rule.into(),
        item.condition.map_or(0, |n| u64::from(n) + 1),
        mode,
        kind,
        precision,
        piece.position,
        piece.length,
        piece.trailer,
        piece.unit_log2.into(),
        piece.check.into(),
        prefix.position,
        prefix.length,
        prefix.check.into(),
    ]
}
