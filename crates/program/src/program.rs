//! A program as a value: tables of what items share, and the items.

use drystone_curve::Curve;
use drystone_expression::{Tree, Type};
use drystone_format::piece::StoredPiece;
use drystone_rules::Rule;
use drystone_transform::{Logical, Precision};

/// The newest version of programs that this library runs. A program is written in the oldest version that can express
/// it.
pub const VERSION: u16 = 2;
/// Longest encoded program; it is sent with every call.
pub const MAX_PROGRAM_LEN: usize = 256 << 10;
/// Most items of a program.
pub const MAX_ITEMS: usize = 1 << 14;
/// Longest result of one item: a whole subchunk.
pub const MAX_RESULT_LEN: u64 = 16 << 20;

/// Bytes of hits before their cells and values.
pub(crate) const HITS_HEADER: u64 = 9;

/// The reads of one object.
#[derive(Debug, Clone, PartialEq)]
pub struct Program {
    /// Texts of codec chains; an empty chain stores raw bytes.
    pub chains: Vec<String>,
    /// The arrangements of decoded subchunks.
    pub arrangements: Vec<Arrangement>,
    /// Gather rules, from the decoded bytes of a subchunk (unrolled, if they lie along a curve) to the result of an
    /// item.
    pub rules: Vec<Rule>,
    /// Conditions on the gathered values.
    pub conditions: Vec<Condition>,
    /// The items, in the order in which their results are wanted.
    pub items: Vec<Item>,
}

/// The encoding of a kind of subchunk, and the order of its cells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrangement {
    /// Number of the chain.
    pub chain: u16,
    /// Length of the decoded bytes.
    pub decoded: u32,
    /// The subchunk's description for codecs.
    pub logical: Logical,
    /// The curve of the cells, if they follow one.
    pub curve: Option<Curved>,
}

/// Cells along a curve. They are unrolled before a rule is run, so its source has only the elements, row by row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Curved {
    /// The curve.
    pub curve: Curve,
    /// Bytes from one cell to the next.
    pub room: u32,
    /// Bytes from the beginning of a cell to the element.
    pub at: u32,
    /// Bytes of the element.
    pub item: u32,
    /// Extents of the box, row-major.
    pub shape: Vec<u32>,
}

/// A condition on the values that a rule gathered. Its only name is [`NAME`](crate::NAME).
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    /// The type of the values.
    pub dtype: Type,
    /// The expression.
    pub tree: Tree,
    /// What is returned for the cells that satisfy it.
    pub answer: Answer,
}

/// What an item with a condition returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Answer {
    /// Which cells satisfy the condition, and their values. Programs of version 1 have no other answer.
    #[default]
    Values,
    /// Which cells satisfy the condition.
    Cells,
    /// How many cells satisfy the condition.
    Count,
}

/// How much of a stored subchunk is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// All of it, exactly.
    Whole,
    /// The check units that hold the bytes that the rule gathers, at the precision of the item.
    Part,
    /// The prefix that is stored apart, if it is exact enough.
    Prefix,
}

/// A read of one subchunk, or of a part of one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Item {
    /// Number of the arrangement.
    pub arrangement: u16,
    /// Number of the rule.
    pub rule: u16,
    /// Number of the condition, if only cells that satisfy it are wanted.
    pub condition: Option<u16>,
    /// How much is read.
    pub mode: Mode,
    /// The required precision; always `Exact` for a whole subchunk.
    pub precision: Precision,
    /// Location and checks of the subchunk; with a prefix, of the rest after it.
    pub piece: StoredPiece,
    /// The prefix of the payload if it is stored apart: a piece without a trailer.
    pub prefix: Option<StoredPiece>,
}

/// Why a program is refused before anything is read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    /// The bytes are not a program.
    #[error("a read program is malformed: {what} (at byte {at})")]
    #[allow(missing_docs)]
    Malformed { what: String, at: u64 },
    /// The program has a version that is not supported.
    #[error("a read program of version {0}; this library runs versions 1 to {VERSION}")]
    Version(u16),
    /// The program exceeds a limit.
    #[error("a read program is too large: {0}")]
    TooLarge(String),
}

impl Program {
    /// A program without items.
    pub fn new() -> Program {
        Program {
            chains: Vec::new(),
            arrangements: Vec::new(),
            rules: Vec::new(),
            conditions: Vec::new(),
            items: Vec::new(),
        }
    }

    /// The same program for an object that holds the bytes `by` further behind.
    pub fn shifted(&self, by: u64) -> Program {
        let mut shifted = self.clone();
        for item in &mut shifted.items {
            for piece in [Some(&mut item.piece), item.prefix.as_mut()].into_iter().flatten() {
                piece.position = piece.position.saturating_add(by);
            }
        }
        shifted
    }

    /// The number of a chain, which is added if it is new; `None` if there are too many.
    pub fn chain(&mut self, text: &str) -> Option<u16> {
        number(&mut self.chains, |known| known == text, || text.to_owned())
    }

    /// The number of an arrangement, which is added if it is new.
    pub fn arrangement(&mut self, arrangement: Arrangement) -> Option<u16> {
        number(&mut self.arrangements, |known| *known == arrangement, || arrangement.clone())
    }

    /// The number of a rule, which is added if it is new.
    pub fn rule(&mut self, rule: Rule) -> Option<u16> {
        number(&mut self.rules, |known| *known == rule, || rule.clone())
    }

    /// The number of a condition, which is added if it is new.
    pub fn condition(&mut self, condition: Condition) -> Option<u16> {
        number(&mut self.conditions, |known| *known == condition, || condition.clone())
    }

    /// The oldest version that can express this program.
    pub fn version(&self) -> u16 {
        if self.conditions.iter().all(|condition| condition.answer == Answer::Values) { 1 } else { 2 }
    }

    /// Most bytes of the payload of an item.
    pub fn most(&self, item: &Item) -> u64 {
        let gathered = self.result_len(item);
        let Some(condition) = item.condition.and_then(|n| self.conditions.get(usize::from(n))) else {
            return gathered;
        };
        let cells = gathered / condition.dtype.size() as u64;
        let beside = HITS_HEADER.saturating_add(cells.div_ceil(8));
        match condition.answer {
            Answer::Values => beside.saturating_add(gathered),
            Answer::Cells => beside,
            Answer::Count => HITS_HEADER,
        }
    }

    /// Bytes that an item gathers, before a condition drops some.
    pub fn result_len(&self, item: &Item) -> u64 {
        self.rules.get(usize::from(item.rule)).map_or(0, Rule::dst_len)
    }
}

impl Default for Program {
    fn default() -> Self {
        Program::new()
    }
}

/// The newest entries are compared first, since adjacent items are alike.
fn number<T>(table: &mut Vec<T>, is: impl Fn(&T) -> bool, make: impl FnOnce() -> T) -> Option<u16> {
    const LOOKED_AT: usize = 64;
    let from = table.len().saturating_sub(LOOKED_AT);
    let found = table.iter().skip(from).rposition(is);
    if let Some(found) = found {
        return u16::try_from(from + found).ok();
    }
    let number = u16::try_from(table.len()).ok()?;
    table.push(make());
    Some(number)
}

impl Arrangement {
    /// Length of the source of the item's rule.
    pub fn source_len(&self) -> u64 {
        match &self.curve {
            None => self.decoded.into(),
            Some(curved) => curved.cells().saturating_mul(curved.item.into()),
        }
    }
}

impl Curved {
    /// Number of cells.
    pub fn cells(&self) -> u64 {
        self.shape.iter().fold(1, |cells, n| cells.saturating_mul((*n).into()))
    }
}
