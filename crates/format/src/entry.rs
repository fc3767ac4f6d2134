//! Index entries and entry blocks (docs/format/block-index.md).

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::cbor::{Sink, Source};
use crate::layout::{self, Layout};
use crate::{Corrupt, MAX_NDIM, column, piece};

pub use crate::piece::{Stats, StoredPiece};

/// The encoding of an entry's bytes: codec chain, element size, layout, and whether they are a replica.
#[derive(Debug, Clone, Eq, Default)]
pub struct Encoding {
    /// Canonical text of the codec chain; empty is raw.
    pub chain: String,
    /// Bytes per element.
    pub item: u32,
    /// How elements follow one another in a decoded subchunk.
    pub layout: Layout,
    /// 0 is the original. Another number is a replica: it repeats the cells of one or several entries of replica 0 of
    /// the same age.
    pub replica: u32,
    /// If the element is a run of elements of an array member: the byte of the member at which it begins. `None`: the
    /// whole member.
    pub part: Option<u32>,
}

/// One leaf member of one block.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Entry {
    /// step + 1; 0 without step.
    pub step: u64,
    /// Permanent variable id.
    pub variable: u32,
    /// Leaf member number.
    pub member: u32,
    /// Manifest version that adopted it.
    pub commit: u64,
    /// Rank or writer id.
    pub order: u64,
    /// Number of the put call in its writer.
    pub put: u64,
    /// Number of dimensions.
    pub ndim: u8,
    /// First cell of the box.
    pub offset: [u64; MAX_NDIM],
    /// Extent of the box.
    pub count: [u64; MAX_NDIM],
    /// Edge of the subchunk grid.
    pub cut: [u64; MAX_NDIM],
    /// Shared between entries of one block when decoded.
    pub encoding: Arc<Encoding>,
    /// Number of subchunks.
    pub subchunks: u64,
    /// Source number.
    pub source: u32,
    /// The subchunk, or the subchunk table.
    pub piece: StoredPiece,
    /// Statistics over all subchunks.
    pub stats: Stats,
}

/// Most entries in one block.
pub const MAX_BLOCK_ENTRIES: usize = 4096;

/// The layout number of entries that hold a part of a member: older readers refuse it.
const PART: u64 = 2;

impl Encoding {
    /// All fields but the chain.
    fn form(&self) -> (u32, &Layout, u32, Option<u32>) {
        let Encoding { chain: _, item, layout, replica, part } = self;
        (*item, layout, *replica, *part)
    }
}

impl PartialEq for Encoding {
    /// Most chains are empty. For an empty slice, the C library's comparison would load masked bytes from address 1,
    /// which takes a processor with AVX-512 0.2 us: as long as encoding an entry takes.
    fn eq(&self, other: &Self) -> bool {
        self.chain.len() == other.chain.len()
            && (self.chain.is_empty() || self.chain == other.chain)
            && self.form() == other.form()
    }
}

impl Hash for Encoding {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.chain.hash(state);
        self.form().hash(state);
    }
}

impl Encoding {
    /// The CBOR item of the dictionary.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Sink::new();
        let more = usize::from(self.replica > 0) + usize::from(self.part.is_some());
        out.map(3 + self.layout.pairs() + more).u64(0).text(&self.chain).u64(1).u64(self.item.into());
        out.u64(2).u64(if self.part.is_some() { PART } else { self.layout.number().into() });
        self.layout.encode(&mut out);
        if self.replica > 0 {
            out.u64(7).u64(self.replica.into());
        }
        if let Some(from) = self.part {
            out.u64(8).u64(from.into());
        }
        out.finish()
    }

    /// Bytes of a cell of a decoded subchunk.
    pub fn room(&self) -> u32 {
        match &self.layout {
            Layout::Cells(cells) => cells.room,
            _ => self.item,
        }
    }

    /// Number of boxes that a subchunk decodes to, one after the other: 1, except in a published chunk of several
    /// steps.
    pub fn boxes(&self) -> u64 {
        match self.layout {
            Layout::Stacked { boxes, .. } => boxes.into(),
            _ => 1,
        }
    }

    /// Checks that the encoding is possible for entries of `ndim` dimensions.
    pub fn validate(&self, ndim: usize) -> Result<(), String> {
        self.layout.validate(self.item, ndim)?;
        match self.part {
            Some(from) if from.checked_add(self.item).is_none_or(|end| end > layout::MAX_ROOM) => {
                Err(format!("{} bytes at {from} of a member", self.item))
            }
            _ => Ok(()),
        }
    }

    /// Decodes a dictionary item. The reader of an entry decides whether it supports the chain and the layout.
    pub fn decode(bytes: &[u8]) -> Result<Self, Corrupt> {
        let mut source = Source::new(bytes);
        let (mut chain, mut item, mut layout, mut replica, mut part) = (None, None, None, 0, None);
        let mut parts = layout::Parts::default();
        source.fields(|source, key| {
            match key {
                0 => chain = Some(source.text()?.to_owned()),
                1 => item = Some(source.u32()?),
                2 => layout = Some(source.u32()?),
                3..=6 if matches!(layout, Some(1 | 2)) => parts.take(source, key)?,
                7 => replica = source.u32()?,
                8 if layout == Some(2) => part = Some(source.u32()?),
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        source.end()?;
        Ok(Encoding {
            chain: source.need(chain, "codec chain")?,
            item: source.need(item, "element size")?,
            layout: parts.finish(source.need(layout, "layout")?, &source)?,
            replica,
            part: if layout == Some(2) { Some(source.need(part, "place in the member")?) } else { None },
        })
    }
}

impl Entry {
    /// Subchunks along each dimension; 1 for unused dimensions, 0 along an empty one.
    pub fn grid(&self) -> [u64; MAX_NDIM] {
        let mut grid = [1; MAX_NDIM];
        let dims = grid.iter_mut().zip(self.count.iter().zip(&self.cut));
        for (g, (&count, &cut)) in dims.take(self.ndim.into()) {
            *g = count.div_ceil(cut.max(1));
        }
        grid
    }

    /// The product of the grid: what `subchunks` must be. None if it does not fit in 64 bits.
    pub fn grid_len(&self) -> Option<u64> {
        let grid = self.grid();
        if grid.contains(&0) {
            return Some(0);
        }
        grid.iter().try_fold(1u64, |n, &g| n.checked_mul(g))
    }

    /// Offset and count, both relative to the box, of the subchunk at a position in the grid. Meaningful for
    /// positions inside the grid.
    pub fn subchunk_box(&self, place: &[u64; MAX_NDIM]) -> ([u64; MAX_NDIM], [u64; MAX_NDIM]) {
        let (mut lo, mut n) = ([0; MAX_NDIM], [0; MAX_NDIM]);
        for d in 0..MAX_NDIM.min(self.ndim.into()) {
            lo[d] = place[d].saturating_mul(self.cut[d]).min(self.count[d]);
            n[d] = self.cut[d].min(self.count[d] - lo[d]);
        }
        (lo, n)
    }

    /// Cells in the box; None if they do not fit in 64 bits.
    pub fn cells(&self) -> Option<u64> {
        let count = self.count.get(..self.ndim.into())?;
        if count.contains(&0) {
            return Some(0);
        }
        count.iter().try_fold(1u64, |n, &c| n.checked_mul(c))
    }

    /// End of the box, exclusive. Does not overflow for validated entries.
    pub fn end(&self) -> [u64; MAX_NDIM] {
        std::array::from_fn(|d| self.offset[d].saturating_add(self.count[d]))
    }

    /// Checks one entry against docs/format/block-index.md.
    pub fn validate(&self) -> Result<(), String> {
        let ndim = usize::from(self.ndim);
        if ndim > MAX_NDIM {
            return Err(format!("{ndim} dimensions"));
        }
        for d in 0..MAX_NDIM {
            let (offset, count, cut) = (self.offset[d], self.count[d], self.cut[d]);
            if d >= ndim && (offset, count, cut) != (0, 0, 0) {
                return Err(format!("a box in dimension {d} of {ndim}"));
            }
            if offset.checked_add(count).is_none() {
                return Err(format!("{count} cells from {offset} on"));
            }
            if count > 0 && cut == 0 {
                return Err(format!("{count} cells cut by 0"));
            }
        }
        self.encoding.validate(ndim)?;
        if self.grid_len() != Some(self.subchunks) {
            return Err(format!("{} subchunks in a grid of {:?}", self.subchunks, self.grid()));
        }
        self.piece.validate()?;
        // A table of n subchunks is at least n/8 bytes long, which bounds what decoding it may allocate.
        if self.subchunks > 1 && (self.piece.trailer != 0 || self.subchunks.div_ceil(8) > self.piece.length) {
            return Err(format!("{} subchunks in a table of {} bytes", self.subchunks, self.piece.length));
        }
        Ok(())
    }
}

/// Compares offsets in Z-order: the dimension whose XOR has the highest set bit decides, the lowest such on ties.
pub fn z_cmp(a: &[u64; MAX_NDIM], b: &[u64; MAX_NDIM]) -> Ordering {
    let (mut highest, mut order) = (0, Ordering::Equal);
    for (a, b) in a.iter().zip(b) {
        let xor = a ^ b;
        // The highest set bit of `xor` is above that of `highest`.
        if highest < xor && highest < (highest ^ xor) {
            (highest, order) = (xor, a.cmp(b));
        }
    }
    order
}

/// Compares the age of entries: where several hold a cell, the greatest shows.
pub fn newest_cmp(a: &Entry, b: &Entry) -> Ordering {
    (a.commit, a.order, a.put).cmp(&(b.commit, b.order, b.put))
}

/// Order of the tree: step, variable, member, Z-order of offsets, age.
pub fn key_cmp(a: &Entry, b: &Entry) -> Ordering {
    column_of(a).cmp(&column_of(b)).then_with(|| z_cmp(&a.offset, &b.offset)).then_with(|| newest_cmp(a, b))
}

/// Order inside a leaf: step, variable, member, offset lexicographically, age.
pub fn leaf_cmp(a: &Entry, b: &Entry) -> Ordering {
    column_of(a).cmp(&column_of(b)).then_with(|| a.offset.cmp(&b.offset)).then_with(|| newest_cmp(a, b))
}

fn column_of(e: &Entry) -> (u64, u32, u32) {
    (e.step, e.variable, e.member)
}

/// The bytes of an entry block, in the order given.
///
/// # Panics
/// With more than [`MAX_BLOCK_ENTRIES`] entries.
pub fn encode_block(entries: &[Entry]) -> Vec<u8> {
    assert!(entries.len() <= MAX_BLOCK_ENTRIES, "an entry block holds at most {MAX_BLOCK_ENTRIES} entries");
    let dims = entries.iter().map(|e| usize::from(e.ndim)).max().unwrap_or(0).min(MAX_NDIM);
    let mut numbers = std::collections::HashMap::new();
    let mut dictionary: Vec<&Encoding> = Vec::new();
    let mut last: Option<(&Encoding, u64)> = None; // most entries have the encoding of the previous one
    let encodings: Vec<u64> = entries
        .iter()
        .map(|e| match last {
            Some((encoding, number)) if std::ptr::eq(encoding, &*e.encoding) || *encoding == *e.encoding => {
                number
            }
            _ => {
                let number = *numbers.entry(&*e.encoding).or_insert_with(|| {
                    dictionary.push(&e.encoding);
                    dictionary.len() as u64 - 1
                });
                last = Some((&e.encoding, number));
                number
            }
        })
        .collect();
    let mut out = Vec::with_capacity(512 + 16 * entries.len());
    out.extend_from_slice(&(entries.len() as u32).to_le_bytes());
    out.extend_from_slice(&[dims as u8, 0]);
    out.extend_from_slice(&(dictionary.len() as u16).to_le_bytes());
    for encoding in dictionary {
        let bytes = encoding.encode();
        out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        out.extend_from_slice(&bytes);
    }
    column::write(&mut out, entries, |e| e.step);
    column::write(&mut out, entries, |e| e.variable.into());
    column::write(&mut out, entries, |e| e.member.into());
    column::write(&mut out, entries, |e| e.commit);
    column::write(&mut out, entries, |e| e.order);
    column::write(&mut out, entries, |e| e.put);
    column::write(&mut out, entries, |e| e.ndim.into());
    for d in 0..dims {
        column::write(&mut out, entries, |e| e.offset[d]);
    }
    for d in 0..dims {
        column::write(&mut out, entries, |e| e.count[d]);
    }
    for d in 0..dims {
        column::write(&mut out, entries, |e| e.cut[d]);
    }
    column::encode(&encodings, &mut out);
    column::write(&mut out, entries, |e| e.subchunks);
    column::write(&mut out, entries, |e| e.source.into());
    piece::write_columns(&mut out, entries, |e| (&e.piece, &e.stats));
    out.resize(out.len().max(entries.len()), 0);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings_are_equal_if_all_their_fields_are() {
        let one = Encoding { chain: "zstd:1".into(), item: 4, layout: Layout::Dense, replica: 0, part: None };
        let others = [
            Encoding { chain: String::new(), ..one.clone() },
            Encoding { chain: "zstd:2".into(), ..one.clone() },
            Encoding { item: 8, ..one.clone() },
            Encoding { layout: Layout::Unknown(9), ..one.clone() },
            Encoding { replica: 1, ..one.clone() },
            Encoding { part: Some(0), ..one.clone() },
        ];
        for (n, other) in others.iter().enumerate() {
            assert!(one != *other && *other == other.clone(), "{n}");
        }
        let all: std::collections::HashSet<Encoding> = others.iter().chain([&one, &one]).cloned().collect();
        assert_eq!(all.len(), others.len() + 1);
        assert_eq!(Encoding::default(), Encoding { chain: String::new(), ..Encoding::default() });
    }
}
