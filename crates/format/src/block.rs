//! An entry block by columns: validated as a whole, decoded to entries one by one.
//!
//! Why not decode all entries at once: a reader wants few of a leaf's entries, and an entry has some forty numbers,
//! most of them equal in all entries. Columns answer which entries are wanted; only these are decoded.
//!
//! Invariants
//! - every number fits its field, and every entry passes [`Entry::validate`], whether it is ever decoded or
//!   not;
//! - a column that is not constant holds a number for every entry.

use std::sync::Arc;

use crate::column::{self, Numbers};
use crate::cursor::Reader;
use crate::entry::{Encoding, Entry, MAX_BLOCK_ENTRIES, Stats, StoredPiece};
use crate::piece::MAX_LENGTH;
use crate::{Corrupt, MAX_NDIM};

/// The entries of one block.
#[derive(Debug)]
pub struct Block {
    len: usize,
    dictionary: Vec<Arc<Encoding>>,
    /// For dimensions that no entry has, the columns are zeros.
    offset: [Numbers; MAX_NDIM],
    count: [Numbers; MAX_NDIM],
    cut: [Numbers; MAX_NDIM],
    step: Numbers,
    variable: Numbers,
    member: Numbers,
    commit: Numbers,
    order: Numbers,
    put: Numbers,
    ndim: Numbers,
    encoding: Numbers,
    subchunks: Numbers,
    source: Numbers,
    pieces: Pieces,
}

/// Where the bytes of the entries lie, and their statistics.
#[derive(Debug)]
struct Pieces {
    position: Numbers,
    length: Numbers,
    trailer: Numbers,
    unit_log2: Numbers,
    check: Numbers,
    /// 1 for entries that have a minimum and a maximum.
    ordered: Numbers,
    min: Numbers,
    max: Numbers,
    nans: Numbers,
}

const U8: u64 = u8::MAX as u64;
const U32: u64 = u32::MAX as u64;

impl Block {
    /// Reads and checks the bytes of a block.
    pub fn decode(bytes: &[u8]) -> Result<Self, Corrupt> {
        let r = &mut Reader::new(bytes);
        let n = r.u32()? as usize;
        let (dims, reserved, m) = (usize::from(r.u8()?), r.u8()?, r.u16()?);
        if n > MAX_BLOCK_ENTRIES || n > bytes.len() {
            return Err(Corrupt::new(format!("{n} entries in a block of {} bytes", bytes.len()), 0));
        }
        if dims > MAX_NDIM || reserved != 0 || usize::from(m) > n {
            return Err(Corrupt::new("impossible head of an entry block", 4));
        }
        let mut dictionary = Vec::new();
        for _ in 0..m {
            let len = r.u32()? as usize;
            let at = r.position();
            let encoding = Encoding::decode(r.take(len)?);
            dictionary.push(Arc::new(encoding.map_err(|e| Corrupt { what: e.what, at: at as u64 + e.at })?));
        }
        let block = Block {
            step: column::numbers(r, n, "step", u64::MAX)?,
            variable: column::numbers(r, n, "variable", U32)?,
            member: column::numbers(r, n, "member", U32)?,
            commit: column::numbers(r, n, "commit", u64::MAX)?,
            order: column::numbers(r, n, "order", u64::MAX)?,
            put: column::numbers(r, n, "put", u64::MAX)?,
            ndim: column::numbers(r, n, "ndim", dims as u64)?,
            offset: boxes(r, n, dims, "offset")?,
            count: boxes(r, n, dims, "count")?,
            cut: boxes(r, n, dims, "cut")?,
            encoding: column::numbers_if(r, n, "encoding", |_, v| v < u64::from(m))?,
            subchunks: column::numbers(r, n, "subchunks", u64::MAX)?,
            source: column::numbers(r, n, "source", U32)?,
            pieces: Pieces::decode(r, n)?,
            len: n,
            dictionary,
        };
        r.zeros_to_end()?;
        if !block.is_valid_by_extremes(dims) {
            for i in (0..n).filter(|&i| i == 0 || !block.is_as_valid_as_before(i, dims)) {
                block.entry(i).validate().map_err(|e| r.corrupt(format!("entry {i}: {e}")))?;
            }
        }
        Ok(block)
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Approximate bytes in memory.
    pub fn memory(&self) -> usize {
        let own = |column: &Numbers| column.memory();
        let boxes = [&self.offset, &self.count, &self.cut].into_iter().flatten().map(own);
        let Pieces { position, length, trailer, unit_log2, check, ordered, min, max, nans } = &self.pieces;
        let keys = [&self.step, &self.variable, &self.member, &self.commit, &self.order, &self.put];
        let more = [&self.ndim, &self.encoding, &self.subchunks, &self.source];
        let pieces = [position, length, trailer, unit_log2, check, ordered, min, max, nans];
        let columns = keys.into_iter().chain(more).chain(pieces).map(own);
        size_of::<Self>() + boxes.sum::<usize>() + columns.sum::<usize>()
    }

    /// Entry `i`, counted from 0.
    ///
    /// # Panics
    /// If there are no more than `i` entries.
    pub fn entry(&self, i: usize) -> Entry {
        assert!(i < self.len, "entry {i} of {}", self.len);
        let cells = |columns: &[Numbers; MAX_NDIM]| std::array::from_fn(|d| columns[d].at(i));
        Entry {
            step: self.step.at(i),
            variable: self.variable.at(i) as u32,
            member: self.member.at(i) as u32,
            commit: self.commit.at(i),
            order: self.order.at(i),
            put: self.put.at(i),
            ndim: self.ndim.at(i) as u8,
            offset: cells(&self.offset),
            count: cells(&self.count),
            cut: cells(&self.cut),
            encoding: self.dictionary[self.encoding.at(i) as usize].clone(),
            subchunks: self.subchunks.at(i),
            source: self.source.at(i) as u32,
            piece: self.pieces.piece(i),
            stats: self.pieces.stats(i),
        }
    }

    /// All entries, in the order of the block.
    pub fn entries(&self) -> Vec<Entry> {
        (0..self.len).map(|i| self.entry(i)).collect()
    }

    /// The columns by which entries are sorted: step + 1 (0 without a step), variable, member.
    pub fn keys(&self) -> [&Numbers; 3] {
        [&self.step, &self.variable, &self.member]
    }

    /// Whether the box of entry `i` is not empty and overlaps the given range in every dimension in which the
    /// range is not empty.
    pub fn meets(&self, i: usize, (from, to): &([u64; MAX_NDIM], [u64; MAX_NDIM])) -> bool {
        let ndim = self.ndim.at(i) as usize;
        (0..ndim.min(MAX_NDIM)).all(|d| {
            let (lo, count) = (self.offset[d].at(i), self.count[d].at(i));
            count > 0 && (from[d] >= to[d] || (lo < to[d] && from[d] < lo.saturating_add(count)))
        })
    }

    /// Whether entry `i`, which is not the first, is valid if the previous entry is: it has a box of the same shape
    /// elsewhere, and a possible piece.
    fn is_as_valid_as_before(&self, i: usize, dims: usize) -> bool {
        let same = |column: &Numbers| column.at(i) == column.at(i - 1);
        let (ndim, subchunks, piece) = (self.ndim.at(i) as usize, self.subchunks.at(i), self.pieces.piece(i));
        let inside = |d: usize| {
            let offset = self.offset[d].at(i);
            if d < ndim { offset.checked_add(self.count[d].at(i)).is_some() } else { offset == 0 }
        };
        [&self.ndim, &self.encoding, &self.subchunks].into_iter().all(same)
            && (0..dims).all(|d| same(&self.count[d]) && same(&self.cut[d]) && inside(d))
            && (subchunks <= 1 || (piece.trailer == 0 && subchunks.div_ceil(8) <= piece.length))
            && piece.validate().is_ok()
    }

    /// Whether the least and greatest numbers of the columns prove that every entry passes [`Entry::validate`]. If this
    /// is false, entries with irregular boxes or cuts may still be valid.
    fn is_valid_by_extremes(&self, dims: usize) -> bool {
        if self.len == 0 || self.ndim.extremes() != (dims as u64, dims as u64) {
            return false;
        }
        let mut subchunks = 1u64;
        for d in 0..dims {
            let (least, most) = self.count[d].extremes();
            let (finest, coarsest) = self.cut[d].extremes();
            let inside = self.offset[d].extremes().1.checked_add(most).is_some();
            let grid = match (least == most, finest == coarsest) {
                (true, true) if finest > 0 => most.div_ceil(finest),
                _ if least > 0 && most <= finest => 1,
                _ => return false,
            };
            match subchunks.checked_mul(grid) {
                Some(product) if inside => subchunks = product,
                _ => return false,
            }
        }
        let known = |e: &Arc<Encoding>| e.validate(dims).is_ok();
        // A table of subchunks has no trailer, and at least an eighth of a byte per subchunk.
        let tabled = subchunks <= 1
            || (self.pieces.trailer.extremes().1 == 0
                && subchunks.div_ceil(8) <= self.pieces.length.extremes().0);
        self.subchunks.extremes() == (subchunks, subchunks)
            && tabled
            && self.dictionary.iter().all(known)
            && self.pieces.are_valid_by_extremes(self.len)
    }
}

/// A column for each of `dims` dimensions; the others are zeros.
fn boxes(r: &mut Reader<'_>, n: usize, dims: usize, what: &str) -> Result<[Numbers; MAX_NDIM], Corrupt> {
    let mut columns = [const { Numbers::All(0) }; MAX_NDIM];
    for column in columns.iter_mut().take(dims) {
        *column = column::numbers(r, n, what, u64::MAX)?;
    }
    Ok(columns)
}

impl Pieces {
    fn decode(r: &mut Reader<'_>, n: usize) -> Result<Self, Corrupt> {
        let position = column::numbers(r, n, "position", u64::MAX)?;
        let length = column::numbers(r, n, "length", u64::MAX)?;
        let trailer = column::numbers(r, n, "trailer length", u64::MAX)?;
        let unit_log2 = column::numbers(r, n, "unit", U8)?;
        let check = column::numbers(r, n, "check", U32)?;
        let ordered = column::numbers(r, n, "flags", 1)?;
        let fits = |i: usize, v: u64| v == 0 || ordered.at(i) == 1;
        let min = column::numbers_if(r, n, "minimum", fits)?;
        let max = column::numbers_if(r, n, "maximum", fits)?;
        let nans = column::numbers(r, n, "number of NaNs", u64::MAX)?;
        Ok(Pieces { position, length, trailer, unit_log2, check, ordered, min, max, nans })
    }

    fn piece(&self, i: usize) -> StoredPiece {
        StoredPiece {
            position: self.position.at(i),
            length: self.length.at(i),
            trailer: self.trailer.at(i),
            unit_log2: self.unit_log2.at(i) as u8,
            check: self.check.at(i) as u32,
        }
    }

    fn stats(&self, i: usize) -> Stats {
        let min_max = (self.ordered.at(i) == 1).then(|| (self.min.at(i), self.max.at(i)));
        Stats { min_max, nans: self.nans.at(i) }
    }

    /// Whether a piece with the greatest position, length and every other number among the `n` would be valid, trailer
    /// included.
    fn are_valid_by_extremes(&self, n: usize) -> bool {
        let greatest = |column: &Numbers| column.extremes().1;
        let (length, trailer) = (greatest(&self.length), greatest(&self.trailer));
        let unit_log2 = greatest(&self.unit_log2);
        let utmost =
            StoredPiece { position: greatest(&self.position), length, trailer, unit_log2: 0, check: 0 };
        let holds_checks = |i: usize| {
            let piece = self.piece(i);
            piece.trailer == 0 || piece.trailer >= piece.units() * 4
        };
        length <= MAX_LENGTH
            && trailer <= MAX_LENGTH
            && 1u64 << unit_log2.min(63) <= MAX_LENGTH
            && utmost.end() != u64::MAX
            && (trailer == 0 || (0..n).all(holds_checks))
    }
}

/// Reads an entry block; every entry has passed [`Entry::validate`].
pub fn decode_block(bytes: &[u8]) -> Result<Vec<Entry>, Corrupt> {
    Ok(Block::decode(bytes)?.entries())
}
